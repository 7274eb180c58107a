//! What a fit says of rows, as numbers and as a table.

mod draws;
mod new_rows;
mod rows;
mod selection;
mod table;
mod uncertainty;

pub use draws::{ClassPredictions, Predictions, RealPredictions};
pub use new_rows::{BadRowsName, NewRows};
pub use rows::{Decision, Piece, Pieces, PredictionRequest, RowPredictor};
pub use selection::threshold_at_risk;
pub use table::{DEVIATIONS, EPISTEMIC, LABEL, PredictionTable, TARGET};
pub use uncertainty::Uncertainty;
