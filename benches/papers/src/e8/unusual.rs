//! Detection of unusual pictures: a network that knows eight kinds of clothing is asked about the two other kinds, which
//! are near, and about digits, gratings and noise, which are far.
//!
//! Every score is higher for more unusual pictures. Scores of probabilities use all draws; scores of logits and of
//! features use the mean weights, and features are averages of a channel after the last pooling.

use std::sync::Arc;

use burn_bayes::eval::{
    BinaryScores, DrawScore, MahalanobisDistance, NearestFeatures, auroc, average_precision,
    energy_scores, false_positive_rate_at, max_logit_scores,
};
use serde::Serialize;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::jobs::Measures;

use super::fit::{AtMean, TrainedModel};
use super::protocols::{self, PLAIN, Protocol, VIFA};
use super::scores::{UNUSUAL_AUPR, UNUSUAL_AUROC, UNUSUAL_FPR95};
use crate::experiment::{Context, Job, Key};
use crate::images::{Clothing, Parts, Pictures};
use crate::shared::Shared;

/// The sets of unusual pictures, in the order of [`Parts::foreign`].
pub(super) const SETS: [&str; 4] = [
    "8 kinds of clothing, 2 others",
    "8 kinds of clothing, digits",
    "8 kinds of clothing, gratings",
    "8 kinds of clothing, noise",
];
/// The neighbour whose distance is the score of the features.
const NEIGHBOUR: usize = 10;
/// Added to the variances of the features, in units of their mean.
const RIDGE: f64 = 1e-3;

/// What a picture is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) enum UnusualScore {
    LeastConfidence,
    Entropy,
    MutualInformation,
    Disagreement,
    MaximumLogit,
    Energy,
    Mahalanobis,
    NearestFeatures,
}

impl UnusualScore {
    const ALL: [Self; 8] = [
        Self::LeastConfidence,
        Self::Entropy,
        Self::MutualInformation,
        Self::Disagreement,
        Self::MaximumLogit,
        Self::Energy,
        Self::Mahalanobis,
        Self::NearestFeatures,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::LeastConfidence => "maximum probability",
            Self::Entropy => "entropy",
            Self::MutualInformation => "mutual information",
            Self::Disagreement => "disagreement",
            Self::MaximumLogit => "maximum logit",
            Self::Energy => "energy",
            Self::Mahalanobis => "Mahalanobis distance",
            Self::NearestFeatures => "nearest features",
        }
    }

    fn needs_draws(self) -> bool {
        matches!(self, Self::MutualInformation | Self::Disagreement)
    }

    /// The row of the table.
    pub(super) fn row(self, method: &str) -> String {
        format!("{method}, {}", self.name())
    }
}

/// The measures of every score of every set.
type Found = Vec<(UnusualScore, &'static str, Measures)>;

/// A job for every set and score; those of a fit share it.
pub(super) fn jobs(context: &Context, clothing: &Arc<Shared<Clothing>>) -> Result<Vec<Job>> {
    let counts = protocols::counts(context.effort);
    let mut fits = Vec::new();
    for method in [PLAIN, VIFA] {
        // A fit is repeated in every process that has a job of it: a single seed keeps `--quick` short.
        for seed in 0..context.effort.choose(5, 1) {
            let protocol = Protocol::kinds(method, context.effort, seed);
            let clothing = clothing.clone();
            let found = Shared::new(move || {
                let parts = clothing.get()?.kinds(counts, seed)?;
                detected(&parts, &protocol)
            });
            fits.push((method, seed, protocol, found));
        }
    }
    let mut jobs = Vec::new();
    for set in SETS {
        for (method, seed, protocol, found) in &fits {
            let scores = UnusualScore::ALL.into_iter();
            for score in scores.filter(|score| *method == VIFA || !score.needs_draws()) {
                let key = Key {
                    case: set.into(),
                    method: score.row(method),
                    seed: *seed,
                };
                let found = found.clone();
                let work = move || {
                    let found = found.get()?;
                    let mut found = found.iter();
                    let of_job = found.find(|(of, in_set, _)| (*of, *in_set) == (score, set));
                    Ok(of_job.map_or_else(Measures::new, |(_, _, measures)| measures.clone()))
                };
                jobs.push(Job::new(key, &(protocol, set, score), work)?);
            }
        }
    }
    Ok(jobs)
}

/// Fits once, and compares the scores of the test pictures with those of every set.
fn detected(parts: &Parts, protocol: &Protocol) -> Result<Found> {
    let model = protocol.base.run(&parts.train)?;
    let judge = Judge::of(&model, &parts.train, protocol.test_draws)?;
    let known = judge.scores(&parts.test)?;
    let mut found = Vec::new();
    for (set, pictures) in SETS.into_iter().zip(&parts.foreign) {
        let unusual = judge.scores(pictures)?;
        for ((score, known), (_, unusual)) in known.iter().zip(&unusual) {
            let ranked = BinaryScores::separating(known, unusual)?;
            let measures = Measures::from([
                (UNUSUAL_AUROC.into(), auroc(&ranked)),
                (UNUSUAL_AUPR.into(), average_precision(&ranked)),
                (UNUSUAL_FPR95.into(), false_positive_rate_at(&ranked, 0.95)?),
            ]);
            found.push((*score, set, measures));
        }
    }
    Ok(found)
}

/// A model, and the features of its training pictures.
struct Judge<'a> {
    model: &'a TrainedModel,
    draws: usize,
    distance: MahalanobisDistance,
    nearest: NearestFeatures,
}

