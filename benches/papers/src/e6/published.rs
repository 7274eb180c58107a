//! What the papers report: VIFA's Table 1 (NLL and RMSE), SLANG's table of RMSE and log-likelihood.

use crate::experiment::{Figure, Published, row};

use super::protocols::{MEAN_FIELD, SLANG, VIFA};
use super::{NLL, RMSE};

/// Monte-Carlo dropout, which is not computed here.
const DROPOUT: &str = "dropout";

const fn rmse(value: f64, standard_error: Option<f64>) -> Figure {
    Figure {
        measure: RMSE,
        value,
        standard_error,
    }
}

const fn nll(value: f64, standard_error: Option<f64>) -> Figure {
    Figure {
        measure: NLL,
        value,
        standard_error,
    }
}

pub(super) const PUBLISHED: [Published; 26] = [
    row(
        "boston",
        VIFA,
        &[rmse(3.64, Some(0.23)), nll(2.66, Some(0.06))],
    ),
    row(
        "boston",
        SLANG,
        &[rmse(3.21, Some(0.19)), nll(2.58, Some(0.05))],
    ),
    row("boston", MEAN_FIELD, &[rmse(3.43, None), nll(2.66, None)]),
    row(
        "boston",
        DROPOUT,
        &[rmse(2.97, Some(0.19)), nll(2.46, None)],
    ),
    row(
        "concrete",
        VIFA,
        &[rmse(6.77, Some(0.09)), nll(3.34, Some(0.01))],
    ),
    row(
        "concrete",
        SLANG,
        &[rmse(5.58, Some(0.19)), nll(3.13, Some(0.03))],
    ),
    row("concrete", MEAN_FIELD, &[rmse(6.16, None), nll(3.25, None)]),
    row(
        "concrete",
        DROPOUT,
        &[rmse(5.23, Some(0.12)), nll(3.04, None)],
    ),
    row(
        "energy",
        VIFA,
        &[rmse(2.90, Some(0.06)), nll(2.53, Some(0.02))],
    ),
    row(
        "energy",
        SLANG,
        &[rmse(0.64, Some(0.03)), nll(1.12, Some(0.01))],
    ),
    row("energy", MEAN_FIELD, &[rmse(0.97, None), nll(1.45, None)]),
    row(
        "energy",
        DROPOUT,
        &[rmse(1.66, Some(0.04)), nll(1.99, None)],
    ),
    row(
        "yacht",
        VIFA,
        &[rmse(2.51, Some(0.09)), nll(2.36, Some(0.06))],
    ),
    row(
        "yacht",
        SLANG,
        &[rmse(1.08, Some(0.06)), nll(1.88, Some(0.01))],
    ),
    row("yacht", MEAN_FIELD, &[rmse(1.13, None), nll(1.56, None)]),
    row("kin8nm", SLANG, &[rmse(0.08, None), nll(-1.06, None)]),
    row("kin8nm", MEAN_FIELD, &[rmse(0.08, None), nll(-1.07, None)]),
    row("kin8nm", DROPOUT, &[rmse(0.10, None), nll(-0.95, None)]),
    row("naval", SLANG, &[rmse(0.00, None), nll(-4.76, None)]),
    row("naval", MEAN_FIELD, &[rmse(0.00, None), nll(-4.61, None)]),
    row("naval", DROPOUT, &[rmse(0.01, None), nll(-3.80, None)]),
    row(
        "power",
        SLANG,
        &[rmse(4.16, Some(0.04)), nll(2.84, Some(0.01))],
    ),
    row("power", MEAN_FIELD, &[rmse(4.21, None), nll(2.86, None)]),
    row("power", DROPOUT, &[rmse(4.02, Some(0.04)), nll(2.80, None)]),
    row("wine", SLANG, &[rmse(0.65, None), nll(0.97, None)]),
    row("wine", MEAN_FIELD, &[rmse(0.64, None), nll(0.97, None)]),
];
