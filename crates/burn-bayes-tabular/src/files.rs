//! Atomic writes of files, and errors with file names.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_bayes_data::{persist, present, temporary_beside};
use tempfile::NamedTempFile;

use crate::error::{Result, TabularError};

/// Adds the name of a file to an error.
pub fn at(path: &Path) -> impl Fn(io::Error) -> TabularError {
    let path = path.display().to_string();
    move |error| {
        let message = format!("{path}: {error}");
        TabularError::System(io::Error::new(error.kind(), message))
    }
}

/// Whether both paths are of one file or folder that is there.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| path.canonicalize().ok());
    one.is_some() && one == other
}

/// Reads a text file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    text(path, std::fs::read(path).map_err(at(path))?)
}

/// Decodes the content of a text file.
pub(crate) fn text(path: &Path, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| TabularError::Data(format!("{}: not valid UTF-8 text", path.display())))
}

/// Removes an incomplete line at the end.
pub(crate) fn whole_lines(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|&byte| byte == b'\n');
    bytes.truncate(end.map_or(0, |end| end + 1));
    bytes
}

/// Creates a folder and its parents, if needed.
pub fn make_folder(path: &Path) -> Result<()> {
    if path.is_file() {
        let problem = format!("{}: this is a file; name a folder", path.display());
        return Err(TabularError::System(io::Error::new(
            io::ErrorKind::AlreadyExists,
            problem,
        )));
    }
    std::fs::create_dir_all(path).map_err(at(path))
}

/// Locks a file or folder until the result is dropped; `None` if the system does not support locks.
///
/// # Errors
/// If another process holds the lock.
pub(crate) fn lock(path: &Path) -> Result<Option<File>> {
    let Ok(file) = File::open(path) else {
        return Ok(None);
    };
    lock_open(&file, path)?;
    Ok(Some(file))
}

/// Locks an open file, called `path` in messages, until it is closed. Without effect if the system does not support
/// locks.
///
/// # Errors
/// If another process holds the lock.
pub(crate) fn lock_open(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(TabularError::Usage(format!(
            "{}: another process is writing there; wait until it ends, or name another folder",
            path.display()
        ))),
    }
}

/// Whether a file that is written is one that is read.
pub fn would_overwrite(output: &Path, input: &Path) -> bool {
    // A reader may open the compressed file of this name.
    match (output.canonicalize(), present(input).canonicalize()) {
        (Ok(written), Ok(read)) => written == read && written.is_file(),
        _ => output == input,
    }
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Writes a temporary file and renames it, so that readers find either the old file or the new one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut unnamed = Unnamed::beside(path)?;
    unnamed.file.write_all(bytes).map_err(at(path))?;
    unnamed.finish(path)
}

/// Converts a CSV error, keeping the kind of an I/O error.
pub(crate) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// The bytes of a CSV table.
pub(crate) fn csv_bytes<R>(heads: &[&str], rows: impl IntoIterator<Item = R>) -> Result<Vec<u8>>
where
    R: IntoIterator<Item: AsRef<[u8]>>,
{
    csv_of(|writer| {
        writer.write_record(heads)?;
        rows.into_iter()
            .try_for_each(|row| writer.write_record(row))
    })
}

