//! Opens files, with detection of gzip, and writes files atomically.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tempfile::NamedTempFile;

use crate::error::{DataError, Place, at_path};

/// The decompressed bytes of a file.
pub(crate) struct Plain<'a> {
    pub(crate) bytes: Box<dyn BufRead + 'a>,
    pub(crate) packing: Packing,
}

/// The compression of a file. A compressed file may expand to a thousand times its size, so memory use
/// needs a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Deflate,
}

impl Packing {
    /// The maximum length of a line in bytes.
    pub(crate) fn longest_line(self) -> usize {
        match self {
            Self::None => usize::MAX,
            Self::Deflate => 1 << 24,
        }
    }
}

/// The error of a part of a compressed file with more than `most` bytes.
pub(crate) fn too_large(place: Place, what: &str, most: usize) -> DataError {
    DataError::data(
        place,
        format_args!("{what} of more than {most} bytes in a compressed file"),
        "a smaller one, to limit memory use",
        "check that the file is the right one; if it is, store it without compression",
    )
}

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first bytes of files that are no delimited text, without white space, and what they are.
const OTHERS: [(&[u8], &str); 8] = [
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\x03\x04", "a zip archive or a spreadsheet"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet"),
    (b"SQLiteformat3", "an SQLite database"),
    (b"\x28\xb5\x2f\xfd", "a file compressed with zstd"),
    (b"[{", "JSON"),
    (b"{\"", "JSON"),
];
/// The number of bytes that tell files apart.
const START: u64 = 16;

/// The path of the standard input.
const STANDARD_INPUT: &str = "-";

/// Opens `path`, or `path` with `.gz` appended if only that exists, or the standard input for `-`.
pub(crate) fn open(path: &Path) -> Result<(Plain<'static>, String), DataError> {
    if path == Path::new(STANDARD_INPUT) {
        let name = "the standard input";
        return Ok((plain(io::stdin(), name)?, name.into()));
    }
    let path = &present(path);
    let file = File::open(path).map_err(at_path(path))?;
    let name = path.display().to_string();
    Ok((plain(file, &name)?, name))
}

/// `path`, or `path` with `.gz` appended if only that exists: the file that a reader opens.
pub(crate) fn present(path: &Path) -> PathBuf {
    let mut packed = path.as_os_str().to_owned();
    packed.push(".gz");
    let packed = PathBuf::from(packed);
    if !path.exists() && packed.exists() {
        packed
    } else {
        path.to_path_buf()
    }
}

/// Decompresses gzip, detected by its first bytes; other bytes are unchanged.
///
/// # Errors
/// If it cannot be read, or is known to be something else than text.
pub(crate) fn plain<'a>(mut reader: impl Read + 'a, name: &str) -> Result<Plain<'a>, DataError> {
    let mut start = Vec::new();
    (&mut reader)
        .take(START)
        .read_to_end(&mut start)
        .map_err(|error| DataError::io(name, &error))?;
    let is_packed = start.starts_with(&GZIP);
    let visible = start.iter().copied();
    let visible: Vec<u8> = visible.filter(|byte| !byte.is_ascii_whitespace()).collect();
    let other = OTHERS.iter().find(|(first, _)| visible.starts_with(first));
    if let Some((_, what)) = other {
        let cure = "save the table as CSV, which may be compressed with gzip";
        return Err(DataError::data(
            Place::of(name),
            what,
            "delimited text",
            cure,
        ));
    }
    let whole = BufReader::new(Cursor::new(start).chain(reader));
    Ok(if is_packed {
        Plain {
            bytes: Box::new(BufReader::new(MultiGzDecoder::new(whole))),
            packing: Packing::Deflate,
        }
    } else {
        Plain {
            bytes: Box::new(whole),
            packing: Packing::None,
        }
    })
}

/// Writes `bytes` to a temporary file beside `path`, then renames it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    make_folder_of(path)?;
    let mut file = temporary_beside(path).map_err(at_path(path))?;
    file.write_all(bytes).map_err(at_path(path))?;
    persist(file, path).map_err(at_path(path))
}

/// Renames a complete temporary file to `path`. Its bytes are on the disk before, and the new name is after, so that a
/// power failure leaves either the old file or the new one.
///
/// For this crate and `burn-bayes-tabular`, as [`temporary_beside`].
pub fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(folder_of(path));
    Ok(())
}

/// Waits until the names in a folder are on the disk. Some systems and file systems cannot, and the file is complete.
fn sync_folder(folder: &Path) {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    if let (true, Ok(folder)) = (cfg!(unix), File::open(folder)) {
        let _ = folder.sync_all();
    }
}

/// Creates the folder of `path`, if needed.
pub(crate) fn make_folder_of(path: &Path) -> Result<(), DataError> {
    let folder = folder_of(path);
    std::fs::create_dir_all(folder).map_err(at_path(folder))
}

/// A temporary file in the folder of `path`, to be renamed to `path` when complete.
///
/// For this crate and `burn-bayes-tabular`. `burn-bayes` does not depend on this crate, so its posterior
/// files are written by code of its own.
pub fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".unfinished-");
    // Temporary files are private by default, but the final file needs the usual permissions.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder_of(path))
}

/// The folder of a file; empty for the current one.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<String, DataError> {
        let mut text = String::new();
        plain(bytes, "test")?
            .bytes
            .read_to_string(&mut text)
            .map_err(|error| DataError::io("test", &error))?;
        Ok(text)
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes() {
        assert_eq!(read(b"").unwrap(), "");
        assert_eq!(read(b"a").unwrap(), "a");
        assert_eq!(read(b"plain text").unwrap(), "plain text");
        assert_eq!(read(&packed(b"packed text")).unwrap(), "packed text");
        // Concatenated members are one text, as for gunzip.
        assert_eq!(
            read(&[packed(b"one "), packed(b"two")].concat()).unwrap(),
            "one two"
        );
    }

    #[test]
    fn damaged_gzip_is_an_error_about_the_data() {
        let mut bytes = packed(b"packed text");
        bytes.truncate(bytes.len() - 3);
        assert!(read(&bytes).unwrap_err().is_data());
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file.txt");
        write_whole(&path, b"first").unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1
        );
    }
}
