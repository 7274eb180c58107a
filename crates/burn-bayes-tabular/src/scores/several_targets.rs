//! Scores of several targets: of their joint distribution, and of each target.
//!
//! The targets of a row are independent given a draw, but not under the mixture of all draws. The energy and variogram
//! scores are those of [`JointDraws`], from one sample of the targets for each draw.

use burn_bayes::Noise;
use burn_bayes::eval::JointDraws;
use burn_bayes_data::Targets;
use serde::Serialize;

use super::spec::{Lines, ScoreLine, scores};
use super::{Intervals, Score, Scores, row_costs};
use crate::error::Result;
use crate::predict::{Predictions, RealPredictions, TargetPredictions, mismatched};
use crate::text::shortened;

/// The random seed of the noise in samples of targets.
const SEED: u64 = 1;
/// The order of the variogram score.
const ORDER: f64 = 0.5;

scores! {
    /// All scores of several targets.
    SeveralTargetsScores {
        /// Number of rows.
        rows: usize;
        /// Number of draws of the weights.
        draws: usize;
        /// Mean negative log-likelihood of all targets of a row, in nats; low for accurate, well-calibrated predictions.
        nll: Score = ("Joint NLL", Lower, compared);
        /// Further scores of all targets together.
        #[serde(flatten)]
        joint: JointScores = (each);
        /// The scores of each target.
        targets: Vec<TargetScores> = (each);
    }
}

/// Scores of all targets together, beside the joint negative log-likelihood.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum JointScores {
    /// Of numbers.
    Numbers(JointNumbers),
    /// Of labels.
    Labels(JointLabels),
}

scores! {
    /// Of numbers, in standard deviations of the training targets.
    JointNumbers {
        /// Root mean squared error over rows and targets, in standard deviations of the training targets.
        standardised_rmse: Score = ("Standardised RMSE", Lower, compared);
        /// The continuous ranked probability score of all targets, in standard deviations of the training targets.
        energy_score: Score = ("Energy score", Lower, compared);
        /// Difference between the predicted and the true distances of targets from each other; large for wrong correlations.
        variogram_score: Score = ("Variogram score", Lower);
    }
}

scores! {
    /// Of labels.
    JointLabels {
        /// Fraction of rows with the right class of every label.
        exact_match: Score = ("Exact match", Higher, compared);
        /// Fraction of wrong classes, averaged over rows and labels.
        hamming_loss: Score = ("Hamming loss", Lower, compared);
        /// Area under the ROC curve, averaged over labels.
        macro_auroc: Score = ("Macro AUROC", Higher, compared);
    }
}

impl Lines for JointScores {
    fn lines(&self) -> Vec<ScoreLine> {
        match self {
            Self::Numbers(scores) => scores.lines(),
            Self::Labels(scores) => scores.lines(),
        }
    }
}

impl Lines for Vec<TargetScores> {
    /// Comparisons have the scores of all targets together.
    fn lines(&self) -> Vec<ScoreLine> {
        let of_target = |target: &TargetScores| {
            let (name, mut lines) = (shortened(&target.target, 24), target.scores.lines());
            for line in &mut lines {
                line.title = format!("{name}: {}", line.title);
                line.spec.is_compared = false;
            }
            lines
        };
        self.iter().flat_map(of_target).collect()
    }
}

/// The scores of one of several targets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetScores {
    /// The name of the target.
    pub target: String,
    /// Its scores.
    #[serde(flatten)]
    pub scores: Scores,
}

