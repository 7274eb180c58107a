//! Detection of unusual pictures: a network that knows eight kinds of clothing is asked about the two other kinds, which
//! are near, and about digits, gratings and noise, which are far.
//!
//! Every score is higher for more unusual pictures. Scores of probabilities use all draws; scores of logits and of
//! features use the mean weights, and features are averages of a channel after the last pooling.

use std::sync::Arc;

use burn_bayes::eval::{
    BinaryScores, DrawScore, LogitScore, MahalanobisDistance, NearestFeatures, RowOutputs,
    UnusualScore, auroc, average_precision, false_positive_rate_at,
};

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::scores::Measures;

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

/// What a picture is judged by: the names of the scores.
const SCORES: [&str; 8] = [
    "maximum probability",
    "entropy",
    "mutual information",
    "disagreement",
    "maximum logit",
    "energy",
    "Mahalanobis distance",
    "nearest features",
];

/// Whether a score needs more than one draw.
fn needs_draws(score: &str) -> bool {
    score == DrawScore::MutualInformation.name() || score == DrawScore::ModelDisagreement.name()
}

/// The row of a score in the table.
fn row(method: &str, score: &str) -> String {
    format!("{method}, {score}")
}

/// The measures of every score of every set.
type Found = Vec<(&'static str, &'static str, Measures)>;

/// A job for every set and score; those of a fit share it.
pub(super) fn jobs(context: &Context, clothing: &Arc<Shared<Clothing>>) -> Result<Vec<Job>> {
    let counts = protocols::counts(context.effort);
    let mut fits = Vec::new();
    for method in [PLAIN, VIFA] {
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
            let scores = SCORES.into_iter();
            for score in scores.filter(|score| *method == VIFA || !needs_draws(score)) {
                let key = Key::new(set, row(method, score), *seed);
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
    fn scores(&self, pictures: &Pictures) -> Result<Vec<(&'static str, Vec<f64>)>> {
        let draws = self.model.predict(pictures, self.draws)?;
        let AtMean {
            logits,
            features,
            columns,
        } = self.model.at_mean(pictures)?;
        let outputs = RowOutputs::new(&draws)
            .with_logits(&logits)?
            .with_features(&features, columns)?;
        let scores: [&dyn UnusualScore; SCORES.len()] = [
            &DrawScore::LeastConfidence,
            &DrawScore::PredictiveEntropy,
            &DrawScore::MutualInformation,
            &DrawScore::ModelDisagreement,
            &LogitScore::MaximumLogit,
            &LogitScore::Energy,
            &self.distance,
            &self.nearest,
        ];
        let scores = scores.into_iter();
        let scores = scores.filter(|score| draws.draws() > 1 || !needs_draws(score.name()));
        scores
            .map(|score| Ok((score.name(), score.of_outputs(&outputs)?)))
            .collect()
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
        assert_eq!(found.len(), 2 * SCORES.len());
        for (score, set, measures) in &found {
            let area = measures[UNUSUAL_AUROC];
            let rate = measures[UNUSUAL_FPR95];
            assert!((0.0..=1.0).contains(&rate), "{score:?} {set}");
            // Two sets of 64 pictures of the same kind: four standard errors of the area, √(129/(12 · 64²)).
            if *set == SETS[0] {
                assert!((area - 0.5).abs() < 4.0 * 0.051, "{score:?}: {area}");
            }
        }
        let far = |wanted: &str| {
            let mut found = found.iter();
            let found = found.find(|(score, set, _)| *score == wanted && *set == SETS[1]);
            found.unwrap().2[UNUSUAL_AUROC]
        };
        assert!(far("Mahalanobis distance") > 0.9);
    }
}
