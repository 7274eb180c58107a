//! Typed values as the texts that delimited text has.
//!
//! Whole numbers and decimals keep all digits, and floating-point numbers have as few as tell them apart. Dates and times are in
//! the form of ISO 8601, those with a time zone in UTC. Durations are seconds. Null and NaN are missing.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type,
    Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use jiff::SignedDuration;
use jiff::civil::{DateTime, Time};

use crate::decimal::DecimalMark;

/// What values of a type are, if they are neither numbers nor texts.
pub(crate) fn unreadable(kind: &DataType) -> Option<String> {
    use DataType::{
        Binary, BinaryView, FixedSizeBinary, FixedSizeList, LargeBinary, LargeList, LargeListView,
        List, ListView, Map, Struct,
    };
    match kind {
        Binary | BinaryView | FixedSizeBinary(_) | LargeBinary => Some("bytes".into()),
        FixedSizeList(..) | LargeList(_) | LargeListView(_) | List(_) | ListView(_) => {
            Some("a list".into())
        }
        Map(..) | Struct(_) => Some("an object".into()),
        DataType::Union(..) | DataType::RunEndEncoded(..) | DataType::Interval(_) => {
            Some(format!("a value of the type {kind}"))
        }
        DataType::Dictionary(_, values) => unreadable(values),
        _ => None,
    }
}

/// Appends the value in `row` to `cell`, or says what it is instead of a number or a text.
pub(crate) fn write(
    array: &ArrayRef,
    row: usize,
    decimal: DecimalMark,
    cell: &mut Vec<u8>,
) -> Result<(), String> {
    if array.is_null(row) {
        return Ok(());
    }
    match array.data_type() {
        DataType::Null => {}
        DataType::Boolean => cell.extend(array.as_boolean().value(row).to_string().bytes()),
        DataType::Utf8 => cell.extend(array.as_string::<i32>().value(row).bytes()),
        DataType::LargeUtf8 => cell.extend(array.as_string::<i64>().value(row).bytes()),
        DataType::Utf8View => cell.extend(array.as_string_view().value(row).bytes()),
        DataType::Dictionary(keys, _) => return entry(array, keys, row, decimal, cell),
        DataType::Date32 | DataType::Date64 => cell.extend(date(array, row)?.bytes()),
        DataType::Timestamp(unit, zone) => {
            let moment = moment(timestamp(array, *unit, row), *unit)?;
            let zone = zone.as_ref().map_or("", |_| "Z");
            cell.extend(format!("{moment}{zone}").bytes());
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let time = since_midnight(time_of_day(array, *unit, row), *unit)?;
            cell.extend(time.to_string().bytes());
        }
        kind => decimal.write(&number(array, kind, row)?, cell),
    }
    Ok(())
}

/// A number with a decimal point; empty for NaN.
fn number(array: &ArrayRef, kind: &DataType, row: usize) -> Result<String, String> {
    use DataType::{
        Decimal32, Decimal64, Decimal128, Decimal256, Duration, Float16, Float32, Float64, Int8,
        Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
    };
    Ok(match kind {
        Int8 => value::<Int8Type>(array, row).to_string(),
        Int16 => value::<Int16Type>(array, row).to_string(),
        Int32 => value::<Int32Type>(array, row).to_string(),
        Int64 => value::<Int64Type>(array, row).to_string(),
        UInt8 => value::<UInt8Type>(array, row).to_string(),
        UInt16 => value::<UInt16Type>(array, row).to_string(),
        UInt32 => value::<UInt32Type>(array, row).to_string(),
        UInt64 => value::<UInt64Type>(array, row).to_string(),
        Float16 => float(f64::from(value::<Float16Type>(array, row))),
        Float32 => {
            let value = value::<Float32Type>(array, row);
            // With the digits of a single precision.
            match value.is_nan() {
                true => String::new(),
                false => format!("{value:?}"),
            }
        }
        Float64 => float(value::<Float64Type>(array, row)),
        Decimal32(..) => digits::<Decimal32Type>(array, row),
        Decimal64(..) => digits::<Decimal64Type>(array, row),
        Decimal128(..) => digits::<Decimal128Type>(array, row),
        Decimal256(..) => digits::<Decimal256Type>(array, row),
        Duration(unit) => seconds(duration(array, *unit, row), *unit),
        _ => return Err(format!("a value of the type {kind}")),
    })
}

