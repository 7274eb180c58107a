//! Parquet and Arrow files, written by the crates that read them.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    DurationMillisecondArray, Float32Array, Float64Array, Int64Array, LargeStringArray, ListArray,
    NullArray, RecordBatch, StringArray, StringViewArray, Time64MicrosecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use burn_bayes_data::{BadRows, ColumnKind, CsvOptions, CsvReader, DecimalMark, Table};
use burn_bayes_testing::{config, damaged, edits};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use crate::formats::{CSV, gzip, pieces, read_with, shown};

/// The rows in all compressions of both formats.
fn files(batch: &RecordBatch) -> Vec<Vec<u8>> {
    let parquet = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    let arrow = [
        None,
        Some(CompressionType::LZ4_FRAME),
        Some(CompressionType::ZSTD),
    ];
    let parquet = parquet
        .into_iter()
        .map(|packing| parquet_file(batch, packing));
    let arrow = arrow.into_iter().map(|packing| arrow_file(batch, packing));
    parquet.chain(arrow).collect()
}

fn parquet_file(batch: &RecordBatch, packing: Compression) -> Vec<u8> {
    let settings = WriterProperties::builder()
        .set_compression(packing)
        .set_max_row_group_row_count(Some(1000))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(settings)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn arrow_file(batch: &RecordBatch, packing: Option<CompressionType>) -> Vec<u8> {
    let settings = IpcWriteOptions::default()
        .try_with_compression(packing)
        .unwrap();
    let schema = batch.schema();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, settings).unwrap();
    for start in (0..batch.num_rows()).step_by(1000) {
        let length = (batch.num_rows() - start).min(1000);
        writer.write(&batch.slice(start, length)).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    let columns = columns.map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn read(bytes: &[u8]) -> Table {
    read_with(bytes, CsvOptions::default()).unwrap()
}

/// The table that the other formats have too.
fn table() -> RecordBatch {
    let towns = [
        Some("Rome, \"old\""),
        Some("two\nlines; \\n"),
        None,
        Some("Malmö {[:]} \u{1f642}"),
    ];
    let prices = Decimal128Array::from(vec![Some(1250), Some(-5), Some(0), None]);
    batch([
        (
            "id",
            Arc::new(Int64Array::from(vec![1, 2, 9_007_199_254_740_993, 4])) as _,
        ),
        (
            "x",
            Arc::new(Float32Array::from(vec![
                Some(0.1),
                None,
                Some(-2.5e-7),
                Some(3.0),
            ])),
        ),
        ("town", Arc::new(StringArray::from(towns.to_vec()))),
        (
            "day",
            Arc::new(Date32Array::from(vec![19_783, 20_088, -1, 19_782])),
        ),
        (
            "price",
            Arc::new(prices.with_precision_and_scale(20, 2).unwrap()),
        ),
        (
            "flag",
            Arc::new(BooleanArray::from(vec![
                Some(true),
                Some(false),
                Some(true),
                None,
            ])),
        ),
    ])
}

#[test]
fn every_format_gives_the_same_table() {
    let expected = read_with(CSV.as_bytes(), CsvOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    for bytes in files(&table()) {
        // As a stream, and as a file.
        assert_eq!(shown(&read(&bytes)), shown(&expected));
        std::fs::write(&path, &bytes).unwrap();
        let options = CsvOptions {
            decimal: DecimalMark::Comma,
            ..CsvOptions::default()
        };
        let table = burn_bayes_data::read_csv(&path, &options).unwrap();
        assert_eq!(shown(&table), shown(&expected));
    }
}

#[test]
fn every_type_has_its_text() {
    const NANOSECOND: i64 = 1_709_308_205_000_000_007;
    let towns: DictionaryArray<Int8Type> = [Some("a"), None, Some("a")].into_iter().collect();
    let columns: [(&str, ArrayRef, &str); 12] = [
        ("dictionary", Arc::new(towns), "a"),
        ("nothing", Arc::new(NullArray::new(3)), ""),
        (
            "large",
            Arc::new(UInt64Array::from(vec![u64::MAX; 3])),
            "18446744073709551615",
        ),
        (
            "double",
            Arc::new(Float64Array::from(vec![1e300; 3])),
            "1e300",
        ),
        (
            "not_a_number",
            Arc::new(Float64Array::from(vec![f64::NAN; 3])),
            "",
        ),
        (
            "long_text",
            Arc::new(LargeStringArray::from(vec!["NA"; 3])),
            "NA",
        ),
        (
            "viewed_text",
            Arc::new(StringViewArray::from(vec!["a text that is not short"; 3])),
            "a text that is not short",
        ),
        (
            "second",
            Arc::new(TimestampSecondArray::from(vec![0; 3])),
            "1970-01-01T00:00:00",
        ),
        (
            "instant",
            Arc::new(TimestampNanosecondArray::from(vec![NANOSECOND; 3]).with_timezone("+02:00")),
            "2024-03-01T15:50:05.000000007Z",
        ),
        (
            "time",
            Arc::new(Time64MicrosecondArray::from(vec![36_000_500_000; 3])),
            "10:00:00.5",
        ),
        (
            "duration",
            Arc::new(DurationMillisecondArray::from(vec![-1500; 3])),
            "-1.500",
        ),
        (
            "before",
            Arc::new(TimestampNanosecondArray::from(vec![-1; 3])),
            "1969-12-31T23:59:59.999999999",
        ),
    ];
    let names = columns.each_ref().map(|(name, ..)| *name);
    let expected = columns.each_ref().map(|(.., text)| *text);
    let rows = batch(columns.map(|(name, values, _)| (name, values)));
    for bytes in files(&rows) {
        let options = CsvOptions::default().with_kept(names);
        let table = read_with(&bytes, options).unwrap();
        for (name, text) in names.iter().zip(expected) {
            assert_eq!(table.text(name, 0), Some(text), "{name}");
        }
        assert!(table.column("dictionary").unwrap().is_missing(1));
        assert!(table.column("not_a_number").unwrap().is_missing(0));
    }
}

#[test]
fn values_that_are_no_cells_are_errors_unless_they_are_not_read() {
    let lists = ListArray::from_iter_primitive::<Int8Type, _, _>(vec![Some(vec![Some(1)]); 2]);
    let far = TimestampSecondArray::from(vec![Some(0), Some(i64::MAX)]);
    let rows = batch([
        ("x", Arc::new(Int64Array::from(vec![1, 2])) as _),
        ("list", Arc::new(lists)),
        (
            "image",
            Arc::new(BinaryArray::from(vec![&b"\xff"[..], b"x"])),
        ),
        ("far", Arc::new(far)),
    ]);
    for bytes in files(&rows) {
        for (name, row, expected) in [
            ("list", 0, "found a list, expected a number or a text"),
            ("image", 0, "found bytes, expected a number or a text"),
            ("far", 1, "found a date before the year -9999 or after 9999"),
        ] {
            let error = read_with(&bytes, CsvOptions::default().with_only(["x", name]));
            let error = error.unwrap_err();
            assert_eq!((error.row(), error.line()), (Some(row), None), "{error}");
            assert_eq!(error.column(), Some(name));
            let message = error.to_string();
            assert!(
                message.contains(&format!(
                    "row {row} (counted from 0), column `{name}`: {expected}"
                )),
                "{message}"
            );
            assert!(message.contains(&format!("`--ignore {name}`")), "{message}");
        }
        let table = read_with(&bytes, CsvOptions::default().with_only(["x"])).unwrap();
        assert_eq!((table.rows(), table.columns().len()), (2, 1));
        let reader = CsvReader::new(&bytes[..], "test", CsvOptions::default()).unwrap();
        let reader = reader.without("list").unwrap().without("image").unwrap();
        assert_eq!(reader.without("far").unwrap().read_all().unwrap().rows(), 2);
        // Nothing at all is read.
        let none = CsvOptions::default().with_only(["w"]).with_optional(["w"]);
        assert_eq!(read_with(&bytes, none).unwrap().rows(), 2);
        let marked = CsvOptions::default()
            .with_only(["x", "far"])
            .with_bad_rows(BadRows::Mark);
        let table = read_with(&bytes, marked).unwrap();
        assert!(table.fault(0).is_none() && table.fault(1).is_some());
    }
}

#[test]
fn rows_are_numbered_in_the_file() {
    let names = (0..2500).map(|row| format!("level {}", row % 7));
    let mut texts = vec!["1"; 2500];
    texts[2100] = "one";
    let rows = batch([
        ("x", Arc::new(Int64Array::from_iter_values(0..2500)) as _),
        ("name", Arc::new(StringArray::from_iter_values(names))),
        ("text", Arc::new(StringArray::from(texts))),
    ]);
    for bytes in files(&rows) {
        let options = CsvOptions::default().with_kind("text", ColumnKind::Category);
        assert_eq!(read_with(&bytes, options).unwrap().rows(), 2500);
        let mut reader = CsvReader::new(&bytes[..], "test", CsvOptions::default()).unwrap();
        let error = loop {
            match reader.next_table(600) {
                Ok(piece) => assert!(piece.is_some(), "no error"),
                Err(error) => break error,
            }
        };
        assert_eq!((error.row(), error.column()), (Some(2100), Some("text")));
    }
    for bytes in files(&rows.project(&[0, 1]).unwrap()) {
        pieces(&bytes);
    }
}

#[test]
fn a_file_that_is_compressed_as_a_whole_is_refused() {
    for bytes in files(&table()) {
        let error = read_with(&gzip(&bytes), CsvOptions::default()).unwrap_err();
        assert!(error.to_string().contains("decompress it"), "{error}");
    }
}

#[test]
fn files_without_rows_or_columns_have_no_rows() {
    let none = table().slice(0, 0);
    for bytes in files(&none) {
        let error = read_with(&bytes, CsvOptions::default()).unwrap_err();
        assert!(error.to_string().contains("found no rows"), "{error}");
    }
}

/// An error about the data that names the file, or a table.
fn read_damaged(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Err(error) = read_with(bytes, CsvOptions::default()) {
        let is_named = error.to_string().starts_with("test");
        prop_assert!(error.is_data() && is_named || error.is_config(), "{error}");
    }
    Ok(())
}

#[test]
fn a_file_that_is_cut_is_an_error() {
    for bytes in files(&table()) {
        for end in 0..bytes.len() {
            let error = read_with(&bytes[..end], CsvOptions::default()).unwrap_err();
            assert!(error.is_data(), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn damaged_files_are_errors(file in 0..8_usize, edits in edits()) {
        read_damaged(&damaged(&files(&table())[file], &edits))?;
    }

    #[test]
    fn a_flipped_bit_is_an_error_or_another_value(file in 0..8_usize, place: prop::sample::Index, bit in 0_u8..8) {
        let mut bytes = files(&table()).swap_remove(file);
        *place.get_mut(&mut bytes) ^= 1 << bit;
        read_damaged(&bytes)?;
    }
}
