//! Random numbers as an explicit argument instead of a global generator.
//!
//! A [`Noise`] identifies a stream of standard normals by a seed and a counter; the same `Noise`
//! gives the same numbers at every call. Streams are derived, not consumed: [`fold`](Noise::fold)
//! derives an independent stream for a purpose or a training step, and [`row`](Noise::row) the
//! stream of one of several draws.
//!
//! The generator is counter-based (Philox4x32-10, Salmon et al. 2011): the i-th number is a function of seed, stream and
//! i alone, so every backend, device and number of threads gives the same draw. GPUs generate the numbers themselves;
//! they are those of the CPU up to rounding.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes_kernels::{NormalStream, normal};
use serde::{Deserialize, Serialize};

/// A named stream of standard normals.
///
/// ```
/// use burn::tensor::Device;
/// use burn_bayes::Noise;
///
/// let noise = Noise::new(7).fold(3);
/// let first = noise.normal(5, &Device::default());
/// let again = noise.normal(5, &Device::default());
/// assert_eq!(first.to_data(), again.to_data());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noise {
    seed: u64,
    stream: u64,
    /// The stream of which this is a row, and the number of the row.
    whole: u64,
    row: u64,
    negated: bool,
    /// Whether rows come as antithetic pairs.
    paired: bool,
}

