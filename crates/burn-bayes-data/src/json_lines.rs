//! Reads JSON lines: an object per line, whose keys are the columns.
//!
//! The columns are the keys of the first 1000 objects, in order of appearance. A null or absent value is missing. The other
//! values become the texts that delimited text has, so that types are detected in the same way.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{BufRead, Read};

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::{Number, Value};

use crate::content::BYTE_ORDER_MARK;
use crate::csv_options::CsvOptions;
use crate::error::{DataError, Place, shown};
use crate::row::Row;
use crate::source::{self, Plain};

/// Reads objects as rows.
pub(crate) struct JsonLines<'a> {
    lines: Lines<'a>,
    /// The first lines, which were not returned yet.
    sample: VecDeque<Line>,
    names: Vec<String>,
    places: HashMap<String, usize>,
    options: CsvOptions,
}

impl<'a> JsonLines<'a> {
    /// Reads the first `sample` objects.
    pub(crate) fn new(
        plain: Plain<'a>,
        name: &str,
        options: &CsvOptions,
        sample: usize,
    ) -> Result<Self, DataError> {
        let mut this = Self {
            lines: Lines::new(plain, name),
            sample: VecDeque::new(),
            names: Vec::new(),
            places: HashMap::new(),
            options: options.clone(),
        };
        while this.sample.len() < sample
            && let Some(line) = this.lines.next()?
        {
            this.add_columns(&line);
            this.sample.push_back(line);
        }
        // Otherwise the error would be that columns are missing.
        if let Some(first) = this.sample.front().filter(|_| this.names.is_empty()) {
            this.fields(first)?;
        }
        Ok(this)
    }

    /// The keys and values of a line.
    fn fields<'l>(&self, line: &'l Line) -> Result<Vec<(Text<'l>, Value)>, DataError> {
        let place = || Place::of(&self.lines.name).line(line.number);
        let fields = serde_json::from_slice(&line.bytes);
        let Fields(fields) = fields.map_err(|error| invalid(&line.bytes, &error, place()))?;
        Ok(fields)
    }

    /// Adds the keys of an object as columns. An invalid line has none, and is an error when it is read as a row.
    fn add_columns(&mut self, line: &Line) {
        let Ok(Fields(fields)) = serde_json::from_slice(&line.bytes) else {
            return;
        };
        for (Text(key), _) in fields {
            if !self.places.contains_key(&*key) {
                self.places.insert(key.to_string(), self.names.len());
                self.names.push(key.into_owned());
            }
        }
    }

    /// The names of the columns.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the next object into `row`; false at the end.
    pub(crate) fn read(&mut self, row: &mut Row) -> Result<bool, DataError> {
        let line = match self.sample.pop_front() {
            Some(line) => line,
            None => match self.lines.next()? {
                Some(line) => line,
                None => return Ok(false),
            },
        };
        row.restart(line.number);
        if let Err(fault) = self.fill(row, &line) {
            row.spoil(fault);
        }
        Ok(true)
    }

    /// Adds the values of a line to `row`.
    fn fill(&self, row: &mut Row, line: &Line) -> Result<(), DataError> {
        let place = || Place::of(&self.lines.name).line(line.number);
        let fields = self.fields(line)?;
        let mut values = vec![None; self.names.len()];
        for (index, (Text(key), value)) in fields.iter().enumerate() {
            let Some(column) = self.column(index, key) else {
                if self.options.reads(key.trim()) {
                    return Err(late_key(key, place()));
                }
                continue;
            };
            if values[column].replace(value).is_some() {
                return Err(twice(key, place()));
            }
        }
        for (value, name) in values.iter().zip(&self.names) {
            if let Some(Value::Number(number)) = value
                && has_lost_digits(number)
                && self.options.needs_text(name.trim())
            {
                return Err(too_long(number, place().column(name)));
            }
        }
        for value in values {
            row.push_with(|cell| value.map_or(Ok(()), |value| self.write(value, cell)));
        }
        Ok(())
    }

    /// The column of a key. Most objects have their keys in the same order.
    fn column(&self, index: usize, key: &str) -> Option<usize> {
        match self.names.get(index) {
            Some(name) if name == key => Some(index),
            _ => self.places.get(key).copied(),
        }
    }

    /// Writes a value as in delimited text, or says what it is instead of one.
    fn write(&self, value: &Value, cell: &mut Vec<u8>) -> Result<(), String> {
        match value {
            Value::Null => {}
            Value::String(text) => cell.extend(text.bytes()),
            Value::Bool(truth) => cell.extend(truth.to_string().bytes()),
            Value::Number(number) => self.options.decimal.write(&number.to_string(), cell),
            Value::Array(_) => return Err("a list".into()),
            Value::Object(_) => return Err("an object".into()),
        }
        Ok(())
    }
}

