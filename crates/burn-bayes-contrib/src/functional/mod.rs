//! Gaussian processes: kernels, exact regression, and points at which functions are compared.
//!
//! A [`Kernel`] is the covariance of a function's values. [`GaussianProcess`] is exact regression with it, for up to
//! [`MOST_POINTS`] points, and [`MarginalLikelihood`] finds its parameters. All of it is in double precision on the host.
//!
//! * `points.rs` has points in the space of inputs, `measurement_points.rs` their sources;
//! * `kernel.rs` has kernels, their sums and products, `kernel/base.rs` the formulas, `kernel/expression.rs` their text;
//! * `covariance.rs` factorises covariances without noise, and draws functions;
//! * `regression.rs` has exact regression, `marginal_likelihood.rs` the search for its parameters.

mod covariance;
mod kernel;
mod marginal_likelihood;
mod measurement_points;
mod points;
mod regression;

pub use kernel::Kernel;
pub use marginal_likelihood::MarginalLikelihood;
pub use measurement_points::MeasurementPoints;
pub use points::{MOST_POINTS, Points};
pub use regression::{FunctionPrediction, GaussianProcess, GaussianProcessFit};