/// The bytes of the CSV table that `write` writes.
pub fn csv_of(write: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    write(&mut writer).map_err(io_error)?;
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

/// The FNV-1a checksum, in hexadecimal.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(HASH_START, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The FNV-1a offset basis.
pub(crate) const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a hash with 64-bit words, such as the bits of numbers. After each word, the finaliser of SplitMix64 spreads
/// every bit over all others. A product alone, as of FNV, keeps the highest bit, the sign, where it is, so that two
/// flipped signs would cancel.
pub(crate) fn hashed(hash: u64, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(hash, |hash, word| {
        let mut mixed = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// A temporary file that is renamed when complete, and removed otherwise.
#[derive(Debug)]
struct Unnamed {
    file: NamedTempFile,
    entry: Entry,
}

impl Unnamed {
    /// A temporary file in the folder of `path`.
    fn beside(path: &Path) -> Result<Self> {
        let mut paths = unfinished();
        let file = temporary_beside(path).map_err(at(path))?;
        let entry = Entry::among(&mut paths, file.path());
        Ok(Self { file, entry })
    }

    fn finish(self, path: &Path) -> Result<()> {
        let Self { file, entry } = self;
        let named = persist(file, path);
        drop(entry);
        named.map_err(at(path))
    }
}

/// Registers a file as unfinished until dropped.
#[derive(Debug)]
pub struct Entry(PathBuf);

impl Entry {
    /// For a file that is not written by [`write_whole`] or [`Output`].
    pub fn of(path: &Path) -> Self {
        Self::among(&mut unfinished(), path)
    }

    fn among(paths: &mut BTreeSet<PathBuf>, path: &Path) -> Self {
        paths.insert(path.into());
        Self(path.into())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        unfinished().remove(&self.0);
    }
}

/// The unfinished files of this process.
fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all unfinished files. The process must then exit: all later calls, and threads that start or
/// finish a file, block forever.
pub fn remove_unfinished() {
    let paths = unfinished();
    for path in &*paths {
        // The process is about to end, so errors are ignored.
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(paths);
}

/// The output of a command.
#[derive(Debug)]
pub struct Output {
    writer: BufWriter<Sink>,
    path: PathBuf,
}

#[derive(Debug)]
enum Sink {
    Standard(io::Stdout),
    Unnamed(Unnamed),
    /// A device or a pipe, which cannot be replaced atomically.
    Special(File),
}

impl Output {
    /// Writes to this file, or to standard output.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        let sink = match path {
            None => Sink::Standard(io::stdout()),
            Some(path) if path.exists() && !path.is_file() => {
                let file = File::options().write(true).open(path);
                Sink::Special(file.map_err(at(path))?)
            }
            Some(path) => Sink::Unnamed(Unnamed::beside(path)?),
        };
        Ok(Self {
            writer: BufWriter::new(sink),
            path: path.unwrap_or(Path::new("standard output")).into(),
        })
    }

    /// Flushes, and renames the temporary file.
    pub fn finish(self) -> Result<()> {
        let sink = self.writer.into_inner();
        match sink.map_err(|error| at(&self.path)(error.into_error()))? {
            Sink::Standard(mut output) => output.flush().map_err(at(&self.path)),
            Sink::Special(mut file) => file.flush().map_err(at(&self.path)),
            Sink::Unnamed(unnamed) => unnamed.finish(&self.path),
        }
    }

    /// The path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(output) => output.write(bytes),
            Self::Unnamed(unnamed) => unnamed.file.write(bytes),
            Self::Special(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(output) => output.flush(),
            Self::Unnamed(unnamed) => unnamed.file.flush(),
            Self::Special(file) => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_sees_every_pair_of_flipped_bits() {
        let words = [1.5f64, -0.25, 3.0].map(f64::to_bits);
        let hash = |words: &[u64]| hashed(HASH_START, words.iter().copied());
        for first in 0..64 {
            for second in 0..64 {
                for places in [(0, 1), (0, 2), (1, 2)] {
                    let mut flipped = words;
                    flipped[places.0] ^= 1 << first;
                    flipped[places.1] ^= 1 << second;
                    assert_ne!(hash(&flipped), hash(&words), "{first} {second} {places:?}");
                }
            }
        }
        let mut signs = words;
        signs.iter_mut().for_each(|word| *word ^= 1 << 63);
        assert_ne!(hash(&signs), hash(&words));
    }

    #[test]
    fn a_table_has_its_heads_first_and_its_trouble_is_the_systems() {
        let rows = [["1", "2, 3"]];
        let bytes = csv_bytes(&["a", "b"], rows).unwrap();
        assert_eq!(bytes, b"a,b\n1,\"2, 3\"\n");
        let failure = csv_bytes(&["a"], rows).unwrap_err();
        assert!(matches!(failure, TabularError::System(_)), "{failure:?}");
    }
}
