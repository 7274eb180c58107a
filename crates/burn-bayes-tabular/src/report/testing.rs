//! Reports of simulated fits with known distributions, for tests.

use std::sync::Arc;

use burn::module::ParamGroup;
use burn::nn::LinearConfig;
use burn::tensor::{Device, Tensor};
use burn_bayes::FactorPosterior;
use burn_bayes::graph::Layout;
use burn_bayes_data::{Column, Targets};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use super::{FurtherScores, PosteriorSummary, Report, ScoredRows, TrainingCurve};
use crate::predict::{ClassPredictions, Predictions, RealPredictions};
use crate::rows::{RowInputs, Units};
use crate::scores::{Baseline, ConformalScores, Intervals, Scores, ScoresByGroup};

/// Owns everything that a report borrows.
pub(crate) struct Sample {
    pub(crate) title: String,
    pub(crate) target: String,
    pub(crate) training: Vec<TrainingCurve>,
    pub(crate) predictions: Predictions,
    pub(crate) targets: Targets,
    pub(crate) scores: Scores,
    pub(crate) inputs: Option<RowInputs>,
    pub(crate) posterior: Option<PosteriorSummary>,
    pub(crate) baselines: Vec<Baseline>,
    pub(crate) by: Vec<ScoresByGroup>,
    pub(crate) conformal: Vec<ConformalScores>,
}

impl Sample {
    pub(crate) fn new(target: &str, predictions: Predictions, targets: Targets) -> Self {
        Self {
            title: format!("vifa of {target}"),
            target: target.into(),
            training: Vec::new(),
            scores: Scores::of(
                &predictions,
                &targets,
                Intervals::Bootstrapped(&Units::rows(targets.len())),
            )
            .unwrap(),
            predictions,
            targets,
            inputs: None,
            posterior: None,
            baselines: Vec::new(),
            by: Vec::new(),
            conformal: Vec::new(),
        }
    }

    pub(crate) fn with_training(mut self) -> Self {
        let curve = |label: &str, floor: f64| TrainingCurve {
            label: label.into(),
            unit: "loss, nats for each row".into(),
            points: (1..=60)
                .map(|epoch| (epoch, floor + 0.8 * (-0.08 * epoch as f64).exp()))
                .collect(),
        };
        self.training = vec![curve("training loss", 0.21), curve("validation NLL", 0.26)];
        self.posterior = Some(PosteriorSummary::of(&posterior()).unwrap());
        self
    }

    /// With inputs: the first row number is 1, `age` explains the target of a regression, and some towns are missing.
    pub(crate) fn with_inputs(mut self) -> Self {
        let rows = self.targets.len();
        let age: Vec<f64> = match &self.targets {
            Targets::Real(targets) => targets.iter().map(|target| target.round()).collect(),
            Targets::Classes(classes) => classes.iter().map(|&class| class as f64).collect(),
            Targets::Several(_) => (0..self.targets.len()).map(|row| row as f64).collect(),
        };
        let town = |row: usize| ["Oslo", "Rome <b>"].get(row % 3).copied();
        self.inputs = Some(RowInputs::of_columns(vec![
            Column::numbers("age", age),
            Column::categories("town", (0..rows).map(town)),
        ]));
        self
    }

    fn further(&self) -> FurtherScores<'_> {
        FurtherScores {
            baselines: &self.baselines,
            by: &self.by,
            conformal: &self.conformal,
            costs: None,
        }
    }

    pub(crate) fn report(&self) -> Report<'_> {
        Report {
            title: &self.title,
            command: "burn-bayes fit --data rows.csv --target y --model mlp:50,50 --method vifa --rank 8",
            config: "method = \"vifa\"\nrank = 8\nepochs = 60\nlearning_rate = 0.001\n",
            training: &self.training,
            is_sampled: false,
            target: &self.target,
            rows: Some(ScoredRows {
                part: "validation rows",
                predictions: &self.predictions,
                targets: &self.targets,
                scores: &self.scores,
                inputs: self.inputs.as_ref(),
                further: self.further(),
            }),
            diverged: None,
            verdict: None,
            posterior: self.posterior.as_ref(),
        }
    }
}

