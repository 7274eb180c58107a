//! Predictions of a trained model, as arrays and as a table.

mod draws;
mod selection;
mod table;
mod uncertainty;

pub(crate) use draws::members_of_draws;
pub use draws::{ClassPredictions, NoiseDeviations, Predictions, RealPredictions};
pub(crate) use selection::threshold_at_risk;
pub use table::PredictionTable;
pub(crate) use table::{DEVIATIONS, EPISTEMIC, LABEL, TARGET};
pub use uncertainty::Uncertainty;
