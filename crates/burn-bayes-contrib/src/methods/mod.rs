//! Dense references, in double precision on the host.
//!
//! * [`BayesianRidge`]: linear regression with the precisions that maximise the evidence.
//! * [`LogisticRegression`]: the best Gaussian of a logistic regression, by quadrature.

mod bayesian_ridge;
mod full_matrix;
mod logistic_regression;

pub use bayesian_ridge::BayesianRidge;
pub use logistic_regression::{LogisticPosterior, LogisticRegression};
