//! The same table in several formats, and what is wrong with files of these formats.

use std::io::{Read, Write};

use burn_bayes_data::{
    BadRows, ColumnKind, CsvOptions, CsvReader, DataError, DecimalMark, Header, Table,
};
use burn_bayes_testing::most_held;
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

pub(crate) fn read_with(bytes: &[u8], options: CsvOptions) -> Result<Table, DataError> {
    CsvReader::new(bytes, "test", options)?.read_all()
}

fn read(bytes: &[u8]) -> Result<Table, DataError> {
    read_with(bytes, CsvOptions::default())
}

/// Everything in a table.
pub(crate) fn shown(table: &Table) -> Vec<String> {
    let columns = table.columns().iter().map(|column| {
        let cells: Vec<String> = (0..table.rows())
            .map(|row| format!("{:?}{:?}", column.number(row), column.category(row)))
            .collect();
        format!("{} {:?} {cells:?}", column.name(), column.kind())
    });
    columns.collect()
}

/// A table with missing values, and texts with all that has a meaning in one of the formats.
pub(crate) const CSV: &str = concat!(
    "id,x,town,day,price,flag\n",
    "1,0.1,\"Rome, \"\"old\"\"\",2024-03-01,12.50,true\n",
    "2,,\"two\nlines; \\n\",2024-12-31,-0.05,false\n",
    "9007199254740993,-2.5e-7,,1969-12-31,0.00,true\n",
    "4,3.0,Malmö {[:]} \u{1f642},2024-02-29,,\n",
);

const JSON: &str = concat!(
    "{\"id\": 1, \"x\": 0.1, \"town\": \"Rome, \\\"old\\\"\", \"day\": \"2024-03-01\", \"price\": 12.50, \"flag\": true}\n",
    "\n",
    "{\"id\":2,\"x\":null,\"day\":\"2024-12-31\",\"town\":\"two\\nlines; \\\\n\",\"price\":-0.05,\"flag\":false}\r\n",
    "  { \"id\": 9007199254740993, \"x\": -2.5e-7, \"day\": \"1969-12-31\", \"price\": 0.00, \"flag\": true}\n",
    "{\"id\": 4, \"x\": 3.0, \"town\": \"Malm\\u00f6 {[:]} \\ud83d\\ude42\", \"day\": \"2024-02-29\"}",
);

#[test]
fn every_format_gives_the_same_table() {
    let expected = shown(&read(CSV.as_bytes()).unwrap());
    let with_mark = format!("\u{feff}{JSON}");
    for text in [CSV, JSON, &with_mark] {
        let text = text.as_bytes();
        for bytes in [text.to_vec(), gzip(text), zstd(text)] {
            assert_eq!(shown(&read(&bytes).unwrap()), expected);
        }
    }
}

#[test]
fn files_and_their_names_do_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let expected = shown(&read(CSV.as_bytes()).unwrap());
    for bytes in [JSON.as_bytes().to_vec(), zstd(JSON.as_bytes())] {
        std::fs::write(&path, bytes).unwrap();
        let table = burn_bayes_data::read_csv(&path, &CsvOptions::default()).unwrap();
        assert_eq!(shown(&table), expected);
    }
}

#[test]
fn options_of_delimited_text_do_not_matter() {
    let expected = shown(&read(CSV.as_bytes()).unwrap());
    let options = CsvOptions {
        delimiter: Some(b';'),
        decimal: DecimalMark::Comma,
        header: Header::Absent,
        ..CsvOptions::default()
    };
    assert_eq!(
        shown(&read_with(JSON.as_bytes(), options).unwrap()),
        expected
    );
    // Texts may be numbers with a comma; numbers cannot.
    let text = b"{\"x\": \"1,5\", \"y\": 1.5}\n{\"x\": \"2,5\", \"y\": 2.5}\n";
    let options = CsvOptions {
        decimal: DecimalMark::Comma,
        ..CsvOptions::default()
    };
    let table = read_with(text, options).unwrap();
    assert_eq!(table.column("x").unwrap().number(1), Some(2.5));
    assert_eq!(table.column("y").unwrap().number(1), Some(2.5));
    let error = read(text).unwrap_err();
    assert!(error.to_string().contains("--decimal ,"), "{error}");
}

#[test]
fn null_is_missing_and_words_are_what_the_options_say() {
    let text = b"{\"a\": \"null\", \"b\": null}\n{\"a\": \"NA\", \"b\": \"x\"}\n";
    let options = CsvOptions::default().with_missing(["-"]);
    let table = read_with(text, options).unwrap();
    let [a, b] = table.columns() else { panic!() };
    assert_eq!((a.category(0), a.category(1)), (Some("null"), Some("NA")));
    assert_eq!((b.category(0), b.category(1)), (None, Some("x")));
    let table = read(text).unwrap();
    assert!(table.columns()[0].is_missing(0) && table.columns()[0].is_missing(1));
    let options = CsvOptions::default().with_further_missing(["-999"]);
    let table = read_with(b"{\"x\": -999.0}\n{\"x\": 0.5}\n", options).unwrap();
    assert_eq!(
        (table.columns()[0].number(0), table.columns()[0].number(1)),
        (None, Some(0.5))
    );
}