impl Noise {
    /// The first stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            stream: 0,
            whole: 0,
            row: 0,
            negated: false,
            paired: false,
        }
    }

    /// An independent stream, derived with `key`.
    #[must_use]
    pub fn fold(self, key: u64) -> Self {
        let stream = mix(self.stream ^ mix(key.wrapping_add(1)));
        Self {
            stream,
            whole: stream,
            row: 0,
            ..self
        }
    }

    /// The stream of predictions, from the root of a training's random numbers. Its rows come as antithetic
    /// pairs, because the mean prediction of a pair has no error of first order in the draw. In a mixture the two of a pair
    /// are draws of different components.
    #[must_use]
    pub fn for_prediction(self) -> Self {
        /// Algorithms number their own streams from 1.
        const PREDICTION: u64 = 0x7072_6564;
        Self {
            paired: true,
            ..self.fold(PREDICTION)
        }
    }

    /// The stream of the independent draws of an [`ImportanceTest`](crate::diagnostics::ImportanceTest), from
    /// the root of a training's random numbers.
    #[must_use]
    pub fn for_importance(self) -> Self {
        const IMPORTANCE: u64 = 0x696d_706f;
        self.fold(IMPORTANCE)
    }

    /// The stream of draw `index` of several draws; row 0 is the stream itself.
    #[must_use]
    pub fn row(self, index: u64) -> Self {
        let (place, is_second) = match self.paired {
            true => (index / 2, index % 2 == 1),
            false => (index, false),
        };
        Self {
            stream: self.stream.wrapping_add(place),
            row: self.row.wrapping_add(index),
            negated: self.negated != is_second,
            paired: false,
            ..self
        }
    }

    /// The same numbers with the opposite sign, for antithetic draws.
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            negated: !self.negated,
            ..self
        }
    }

    /// The seed, which all derived streams share.
    pub fn seed(self) -> u64 {
        self.seed
    }

    pub(crate) fn stream(self) -> NormalStream {
        NormalStream {
            seed: self.seed,
            stream: self.stream,
        }
    }

    /// −1 if negated, else 1.
    pub(crate) fn sign(self) -> f32 {
        if self.negated { -1.0 } else { 1.0 }
    }

    /// The stream as the kernels of GPUs take it.
    #[cfg(feature = "gpu")]
    pub(crate) fn gpu_stream(self) -> crate::gpu::Stream {
        crate::gpu::Stream {
            seed: self.seed,
            latent_seed: self.seed ^ LATENT,
            stream: self.stream,
            is_negated: self.negated,
            is_paired: self.paired,
        }
    }

    /// `len` standard normals on `device`.
    pub fn normal(self, len: usize, device: &Device) -> Tensor<1> {
        let device = device.clone().inner();
        #[cfg(feature = "gpu")]
        if let Some(normals) = crate::gpu::normal(self.gpu_stream(), len, &device) {
            return normals;
        }
        Tensor::from_data(TensorData::new(self.on_host(len), [len]), &device)
    }

    /// The same on the host.
    pub(crate) fn on_host(self, len: usize) -> Vec<f32> {
        let mut values = vec![0.0; len];
        normal(self.stream(), &mut values);
        if self.negated {
            values.iter_mut().for_each(|value| *value = -*value);
        }
        values
    }

    /// The result of `evaluate`, whose random numbers from the device's own generator are a function of seed and stream.
    pub(crate) fn seed_generator<T>(self, device: &Device, evaluate: impl FnOnce() -> T) -> T {
        let _turn = Turn::wait();
        device.seed(mix(self.seed ^ mix(self.stream)));
        let result = evaluate();
        // A backend with lazy execution would read the generator after the lock is released. A device
        // error is reported again when a result is read.
        let _ = device.flush();
        result
    }

    /// `len` standard normals on the host, independent of those of [`normal`](Self::normal): the
    /// latent factors of a draw. Always counter-based, because the rank is small.
    pub fn latent(self, len: usize) -> Vec<f32> {
        let mut values = vec![0.0; len];
        normal(
            NormalStream {
                seed: self.seed ^ LATENT,
                stream: self.stream,
            },
            &mut values,
        );
        let sign = self.sign();
        values.iter_mut().for_each(|value| *value *= sign);
        values
    }

    /// A number in [0, 1) for a choice among `strata` things. It has the same distribution as [`uniform`](Self::uniform),
    /// but the rows of one stream share their chance: row s is at u + x_s modulo 1, where u is that of the stream and
    /// the x_s are spread [evenly](evenly). So the rows choose the things in proportion to their probabilities, and any
    /// `strata` rows from a multiple of it on choose every one of equally probable things.
    pub(crate) fn stratified(self, strata: usize) -> f64 {
        let whole = Self {
            stream: self.whole,
            negated: false,
            ..self
        };
        (whole.uniform() + evenly(self.row, strata)).fract()
    }

    /// The noise with which a thing draws after it was chosen by [`stratified`](Self::stratified). It has the same normals, and
    /// further choices by it are independent of this one. Those after a choice among `strata` equally probable things are
    /// spread evenly over the rows that choose the same thing.
    pub(crate) fn of_chosen(self, strata: Option<usize>) -> Self {
        let (whole, row) = match strata {
            Some(strata) => (self.whole, self.row / strata as u64),
            None => (self.stream, 0),
        };
        Self {
            whole: mix(whole ^ CHOSEN),
            row,
            ..self
        }
    }

    /// A number in [0, 1) from this stream, independent of its normals; that of the negated stream is half a
    /// turn away.
    pub fn uniform(self) -> f64 {
        let value =
            (mix(self.seed ^ mix(self.stream ^ UNIFORM)) >> 11) as f64 / (1u64 << 53) as f64;
        match self.negated {
            true => (value + 0.5).fract(),
            false => value,
        }
    }

    /// Numbers of rows in a random order.
    pub(crate) fn shuffled(self, mut rows: Vec<usize>) -> Vec<usize> {
        for last in (1..rows.len()).rev() {
            let other = self.row(last as u64).uniform() * (last + 1) as f64;
            rows.swap(last, (other as usize).min(last));
        }
        rows
    }
}

/// Number `index` of a sequence in (0, 1) that is spread evenly, whatever the length: every `strata` numbers from a
/// multiple of it on are one in each of as many equal parts, in which they are at the same place. The parts come in the order
/// of the multiples of the golden ratio modulo 1, and the places are van der Corput's.
pub(crate) fn evenly(index: u64, strata: usize) -> f64 {
    const GOLDEN_RATIO: f64 = 1.618_033_988_749_895;
    let strata = strata.max(1) as u64;
    let (round, turn) = (index / strata, index % strata);
    let at = |turn: u64| (turn as f64 / GOLDEN_RATIO).fract();
    let part = (0..strata).filter(|&other| at(other) < at(turn)).count();
    // The bits of the number of the round, mirrored at the point.
    let place = round.wrapping_add(1).reverse_bits() as f64 / 2f64.powi(64);
    (part as f64 + place) / strata as f64
}

/// Whether this thread is evaluating with a seeded generator.
struct Turn;

