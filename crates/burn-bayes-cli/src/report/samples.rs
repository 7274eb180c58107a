//! Reports of simulated fits, with known laws, for tests.

use std::sync::Arc;

use burn::module::ParamGroup;
use burn::nn::LinearConfig;
use burn::tensor::{Device, Tensor};
use burn_bayes::{FactorPosterior, Layout};
use burn_bayes_data::Targets;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use super::{PosteriorSummary, Report, TrainingCurve};
use crate::predictions::{ClassPredictions, Predictions, RealPredictions};
use crate::scores::Scores;

/// Everything that a report borrows.
pub(crate) struct Sample {
    pub(crate) title: String,
    pub(crate) target: String,
    pub(crate) training: Vec<TrainingCurve>,
    pub(crate) predictions: Predictions,
    pub(crate) targets: Targets,
    pub(crate) scores: Scores,
    pub(crate) posterior: Option<PosteriorSummary>,
}

impl Sample {
    pub(crate) fn new(target: &str, predictions: Predictions, targets: Targets) -> Self {
        Self {
            title: format!("vifa of {target}"),
            target: target.into(),
            training: Vec::new(),
            scores: Scores::of(&predictions, &targets).unwrap(),
            predictions,
            targets,
            posterior: None,
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
        self.training = vec![curve("training loss", 0.21), curve("validation loss", 0.26)];
        self.posterior = Some(PosteriorSummary::of(&posterior()).unwrap());
        self
    }

    pub(crate) fn report(&self) -> Report<'_> {
        Report {
            title: &self.title,
            command: "burn-bayes fit --data rows.csv --target y --model mlp:50,50 --method vifa --rank 8",
            config: "method = \"vifa\"\nrank = 8\nepochs = 60\nlearning_rate = 0.001\n",
            training: &self.training,
            part: "validation rows",
            target: &self.target,
            predictions: &self.predictions,
            targets: &self.targets,
            scores: &self.scores,
            posterior: self.posterior.as_ref(),
        }
    }
}

/// A classifier whose logits are right up to noise of its own, which differs from draw to draw more
/// where it knows less.
pub(crate) fn classification(names: &[&str], rows: usize, draws: usize) -> Sample {
    let mut random = StdRng::seed_from_u64(7);
    let classes = names.len();
    let labels: Vec<usize> = (0..rows).map(|_| random.random_range(0..classes)).collect();
    let ignorance: Vec<f64> = (0..rows).map(|_| random.random_range(0.2..2.5)).collect();
    let normal = |random: &mut StdRng| -> f64 { StandardNormal.sample(random) };
    let shared: Vec<f64> = (0..rows * classes).map(|_| normal(&mut random)).collect();
    let mut probabilities = Vec::with_capacity(draws * rows * classes);
    for _ in 0..draws {
        for row in 0..rows {
            let logits: Vec<f64> = (0..classes)
                .map(|class| {
                    let right = if class == labels[row] { 2.4 } else { 0.0 };
                    let noise = shared[row * classes + class] + 0.8 * normal(&mut random);
                    right + ignorance[row] * noise
                })
                .collect();
            let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
            probabilities.extend(logits.iter().map(|logit| logit.exp() / total));
        }
    }
    let classes = names.iter().map(ToString::to_string).collect();
    let predictions = ClassPredictions {
        classes,
        draws,
        probabilities,
    };
    Sample::new(
        "species",
        Predictions::Classes(predictions),
        Targets::Classes(labels),
    )
}

/// A regression whose noise has the stated deviation, and whose draws differ as much as they err.
pub(crate) fn regression(rows: usize, draws: usize) -> Sample {
    let mut random = StdRng::seed_from_u64(11);
    let normal = |random: &mut StdRng| -> f64 { StandardNormal.sample(random) };
    let truth: Vec<f64> = (0..rows)
        .map(|_| 24.0 + 7.0 * normal(&mut random))
        .collect();
    let spread: Vec<f64> = (0..rows).map(|_| random.random_range(0.3..3.5)).collect();
    let centre: Vec<f64> = truth
        .iter()
        .zip(&spread)
        .map(|(value, spread)| value + spread * normal(&mut random))
        .collect();
    let noise_deviation = 1.8;
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
    let predictions = RealPredictions {
        draws,
        means,
        noise_deviation,
    };
    Sample::new(
        "strength, MPa",
        Predictions::Reals(predictions),
        Targets::Real(targets),
    )
}

/// A posterior over 40 weights and 8 biases with factors of falling size.
pub(crate) fn posterior() -> FactorPosterior {
    let device = Device::default();
    let layer = LinearConfig::new(5, 8).init(&device.clone().autodiff());
    let layout = Arc::new(Layout::new(&layer, &ParamGroup::all()).unwrap());
    let (rank, weights) = (6, layout.len());
    let mut random = StdRng::seed_from_u64(3);
    let factors: Vec<f32> = (0..rank * weights)
        .map(|index| {
            let size = 0.3 * 0.6f32.powi((index / weights) as i32);
            let normal: f32 = StandardNormal.sample(&mut random);
            size * normal
        })
        .collect();
    let variances: Vec<f32> = (0..weights)
        .map(|_| random.random_range(0.0005..0.01))
        .collect();
    let factors = Tensor::<1>::from_floats(factors.as_slice(), &device).reshape([rank, weights]);
    FactorPosterior::covariance(
        layout,
        Tensor::zeros([weights], &device),
        Some(factors),
        Tensor::from_floats(variances.as_slice(), &device),
    )
    .unwrap()
}
