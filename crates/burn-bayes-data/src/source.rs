//! Opens files, with detection of gzip, zstd and zip, and writes files atomically.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tempfile::NamedTempFile;

use crate::content::{Content, START};
use crate::error::{DataError, Place, at_path};
use crate::zip_archive::{ZIP, only_file};
use crate::zstd::{Frames, ZSTD};

/// The decompressed bytes of a file.
pub(crate) struct Plain<'a> {
    pub(crate) bytes: Box<dyn BufRead + 'a>,
    pub(crate) packing: Packing,
    pub(crate) content: Content,
    /// The file itself, if there is one, for formats that are not read from the beginning to the end.
    #[cfg_attr(
        not(feature = "parquet"),
        allow(dead_code, reason = "the feature's formats are read from their end")
    )]
    pub(crate) file: Option<File>,
}

/// The compression of a file. A compressed file may expand to a thousand times its size, so memory use
/// needs a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Deflate,
    Zstd,
    Zip,
}

impl Packing {
    /// The compression of a file that begins with `start`.
    fn of(start: &[u8]) -> Self {
        if start.starts_with(&GZIP) {
            Self::Deflate
        } else if start.starts_with(&ZSTD) {
            Self::Zstd
        } else if start.starts_with(&ZIP) {
            Self::Zip
        } else {
            Self::None
        }
    }

    /// The maximum length of a line in bytes.
    pub(crate) fn longest_line(self) -> usize {
        match self {
            Self::None => usize::MAX,
            Self::Deflate | Self::Zstd | Self::Zip => 1 << 24,
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
    let again = file.try_clone().ok();
    let plain = plain(file, &name)?;
    Ok((
        Plain {
            file: again,
            ..plain
        },
        name,
    ))
}

/// `path`, or `path` with `.gz` appended if only that exists: the file that a reader opens.
pub fn present(path: &Path) -> PathBuf {
    let mut packed = path.as_os_str().to_owned();
    packed.push(".gz");
    let packed = PathBuf::from(packed);
    if !path.exists() && packed.exists() {
        packed
    } else {
        path.to_path_buf()
    }
}

/// Decompresses gzip, zstd and zip, detected by their first bytes; other bytes are unchanged.
///
/// # Errors
/// If it cannot be read, or is known to be something that cannot.
pub(crate) fn plain<'a>(reader: impl Read + 'a, name: &str) -> Result<Plain<'a>, DataError> {
    let (start, whole) = peeked(reader, name)?;
    let packing = Packing::of(&start);
    let (start, bytes) = match packing {
        Packing::None => (start, whole),
        Packing::Deflate => peeked(MultiGzDecoder::new(whole), name)?,
        Packing::Zstd => peeked(Frames::new(whole), name)?,
        Packing::Zip => peeked(Cursor::new(only_file(whole, name)?), name)?,
    };
    Ok(Plain {
        bytes,
        packing,
        content: Content::of(&start, name)?,
        file: None,
    })
}

/// The first bytes, and all bytes.
fn peeked<'a>(
    mut reader: impl Read + 'a,
    name: &str,
) -> Result<(Vec<u8>, Box<dyn BufRead + 'a>), DataError> {
    let mut start = Vec::new();
    (&mut reader)
        .take(START)
        .read_to_end(&mut start)
        .map_err(|error| DataError::io(name, &error))?;
    let whole = BufReader::new(Cursor::new(start.clone()).chain(reader));
    Ok((start, Box::new(whole)))
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
    builder.tempfile_in(folder_of(path)).map_err(|error| {
        // The name of the temporary file says nothing to anybody.
        let folder = folder_of(path);
        match folder.as_os_str().is_empty() || folder.is_dir() {
            true => error,
            false => io::Error::new(
                error.kind(),
                format!(
                    "there is no folder {}; make it, or write elsewhere",
                    folder.display()
                ),
            ),
        }
    })
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