/// A slightly overconfident classifier whose uncertainty differs between rows: the labels are drawn from
/// flatter probabilities than the predicted ones.
pub(crate) fn classification(names: &[&str], rows: usize, draws: usize) -> Sample {
    const TOO_SURE: f64 = 1.3;
    let mut random = StdRng::seed_from_u64(7);
    let classes = names.len();
    let softmax = |logits: &[f64], sharpness: f64| -> Vec<f64> {
        let powers: Vec<f64> = logits.iter().map(|z| (sharpness * z).exp()).collect();
        let total: f64 = powers.iter().sum();
        powers.iter().map(|power| power / total).collect()
    };
    let mut probabilities = vec![0.0; draws * rows * classes];
    let mut labels = Vec::with_capacity(rows);
    for row in 0..rows {
        let centre: Vec<f64> = (0..classes).map(|_| 2.5 * normal(&mut random)).collect();
        let spread = random.random_range(0.1..2.0);
        let mut honest = vec![0.0; classes];
        for draw in 0..draws {
            let logits: Vec<f64> = centre
                .iter()
                .map(|z| z + spread * normal(&mut random))
                .collect();
            for (sum, p) in honest.iter_mut().zip(softmax(&logits, 1.0)) {
                *sum += p / draws as f64;
            }
            let start = (draw * rows + row) * classes;
            probabilities[start..start + classes].copy_from_slice(&softmax(&logits, TOO_SURE));
        }
        let mut left: f64 = random.random();
        let reached = honest.iter().position(|p| {
            left -= p;
            left < 0.0
        });
        labels.push(reached.unwrap_or(classes - 1));
    }
    let classes: Vec<String> = names.iter().map(ToString::to_string).collect();
    let predictions = ClassPredictions::new(classes, draws, probabilities);
    Sample::new(
        "species",
        Predictions::Classes(predictions),
        Targets::Classes(labels),
    )
}

/// A calibrated classification with faults in one of twenty rows: a measurement is normal with variance 1, and of mean
/// 2 for faults, so that the log-odds of a fault are 2 x − 2 + ln (1/19).
pub(crate) fn rare_faults(rows: usize) -> Sample {
    let mut random = StdRng::seed_from_u64(5);
    let (mut probabilities, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let is_fault = random.random_range(0..20) == 0;
        let x = normal(&mut random) + if is_fault { 2.0 } else { 0.0 };
        let fault = 1.0 / (1.0 + 19.0 * (2.0 - 2.0 * x).exp());
        probabilities.extend([1.0 - fault, fault]);
        labels.push(usize::from(is_fault));
    }
    let predictions = ClassPredictions::new(
        ["sound", "fault"].map(String::from).to_vec(),
        1,
        probabilities,
    );
    Sample::new(
        "state",
        Predictions::Classes(predictions),
        Targets::Classes(labels),
    )
}

/// A calibrated regression: the noise has the stated standard deviation, and the spread of the draws
/// equals the error of their mean.
pub(crate) fn regression(rows: usize, draws: usize) -> Sample {
    let mut random = StdRng::seed_from_u64(11);
    let truth: Vec<f64> = (0..rows)
        .map(|_| 24.0 + 7.0 * normal(&mut random))
        .collect();
    let spread: Vec<f64> = (0..rows).map(|_| random.random_range(0.2..4.0)).collect();
    let centre: Vec<f64> = truth
        .iter()
        .zip(&spread)
        .map(|(value, spread)| value + spread * normal(&mut random))
        .collect();
    let noise_deviation = 1.2;
    let targets = truth
        .iter()
        .map(|value| value + noise_deviation * normal(&mut random))
        .collect();
    let mut means = Vec::with_capacity(draws * rows);
    for _ in 0..draws {
        for row in 0..rows {
            means.push(centre[row] + spread[row] * normal(&mut random));
        }
    }
    let predictions = RealPredictions::new(noise_deviation, draws, means);
    Sample::new(
        "strength, MPa",
        Predictions::Reals(predictions),
        Targets::Real(targets),
    )
}

/// A posterior over three layers with factors of decreasing size, wider from layer to layer.
fn posterior() -> FactorPosterior {
    let device = Device::default();
    let layers = [(5, 8), (8, 8), (8, 3)]
        .map(|(inputs, outputs)| {
            LinearConfig::new(inputs, outputs).init(&device.clone().autodiff())
        })
        .to_vec();
    let layout = Arc::new(Layout::new(&layers, &ParamGroup::all()).unwrap());
    let (rank, weights) = (6, layout.len());
    let mut random = StdRng::seed_from_u64(3);
    let wider = |place: usize| 1.0 + 2.0 * place as f64 / weights as f64;
    let factors: Vec<f64> = (0..rank * weights)
        .map(|index| {
            let size = 0.1 * 0.6f64.powi((index / weights) as i32);
            size * wider(index % weights) * normal(&mut random)
        })
        .collect();
    let variances: Vec<f64> = (0..weights)
        .map(|place| wider(place) * random.random_range(0.001..0.01))
        .collect();
    let tensor = |values: &[f64]| Tensor::<1>::from_floats(values, &device);
    FactorPosterior::covariance(
        layout,
        Tensor::zeros([weights], &device),
        Some(tensor(&factors).reshape([rank, weights])),
        tensor(&variances),
    )
    .unwrap()
}

fn normal(random: &mut StdRng) -> f64 {
    StandardNormal.sample(random)
}
