//! The code in the book's chapters on contributed methods.

use burn::nn::{Linear, LinearConfig};
use burn_bayes::BayesianConfig;

use crate::support::autodiff;

const TRAIN_LEN: usize = 60_000;

fn model() -> Linear {
    LinearConfig::new(3, 2).init(&autodiff())
}

#[test]
fn nagvac_wraps_a_model() {
    let (train_len, model) = (TRAIN_LEN, model());
    // ANCHOR: nagvac
    use burn_bayes_contrib::methods::NagvacConfig;

    let bayesian = BayesianConfig::new(train_len, NagvacConfig::new()).init(model);
    // ANCHOR_END: nagvac
    assert!(bayesian.try_posterior().is_ok());
}

#[test]
fn factor_analysis_wraps_a_model() {
    let (train_len, model) = (TRAIN_LEN, model());
    // ANCHOR: factor_analysis
    use burn_bayes_contrib::methods::FactorAnalysisConfig;

    // Iterates from step 1000 on.
    let bayesian = BayesianConfig::new(train_len, FactorAnalysisConfig::new(1000)).init(model);
    // ANCHOR_END: factor_analysis
    assert!(bayesian.try_posterior().unwrap_err().is_too_early());
}

#[test]
fn averages_of_windows_wrap_a_model() {
    let (train_len, model) = (TRAIN_LEN, model());
    // ANCHOR: iterate_averaging
    use burn_bayes_contrib::methods::IterateAveragingConfig;

    // Windows of 469 steps, an epoch, from step 1000 on.
    let windows = IterateAveragingConfig::new(1000, 469);
    let bayesian = BayesianConfig::new(train_len, windows).init(model);
    // ANCHOR_END: iterate_averaging
    assert!(bayesian.try_posterior().unwrap_err().is_too_early());
}

#[test]
fn a_batch_ensemble_wraps_a_model() {
    let (train_len, model) = (TRAIN_LEN, model());
    // ANCHOR: batch_ensemble
    use burn_bayes_contrib::methods::BatchEnsembleConfig;

    let bayesian = BayesianConfig::new(train_len, BatchEnsembleConfig::new(4)).init(model);
    // ANCHOR_END: batch_ensemble
    assert_eq!(bayesian.posterior().weights(), [0.25; 4]);
}