#[test]
fn numbers_that_lose_digits_are_no_identifiers() {
    let text = b"{\"id\": 123456789012345678901234, \"x\": 1e30}\n{\"id\": 18446744073709551615, \"x\": 2}\n";
    let options = CsvOptions::default();
    let table = read_with(text, options.clone()).unwrap();
    assert_eq!(table.column("x").unwrap().number(0), Some(1e30));
    for options in [
        options.clone().with_kind("id", ColumnKind::Category),
        options.clone().with_kept(["id"]),
    ] {
        let error = read_with(text, options.clone()).unwrap_err().to_string();
        assert!(
            error.starts_with("test, line 1, column `id`: found the number 1.23456789012345")
                && error.ends_with("write the number as text, in quotes"),
            "{error}"
        );
        let rest = text.split(|&byte| byte == b'\n').nth(1).unwrap();
        read_with(rest, options).unwrap();
    }
}

#[test]
fn columns_are_the_keys_of_the_first_rows() {
    let table = read(b"{\"y\": 1}\n{\"x\": 2, \"\": 3}\n{}\n").unwrap();
    let names: Vec<_> = table.columns().iter().map(|column| column.name()).collect();
    assert_eq!((names, table.rows()), (vec!["y", "x", "column_2"], 3));
    assert_eq!(table.columns()[0].kind(), ColumnKind::Number);

    let late = |key: &str| {
        let row = format!("{{\"x\": 2, {key}: 3}}\n");
        let text = format!("{}{row}{}", "{\"x\": 1}\n".repeat(1200), "{\"x\": 1}\n");
        move |options| read_with(text.as_bytes(), options)
    };
    let error = late("\"z\"")(CsvOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test, line 1201: found the new key `z`, expected the keys of the first 1000 objects; add `z` to the first \
         object, as null if it has no value there, or correct the key"
    );
    // A key that is not read does no harm.
    let table = late("\"z\"")(CsvOptions::default().with_only(["x"])).unwrap();
    assert_eq!(table.rows(), 1202);
}

#[test]
fn every_bad_line_has_its_message() {
    let whole = "expected a whole JSON object on the line; correct the line, or, if the objects take several lines each, \
                 write them as `jq -c .` does";
    let cases = [
        ("{\"x\" 1}", format!("test, line 3: found `{{\"x\" 1}}`: expected `:` at byte 6, {whole}")),
        ("{\"x\": 1", format!("test, line 3: found `{{\"x\": 1`: EOF while parsing an object at byte 7, {whole}")),
        ("[1]", format!("test, line 3: found `[1]`: invalid type: sequence, expected an object at byte 0, {whole}")),
        ("{\"x\": NaN}", format!("test, line 3: found `{{\"x\": NaN}}`: expected value at byte 7, {whole}")),
        ("{\"x\": 1} {}", format!("test, line 3: found `{{\"x\": 1}} {{}}`: trailing characters at byte 10, {whole}")),
        (
            "{\"x\": 1, \"x\": 2}",
            "test, line 3, column `x`: found the same key twice, expected keys that differ; remove one of them".into(),
        ),
        (
            "{\"x\": [1, 2]}",
            "test, line 3, column `x`: found a list, expected a number or a text; write what matters of it as columns \
             of numbers or texts, or leave the column out (`--ignore x`)"
                .into(),
        ),
        ("{\"x\": {\"a\": []}}", "test, line 3, column `x`: found an object, expected a number".into()),
        ("{\"x\": \"\\ud800\"}", "test, line 3: found `{\"x\": \"\\\\ud800\"}`: unexpected end of hex escape".into()),
        ("{\"x\": \"five\"}", "test, line 3, column `x`: found `five`, expected a finite number".into()),
        ("{\"x\": 1e999}", "test, line 3: found `{\"x\": 1e999}`: number out of range".into()),
    ];
    for (line, expected) in cases {
        // Within the first rows, and far behind them.
        for rows in [1, 1500] {
            let text = format!("\n{}{line}\n", "{\"x\": 0.5}\n".repeat(rows));
            let expected = expected.replace("line 3", &format!("line {}", rows + 2));
            let options = CsvOptions::default().with_kind("x", ColumnKind::Number);
            let message = read_with(text.as_bytes(), options).unwrap_err().to_string();
            // The first bytes of `shown` are escaped.
            let message = message.replace("\\\"", "\"");
            assert!(message.starts_with(&expected), "{message}\n{expected}");
        }
    }
    let error = read(b"{\"x\": 1}\n{\"x\": \"\xff\"}\n").unwrap_err();
    assert_eq!(error.line(), Some(2));
    assert!(
        error.to_string().contains("save the file as UTF-8"),
        "{error}"
    );
    // An object over several lines.
    let options = CsvOptions::default().with_only(["x"]);
    let error = read_with(b"{\n  \"x\": 1\n}\n", options).unwrap_err();
    assert_eq!(error.line(), Some(1));
    assert!(error.to_string().contains("jq -c ."), "{error}");
}

