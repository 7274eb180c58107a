//! What a file contains, by its first bytes.

use crate::error::{DataError, Place};

/// The number of bytes that tell files apart.
pub(crate) const START: u64 = 16;

/// The form in which a file has its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Delimited text.
    Text,
    /// A JSON object per line.
    JsonLines,
    /// Columns of typed values.
    Columns(ColumnsFormat),
}

/// A file format with columns of typed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnsFormat {
    Parquet,
    Arrow,
}

impl ColumnsFormat {
    /// For a message.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Parquet => "a Parquet file",
            Self::Arrow => "an Arrow file",
        }
    }
}

/// The first bytes of files that are no delimited text; those of JSON without white space.
const KNOWN: [(&[u8], Content); 4] = [
    (b"PAR1", Content::Columns(ColumnsFormat::Parquet)),
    (b"ARROW1", Content::Columns(ColumnsFormat::Arrow)),
    (b"{\"", Content::JsonLines),
    (b"{}", Content::JsonLines),
];

pub(crate) const AS_CSV: &str =
    "save the table as CSV, which may be compressed with gzip, zstd or zip";
const AS_LINES: &str = "write one object per line, as `jq -c '.[]'` does, or save the table as CSV";
const AS_ARROW: &str = "write it as an Arrow file (Feather, version 2), or save the table as CSV";

/// The first bytes of files that are not read, those of JSON without white space, what they are, and the cure.
const OTHERS: [(&[u8], &str, &str); 6] = [
    (b"\xd0\xcf\x11\xe0", "a spreadsheet", AS_CSV),
    (b"SQLite format 3", "an SQLite database", AS_CSV),
    (b"FEA1", "a Feather file of version 1", AS_ARROW),
    (b"\xff\xff\xff\xff", "an Arrow stream", AS_ARROW),
    (b"[{", "a JSON array", AS_LINES),
    (b"[]", "a JSON array", AS_LINES),
];

/// The UTF-8 byte order mark.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Content {
    /// The content of a file that begins with `start`.
    ///
    /// # Errors
    /// If it is known to be something that cannot be read.
    pub(crate) fn of(start: &[u8], name: &str) -> Result<Self, DataError> {
        let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
        let visible = start.iter().copied();
        let visible: Vec<u8> = visible.filter(|byte| !byte.is_ascii_whitespace()).collect();
        let begins = |first: &[u8]| match first.starts_with(b"{") || first.starts_with(b"[") {
            true => visible.starts_with(first),
            false => is_binary(start, first),
        };
        let other = OTHERS.iter().find(|(first, ..)| begins(first));
        if let Some((_, what, cure)) = other {
            let expected = "delimited text or a JSON object per line";
            return Err(DataError::data(Place::of(name), what, expected, cure));
        }
        let known = KNOWN.iter().find(|(first, _)| begins(first));
        Ok(known.map_or(Self::Text, |(_, content)| *content))
    }
}

/// Whether a binary file begins with `magic`. A header of delimited text may begin with the same letters, but has no control
/// character after them.
fn is_binary(start: &[u8], magic: &[u8]) -> bool {
    let is_control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    let rest = start.strip_prefix(magic);
    rest.is_some_and(|rest| !magic.is_ascii() || rest.first().is_some_and(is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_first_bytes() {
        for (start, expected) in [
            (&b""[..], Content::Text),
            (b"x,y\n1,2\n", Content::Text),
            (b"\xef\xbb\xbfx,y", Content::Text),
            (b"{x},y", Content::Text),
            (b"[x],y", Content::Text),
            (b"{\"x\": 1}", Content::JsonLines),
            (b"\xef\xbb\xbf\n { \"x\": 1}", Content::JsonLines),
            (b"{}\n", Content::JsonLines),
            (b"PAR1\x15", Content::Columns(ColumnsFormat::Parquet)),
            (b"ARROW1\0\0", Content::Columns(ColumnsFormat::Arrow)),
            (b"PAR1,x\n1,2\n", Content::Text),
            (b"PAR 1\x15", Content::Text),
            (b"ARROW10\n1\n", Content::Text),
            (b"FEA1TURE,x\n", Content::Text),
            (b"SQLite format 3,x", Content::Text),
        ] {
            assert_eq!(Content::of(start, "test").unwrap(), expected, "{start:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_the_cure() {
        for (start, what, cure) in [
            (&b"\xd0\xcf\x11\xe0"[..], "a spreadsheet", "as CSV"),
            (b"SQLite format 3\0", "an SQLite database", "as CSV"),
            (b"[\n {\"x\": 1}", "a JSON array", "jq -c '.[]'"),
            (b"FEA1\0\0\0\0", "version 1", "as an Arrow file"),
            (
                b"\xff\xff\xff\xff\x10",
                "an Arrow stream",
                "as an Arrow file",
            ),
        ] {
            let error = Content::of(start, "test").unwrap_err();
            let message = error.to_string();
            assert!(
                error.is_data() && message.starts_with("test: "),
                "{message}"
            );
            assert!(
                message.contains(what) && message.contains(cure),
                "{message}"
            );
        }
    }
}
