//! Predictions of a trained model, as arrays and as a table.

mod conformal;
mod conformal_targets;
mod cost_rule;
mod draws;
#[cfg(test)]
mod guarantees;
mod held_out;
mod known;
mod numbers;
mod recalibration;
mod samples;
mod selection;
mod table;
mod uncertainty;

pub(crate) use conformal::{Conformal, HALF_LIFE, HeldOutColumns};
pub use conformal::{ConformalRequest, SetMethod};
pub use conformal_targets::ConformalTargets;
pub use cost_rule::CostRule;
pub(crate) use cost_rule::classes;
pub use draws::{
    ClassPredictions, CountPredictions, Dispersions, DrawPredictions, Kind, MixtureWeights,
    NoiseDeviations, NumberNoise, Predictions, RealPredictions, TargetPredictions,
};
pub(crate) use draws::{members, mismatched};
pub(crate) use known::Known;
pub(crate) use numbers::{Moments, NumberMixture};
pub use recalibration::Recalibration;
pub use samples::SampleTable;
pub(crate) use selection::{Abstention, threshold_at_risk};
pub use table::PredictionTable;
pub(crate) use table::{
    DEVIATIONS, EPISTEMIC, LABEL, MEAN, TARGET, column_name, probability_column,
};
pub use uncertainty::Uncertainty;
