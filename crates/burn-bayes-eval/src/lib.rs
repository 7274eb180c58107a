//! Scores of probabilistic predictions, from plain slices to plain `f64` numbers.
//!
//! A Bayesian model returns several **draws** of a prediction. This crate measures the quality and
//! the calibration of such predictions. It does not depend on a tensor library: probabilities and
//! means are row-major `f64` slices, which a view type checks once; scores of a view are functions
//! that cannot fail on its data.
//!
//! | Question | Where |
//! |---|---|
//! | How good are the class probabilities? | [`nll`], [`brier`], [`accuracy`], [`ConfusionMatrix`] |
//! | Are the confidences calibrated? | [`ReliabilityDiagram`], [`classwise_calibration_error`] |
//! | How can a trained model be recalibrated? | [`Temperature`], [`most_likely_noise_precision`] |
//! | How uncertain is the prediction for a row, and why? | [`predictive_entropy`], [`mutual_information`], [`model_disagreement`], … |
//! | What is gained by referring uncertain rows (abstention)? | [`referral_table`], [`RiskCoverage`], with a guarantee [`SelectiveBounds`] |
//! | Does a score separate known from unknown inputs? | [`auroc`], [`average_precision`], [`false_positive_rate_at`] |
//! | How good are real-valued predictive distributions? | [`rmse`], [`mixture_nll`], [`crps`], [`PredictionIntervals`], [`QuantileCalibration`] |
//! | Which predictions cannot be ruled out, with a coverage guarantee? | [`ConformalLac`], [`ConformalAps`], [`ConformalResidual`], … |
//! | How uncertain is a score? Is another method better? | [`Bootstrap`], [`paired_t_test`], [`wilcoxon_signed_rank`], [`mcnemar`] |
//! | Is an approximate posterior close enough to the true one? | [`ParetoSmoothing`], over many simulated data sets [`SimulationBasedCalibration`] |
//! | How should the components of a mixture be weighted, and do they disagree? | [`likelihood_weights`], [`stacking_weights`], [`MemberDisagreement`] |
//! | Have repeated runs or chains converged to the same distribution? | [`Chains`] |
//!
//! Bad input (a wrong length, a probability of NaN, a label out of range) is an [`EvalError`] that
//! names the draw, row and column, counted from 0; nothing here panics on data. All logarithms are
//! natural, so all information is in nats.
//!
//! # Example
//!
//! ```
//! use burn_bayes_eval::{DrawProbabilities, LabelledProbabilities};
//!
//! // Two draws of the class probabilities of three rows with two classes.
//! let values = [
//!     0.9, 0.1, 0.2, 0.8, 0.5, 0.5, // draw 0
//!     0.7, 0.3, 0.4, 0.6, 0.9, 0.1, // draw 1
//! ];
//! let draws = DrawProbabilities::new(&values, 2, 3, 2)?;
//! let average = draws.average();
//! let labelled = LabelledProbabilities::new(&average, &[0, 1, 1])?;
//!
//! assert!((burn_bayes_eval::accuracy(&labelled) - 2.0 / 3.0).abs() < 1e-15);
//! let disagreement = burn_bayes_eval::model_disagreement(&draws);
//! assert!(disagreement[2] > disagreement[0]); // the draws differ most about row 2
//! # Ok::<(), burn_bayes_eval::EvalError>(())
//! ```

mod beta;
mod binomial;
mod bootstrap;
mod calibration;
mod chains;
mod check;
mod classification;
mod conformal;
mod conformal_residuals;
mod conformal_sets;
mod confusion;
mod crps;
mod distribution;
mod draw_probabilities;
mod error;
mod intervals;
mod labelled;
mod member_disagreement;
mod mixture;
mod mixture_weights;
mod noise_precision;
mod normal;
mod order;
mod paired;
mod pareto_smoothing;
mod probabilities;
mod quantile_calibration;
mod random;
mod ranking;
mod referral;
mod regression;
mod risk_coverage;
mod roots;
mod selective_bounds;
mod simulation_based_calibration;
mod temperature;
mod uncertainty;
mod uniform_counts;

pub use bootstrap::{Bootstrap, ScoreInterval};
pub use calibration::{ReliabilityBin, ReliabilityDiagram, classwise_calibration_error};
pub use chains::Chains;
pub use classification::{accuracy, brier, brier_losses, log_losses, nll, zero_one_losses};
pub use conformal::conformal_threshold;
pub use conformal_residuals::{ConformalNormalisedResidual, ConformalResidual};
pub use conformal_sets::{ConformalAps, ConformalLac, ConformalRandomisedAps, PredictionSets};
pub use confusion::ConfusionMatrix;
pub use crps::{crps, crps_gaussian, crps_losses};
pub use draw_probabilities::DrawProbabilities;
pub use error::EvalError;
pub use intervals::{PredictionIntervals, quantiles};
pub use labelled::LabelledProbabilities;
pub use member_disagreement::MemberDisagreement;
pub use mixture::{GaussianMixture, NoisePrecision, TargetScale, TargetedMixture};
pub use mixture_weights::{likelihood_weights, stacking_weights};
pub use noise_precision::most_likely_noise_precision;
pub use paired::{
    McNemarTest, PairedLosses, PairedTest, mcnemar, paired_t_test, wilcoxon_signed_rank,
};
pub use pareto_smoothing::ParetoSmoothing;
pub use probabilities::ClassProbabilities;
pub use quantile_calibration::{QuantileCalibration, QuantilePoint, pit_values};
pub use random::uniforms;
pub use ranking::{
    BinaryScores, auroc, average_precision, false_positive_rate_at, one_vs_rest_auroc,
};
pub use referral::{
    ReferralRow, ReferralScore, SelectedRow, Selection, referral_scores, referral_table,
    referral_table_of_class,
};
pub use regression::{joint_log_densities, log_densities, mixture_nll, rmse};
pub use risk_coverage::{OperatingPoint, RiskCoverage, RiskCoveragePoint};
pub use selective_bounds::{BoundedPoint, SelectiveBounds};
pub use simulation_based_calibration::{
    RankBin, RankDeviation, RankEcdf, RankEcdfPoint, SimulationBasedCalibration, posterior_rank,
};
pub use temperature::Temperature;
pub use uncertainty::{
    expected_entropy, least_confidence, max_probability, model_disagreement, mutual_information,
    predictive_entropy, variation_ratio,
};
