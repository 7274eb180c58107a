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

/// Fails if antithetic draws are not pairs. A single draw has no partner.
pub(crate) fn pairs(draws: usize, antithetic: bool) -> Result<()> {
    if !antithetic || draws == 1 || draws.is_multiple_of(2) {
        return Ok(());
    }
    let problem = format!(
        "is {draws}; it must be even for antithetic draws, or 1: use another number, or \
         `with_antithetic(false)`"
    );
    Err(Error::config("draws", problem))
}

#[cfg(test)]
mod tests {
    use crate::VifaConfig;
    use crate::methods::{IvonConfig, NagvacConfig, VonConfig};

    #[test]
    fn antithetic_draws_are_pairs_or_one_draw_in_every_method() {
        let validated = |draws: usize, antithetic: bool| {
            macro_rules! validated {
                ($($config:ident)+) => {
                    [$({
                        let config = $config::new(10).with_draws(draws);
                        config.with_antithetic(antithetic).validate()
                    }),+]
                };
            }
            validated!(IvonConfig NagvacConfig VifaConfig VonConfig)
        };
        for (draws, antithetic, is_valid) in [
            (1, true, true),
            (2, true, true),
            (3, true, false),
            (3, false, true),
            (4, true, true),
        ] {
            for result in validated(draws, antithetic) {
                assert_eq!(result.is_ok(), is_valid, "{draws} draws: {result:?}");
                let names_field =
                    |error: crate::Error| error.to_string().starts_with("draws: is 3");
                assert!(result.err().is_none_or(names_field));
            }
        }
    }
}
