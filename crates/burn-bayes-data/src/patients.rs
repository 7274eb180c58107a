//! A table of invented patients, for examples with numbers, categories and missing values.
//!
//! The patients do not exist, and no medical facts can be learned from the table. Its distribution, with
//! independent standard normals ε for each value:
//!
//! * age: whole years from 20 to 84, uniform; sex: female or male; smoker: never (½), former (¼) or
//!   current (¼)
//! * ill, s = 1, with probability σ(−0.8 + 0.03 (age − 50) + 0.8 \[current smoker\])
//! * cough: none, dry or productive, with probabilities ¾, ⅕, 1⁄20 for healthy and 3⁄20, 7⁄20, ½ for ill
//!   patients
//! * temperature: 36.8 + s (1.7 − 0.015 (age − 20)) + 0.6 ε, so that older patients have less fever, in °C
//! * crp: exp(1.2 + 1.6 s + ε), the C-reactive protein in mg/L
//! * white_cells: 7 + 2.4 s + 2 ε, at least 1, in 10⁹/L
//! * oxygen: 97.5 − 1.5 s + 1.5 ε, between 70 and 100, the saturation in %
//!
//! Measurements are rounded to one decimal. Values of `crp` are missing with probability 0.08 and those
//! of `oxygen` with 0.04, independently of all other values.

use crate::error::DataError;
use crate::generated_rows::{generated, rounded};
use crate::random::{Generator, generator, normal, uniform};
use crate::table::Table;

/// Invented patients: `age`, `sex`, `smoker`, `cough`, `temperature`, `crp`, `white_cells`, `oxygen`, and
/// whether they are `ill`.
///
/// About 40 % are ill. Some ill patients look like healthy ones: even the best possible classifier has an
/// error rate of 4.5 %. The first rows do not depend on the number of rows.
///
/// ```
/// let patients = burn_bayes_data::patients(100, 1)?;
/// assert_eq!(patients.rows(), 100);
/// assert!(matches!(patients.column("ill")?.category(0), Some("yes" | "no")));
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
///
/// # Errors
/// If there are no rows.
pub fn patients(rows: usize, seed: u64) -> Result<Table, DataError> {
    let names = [
        "age",
        "sex",
        "smoker",
        "cough",
        "temperature",
        "crp",
        "white_cells",
        "oxygen",
        "ill",
    ];
    generated(names, rows, generator(seed, "patients"), |_, generator| {
        let age = (20.0 + 65.0 * uniform(generator)).floor();
        let sex = choice(["female", "male"], [0.5, 0.5], generator);
        let smoker = choice(["never", "former", "current"], [0.5, 0.25, 0.25], generator);
        let risk = if smoker == "current" { 0.8 } else { 0.0 };
        let log_odds = -0.8 + 0.03 * (age - 50.0) + risk;
        let is_ill = uniform(generator) < 1.0 / (1.0 + libm::exp(-log_odds));
        let weights = if is_ill {
            [0.15, 0.35, 0.5]
        } else {
            [0.75, 0.2, 0.05]
        };
        let illness = f64::from(u8::from(is_ill));
        let fever = illness * (1.7 - 0.015 * (age - 20.0));
        [
            age.into(),
            sex.into(),
            smoker.into(),
            choice(["none", "dry", "productive"], weights, generator).into(),
            rounded(36.8 + fever + 0.6 * normal(generator), 1).into(),
            {
                let level = rounded(libm::exp(1.2 + 1.6 * illness + normal(generator)), 1);
                sometimes_missing(level, 0.08, generator).into()
            },
            rounded((7.0 + 2.4 * illness + 2.0 * normal(generator)).max(1.0), 1).into(),
            {
                let saturation = 97.5 - 1.5 * illness + 1.5 * normal(generator);
                let saturation = rounded(saturation.clamp(70.0, 100.0), 1);
                sometimes_missing(saturation, 0.04, generator).into()
            },
            if is_ill { "yes" } else { "no" }.into(),
        ]
    })
}

fn sometimes_missing(value: f64, share: f64, generator: &mut Generator) -> Option<f64> {
    (uniform(generator) >= share).then_some(value)
}

/// One of the names, with these probabilities.
fn choice<const N: usize>(
    names: [&'static str; N],
    probabilities: [f64; N],
    generator: &mut Generator,
) -> &'static str {
    let mut left = uniform(generator);
    for (name, probability) in names.into_iter().zip(probabilities) {
        left -= probability;
        if left < 0.0 {
            return name;
        }
    }
    names[N - 1]
}
