//! E12: LeNet5 on Fashion-MNIST, one posterior and mixtures of ten.

mod lenet;

use std::sync::Arc;

use burn_bayes::eval::{LabelledProbabilities, accuracy, nll};
use burn_bayes::likelihood::Likelihood;
use burn_bayes::{Noise, Supervised};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::experiments::jobs::Computed;
use burn_bayes_tabular::settings::DeviceName;

use super::experiment::{Column, Context, Effort, Experiment, Job, Key, Measures};
use super::findings::{Finding, least_of};
use super::images::{Parts, Pictures};
use super::picture_fit::{Fit, Learned};
use super::results::Results;
use super::sets::{MnistImages, read_mnist};
use super::shared::Shared;
use lenet::LeNet;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "E12",
    title: "LeNet5 on Fashion-MNIST",
    notes: "Scores of test rows; in brackets, beside mean-field and VIFA, those of variational inference and of refined \
            variational inference. `validation` is trained on 50 000 rows and scored on the last 10 000: it chooses the \
            settings. `fashion-mnist` is trained on all 60 000. In training, pictures are shifted by up to one pixel and \
            half of them mirrored; the learning rate falls along half a cosine to a tenth, and for mean-field, VIFA and IVON as the \
            library has it. A mixture is the average of the \
            predictions of independent fits. With `--quick`, 2000 training and 500 test rows.",
    needs: &["fashion_mnist"],
    columns: &[Column::mean(ACCURACY, "accuracy"), Column::mean(NLL, "NLL")],
    published: include_str!("../../published/e12.csv"),
    jobs,
    findings,
};

const ACCURACY: &str = "accuracy";
const NLL: &str = "nll";

const TEST: &str = "fashion-mnist";
const VALIDATION: &str = "fashion-mnist, validation";
const SHORT: &str = "fashion-mnist, short";

const PLAIN: &str = "plain network";
const MEAN_FIELD: &str = "mean-field";
const VIFA: &str = "VIFA K=5";
const SWAG: &str = "SWAG K=10";
const IVON: &str = "IVON";
const LAST_LAYER: &str = "Laplace of the last layer";
const DROPOUT: &str = "dropout, p = .2";
const METHODS: [(&str, Learned); 7] = [
    (PLAIN, Learned::Point),
    (DROPOUT, Learned::Dropout { probability: 0.2 }),
    (LAST_LAYER, Learned::LastLayer { path: LeNet::HEAD }),
    (MEAN_FIELD, Learned::Vifa { rank: 0 }),
    (VIFA, Learned::Vifa { rank: 5 }),
    (IVON, Learned::Ivon),
    (
        SWAG,
        Learned::Swag {
            rank: 10,
            start: 0.7,
        },
    ),
];
/// A stream of random numbers.
const INITIAL_WEIGHTS: u64 = 0x696e_6974;
/// Members of a mixture, by their seeds.
const MEMBERS: u64 = 10;
/// The NLL of ten networks, and of refined variational inference.
const TEN_NETWORKS: f64 = 0.205;
const REFINED: f64 = 0.259;

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let data = context.data.join("fashion_mnist");
    let images = Shared::new(move || read_mnist(&data));
    let cases: &[(&str, [usize; 3])] = match context.effort {
        Effort::Full => &[
            (TEST, [60_000, 0, 10_000]),
            (VALIDATION, [50_000, 10_000, 0]),
        ],
        Effort::Quick => &[(SHORT, [2_000, 0, 500])],
    };
    let mut jobs = Vec::new();
    for &(case, counts) in cases {
        let images = images.clone();
        let parts = Shared::new(move || parts(&*images.get()?, counts));
        for (method, learned) in METHODS {
            // One seed of a validation, and of methods without a mixture.
            let is_mixed = case == TEST && [PLAIN, SWAG].contains(&method);
            for seed in 0..if is_mixed { MEMBERS } else { 1 } {
                let key = Key::new(case, method, seed);
                let fit = Fit {
                    learned,
                    epochs: context.effort.choose(30, 4),
                    batch: 64,
                    rates: [2e-3, 2e-4],
                    mean_rate: None,
                    prior: 1.0,
                    shift: context.effort.choose(1, 0),
                    draws: context.effort.choose(30, 10),
                    seed,
                };
                let parts: Arc<Shared<Parts>> = parts.clone();
                jobs.push(Job::with_row_results(key, &(counts, fit), move || {
                    let parts = parts.get()?;
                    scored(&fit, &parts.train, &parts.test)
                })?);
            }
        }
    }
    Ok(jobs)
}