#[test]
fn columns_that_are_not_read_may_hold_anything() {
    let text =
        b"{\"x\": 1, \"z\": [{}], \"w\": 1}\n{\"x\": 2, \"z\": {\"a\": 3}, \"w\": \"half\"}\n";
    let table = read_with(text, CsvOptions::default().with_only(["x"])).unwrap();
    assert_eq!(table.columns().len(), 1);
    let reader = CsvReader::new(&text[..], "test", CsvOptions::default()).unwrap();
    let reader = reader.without("z").unwrap().without("w").unwrap();
    assert_eq!(reader.read_all().unwrap().rows(), 2);
    // Kept texts are read.
    let options = CsvOptions::default().with_only(["x"]).with_kept(["z"]);
    assert!(read_with(text, options).is_err());
}

#[test]
fn bad_lines_may_be_marked() {
    let text = b"{\"x\": 1}\nno object\n{\"x\": [2]}\n{\"x\": 4}\n";
    let options = CsvOptions::default().with_bad_rows(BadRows::Mark);
    let table = read_with(text, options).unwrap();
    assert_eq!(table.rows(), 4);
    let lines: Vec<_> = (0..4)
        .map(|row| table.fault(row).and_then(DataError::line))
        .collect();
    assert_eq!(lines, [None, Some(2), Some(3), None]);
    assert_eq!(table.column("x").unwrap().number(3), Some(4.0));
}

#[test]
fn pieces_are_the_whole() {
    let rows = (0..2500).map(|row| format!("{{\"x\": {row}, \"name\": \"level {}\"}}\n", row % 7));
    pieces(rows.collect::<String>().as_bytes());
}

/// Reads a table of 2500 rows, whose column `x` counts them, in pieces.
pub(crate) fn pieces(bytes: &[u8]) {
    let whole = read(bytes).unwrap();
    let mut reader = CsvReader::new(bytes, "test", CsvOptions::default()).unwrap();
    let mut row = 0;
    while let Some(piece) = reader.next_table(600).unwrap() {
        for inside in 0..piece.rows() {
            let name = piece.column("name").unwrap().category(inside);
            assert_eq!(piece.column("x").unwrap().number(inside), Some(row as f64));
            assert_eq!(name, whole.column("name").unwrap().category(row));
            row += 1;
        }
    }
    assert_eq!((row, whole.rows()), (2500, 2500));
}

/// A line, again and again.
struct Repeated {
    line: &'static [u8],
    left: usize,
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let place = self.left % self.line.len();
        let rest = &self.line[(self.line.len() - place) % self.line.len()..];
        let count = rest.len().min(buffer.len()).min(self.left);
        buffer[..count].copy_from_slice(&rest[..count]);
        self.left -= count;
        Ok(count)
    }
}

#[test]
fn a_file_in_pieces_takes_the_memory_of_a_piece() {
    let most = |rows: usize| {
        let line: &'static str = "{\"number\": 0.123456789, \"text\": \"some words\"}\n";
        let lines = Repeated {
            line: line.as_bytes(),
            left: rows * line.len(),
        };
        let read = || {
            let mut reader = CsvReader::new(lines, "rows", CsvOptions::default()).unwrap();
            let mut count = 0;
            while let Some(piece) = reader.next_table(1000).unwrap() {
                count += piece.rows();
            }
            assert_eq!(count, rows);
        };
        most_held(read).1
    };
    assert_eq!(most(5_000), most(20_000));
}

#[test]
fn long_lines_of_compressed_files_are_refused() {
    let text = format!("{{\"x\": \"y\"}}\n{{\"x\": \"{}\"}}\n", "z".repeat(1 << 24));
    assert_eq!(read(text.as_bytes()).unwrap().rows(), 2);
    for bytes in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
        let (result, held) = most_held(|| read(&bytes));
        let error = result.unwrap_err();
        assert_eq!(error.line(), Some(2), "{error}");
        assert!(
            error.to_string().contains("in a compressed file"),
            "{error}"
        );
        assert!(held < 1 << 27, "{held}");
    }
    let text = format!("x,y\n1,{}\n", "3".repeat(1 << 24));
    let error = read(&zstd(text.as_bytes())).unwrap_err();
    assert!(
        error.to_string().contains("in a compressed file"),
        "{error}"
    );
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_its_formats_are_named() {
    for (start, what) in [
        (&b"PAR1\x15"[..], "a Parquet file"),
        (b"ARROW1\0\0", "an Arrow file"),
    ] {
        let message = read(start).unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
        assert!(
            message.contains("--features parquet`, or save the table as CSV"),
            "{message}"
        );
    }
}
