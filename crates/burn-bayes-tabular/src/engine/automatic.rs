//! The method `auto`: one that suits the rows and the other settings.
//!
//! The choice depends on sizes and not on time, so that it is the same on every machine.

use burn_bayes::sampling::Budget;

use super::sampling::OF_PRODUCT;
use super::{linear, weights};
use crate::rows::{Target, TrainingSet};
use crate::settings::{FitSettings, Method, PriorPrecision};

/// The method that fits these rows.
pub(super) fn chosen(training_set: &TrainingSet, settings: &FitSettings) -> Method {
    if settings.method != Method::Auto {
        return settings.method;
    }
    let with = |method| FitSettings {
        method,
        ..settings.clone()
    };
    let dense = match training_set.target() {
        Target::Classes(_) => Method::FullGaussian,
        _ => Method::Exact,
    };
    let is_learned = matches!(settings.prior_precision, PriorPrecision::Learned(_));
    if settings.prior.kernel().is_some() {
        Method::Vifa
    } else if settings.is_linear() && linear::check_dense(training_set, &with(dense)).is_ok() {
        dense
    } else if is_learned || settings.has_any_of(Method::Vifa, Method::Mclmc) {
        Method::Vifa
    } else if settings.has_any_of(Method::Mclmc, Method::Vifa)
        || Budget::new(settings.budget).allows(work(training_set, &with(Method::Mclmc)))
    {
        Method::Mclmc
    } else {
        Method::Slang
    }
}

/// The multiplications of chains.
fn work(training_set: &TrainingSet, sampled: &FitSettings) -> f64 {
    let rows = training_set.rows();
    let weights = weights(sampled, training_set.width(), training_set.target());
    let weights = weights.map_or(f64::INFINITY, |weights| weights as f64);
    OF_PRODUCT * weights * (rows * sampled.chains) as f64 * sampled.epochs(rows) as f64
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

    use super::*;

    fn training_set(rows: usize, targets: Targets, target: Target) -> TrainingSet {
        let values = (0..rows).map(|row| row as f64 / rows as f64);
        let features = Features::new(rows, 1, values.collect()).unwrap();
        TrainingSet::new(&Dataset::new(features, targets).unwrap(), target).unwrap()
    }

    fn numbers(rows: usize) -> TrainingSet {
        let targets = Targets::Real((0..rows).map(|row| (row % 7) as f64).collect());
        training_set(rows, targets, Target::Real(ColumnScale::KEPT))
    }

    #[test]
    fn the_method_follows_from_the_rows_and_what_was_asked_for() {
        let classes = Targets::Classes((0..50).map(|row| row % 2).collect());
        let names = ["a", "b"].map(String::from).to_vec();
        let classes = training_set(50, classes, Target::Classes(names));
        let (few, many) = (numbers(50), numbers(100_000));
        for (rows, text, method) in [
            (&few, "", Method::Mclmc),
            (&classes, "", Method::Mclmc),
            (&many, "", Method::Slang),
            (&many, "chains = 2", Method::Mclmc),
            (&many, "budget = 300", Method::Mclmc),
            (&few, "budget = 0.1", Method::Slang),
            (&few, "model = 'mlp:2000,2000'", Method::Slang),
            (&few, "model = 'linear'", Method::Exact),
            (&classes, "model = 'linear'", Method::FullGaussian),
            (
                &few,
                "model = 'linear'\nlikelihood = 'heteroscedastic'",
                Method::Mclmc,
            ),
            (&few, "prior = 'gp:rbf'", Method::Vifa),
            (&few, "prior_precision = 'learned'", Method::Vifa),
            (&few, "epochs = 10", Method::Vifa),
            (&few, "rank = 3", Method::Vifa),
            (&few, "learning_rate = 0.1", Method::Vifa),
            (&few, "batch_size = 10", Method::Vifa),
            (&few, "patience = 10", Method::Vifa),
            (&few, "model = 'linear'\nsolver = 'gradient'", Method::Vifa),
            (
                &few,
                "draws = 7\nactivation = 'tanh'\nprior_precision = 2.0",
                Method::Mclmc,
            ),
            (&many, "method = 'swag'", Method::Swag),
        ] {
            let settings: FitSettings = toml::from_str(text).unwrap();
            assert_eq!(chosen(rows, &settings), method, "{text}");
        }
    }
}
