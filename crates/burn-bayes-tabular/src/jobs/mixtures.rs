//! Mixtures of the best contenders, the methods of a comparison or the trials of a search: the predictive density of a
//! row is the mean of those of the contenders.
//!
//! log p(y) = log (1/M) Σₘ pₘ(y), from the negative log-likelihoods −log pₘ(y) that every run stores for its test rows.
//! The contenders of a mixture are chosen for every fold by their NLL on the other folds of the same repeat, so the test
//! rows do not choose their own mixture.

use burn_bayes::eval::{PairedLosses, resampled_t_test};
use serde::Serialize;

use super::{Record, Summary};
use crate::error::Result;
use crate::order::by_cost;
use burn_bayes::eval::Bounded;

/// Numbers of contenders of a mixture.
const SIZES: [usize; 2] = [2, 3];
/// The measure that chooses.
pub(crate) const NLL: &str = "nll";
/// The minimum number of runs for a test: with few runs, differences may be equal by chance.
pub(crate) const FEWEST_TESTED: usize = 5;

/// The scores of a mixture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixture {
    /// Its name.
    pub name: String,
    /// Number of contenders.
    pub size: usize,
    /// Number of runs with a score.
    pub runs: usize,
    /// Mean NLL.
    pub nll: f64,
    /// Its standard error.
    pub standard_error: Option<f64>,
    /// The mean of its NLL minus that of the best contender, over the runs of both.
    pub difference: f64,
    /// The standard error of the difference.
    pub difference_standard_error: Option<f64>,
    /// The p-value of a corrected resampled t-test of this difference, Bonferroni-corrected.
    pub p_value: Option<f64>,
    /// Mean wall-clock time of all its fits of a run.
    pub seconds: f64,
}

impl Mixture {
    /// The mixtures from the records of each contender, both in the order of runs; `best` is the best contender. None if
    /// the records have no costs of rows.
    pub(crate) fn all(contenders: &[Vec<&Record>], folds: usize, best: usize) -> Result<Vec<Self>> {
        let test_to_train = test_to_train(folds);
        let sizes = SIZES.into_iter().filter(|&size| size <= contenders.len());
        let found = sizes.filter_map(|size| {
            let runs = runs_of(size, contenders, folds);
            let costs: Vec<f64> = runs.iter().map(|run| run.nll).collect();
            let summary = Summary::of_overlapping(&costs, test_to_train);
            summary.map(|summary| (size, runs, summary))
        });
        let found: Vec<_> = found.collect();
        let tests = found.len() as f64;
        let mixture = |(size, runs, summary): (usize, Vec<MixedRun>, Summary)| -> Result<_> {
            let both = runs
                .iter()
                .filter_map(|run| Some((run.nll, *contenders[best][run.run].measures.get(NLL)?)));
            let (mixed, single): (Vec<f64>, Vec<f64>) = both.unzip();
            if mixed.is_empty() {
                return Ok(None);
            }
            let pairs = PairedLosses::new(&mixed, &single)?;
            let difference = Summary::of_overlapping(pairs.differences(), test_to_train);
            let test = resampled_t_test(&pairs, test_to_train)?;
            let test = test.filter(|_| mixed.len() >= FEWEST_TESTED);
            let seconds = runs.iter().map(|run| run.seconds).sum::<f64>() / runs.len() as f64;
            Ok(difference.map(|difference| Self {
                name: format!("mixture of the best {size}"),
                size,
                runs: summary.runs,
                nll: summary.mean,
                standard_error: summary.standard_error,
                difference: difference.mean,
                difference_standard_error: difference.standard_error,
                p_value: test.map(|test| (test.p_value * tests).at_most(1.0)),
                seconds,
            }))
        };
        let mixtures = found.into_iter().map(mixture);
        mixtures.filter_map(Result::transpose).collect()
    }
}

/// The number of test rows of a run divided by that of its training rows, for this number of folds.
pub(crate) fn test_to_train(folds: usize) -> f64 {
    match folds {
        0 | 1 => 0.0,
        _ => 1.0 / (folds as f64 - 1.0),
    }
}

/// A mixture on the test rows of one run.
struct MixedRun {
    run: usize,
    nll: f64,
    seconds: f64,
}

/// The runs whose mixture can be computed.
fn runs_of(size: usize, contenders: &[Vec<&Record>], folds: usize) -> Vec<MixedRun> {
    let count = contenders.iter().map(Vec::len).min().unwrap_or(0);
    let of_run = |run: usize| {
        let chosen = chosen(size, contenders, folds, run)?;
        let records: Vec<&Record> = chosen
            .iter()
            .map(|&contender| contenders[contender][run])
            .collect();
        let costs: Vec<&[f64]> = records.iter().map(|record| &record.row_costs[..]).collect();
        Some(MixedRun {
            run,
            nll: mixed_nll(&costs)?,
            seconds: records.iter().map(|record| record.seconds).sum(),
        })
    };
    (0..count).filter_map(of_run).collect()
}

