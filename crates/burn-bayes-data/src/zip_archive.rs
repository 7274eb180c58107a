//! The table in a zip archive.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use crate::content::AS_CSV;
use crate::error::{DataError, Place, listed};
use crate::source::too_large;

/// The first bytes of a zip archive with files.
pub(crate) const ZIP: [u8; 4] = *b"PK\x03\x04";
/// Files of more bytes are not unpacked into memory.
const MOST_BYTES: usize = 1 << 30;
/// A file that every spreadsheet has which is a zip archive: of Office, or of OpenDocument.
const OF_SPREADSHEETS: [&str; 2] = ["[Content_Types].xml", "mimetype"];
/// The beginning of the names of what macOS adds to an archive.
const ADDED: &str = "__MACOSX/";

/// The bytes of the only file of an archive.
///
/// # Errors
/// If it is damaged or encrypted, a spreadsheet, or has no file or several.
pub(crate) fn only_file(mut packed: impl Read, name: &str) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    packed
        .read_to_end(&mut bytes)
        .map_err(|error| DataError::io(name, &error))?;
    let wrong = |found: &str, cure: &str| {
        let expected = "a zip archive with one file, the table";
        DataError::data(Place::of(name), found, expected, cure)
    };
    let damaged = |error: zip::result::ZipError| {
        let found = format!("a zip archive that cannot be read ({error})");
        wrong(&found, "unpack it, and name the file in it")
    };
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
    let names = (0..archive.len()).filter_map(|place| {
        let name = archive.name_for_index(place)?.ok()?.into_owned();
        Some((place, name))
    });
    let all: Vec<(usize, String)> = names.collect();
    if all
        .iter()
        .any(|(_, name)| OF_SPREADSHEETS.contains(&&**name))
    {
        return Err(wrong("a spreadsheet", AS_CSV));
    }
    let is_file = |name: &str| !name.ends_with('/') && !name.starts_with(ADDED);
    let files: Vec<&(usize, String)> = all.iter().filter(|(_, name)| is_file(name)).collect();
    let place = match files[..] {
        [(place, _)] => *place,
        [] => {
            let cure = "check that the file is the right one";
            return Err(wrong("a zip archive without a file", cure));
        }
        _ => {
            let names: Vec<&str> = files.iter().map(|(_, name)| name.as_str()).collect();
            let found = format!(
                "a zip archive with {} files: {}",
                files.len(),
                listed(&names)
            );
            return Err(wrong(&found, "unpack it, and name the one with the table"));
        }
    };
    let file = archive.by_index(place).map_err(damaged)?;
    let mut table = Vec::new();
    file.take(MOST_BYTES as u64 + 1)
        .read_to_end(&mut table)
        .map_err(|error| damaged(error.into()))?;
    if table.len() > MOST_BYTES {
        return Err(too_large(Place::of(name), "a file", MOST_BYTES));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            match name.strip_suffix('/') {
                Some(folder) => writer
                    .add_directory(folder, SimpleFileOptions::default())
                    .unwrap(),
                None => {
                    writer
                        .start_file(*name, SimpleFileOptions::default())
                        .unwrap();
                    writer.write_all(text.as_bytes()).unwrap();
                }
            }
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn the_only_file_is_the_table() {
        let text = "x,y\n1,2\n".repeat(1000);
        let packed = archive(&[("data/", ""), ("data/t.csv", &text), ("__MACOSX/._t", "z")]);
        assert!(packed.len() < text.len() / 4);
        assert_eq!(only_file(&packed[..], "t.zip").unwrap(), text.as_bytes());
    }

    #[test]
    fn other_archives_are_refused() {
        for (files, part) in [
            (&[][..], "without a file"),
            (
                &[("a.csv", "x"), ("b.csv", "y")],
                "2 files: `a.csv`, `b.csv`",
            ),
            (
                &[("[Content_Types].xml", ""), ("xl/a.xml", "")],
                "a spreadsheet",
            ),
            (&[("mimetype", ""), ("content.xml", "")], "a spreadsheet"),
        ] {
            let message = only_file(&archive(files)[..], "t.zip").unwrap_err();
            let message = message.to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_damaged_archive_is_an_error_or_the_same_table() {
        let text = "x,y\n1,2\n".repeat(100);
        let good = archive(&[("t.csv", &text)]);
        for place in 0..good.len() {
            for bit in [1, 16, 128] {
                let mut bytes = good.clone();
                bytes[place] ^= bit;
                if let Ok(found) = only_file(&bytes[..], "t.zip") {
                    assert_eq!(found, text.as_bytes(), "byte {place}");
                }
            }
            assert!(only_file(&good[..place], "t.zip").is_err());
        }
    }
}
