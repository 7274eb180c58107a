//! Checks of settings that several methods share. The errors name the field.

use crate::error::{Error, Result};

/// Fails if a count is 0.
pub(crate) fn counts<C: Default + PartialEq>(
    fields: impl IntoIterator<Item = (&'static str, C)>,
) -> Result<()> {
    let mut fields = fields.into_iter();
    match fields.find(|(_, value)| *value == C::default()) {
        Some((field, _)) => Err(Error::config(field, "is 0; it must be at least 1")),
        None => Ok(()),
    }
}

/// Fails if a number is not finite and above zero.
pub(crate) fn positive(field: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    let problem = format!("is {value}; it must be finite and above zero");
    Err(Error::config(field, problem))
}

/// Fails if a number is not finite or below zero.
pub(crate) fn not_negative(field: &str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    let problem = format!("is {value}; it must be finite and not below zero");
    Err(Error::config(field, problem))
}

/// Fails if a number is not above zero. It may be infinite.
pub(crate) fn above_zero(field: &str, value: f64) -> Result<()> {
    if value > 0.0 {
        return Ok(());
    }
    let problem = format!("is {value}; it must be above zero");
    Err(Error::config(field, problem))
}

/// Fails if antithetic draws are not pairs.
pub(crate) fn pairs(draws: usize, antithetic: bool) -> Result<()> {
    if !antithetic || draws.is_multiple_of(2) {
        return Ok(());
    }
    let problem = format!("is {draws}; it must be even for antithetic draws");
    Err(Error::config("draws", problem))
}