impl Turn {
    /// Waits for the generator. `None` if this thread has it already.
    fn wait() -> Option<(MutexGuard<'static, ()>, Self)> {
        static GENERATOR: Mutex<()> = Mutex::new(());
        if HAS_TURN.replace(true) {
            return None;
        }
        let guard = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
        Some((guard, Self))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HAS_TURN.set(false);
    }
}

thread_local! {
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

const LATENT: u64 = 0x6c61_7465_6e74_0001;
const UNIFORM: u64 = 0x756e_6966_6f72_6d01;
const CHOSEN: u64 = 0x6368_6f73_656e_0001;

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection that spreads every bit.
fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

    #[test]
    fn draws_of_a_prediction_are_antithetic_pairs() {
        let noise = Noise::new(3).for_prediction();
        let latent = |row: u64| noise.row(row).latent(4);
        let negated: Vec<f32> = latent(1).iter().map(|value| -value).collect();
        assert_eq!(latent(0), negated);
        assert_ne!(latent(0), latent(2));
        // A mixture still draws from different components.
        let turn = noise.row(0).uniform() - noise.row(1).uniform();
        assert!((turn.abs() - 0.5).abs() < 1e-12, "{turn}");
        let part = |row: u64| (2.0 * noise.row(row).stratified(2)) as u64;
        assert_eq!(part(0) + part(1), 1);
    }

    #[test]
    fn rows_are_stratified_and_each_is_uniform() {
        for strata in [1_usize, 2, 5, 12] {
            for seed in 0..50 {
                let noise = Noise::new(seed).fold(3);
                for round in 0..3 {
                    let rows = (round * strata as u64..).take(strata);
                    let mut parts: Vec<_> = rows
                        .map(|row| (noise.row(row).stratified(strata) * strata as f64) as usize)
                        .collect();
                    parts.sort_unstable();
                    assert_eq!(parts, (0..strata).collect::<Vec<_>>(), "{seed} {round}");
                }
                assert_eq!(
                    noise.row(2).row(3).stratified(strata),
                    noise.row(5).stratified(strata)
                );
            }
            // Over seeds, the same row is uniform: the standard error of the mean of 1000 is 0.0091.
            for row in [0, 7] {
                let sum: f64 = (0..1000)
                    .map(|seed| Noise::new(seed).row(row).stratified(strata))
                    .sum();
                assert!(
                    (sum / 1000.0 - 0.5).abs() < 4.0 * 0.0091,
                    "{strata} {row} {sum}"
                );
            }
        }
    }

    #[test]
    fn derived_streams_differ_and_repeat() {
        let noise = Noise::new(1);
        assert_eq!(noise.fold(4).latent(8), noise.fold(4).latent(8));
        assert_ne!(noise.fold(4).latent(8), noise.fold(5).latent(8));
        assert_ne!(noise.fold(0).latent(8), noise.latent(8));
        assert_ne!(
            noise.fold(1).fold(2).latent(8),
            noise.fold(2).fold(1).latent(8)
        );
        assert_ne!(noise.row(1).latent(8), noise.latent(8));
        assert_eq!(noise.row(0), noise);
    }

    #[test]
    fn negation_is_an_involution_and_flips_the_sign() {
        let noise = Noise::new(3).fold(1);
        assert_eq!(noise.negated().negated(), noise);
        let flipped: Vec<f32> = noise.latent(5).iter().map(|value| -value).collect();
        assert_eq!(noise.negated().latent(5), flipped);
    }

    #[test]
    fn threads_do_not_disturb_each_others_generator() {
        let draw = |seed| {
            let device = Device::default();
            let random = || Tensor::<1>::random([1024], Distribution::Default, &device);
            let values = Noise::new(seed).seed_generator(&device, random);
            values.try_into_vec_as::<f32>().unwrap()
        };
        let alone = [0, 1, 2, 3].map(draw);
        std::thread::scope(|scope| {
            for (seed, alone) in (0..).zip(&alone) {
                scope.spawn(move || (0..1000).for_each(|_| assert_eq!(&draw(seed), alone)));
            }
        });
    }

    #[test]
    fn uniforms_cover_the_interval() {
        let mean = (0..1000)
            .map(|row| Noise::new(2).row(row).uniform())
            .sum::<f64>()
            / 1000.0;
        // Standard error of the mean of 1000 uniforms: 0.0091.
        assert!((mean - 0.5).abs() < 4.0 * 0.0091, "mean {mean}");
    }
}
