//! Files that are written whole or not at all, and errors that name them.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::error::{Result, TabularError};

/// Puts the name of a file before what the system said of it.
pub fn at(path: &Path) -> impl Fn(io::Error) -> TabularError {
    let path = path.display().to_string();
    move |error| {
        let message = format!("{path}: {error}");
        TabularError::System(io::Error::new(error.kind(), message))
    }
}

/// Reads a whole text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    text(path, std::fs::read(path).map_err(at(path))?)
}

/// The text that was read from a file.
pub(crate) fn text(path: &Path, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| TabularError::Data(format!("{}: it is not text in UTF-8", path.display())))
}

/// The lines that were written whole: half a line at the end is cut off.
pub(crate) fn whole_lines(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|&byte| byte == b'\n');
    bytes.truncate(end.map_or(0, |end| end + 1));
    bytes
}

/// Makes a folder and those above it, if they are not there.
pub fn make_folder(path: &Path) -> Result<()> {
    if path.is_file() {
        let problem = format!("{}: it is a file; name a folder", path.display());
        return Err(TabularError::System(io::Error::new(
            io::ErrorKind::AlreadyExists,
            problem,
        )));
    }
    std::fs::create_dir_all(path).map_err(at(path))
}

/// Takes a file or folder for this process alone, until what is returned is dropped; nothing where
/// the system knows no such thing.
///
/// # Errors
/// If another process has it.
pub(crate) fn lock(path: &Path) -> Result<Option<File>> {
    let Ok(file) = File::open(path) else {
        return Ok(None);
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::Error(_)) => Ok(None),
        Err(TryLockError::WouldBlock) => Err(TabularError::Usage(format!(
            "{}: another process is writing there; wait for its end, or name another folder",
            path.display()
        ))),
    }
}

/// Removes a file if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Writes under another name, then renames: a reader finds the old file or the new one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut unnamed = Unnamed::beside(path)?;
    unnamed.file.write_all(bytes).map_err(at(path))?;
    unnamed.persist(path)
}

/// What the system said when a table was written; its kind is kept.
pub(crate) fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// The bytes of a table with commas between its cells.
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

/// The bytes of the table that `write` writes.
pub fn csv_of(write: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    write(&mut writer).map_err(io_error)?;
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

/// A text that tells these bytes from damaged ones: FNV-1a, in hexadecimal.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    let hash = hashed(HASH_START, bytes.iter().map(|&byte| byte.into()));
    format!("{hash:016x}")
}

/// The hash of nothing.
pub(crate) const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Takes words into a hash, as FNV-1a takes bytes.
pub(crate) fn hashed(hash: u64, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(hash, |hash, word| {
        (hash ^ word).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A file that gets its name when it is whole, and goes if it gets none.
#[derive(Debug)]
struct Unnamed {
    file: NamedTempFile,
    entry: Entry,
}

impl Unnamed {
    /// In the folder of `path`.
    fn beside(path: &Path) -> Result<Self> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".unfinished-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut paths = unfinished();
        let file = builder.tempfile_in(folder).map_err(at(folder))?;
        let entry = Entry::among(&mut paths, file.path());
        Ok(Self { file, entry })
    }

    fn persist(self, path: &Path) -> Result<()> {
        let Self { file, entry } = self;
        let named = file.persist(path);
        drop(entry);
        named.map_err(|error| at(path)(error.error))?;
        Ok(())
    }
}

/// The place of a file among those without a name.
#[derive(Debug)]
pub struct Entry(PathBuf);

impl Entry {
    /// Of a file that the program has others make.
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

/// All files of this process that have no name yet.
fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all files that have no name yet. The process must end: whoever begins or ends a file from
/// now on, or comes here again, waits for ever.
pub fn remove_unfinished() {
    let paths = unfinished();
    for path in &*paths {
        // Nothing can be done for one that stays.
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(paths);
}

/// Where a command writes its rows.
#[derive(Debug)]
pub struct Output {
    writer: BufWriter<Sink>,
    path: PathBuf,
}

#[derive(Debug)]
enum Sink {
    Standard(io::Stdout),
    Unnamed(Unnamed),
    /// A device or a pipe, which is written as it is.
    Special(File),
}

impl Output {
    /// To this file, or to standard output.
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

    /// Writes what is left, and gives the file its name.
    pub fn finish(self) -> Result<()> {
        let sink = self.writer.into_inner();
        match sink.map_err(|error| at(&self.path)(error.into_error()))? {
            Sink::Standard(mut output) => output.flush().map_err(at(&self.path)),
            Sink::Special(mut file) => file.flush().map_err(at(&self.path)),
            Sink::Unnamed(unnamed) => unnamed.persist(&self.path),
        }
    }

    /// What is being written, for messages.
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
    fn a_table_has_its_heads_first_and_its_trouble_is_the_systems() {
        let rows = [["1", "2, 3"]];
        let bytes = csv_bytes(&["a", "b"], rows).unwrap();
        assert_eq!(bytes, b"a,b\n1,\"2, 3\"\n");
        let failure = csv_bytes(&["a"], rows).unwrap_err();
        assert!(matches!(failure, TabularError::System(_)), "{failure:?}");
    }
}
