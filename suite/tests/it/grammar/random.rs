//! Choices that depend only on the seed.

/// SplitMix64 (Steele, Lea, Flood, 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.number() % (high - low + 1) as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() - 1)]
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.between(1, 100) <= percent
    }
}
