//! Shared input checks; each error says what is wrong, where, and the likely cause.

use std::ops::RangeInclusive;

use crate::error::{EvalError, Place};

pub(crate) fn not_empty(what: &str, length: usize) -> Result<(), EvalError> {
    if length == 0 {
        let cause = "an empty selection or split";
        return Err(EvalError::data(
            what,
            Place::WHOLE,
            "0 rows",
            "at least 1",
            cause,
        ));
    }
    Ok(())
}

pub(crate) fn same_length(what: &str, found: usize, expected: usize) -> Result<(), EvalError> {
    if found != expected {
        let found = format!("{found} values");
        let cause = "two inputs of one score come from different splits or shapes";
        return Err(EvalError::data(what, Place::WHOLE, found, expected, cause));
    }
    Ok(())
}

/// Checks the length of a flat slice with these extents, which must not be zero.
pub(crate) fn shape(what: &str, length: usize, extents: &[(&str, usize)]) -> Result<(), EvalError> {
    for (name, extent) in extents {
        if *extent == 0 {
            let cause = "an empty batch, or the extents were given in another order";
            return Err(EvalError::data(
                what,
                Place::WHOLE,
                format!("0 {name}"),
                "at least 1",
                cause,
            ));
        }
    }
    let product = extents
        .iter()
        .try_fold(1usize, |product, (_, n)| product.checked_mul(*n));
    if product != Some(length) {
        let factors: Vec<String> = extents
            .iter()
            .map(|(name, n)| format!("{n} {name}"))
            .collect();
        let found = format!("{length} values");
        let cause = "the extents were given in another order, or the slice is truncated";
        return Err(EvalError::data(
            what,
            Place::WHOLE,
            found,
            factors.join(" × "),
            cause,
        ));
    }
    Ok(())
}

pub(crate) fn finite(what: &str, values: &[f64]) -> Result<(), EvalError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(row) => Err(not_finite(what, Place::row(row), values[row])),
        None => Ok(()),
    }
}

pub(crate) fn not_finite(what: &str, place: Place, value: f64) -> EvalError {
    EvalError::data(what, place, value, "a finite number", DIVERGED)
}

/// The likely cause of a value that is NaN or far too large.
pub(crate) const DIVERGED: &str = "the model diverged, or its output overflowed";

/// Rejects NaN; infinities can be ordered and averaged.
pub(crate) fn comparable(what: &str, values: &[f64]) -> Result<(), EvalError> {
    match values.iter().position(|value| value.is_nan()) {
        Some(row) => {
            let cause = "the model diverged, or a score took 0/0 or ln of a negative number";
            Err(EvalError::data(
                what,
                Place::row(row),
                f64::NAN,
                "a number",
                cause,
            ))
        }
        None => Ok(()),
    }
}

/// Checks that values are in [0, 1].
pub(crate) fn unit(what: &str, values: &[f64], cause: &str) -> Result<(), EvalError> {
    match values.iter().position(|value| !(0.0..=1.0).contains(value)) {
        Some(row) => {
            let expected = "a number in [0, 1]";
            Err(EvalError::data(
                what,
                Place::row(row),
                values[row],
                expected,
                cause,
            ))
        }
        None => Ok(()),
    }
}

pub(crate) fn finite_setting(name: &str, value: f64) -> Result<(), EvalError> {
    if !value.is_finite() {
        return Err(EvalError::config(name, value, "a finite number"));
    }
    Ok(())
}

pub(crate) fn at_least_one(name: &str, value: usize) -> Result<(), EvalError> {
    if value == 0 {
        return Err(EvalError::config(name, 0, "at least 1"));
    }
    Ok(())
}

/// Checks a count against its allowed range.
pub(crate) fn count(
    name: &str,
    value: usize,
    allowed: RangeInclusive<usize>,
) -> Result<(), EvalError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let expected = format!("at least {} and at most {}", allowed.start(), allowed.end());
    Err(EvalError::config(name, value, expected))
}

/// Checks that there is at least one bin, and a row for each.
pub(crate) fn rows_for_bins(rows: usize, bins: usize) -> Result<(), EvalError> {
    at_least_one("bins", bins)?;
    if rows < bins {
        return Err(EvalError::data(
            "rows",
            Place::WHOLE,
            format!("{rows} for {bins} bins"),
            "at least one row per bin",
            "a small split: use fewer bins or more rows",
        ));
    }
    Ok(())
}

/// The maximum number of bins or levels; it needs about 100 MB.
pub(crate) const MOST_BINS: usize = 1_000_000;

/// Checks that a probability is strictly between 0 and 1.
pub(crate) fn open_unit(name: &str, value: f64) -> Result<(), EvalError> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(EvalError::config(
        name,
        value,
        "a number strictly between 0 and 1",
    ))
}

/// Checks that a fraction is above 0 and at most 1.
pub(crate) fn fraction(name: &str, value: f64) -> Result<(), EvalError> {
    if value > 0.0 && value <= 1.0 {
        return Ok(());
    }
    Err(EvalError::config(
        name,
        value,
        "a number above 0 and at most 1",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_rejects_zero_overflow_and_mismatch() {
        assert!(shape("x", 6, &[("rows", 2), ("classes", 3)]).is_ok());
        assert!(
            shape("x", 0, &[("rows", 0), ("classes", 3)])
                .unwrap_err()
                .is_data()
        );
        assert!(
            shape("x", 5, &[("rows", 2), ("classes", 3)])
                .unwrap_err()
                .is_data()
        );
        assert!(
            shape("x", 0, &[("rows", usize::MAX), ("classes", 2)])
                .unwrap_err()
                .is_data()
        );
    }

    #[test]
    fn settings_reject_their_limits_and_nan() {
        for value in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(open_unit("level", value).unwrap_err().is_config());
        }
        assert!(fraction("fraction", 1.0).is_ok());
        for value in [0.0, 1.5, f64::NAN] {
            assert!(fraction("fraction", value).unwrap_err().is_config());
        }
    }

    #[test]
    fn counts_may_reach_their_limits() {
        for value in [1, 7] {
            assert!(count("bins", value, 1..=7).is_ok());
        }
        for value in [0, 8, usize::MAX] {
            assert!(count("bins", value, 1..=7).unwrap_err().is_config());
        }
    }

    #[test]
    fn comparable_lets_infinities_pass_and_finite_does_not() {
        assert!(comparable("x", &[f64::INFINITY, f64::NEG_INFINITY]).is_ok());
        assert_eq!(
            comparable("x", &[0.0, f64::NAN]).unwrap_err().row(),
            Some(1)
        );
        assert_eq!(
            finite("x", &[0.0, 1.0, f64::INFINITY]).unwrap_err().row(),
            Some(2)
        );
    }
}