/// The contenders with the lowest mean NLL on the other folds of the repeat; `None` if too few have scores on all of them.
fn chosen(
    size: usize,
    contenders: &[Vec<&Record>],
    folds: usize,
    run: usize,
) -> Option<Vec<usize>> {
    let repeat = run / folds * folds;
    let others = || (repeat..repeat + folds).filter(move |&other| other != run);
    let mut ranked: Vec<(f64, usize)> = contenders
        .iter()
        .enumerate()
        .filter_map(|(contender, records)| {
            let costs = others().map(|run| records.get(run)?.measures.get(NLL).copied());
            let costs: Option<Vec<f64>> = costs.collect();
            Some((costs?.iter().sum(), contender))
        })
        .collect();
    ranked.sort_by(|one, other| by_cost(one.0, other.0).then(one.1.cmp(&other.1)));
    ranked.truncate(size);
    (ranked.len() == size).then(|| ranked.into_iter().map(|(_, contender)| contender).collect())
}

/// The NLL of a mixture from the costs of rows of its contenders: the mean of −log (1/M) Σₘ exp(−costₘ); `None` without rows, or if numbers of rows differ.
pub fn mixed_nll(costs: &[&[f64]]) -> Option<f64> {
    let rows = costs.first()?.len();
    if rows == 0 || costs.iter().any(|of_contender| of_contender.len() != rows) {
        return None;
    }
    let of_row = |row: usize| {
        let least = costs
            .iter()
            .map(|of_contender| of_contender[row])
            .fold(f64::INFINITY, f64::min);
        let sum: f64 = costs
            .iter()
            .map(|of_contender| (least - of_contender[row]).exp())
            .sum();
        least - (sum / costs.len() as f64).ln()
    };
    Some((0..rows).map(of_row).sum::<f64>() / rows as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Key;

    fn record(run: u64, costs: &[f64]) -> Record {
        let mean = costs.iter().sum::<f64>() / costs.len() as f64;
        Record {
            key: Key {
                case: "rows".into(),
                method: String::new(),
                seed: run,
            },
            settings: serde_json::Value::Null,
            measures: [(NLL.to_string(), mean)].into(),
            row_costs: costs.to_vec(),
            left_out: None,
            seconds: 2.0,
        }
    }

    #[test]
    fn densities_are_averaged() {
        let costs = [[0.5f64, 2.0], [1.5, 0.25]].map(|row| row.map(f64::from));
        let mixed = mixed_nll(&[&costs[0], &costs[1]]).unwrap();
        let density = |row: usize| 0.5 * ((-costs[0][row]).exp() + (-costs[1][row]).exp());
        assert!((mixed + 0.5 * (density(0).ln() + density(1).ln())).abs() < 1e-14);
        // Densities that underflow still have a logarithm.
        assert_eq!(mixed_nll(&[&[2000.0], &[2000.0]]), Some(2000.0));
        assert_eq!(mixed_nll(&[&[1.0], &[]]), None);
        assert_eq!(mixed_nll(&[&[], &[]]), None);
    }

    #[test]
    fn a_fold_does_not_choose_its_own_mixture() {
        // Method 0 is best on fold 0 alone, and method 2 on the others.
        let of = |costs: [f64; 3]| -> Vec<Record> {
            let runs = costs.iter().zip(0..);
            runs.map(|(&cost, run)| record(run, &[cost, cost]))
                .collect()
        };
        let all = [
            of([0.0, 3.0, 3.0]),
            of([1.0, 1.0, 1.0]),
            of([9.0, 0.5, 0.5]),
        ];
        let methods: Vec<Vec<&Record>> = all.iter().map(|runs| runs.iter().collect()).collect();
        assert_eq!(chosen(2, &methods, 3, 0), Some(vec![2, 1]));
        assert_eq!(chosen(2, &methods, 3, 1), Some(vec![1, 0]));
        let mixtures = Mixture::all(&methods, 3, 1).unwrap();
        assert_eq!((mixtures.len(), mixtures[0].runs), (2, 3));
        // Fold 0 mixes densities exp(−9) and exp(−1); the others exp(−1) and exp(−3).
        let mix = |one: f64, other: f64| -(0.5 * ((-one).exp() + (-other).exp())).ln();
        let runs = [mix(9.0, 1.0), mix(1.0, 3.0), mix(1.0, 3.0)];
        let mean = runs.iter().sum::<f64>() / 3.0;
        assert!((mixtures[0].nll - mean).abs() < 1e-14);
        assert!((mixtures[0].difference - (mean - 1.0)).abs() < 1e-14);
        assert_eq!((mixtures[0].p_value, mixtures[0].seconds), (None, 4.0));
    }

    #[test]
    fn runs_without_costs_have_no_mixture() {
        let mut without = record(0, &[1.0]);
        without.row_costs.clear();
        let methods = vec![vec![&without, &without]; 2];
        assert_eq!(Mixture::all(&methods, 2, 0).unwrap(), []);
    }
}
