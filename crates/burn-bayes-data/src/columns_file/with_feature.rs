//! Reads Parquet and Arrow files, one batch of rows after the other.
//!
//! Only the columns that are read are decoded. Both formats are read from their end, so a file that arrives as a stream is first
//! copied to a temporary file. The decoders are meant to refuse damaged files; if one panics, that is an error too.

use std::fs::File;
use std::io::{self, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Fields};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::arrow::Batches;
use super::cells;
use crate::content::ColumnsFormat;
use crate::csv_options::CsvOptions;
use crate::decimal::DecimalMark;
use crate::error::{DataError, Place};
use crate::row::Row;
use crate::source::{Packing, Plain};

/// The number of rows of a Parquet file that are decoded at once.
const BATCH_ROWS: usize = 1024;

/// The batches of a file.
type BoxedBatches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Reads the rows of a file with columns of typed values.
pub(crate) struct ColumnsFile {
    name: String,
    format: ColumnsFormat,
    batches: BoxedBatches,
    /// The current batch, if there was one.
    batch: Option<RecordBatch>,
    /// The next row of the batch.
    next: usize,
    /// The number of rows that were returned.
    rows: u64,
    names: Vec<String>,
    columns: Vec<Source>,
    decimal: DecimalMark,
}

/// Where the cells of a column come from.
enum Source {
    /// The column of a batch with this index.
    Batch(usize),
    /// Nowhere, because the column is not read.
    Skipped,
    /// Nowhere, because its cells are neither numbers nor texts but this.
    Unreadable(String),
}

/// Opens a file and reads what it says about its columns.
pub(crate) fn open(
    plain: Plain<'_>,
    format: ColumnsFormat,
    name: &str,
    options: &CsvOptions,
) -> Result<ColumnsFile, DataError> {
    if plain.packing != Packing::None {
        return Err(DataError::data(
            Place::of(name),
            format_args!("{} in a compressed file", format.name()),
            "one that is not compressed as a whole",
            "decompress it; such a file is compressed inside",
        ));
    }
    let file = seekable(plain).map_err(|error| DataError::io(name, &error))?;
    let opened = guarded(|| match format {
        ColumnsFormat::Parquet => parquet(file, options),
        ColumnsFormat::Arrow => arrow(file, options),
    });
    let (fields, columns, batches) = opened.map_err(|error| damaged(name, format, &error))?;
    Ok(ColumnsFile {
        name: name.into(),
        format,
        batches,
        batch: None,
        next: 0,
        rows: 0,
        names: fields.iter().map(|field| field.name().clone()).collect(),
        columns,
        decimal: options.decimal,
    })
}

impl ColumnsFile {
    /// The names of the columns.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the next row into `row`; false at the end.
    pub(crate) fn read(&mut self, row: &mut Row) -> Result<bool, DataError> {
        while self
            .batch
            .as_ref()
            .is_none_or(|batch| self.next == batch.num_rows())
        {
            let batch = guarded(|| self.batches.next().transpose());
            let batch = batch.map_err(|error| damaged(&self.name, self.format, &error))?;
            let Some(batch) = batch else {
                return Ok(false);
            };
            (self.batch, self.next) = (Some(batch), 0);
        }
        let Some(batch) = &self.batch else {
            return Ok(false);
        };
        row.restart(self.rows);
        // The decoders do not check everything that the values rely on.
        let filled = guarded(|| {
            fill(row, &self.columns, batch, self.next, self.decimal);
            Ok(())
        });
        filled.map_err(|error| damaged(&self.name, self.format, &error))?;
        self.next += 1;
        self.rows += 1;
        Ok(true)
    }
}

/// Adds the cells of a row of a batch.
fn fill(row: &mut Row, columns: &[Source], batch: &RecordBatch, next: usize, decimal: DecimalMark) {
    for source in columns {
        row.push_with(|cell| match source {
            Source::Skipped => Ok(()),
            Source::Unreadable(found) => Err(found.clone()),
            Source::Batch(index) => cells::write(batch.column(*index), next, decimal, cell),
        });
    }
}

/// The fields of a file, where the cells of its columns come from, and its batches.
type Opened = (Fields, Vec<Source>, BoxedBatches);

fn parquet(file: File, options: &CsvOptions) -> Result<Opened, ArrowError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    let fields = builder.schema().fields().clone();
    let (columns, read) = sources(&fields, options);
    let mask = ProjectionMask::roots(builder.parquet_schema(), read);
    let batches = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
    Ok((fields, columns, Box::new(batches.build()?)))
}

fn arrow(file: File, options: &CsvOptions) -> Result<Opened, ArrowError> {
    let (mut fields, mut columns) = (Fields::empty(), Vec::new());
    let batches = Batches::open(file, |all| {
        let (sources, read) = sources(all, options);
        (fields, columns) = (all.clone(), sources);
        read
    })?;
    Ok((fields, columns, Box::new(batches)))
}

/// Where the cells of each column come from, and the columns that are read.
fn sources(fields: &Fields, options: &CsvOptions) -> (Vec<Source>, Vec<usize>) {
    let mut read = Vec::new();
    let columns = fields.iter().enumerate().map(|(index, field)| {
        if !options.reads(field.name().trim()) {
            return Source::Skipped;
        }
        match cells::unreadable(field.data_type()) {
            Some(found) => Source::Unreadable(found),
            None => {
                read.push(index);
                Source::Batch(read.len() - 1)
            }
        }
    });
    (columns.collect(), read)
}

/// The file itself, or a temporary copy of a stream.
fn seekable(plain: Plain<'_>) -> io::Result<File> {
    if let Some(mut file) = plain.file
        && file.rewind().is_ok()
    {
        return Ok(file);
    }
    let (mut bytes, mut copy) = (plain.bytes, tempfile::tempfile()?);
    io::copy(&mut bytes, &mut copy)?;
    copy.rewind()?;
    Ok(copy)
}

/// What `read` returns; a panic of a decoder is an error.
fn guarded<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    let panicked = |_| Err(ArrowError::ParseError("it is not consistent".into()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
}

/// The error of a file that a decoder refuses.
fn damaged(name: &str, format: ColumnsFormat, error: &ArrowError) -> DataError {
    const LONGEST: usize = 200;
    let problem: String = error.to_string().escape_debug().take(LONGEST).collect();
    DataError::data(
        Place::of(name),
        format_args!("{} that cannot be decoded ({problem})", format.name()),
        "a complete file without damage",
        "write the file again, compressed with Snappy, gzip, LZ4 or zstd if at all, or save the table as CSV",
    )
}
