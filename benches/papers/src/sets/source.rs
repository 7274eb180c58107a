//! The bytes of a file, with gzip decompressed, and the error of a file with other content than expected.

use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use burn_bayes_tabular::files::at;
use burn_bayes_tabular::{Result, TabularError};
use flate2::read::MultiGzDecoder;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The decompressed bytes of `path`, or of `path` with `.gz` appended if only that exists, and its name.
pub(super) fn read(path: &Path) -> Result<(Vec<u8>, String)> {
    let path = &present(path);
    let bytes = fs::read(path).map_err(at(path))?;
    let name = path.display().to_string();
    Ok((plain(bytes, &name)?, name))
}

/// The same as text.
pub(super) fn read_text(path: &Path) -> Result<(String, String)> {
    let (bytes, name) = read(path)?;
    let text =
        String::from_utf8(bytes).map_err(|_| wrong(&name, "bytes that are not UTF-8", "text"))?;
    Ok((text, name))
}

/// `path`, or `path` with `.gz` appended if only that exists.
pub(super) fn present(path: &Path) -> PathBuf {
    let mut packed = path.as_os_str().to_owned();
    packed.push(".gz");
    let packed = PathBuf::from(packed);
    match !path.exists() && packed.exists() {
        true => packed,
        false => path.to_path_buf(),
    }
}

fn plain(bytes: Vec<u8>, name: &str) -> Result<Vec<u8>> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain);
    read.map_err(|error| {
        wrong(
            name,
            format_args!("damaged bytes ({error})"),
            "a complete file",
        )
    })?;
    Ok(plain)
}

/// The error of a file, or of a place in it, with other content than expected.
pub(super) fn wrong(
    place: impl Display,
    found: impl Display,
    expected: impl Display,
) -> TabularError {
    TabularError::Data(format!("{place}: found {found}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes() {
        for text in ["", "a", "plain text"] {
            assert_eq!(plain(text.into(), "test").unwrap(), text.as_bytes());
        }
        // Concatenated members are one text, as for gunzip.
        let both = [packed(b"one "), packed(b"two")].concat();
        assert_eq!(plain(both, "test").unwrap(), b"one two");
    }

    #[test]
    fn damaged_gzip_is_an_error_about_the_data() {
        let mut bytes = packed(b"packed text");
        bytes.truncate(bytes.len() - 3);
        assert!(matches!(plain(bytes, "test"), Err(TabularError::Data(_))));
    }

    #[test]
    fn a_packed_file_takes_the_place_of_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(folder.path().join("file.gz"), packed(b"packed")).unwrap();
        let (bytes, name) = read(&path).unwrap();
        assert!(bytes == b"packed" && name.ends_with("file.gz"), "{name}");
        fs::write(&path, b"plain").unwrap();
        assert_eq!(read(&path).unwrap().0, b"plain");
    }
}
