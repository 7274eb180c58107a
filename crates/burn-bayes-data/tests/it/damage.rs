//! Random damage to files, and an allocator that counts what each thread holds, so that tests can bound
//! what a reader asks for. Other crates of the workspace test their readers with this file too.
//!
//! `BURN_BAYES_FUZZ_CASES` sets the number of cases for each reader.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// `cases` of them if nothing else is asked for.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("BURN_BAYES_FUZZ_CASES");
    ProptestConfig {
        cases: asked.map_or(cases, |cases| cases.parse().expect("a number of cases")),
        ..ProptestConfig::default()
    }
}

/// Numbers that a file may hold in the place of a sensible one.
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

/// The same where a file holds lengths in binary.
const LENGTHS: [u64; 6] = [0, 1 << 31, 1 << 32, 1 << 40, i64::MAX as u64, u64::MAX];

/// One piece of damage.
#[derive(Debug, Clone)]
pub(crate) enum Edit {
    Set(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    /// Bytes from one place over those of another.
    Copy(Index, usize, Index),
    /// The first digits from here on become another number.
    Number(Index, &'static str),
    /// Eight bytes become another length.
    Length(Index, u64),
    Cut(Index),
}

pub(crate) fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = any::<Index>;
    // Bytes that mean something in one of the formats, and any others.
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

pub(crate) fn damaged(file: &[u8], edits: &[Edit]) -> Vec<u8> {
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

/// Where the first digits from `start` on are; nowhere, at the end, if there are none.
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

/// Fails if `read` takes more memory than buffers and a generous share for each byte.
pub(crate) fn bounded<T>(bytes: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<T, TestCaseError> {
    /// Text buffers, the state of a decoder, and the cells that libsvm may have for few entries.
    const BUFFERS: usize = 1 << 20;
    /// A column of one cell of one byte has a name, a place in tables of names, and vectors.
    const FOR_A_BYTE: usize = 1 << 10;
    let (result, most) = most_held(|| read(bytes));
    let allowed = BUFFERS + FOR_A_BYTE * bytes.len();
    prop_assert!(
        most <= allowed,
        "{most} bytes for a file of {}",
        bytes.len()
    );
    Ok(result)
}

/// Bytes of the largest allocation that is granted.
const LARGEST: usize = 1 << 32;

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    HELD.set(HELD.get() + bytes);
    MOST.set(MOST.get().max(HELD.get()));
}

// SAFETY: everything is handed on to the system's allocator unchanged; counting neither allocates
// nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // No test needs so much at once; what does not get it ends here, and not with the machine.
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The result of `work`, and the most bytes that this thread held during it beyond those before.
pub(crate) fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let result = work();
    (result, (MOST.get() - before) as usize)
}
