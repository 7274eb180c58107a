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
//! | Are the confidences calibrated? | [`ReliabilityDiagram`], [`smooth_calibration_error`], [`classwise_calibration_error`], [`top_label_calibration_error`], … |
//! | Are they calibrated in every subgroup? | [`subgroup_calibration`] |
//! | How can a trained model be recalibrated? | [`Temperature`], [`DrawTemperature`], for regression [`VarianceScaling`] |
//! | How uncertain is the prediction for a row, and why? | [`predictive_entropy`], [`mutual_information`], [`model_disagreement`], … |
//! | What is gained by referring uncertain rows (abstention)? | [`referral_table`], [`RiskCoverage`], for regression [`ause`], with a guarantee [`SelectiveBounds`] |
//! | Which decision costs least? | [`DecisionCosts`] |
//! | Does a score separate known from unknown inputs? | [`auroc`], [`average_precision`], [`false_positive_rate_at`]; scores behind one interface, [`UnusualScore`]: [`DrawScore`], [`LogitScore`], [`MahalanobisDistance`], [`NearestFeatures`] |
//! | How good are real-valued predictive distributions? | [`rmse`], [`mixture_nll`], [`crps`], [`winkler_scores`], of several targets [`JointDraws`] |
//! | How good are predicted counts? | [`CountMixture`], [`log_probabilities`], [`poisson_deviances`], [`randomised_pit_values`] |
//! | Are they calibrated? | [`PredictionIntervals`], [`QuantileCalibration`], [`PitUniformity`], by group [`coverage_by_group`] |
//! | Which predictions cannot be ruled out, with a coverage guarantee? | [`ConformalSets`], [`ConformalNormalisedResidual`], [`ConformalCross`], by group [`Mondrian`] and [`ConformalByClass`], with a drift [`AdaptiveLevel`] and [`weighted_conformal_threshold`] |
//! | How are rows scored that do not fit into memory? | [`ClassificationTotals`], [`RankingTotals`], [`PatchTotals`] |
//! | How uncertain is a score? Is another method better? | [`Bootstrap`], [`resampled_t_test`], of several [`holm`], of rows that are not independent [`ClusteredMean`] |
//! | Is an approximate posterior close enough to the true one? | [`ParetoSmoothing`], over many simulated data sets [`SimulationBasedCalibration`] |
//! | Do the members of an ensemble disagree? | [`MemberDisagreement`] |
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

mod bounded;
mod calibration;
mod check;
mod classification;
mod comparison;
mod conformal;
mod counts;
mod error;
mod order;
mod out_of_distribution;
mod posterior;
mod random;
mod recalibration;
mod regression;
mod selective;
mod special;
mod streaming;
mod uncertainty;
mod views;

pub use bounded::Bounded;
pub use calibration::{
    PitUniformity, QuantileCalibration, QuantilePoint, ReliabilityBin, ReliabilityDiagram,
    SubgroupCalibration, adaptive_calibration_error, classwise_calibration_error, pit_values,
    smooth_calibration_error, subgroup_calibration, top_label_calibration_error,
};
pub use classification::{
    BinaryScores, ConfusionMatrix, PrecisionRecall, accuracy, auroc, average_precision, brier,
    brier_losses, false_positive_rate_at, log_losses, nll, one_vs_rest_auroc, precision_recall,
    zero_one_losses,
};
pub use comparison::{
    Bootstrap, ClusteredMean, PairedLosses, PairedTest, ScoreInterval, holm, resampled_t_test,
};
pub use conformal::{
    AdaptiveLevel, ConformalByClass, ConformalCross, ConformalNormalisedResidual, ConformalSets,
    GroupCoverage, Mondrian, PredictionSets, RankPenalty, SetScore, conformal_coverage_by_group,
    conformal_threshold, coverage_by_group, equal_mass_groups, weighted_conformal_threshold,
};
pub use counts::{
    CountMixture, TargetedCounts, log_probabilities, poisson_deviances, randomised_pit_values,
};
pub use error::EvalError;
pub use out_of_distribution::{
    DrawScore, LogitScore, MahalanobisDistance, NearestFeatures, RowOutputs, UnusualScore,
};
pub use posterior::{
    Chains, ParetoSmoothing, RankBin, RankDeviation, RankEcdf, RankEcdfPoint,
    SimulationBasedCalibration, posterior_rank,
};
pub use random::uniforms;
pub use recalibration::{
    DrawTemperature, HeldOut, RowView, Temperature, VarianceScaling, most_likely_noise_precision,
};
pub use regression::{
    JointDraws, PredictionIntervals, crps, crps_losses, joint_log_densities, log_densities,
    mixture_nll, quantiles, rmse, winkler_scores,
};
pub use selective::{
    Action, BoundedPoint, CostedAction, DecisionCosts, OperatingPoint, ReferralRow, ReferralScore,
    RiskCoverage, RiskCoveragePoint, SelectedRow, Selection, SelectiveBounds, SparsificationError,
    ause, referral_scores, referral_table, referral_table_of_class,
};
pub use streaming::{
    BoundedAuroc, ClassificationScores, ClassificationTotals, PatchTotals, RankingTotals,
};
pub use uncertainty::{
    MemberDisagreement, expected_entropy, least_confidence, max_probability, model_disagreement,
    mutual_information, predictive_entropy, variation_ratio,
};
pub use views::{
    ClassProbabilities, DrawProbabilities, GaussianMixture, LabelledDraws, LabelledProbabilities,
    NoisePrecision, TargetScale, TargetedMixture,
};