/// The value of a dictionary.
fn entry(
    array: &ArrayRef,
    keys: &DataType,
    row: usize,
    decimal: DecimalMark,
    cell: &mut Vec<u8>,
) -> Result<(), String> {
    let place = match keys {
        DataType::Int8 => key::<Int8Type>(array, row),
        DataType::Int16 => key::<Int16Type>(array, row),
        DataType::Int32 => key::<Int32Type>(array, row),
        DataType::Int64 => key::<Int64Type>(array, row),
        DataType::UInt8 => key::<UInt8Type>(array, row),
        DataType::UInt16 => key::<UInt16Type>(array, row),
        DataType::UInt32 => key::<UInt32Type>(array, row),
        DataType::UInt64 => key::<UInt64Type>(array, row),
        _ => None,
    };
    let values = array.as_any_dictionary().values();
    match place.filter(|place| *place < values.len()) {
        Some(place) => write(values, place, decimal, cell),
        None => Err("an entry that its dictionary does not have".into()),
    }
}

fn key<K: ArrowDictionaryKeyType>(array: &ArrayRef, row: usize) -> Option<usize> {
    array.as_dictionary::<K>().key(row)
}

fn value<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn digits<T: DecimalType + ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> String {
    array.as_primitive::<T>().value_as_string(row)
}

fn float(value: f64) -> String {
    match value.is_nan() {
        true => String::new(),
        false => format!("{value:?}"),
    }
}

/// The beginning of 1970.
const START: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The number of units in a second.
fn units(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The date, with the time of day unless it is midnight.
fn date(array: &ArrayRef, row: usize) -> Result<String, String> {
    const DAY: i64 = 86_400;
    let moment = match array.data_type() {
        DataType::Date32 => moment(
            i64::from(value::<Date32Type>(array, row)) * DAY,
            TimeUnit::Second,
        )?,
        _ => moment(value::<Date64Type>(array, row), TimeUnit::Millisecond)?,
    };
    Ok(match moment.time() == Time::midnight() {
        true => moment.date().to_string(),
        false => moment.to_string(),
    })
}

/// The moment so many units after the beginning of 1970.
fn moment(count: i64, unit: TimeUnit) -> Result<DateTime, String> {
    let moment = START.checked_add(span(count, unit));
    moment.map_err(|_| "a date before the year -9999 or after 9999".into())
}

/// The time of day so many units after midnight.
fn since_midnight(count: i64, unit: TimeUnit) -> Result<Time, String> {
    let time = Time::midnight().checked_add(span(count, unit));
    time.map_err(|_| "a time of day after midnight".into())
}

fn span(count: i64, unit: TimeUnit) -> SignedDuration {
    let units = units(unit);
    // Below a billion.
    let nanoseconds = count % units * (1_000_000_000 / units);
    SignedDuration::new(count / units, nanoseconds as i32)
}

/// So many units as a number of seconds.
fn seconds(count: i64, unit: TimeUnit) -> String {
    let (sign, count, units) = (
        if count < 0 { "-" } else { "" },
        count.unsigned_abs(),
        units(unit) as u64,
    );
    let digits = units.ilog10() as usize;
    match digits {
        0 => format!("{sign}{count}"),
        _ => format!("{sign}{}.{:0digits$}", count / units, count % units),
    }
}

fn timestamp(array: &ArrayRef, unit: TimeUnit, row: usize) -> i64 {
    match unit {
        TimeUnit::Second => value::<TimestampSecondType>(array, row),
        TimeUnit::Millisecond => value::<TimestampMillisecondType>(array, row),
        TimeUnit::Microsecond => value::<TimestampMicrosecondType>(array, row),
        TimeUnit::Nanosecond => value::<TimestampNanosecondType>(array, row),
    }
}

fn duration(array: &ArrayRef, unit: TimeUnit, row: usize) -> i64 {
    match unit {
        TimeUnit::Second => value::<DurationSecondType>(array, row),
        TimeUnit::Millisecond => value::<DurationMillisecondType>(array, row),
        TimeUnit::Microsecond => value::<DurationMicrosecondType>(array, row),
        TimeUnit::Nanosecond => value::<DurationNanosecondType>(array, row),
    }
}

fn time_of_day(array: &ArrayRef, unit: TimeUnit, row: usize) -> i64 {
    match unit {
        TimeUnit::Second => value::<Time32SecondType>(array, row).into(),
        TimeUnit::Millisecond => value::<Time32MillisecondType>(array, row).into(),
        TimeUnit::Microsecond => value::<Time64MicrosecondType>(array, row),
        TimeUnit::Nanosecond => value::<Time64NanosecondType>(array, row),
    }
}