impl SeveralTargetsScores {
    /// Scores predictions against the columns of true targets.
    pub(super) fn of(
        predictions: &Predictions,
        columns: &Targets,
        intervals: Intervals<'_>,
    ) -> Result<Self> {
        let costs = row_costs(predictions, columns)?;
        let (Predictions::Several(targets), Targets::Several(columns)) = (predictions, columns)
        else {
            return Err(mismatched(predictions));
        };
        let of_targets = targets.iter().zip(columns).map(|(target, column)| {
            Ok(TargetScores {
                target: target.name.clone(),
                scores: Scores::of(&target.predictions, column, intervals)?,
            })
        });
        let of_targets = of_targets.collect::<Result<Vec<_>>>()?;
        let numbers = targets.iter().zip(columns).map(|(target, column)| {
            match (&target.predictions, column) {
                (Predictions::Reals(predictions), Targets::Real(values)) => Some(Numbers {
                    unit: target.unit,
                    predictions,
                    values,
                }),
                _ => None,
            }
        });
        let joint = match numbers.collect::<Option<Vec<_>>>() {
            Some(numbers) => joint_of_numbers(&numbers, intervals)?,
            None => joint_of_labels(targets, columns, &of_targets, intervals)?,
        };
        let [nll] = intervals.of_means([&costs]);
        Ok(Self {
            rows: predictions.rows(),
            draws: predictions.draws(),
            nll,
            joint,
            targets: of_targets,
        })
    }

    /// The error of all targets together, with its name.
    pub(super) fn error(&self) -> (Option<f64>, &'static str) {
        match &self.joint {
            JointScores::Numbers(scores) => (scores.standardised_rmse.value, "RMSE/std"),
            JointScores::Labels(scores) => (scores.hamming_loss.value, "Hamming loss"),
        }
    }
}

/// One of several targets that are numbers.
struct Numbers<'a> {
    unit: f64,
    predictions: &'a RealPredictions,
    values: &'a [f64],
}

fn joint_of_numbers(targets: &[Numbers<'_>], intervals: Intervals<'_>) -> Result<JointScores> {
    let rows = targets[0].values.len();
    let mut squares = vec![0.0; rows];
    for target in targets {
        let means = target.predictions.checked()?.mean();
        let errors = means.iter().zip(target.values).zip(&mut squares);
        for ((mean, value), square) in errors {
            *square += ((mean - value) / target.unit).powi(2) / targets.len() as f64;
        }
    }
    let samples: Vec<Vec<f64>> = (0..)
        .zip(targets)
        .map(|(place, one)| one.samples(place))
        .collect();
    let samples = interleaved(&samples);
    let values = targets.iter().map(|target| {
        let values = target.values.iter();
        values.map(|value| value / target.unit).collect()
    });
    let values = interleaved(&values.collect::<Vec<Vec<f64>>>());
    let draws = targets[0].predictions.draws;
    let joint = JointDraws::new(&samples, &values, draws, rows, targets.len())?;
    let (energies, variograms) = (joint.energy_scores(), joint.variogram_scores(ORDER)?);
    let [mse, energy_score, variogram_score] =
        intervals.of_means([&squares, &energies, &variograms]);
    Ok(JointScores::Numbers(JointNumbers {
        standardised_rmse: mse.root(),
        energy_score,
        variogram_score,
    }))
}

impl Numbers<'_> {
    /// A sample of the target for every draw and row, in units of its standard deviation.
    fn samples(&self, place: u64) -> Vec<f64> {
        let deviations = self.predictions.noise_of_predictions();
        let normals = Noise::new(SEED).row(place).latent(deviations.len());
        let noise = deviations.into_iter().zip(normals);
        let pairs = self.predictions.values.iter().zip(noise);
        let sample = |(mean, (deviation, normal)): (&f64, (f64, f32))| {
            (mean + deviation * f64::from(normal)) / self.unit
        };
        pairs.map(sample).collect()
    }
}

/// The first values of all columns, then their second values, and so on.
fn interleaved(columns: &[Vec<f64>]) -> Vec<f64> {
    let places = 0..columns.first().map_or(0, Vec::len);
    let values = places.flat_map(|place| columns.iter().map(move |column| column[place]));
    values.collect()
}

