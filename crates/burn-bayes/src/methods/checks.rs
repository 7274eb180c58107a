//! Checks of settings that several methods share. The errors name the field.

use crate::error::{Error, Result};

/// Fails if a count is 0.
pub fn counts<C: Default + PartialEq>(
    fields: impl IntoIterator<Item = (&'static str, C)>,
) -> Result<()> {
    let mut fields = fields.into_iter();
    match fields.find(|(_, value)| *value == C::default()) {
        Some((field, _)) => Err(Error::config(field, "is 0; it must be at least 1")),
        None => Ok(()),
    }
}

/// Fails if a number is not finite and above zero.
pub fn positive(field: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    let problem = format!("is {value}; it must be finite and above zero");
    Err(Error::config(field, problem))
}

/// Fails if a number is not finite or below zero.
pub fn not_negative(field: &str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    let problem = format!("is {value}; it must be finite and not below zero");
    Err(Error::config(field, problem))
}

/// Fails if a number is not above zero. It may be infinite.
pub fn above_zero(field: &str, value: f64) -> Result<()> {
    if value > 0.0 {
        return Ok(());
    }
    let problem = format!("is {value}; it must be above zero");
    Err(Error::config(field, problem))
}

/// Fails if a number is not in [0, 1).
pub fn fraction(field: &str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    let problem = format!("is {value}; it must be from 0 to below 1");
    Err(Error::config(field, problem))
}

/// Fails if antithetic draws are not pairs. A single draw has no partner.
pub fn pairs(draws: usize, antithetic: bool) -> Result<()> {
    if !antithetic || draws == 1 || draws.is_multiple_of(2) {
        return Ok(());
    }
    let problem = format!(
        "is {draws}; it must be even for antithetic draws, or 1: use another number, or \
         `with_antithetic(false)`"
    );
    Err(Error::config("draws", problem))
}
