//! Random damage to files, for tests of readers.
//!
//! `BURN_BAYES_FUZZ_CASES` sets the number of cases per reader.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Proptest's settings with `cases` cases, unless the environment sets another number.
pub fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("BURN_BAYES_FUZZ_CASES");
    ProptestConfig {
        cases: asked.map_or(cases, |cases| cases.parse().expect("a number of cases")),
        ..ProptestConfig::default()
    }
}

/// Numbers that can replace a valid one in a text file.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1e999",
    "1e308",
    "0.5",
    "nan",
    "-inf",
    "4294967296",
    "99999999999",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
];

/// The same for binary lengths.
const LENGTHS: [u64; 6] = [0, 1 << 31, 1 << 32, 1 << 40, i64::MAX as u64, u64::MAX];

/// One piece of damage.
#[derive(Debug, Clone)]
pub enum Edit {
    /// Replaces a byte.
    Set(Index, u8),
    /// Flips a bit of a byte.
    Flip(Index, u8),
    /// Inserts bytes.
    Insert(Index, Vec<u8>),
    /// Removes this many bytes.
    Remove(Index, usize),
    /// Repeats this many bytes this many times.
    Repeat(Index, usize, usize),
    /// Copies bytes from one position over those of another.
    Copy(Index, usize, Index),
    /// Replaces the next digits by another number.
    Number(Index, &'static str),
    /// Replaces eight bytes by another length.
    Length(Index, u64),
    /// Ends the file here.
    Cut(Index),
}

/// A few pieces of damage.
pub fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = any::<Index>;
    // Bytes with a meaning in one of the formats, and any others.
    let byte = || {
        prop_oneof![
            select(b"\0\x01\x08\x7f\x80\xff\"'\n\r,;:|# \t.+-0159eEnNiI()[]{}=".to_vec()),
            any::<u8>(),
        ]
    };
    let length = || 1_usize..40;
    let edit = prop_oneof![
        (place(), byte()).prop_map(|(place, byte)| Edit::Set(place, byte)),
        (place(), 0_u8..8).prop_map(|(place, bit)| Edit::Flip(place, bit)),
        (place(), vec(byte(), 1..9)).prop_map(|(place, bytes)| Edit::Insert(place, bytes)),
        (place(), length()).prop_map(|(place, length)| Edit::Remove(place, length)),
        (place(), length(), 1_usize..20)
            .prop_map(|(place, length, times)| Edit::Repeat(place, length, times)),
        (place(), length(), place()).prop_map(|(from, length, to)| Edit::Copy(from, length, to)),
        (place(), select(&NUMBERS)).prop_map(|(place, number)| Edit::Number(place, number)),
        (place(), select(&LENGTHS)).prop_map(|(place, length)| Edit::Length(place, length)),
        place().prop_map(Edit::Cut),
    ];
    vec(edit, 1..8)
}

/// The damaged file.
pub fn damaged(file: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for edit in edits {
        if bytes.is_empty() {
            break;
        }
        let end = bytes.len();
        let range = |place: &Index, length: usize| {
            let start = place.index(end);
            start..end.min(start + length)
        };
        match edit {
            Edit::Set(place, byte) => *place.get_mut(&mut bytes) = *byte,
            Edit::Flip(place, bit) => *place.get_mut(&mut bytes) ^= 1 << bit,
            Edit::Insert(place, more) => {
                bytes.splice(range(place, 0), more.iter().copied());
            }
            Edit::Remove(place, length) => {
                bytes.drain(range(place, *length));
            }
            Edit::Repeat(place, length, times) => {
                let more = bytes[range(place, *length)].repeat(*times);
                bytes.splice(range(place, 0), more);
            }
            Edit::Copy(from, length, to) => {
                let more = bytes[range(from, *length)].to_vec();
                bytes.splice(range(to, more.len()), more);
            }
            Edit::Number(place, number) => {
                let place = digits(&bytes, place.index(end));
                bytes.splice(place, number.bytes());
            }
            Edit::Length(place, length) => {
                bytes.splice(range(place, 8), length.to_le_bytes());
            }
            Edit::Cut(place) => bytes.truncate(place.index(end)),
        }
    }
    bytes
}

/// The range of the first digits from `start` on; empty, at the end, if there are none.
fn digits(bytes: &[u8], start: usize) -> std::ops::Range<usize> {
    let skipped = bytes[start..]
        .iter()
        .take_while(|byte| !byte.is_ascii_digit());
    let first = start + skipped.count();
    let length = bytes[first..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    first..first + length.count()
}