impl<'a> Judge<'a> {
    fn of(model: &'a TrainedModel, train: &Pictures, draws: usize) -> Result<Self> {
        let AtMean {
            features, columns, ..
        } = model.at_mean(train)?;
        Ok(Self {
            model,
            draws,
            distance: MahalanobisDistance::fit(&features, &train.classes, columns, RIDGE)?,
            nearest: NearestFeatures::fit(&features, columns, NEIGHBOUR)?,
        })
    }

    /// Every score that the model has, of every picture.
    fn scores(&self, pictures: &Pictures) -> Result<Vec<(UnusualScore, Vec<f64>)>> {
        let draws = self.model.predict(pictures, self.draws)?;
        let AtMean {
            logits, features, ..
        } = self.model.at_mean(pictures)?;
        let (rows, classes) = (draws.rows(), draws.classes());
        let scores = UnusualScore::ALL.into_iter();
        let scores = scores.filter(|score| draws.draws() > 1 || !score.needs_draws());
        let of_pictures = scores.map(|score| {
            let values = match score {
                UnusualScore::LeastConfidence => DrawScore::LeastConfidence.of(&draws),
                UnusualScore::Entropy => DrawScore::PredictiveEntropy.of(&draws),
                UnusualScore::MutualInformation => DrawScore::MutualInformation.of(&draws),
                UnusualScore::Disagreement => DrawScore::ModelDisagreement.of(&draws),
                UnusualScore::MaximumLogit => max_logit_scores(&logits, rows, classes)?,
                UnusualScore::Energy => energy_scores(&logits, rows, classes)?,
                UnusualScore::Mahalanobis => self.distance.scores(&features)?,
                UnusualScore::NearestFeatures => self.nearest.scores(&features)?,
            };
            Ok((score, values))
        });
        of_pictures.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Effort;

    #[test]
    fn noise_is_told_from_known_pictures_by_every_score_of_features() {
        let [train, valid, test, same] = [0, 1, 2, 3].map(|seed| Pictures::bright_halves(64, seed));
        let noise = Pictures::noise(train.shape, 64, 5);
        let parts = Parts {
            foreign: vec![same, noise],
            train,
            valid,
            test,
        };
        let mut protocol = Protocol::kinds(VIFA, Effort::Quick, 0);
        protocol.base.classes = 2;
        protocol.base.epochs = 8;
        protocol.test_draws = 4;
        let found = detected(&parts, &protocol).unwrap();
        assert_eq!(found.len(), 2 * UnusualScore::ALL.len());
        for (score, set, measures) in &found {
            let area = measures[UNUSUAL_AUROC];
            let rate = measures[UNUSUAL_FPR95];
            assert!((0.0..=1.0).contains(&rate), "{score:?} {set}");
            // Two sets of 64 pictures of the same kind: four standard errors of the area, √(129/(12 · 64²)).
            if *set == SETS[0] {
                assert!((area - 0.5).abs() < 4.0 * 0.051, "{score:?}: {area}");
            }
        }
        let far = |wanted: UnusualScore| {
            let mut found = found.iter();
            let found = found.find(|(score, set, _)| *score == wanted && *set == SETS[1]);
            found.unwrap().2[UNUSUAL_AUROC]
        };
        assert!(far(UnusualScore::Mahalanobis) > 0.9);
    }
}