/// Trains on some pictures, and scores others.
fn scored(fit: &Fit, train: &Pictures, test: &Pictures) -> Result<Computed> {
    let device = DeviceName::host()?.autodiff();
    let classes = train.classes.iter().max().map_or(0, |most| most + 1);
    let dropout = match fit.learned {
        Learned::Dropout { probability } => Some(probability),
        _ => None,
    };
    let noise = Noise::new(fit.seed).fold(INITIAL_WEIGHTS);
    let network = LeNet::new(classes, dropout, noise, &device);
    let network = Supervised::new(network, LeNet::forward, Likelihood::Categorical);
    let probabilities = fit.predictions(network, train, &[test])?.remove(0);
    let average = probabilities.average();
    let labelled = LabelledProbabilities::new(&average, &test.classes)?;
    let costs = test.classes.iter().enumerate();
    let costs = costs.map(|(row, &class)| -average.row(row)[class].max(f64::MIN_POSITIVE).ln());
    Ok(Computed {
        measures: Measures::from([
            (NLL.into(), nll(&labelled)),
            (ACCURACY.into(), accuracy(&labelled)),
        ]),
        row_costs: costs.collect(),
        left_out: None,
    })
}

/// The first training rows, and as scored rows some of those after them or the first test rows.
fn parts(images: &MnistImages, [train, validation, test]: [usize; 3]) -> Result<Parts> {
    let rows = |first: usize, count: usize| (first..first + count).collect::<Vec<_>>();
    let all = &images.train;
    let scored = match validation {
        0 => Pictures::of(&images.test, &rows(0, test), usize::from)?,
        count => Pictures::of(all, &rows(train, count), usize::from)?,
    };
    Parts {
        train: Pictures::of(all, &rows(0, train), usize::from)?,
        valid: scored.clone(),
        test: scored,
        foreign: Vec::new(),
    }
    .standardised()
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let least = |case| {
        let posteriors = [MEAN_FIELD, VIFA, IVON, SWAG].into_iter();
        let found = posteriors.filter_map(|method| results.mean(case, method, NLL));
        least_of(found)
    };
    let mut findings = vec![
        Finding::at_most(
            "the NLL of one posterior is at most that of refined variational inference",
            &[(least(TEST), REFINED)],
        ),
        Finding::falling(
            "2000 rows: the NLL falls from the plain network to the best posterior",
            &[results.mean(SHORT, PLAIN, NLL), least(SHORT)],
        ),
    ];
    for method in [PLAIN, SWAG] {
        let costs: Vec<&[f64]> = results
            .of(TEST, method)
            .map(|record| &record.computed.row_costs[..])
            .collect();
        let nll = mixed_nll(&costs).filter(|_| costs.len() > 1);
        findings.push(Finding::at_most(
            format!(
                "{method}: a mixture of the {} fits has the NLL of ten networks",
                costs.len()
            ),
            &[(nll, TEN_NETWORKS)],
        ));
    }
    findings
}

/// The NLL of a mixture from the costs of rows of its fits: the mean of −log (1/M) Σₘ exp(−costₘ); `None` without rows, or if numbers of rows differ.
fn mixed_nll(costs: &[&[f64]]) -> Option<f64> {
    let rows = costs.first()?.len();
    if rows == 0 || costs.iter().any(|of_fit| of_fit.len() != rows) {
        return None;
    }
    let of_row = |row: usize| {
        let least = costs
            .iter()
            .map(|of_fit| of_fit[row])
            .fold(f64::INFINITY, f64::min);
        let sum: f64 = costs.iter().map(|of_fit| (least - of_fit[row]).exp()).sum();
        least - (sum / costs.len() as f64).ln()
    };
    Some((0..rows).map(of_row).sum::<f64>() / rows as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_learns_where_the_light_is() {
        let [train, test] = [0, 1].map(|seed| Pictures::bright_halves(64, seed));
        for (method, learned) in METHODS {
            let fit = Fit {
                learned,
                epochs: 12,
                batch: 16,
                rates: [5e-3, 1e-3],
                mean_rate: None,
                prior: 1.0,
                shift: 0,
                draws: 3,
                seed: 5,
            };
            let found = scored(&fit, &train, &test).unwrap();
            assert!(found.measures[NLL] < 0.4, "{method} {found:?}");
            let mean = found.row_costs.iter().sum::<f64>() / 64.0;
            assert!((mean - found.measures[NLL]).abs() < 1e-9);
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
}
