//! A simulated classifier that is accurate but overconfident, and whose draws disagree on its
//! errors.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Number of classes.
pub(crate) const CLASSES: usize = 3;
/// Number of draws per prediction.
pub(crate) const DRAWS: usize = 20;
/// Factor by which the logits of the classifier are too large.
const OVERCONFIDENCE: f64 = 1.8;

/// Logits of every draw, row-major, and the true classes.
#[derive(Debug)]
pub(crate) struct Simulation {
    /// `[draws × rows × classes]`.
    pub(crate) logits: Vec<f64>,
    /// One class per row.
    pub(crate) labels: Vec<usize>,
}

/// Predictions of `rows` rows. Each row has true logits, from which its label is drawn, and a
/// difficulty, which scales both the classifier's error and the spread of its draws.
pub(crate) fn simulate(rows: usize, seed: u64) -> Simulation {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut normal = move |size: f64| -> f64 {
        let standard: f64 = StandardNormal.sample(&mut generator);
        size * standard
    };
    let mut coins = Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::MAX);
    let (mut logits, mut labels) = (vec![0.0; DRAWS * rows * CLASSES], Vec::with_capacity(rows));
    for row in 0..rows {
        let difficulty = normal(1.0).abs();
        let truth: Vec<f64> = (0..CLASSES).map(|_| normal(4.0)).collect();
        labels.push(drawn_class(&truth, coins.random()));
        let centre: Vec<f64> = truth
            .iter()
            .map(|logit| logit + normal(difficulty))
            .collect();
        for table in logits.chunks_exact_mut(rows * CLASSES) {
            let drawn = &mut table[row * CLASSES..][..CLASSES];
            for (logit, centre) in drawn.iter_mut().zip(&centre) {
                *logit = OVERCONFIDENCE * (centre + normal(difficulty));
            }
        }
    }
    Simulation { logits, labels }
}

/// The class sampled from a softmax with a uniform number.
fn drawn_class(logits: &[f64], uniform: f64) -> usize {
    let weights: Vec<f64> = logits.iter().map(|logit| logit.exp()).collect();
    let mut left = uniform * weights.iter().sum::<f64>();
    weights
        .iter()
        .position(|weight| {
            left -= weight;
            left < 0.0
        })
        .unwrap_or(CLASSES - 1)
}