fn joint_of_labels(
    targets: &[TargetPredictions],
    columns: &[Targets],
    of_targets: &[TargetScores],
    intervals: Intervals<'_>,
) -> Result<JointScores> {
    let mut wrong = vec![0.0; columns.first().map_or(0, Targets::len)];
    let mut areas = Vec::new();
    for (target, column) in targets.iter().zip(columns) {
        let (Predictions::Classes(predictions), Targets::Classes(labels)) =
            (&target.predictions, column)
        else {
            return Err(mismatched(&target.predictions));
        };
        let predicted = predictions.checked()?.average().predicted_classes();
        let pairs = predicted.iter().zip(labels).zip(&mut wrong);
        pairs.for_each(|((predicted, label), wrong)| *wrong += f64::from(predicted != label));
    }
    for target in of_targets {
        if let Scores::Classification(scores) = &target.scores {
            areas.push(scores.auroc.value);
        }
    }
    let count = targets.len() as f64;
    let losses: Vec<f64> = wrong.iter().map(|wrong| wrong / count).collect();
    let hits: Vec<f64> = wrong.iter().map(|&wrong| f64::from(wrong == 0.0)).collect();
    let [exact_match, hamming_loss] = intervals.of_means([&hits, &losses]);
    let areas: Option<Vec<f64>> = areas.into_iter().collect();
    Ok(JointScores::Labels(JointLabels {
        exact_match,
        hamming_loss,
        macro_auroc: match areas {
            Some(areas) => Score::alone(
                areas.iter().sum::<f64>() / count,
                "no interval: it is an average of areas",
            ),
            None => Score::absent("a class of a label has no rows, or all of them"),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::ClassPredictions;

    fn of_target(name: &str, unit: f64, predictions: Predictions) -> TargetPredictions {
        TargetPredictions {
            name: name.into(),
            unit,
            predictions,
        }
    }

    fn scored(predictions: Vec<TargetPredictions>, targets: Vec<Targets>) -> SeveralTargetsScores {
        let predictions = Predictions::Several(predictions);
        let targets = Targets::Several(targets);
        SeveralTargetsScores::of(&predictions, &targets, Intervals::Omitted).unwrap()
    }

    #[test]
    fn numbers_are_scored_in_their_standard_deviations() {
        let reals = |means: [f64; 2], noise: f64| {
            Predictions::Reals(RealPredictions::new(noise, 1, means.to_vec()))
        };
        // With hardly any noise, the energy score of one draw is the distance of the targets.
        let scores = scored(
            vec![
                of_target("a", 1.0, reals([0.0, 1.0], 1e-14)),
                of_target("b", 100.0, reals([0.0, 100.0], 1e-12)),
            ],
            vec![
                Targets::Real(vec![3.0, 1.0]),
                Targets::Real(vec![400.0, 100.0]),
            ],
        );
        let JointScores::Numbers(JointNumbers {
            standardised_rmse,
            energy_score,
            variogram_score,
        }) = &scores.joint
        else {
            panic!("numbers were scored");
        };
        let close = |found: &Score, expected: f64| (found.value.unwrap() - expected).abs() < 1e-6;
        assert!(close(standardised_rmse, (25.0_f64 / 4.0).sqrt()));
        assert!(close(energy_score, 2.5), "{energy_score:?}");
        assert!(close(variogram_score, 0.5), "{variogram_score:?}");
        assert_eq!(scores.error().0, standardised_rmse.value);
        let json = serde_json::to_value(&scores).unwrap();
        assert_eq!(json["targets"][1]["target"], "b");
        assert_eq!(json["targets"][1]["task"], "regression");
        assert!(json["energy_score"]["value"].is_number());
    }

    #[test]
    fn a_row_of_labels_matches_if_all_do() {
        let label = |positive: [f64; 4]| {
            Predictions::Classes(ClassPredictions::new(
                vec!["0".into(), "1".into()],
                1,
                positive.iter().flat_map(|p| [1.0 - p, *p]).collect(),
            ))
        };
        let scores = scored(
            vec![
                of_target("a", 1.0, label([0.9, 0.2, 0.6, 0.3])),
                of_target("b", 1.0, label([0.1, 0.7, 0.8, 0.4])),
            ],
            vec![
                Targets::Classes(vec![1, 0, 0, 0]),
                Targets::Classes(vec![0, 1, 0, 0]),
            ],
        );
        let JointScores::Labels(JointLabels {
            exact_match,
            hamming_loss,
            macro_auroc,
        }) = &scores.joint
        else {
            panic!("labels were scored");
        };
        assert_eq!(exact_match.value, Some(0.75));
        assert_eq!(hamming_loss.value, Some(0.25));
        // The positive row is first of four, and second of four.
        assert_eq!(macro_auroc.value, Some(0.5 * (1.0 + 2.0 / 3.0)));
    }
}
