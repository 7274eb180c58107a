//! The data sets, and what the papers set for each.

use crate::experiment::{Context, Effort};

/// A data set.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) name: &'static str,
    pub(super) folder: &'static str,
    /// Computed only if it is asked for by name.
    pub(super) is_large: bool,
    /// The epochs of the members of a mixture.
    pub(super) mixture_epochs: usize,
    /// The number of features.
    pub(super) features: usize,
    /// Those with the same value in every row.
    pub(super) constant_features: &'static [usize],
    /// Bounds of log β in SLANG's search, β on the target's own scale.
    pub(super) log_noise: [f64; 2],
    /// Bounds of log α in SLANG's search, from its authors' program.
    pub(super) log_prior: [f64; 2],
    /// SLANG's learning rates.
    pub(super) slang_rate: f64,
    /// The RMSE that SLANG must reach without a search.
    pub(super) untuned_rmse: Option<f64>,
}

impl Set {
    /// Whether it belongs to this run.
    pub(super) fn is_wanted(&self, context: &Context) -> bool {
        if context.effort == Effort::Quick {
            return ["boston", "yacht"].contains(&self.name);
        }
        let is_named = |only: &String| only.contains(self.name);
        !self.is_large || context.only.as_ref().is_some_and(is_named)
    }

    /// Draws in a step of training.
    pub(super) fn draws(&self) -> usize {
        if self.is_large { 2 } else { 4 }
    }
}

const fn small(
    name: &'static str,
    folder: &'static str,
    features: usize,
    log_noise: [f64; 2],
    log_prior: [f64; 2],
    slang_rate: f64,
    untuned_rmse: f64,
) -> Set {
    Set {
        name,
        folder,
        is_large: false,
        mixture_epochs: 400,
        features,
        constant_features: &[],
        log_noise,
        log_prior,
        slang_rate,
        untuned_rmse: Some(untuned_rmse),
    }
}

const fn large(
    name: &'static str,
    folder: &'static str,
    features: usize,
    log_noise: [f64; 2],
    log_prior: [f64; 2],
    slang_rate: f64,
) -> Set {
    Set {
        name,
        folder,
        is_large: true,
        mixture_epochs: 200,
        features,
        constant_features: &[],
        log_noise,
        log_prior,
        slang_rate,
        untuned_rmse: None,
    }
}

pub(super) const SETS: [Set; 8] = [
    small(
        "boston",
        "bostonHousing",
        13,
        [-2.6, -2.2],
        [-2.0, 2.0],
        0.01,
        3.4,
    ),
    small(
        "concrete",
        "concrete",
        8,
        [-3.7, -2.7],
        [-2.0, 2.0],
        0.005,
        5.8,
    ),
    small("energy", "energy", 8, [-0.3, 0.1], [-4.0, 0.0], 0.01, 0.75),
    small("yacht", "yacht", 6, [-1.6, -0.6], [-2.0, 2.0], 0.08, 1.3),
    large("kin8nm", "kin8nm", 8, [4.8, 5.3], [-2.0, 2.0], 0.01),
    Set {
        constant_features: &[8, 11],
        ..large(
            "naval",
            "naval-propulsion-plant",
            16,
            [10.9, 11.4],
            [-4.0, 0.0],
            0.01,
        )
    },
    large("power", "power-plant", 4, [-3.1, -2.5], [-2.0, 2.0], 0.005),
    large(
        "wine",
        "wine-quality-red",
        11,
        [0.8, 1.1],
        [0.0, 4.0],
        0.005,
    ),
];