/// The lines of a file that are not blank.
struct Lines<'a> {
    bytes: Box<dyn BufRead + 'a>,
    name: String,
    longest: usize,
    number: u64,
}

/// A line with its number, from 1.
struct Line {
    number: u64,
    bytes: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn new(plain: Plain<'a>, name: &str) -> Self {
        Self {
            bytes: plain.bytes,
            name: name.into(),
            longest: plain.packing.longest_line(),
            number: 0,
        }
    }

    fn next(&mut self) -> Result<Option<Line>, DataError> {
        loop {
            let mut bytes = Vec::new();
            let most = u64::try_from(self.longest).unwrap_or(u64::MAX);
            let mut limited = self.bytes.by_ref().take(most.saturating_add(1));
            let read = limited.read_until(b'\n', &mut bytes);
            read.map_err(|error| DataError::io(&self.name, &error))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            if bytes.len() > self.longest {
                let place = Place::of(&self.name).line(self.number);
                return Err(source::too_large(place, "a line", self.longest));
            }
            if bytes.ends_with(b"\n") {
                bytes.pop();
            }
            if self.number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
            if !bytes.trim_ascii().is_empty() {
                let number = self.number;
                return Ok(Some(Line { number, bytes }));
            }
        }
    }
}

/// A text, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'l>(#[serde(borrow)] Cow<'l, str>);

/// The keys of an object with their values, in order.
struct Fields<'l>(Vec<(Text<'l>, Value)>);

impl<'l> Deserialize<'l> for Fields<'l> {
    fn deserialize<D: serde::Deserializer<'l>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'l> Visitor<'l> for FieldsVisitor {
    type Value = Fields<'l>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<Fields<'l>, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}

/// The error of a line that is no object.
fn invalid(line: &[u8], error: &serde_json::Error, place: Place) -> DataError {
    let Ok(line) = std::str::from_utf8(line) else {
        return DataError::not_text(place);
    };
    let message = error.to_string();
    let problem = message.split(" at line ").next().unwrap_or_default();
    DataError::data(
        place,
        format_args!(
            "{}: {problem} at byte {}",
            shown(line.trim()),
            error.column()
        ),
        "a whole JSON object on the line",
        "correct the line, or, if the objects take several lines each, write them as `jq -c .` does",
    )
}

/// The error of a key that the first objects do not have.
fn late_key(key: &str, place: Place) -> DataError {
    DataError::data(
        place,
        format_args!("the new key {}", shown(key)),
        "the keys of the first 1000 objects",
        &format!(
            "add `{key}` to the first object, as null if it has no value there, or correct the key"
        ),
    )
}

/// Whether a number may be a whole one with more digits than a number of JSON keeps here: it fits into no 64 bits.
pub fn has_lost_digits(number: &Number) -> bool {
    number.is_f64()
        && number
            .as_f64()
            .is_some_and(|value| value.abs() >= 2f64.powi(63))
}

/// The error of such a number where each digit matters.
fn too_long(number: &Number, place: Place) -> DataError {
    DataError::data(
        place,
        format_args!("the number {number}, which may have lost digits"),
        "whole numbers of 64 bits in a column of categories, or one that is kept",
        "write the number as text, in quotes",
    )
}

/// The error of a key that comes twice in an object.
fn twice(key: &str, place: Place) -> DataError {
    DataError::data(
        place.column(key),
        "the same key twice",
        "keys that differ",
        "remove one of them",
    )
}
