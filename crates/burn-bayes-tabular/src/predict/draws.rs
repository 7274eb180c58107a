//! Predictions under draws of the weights.

use burn_bayes::eval::{DrawProbabilities, GaussianMixture, NoisePrecision};

use super::{CountPredictions, Moments};
use crate::error::{Result, TabularError};
use crate::rows::Target;

/// The predictions of rows under every draw.
#[derive(Clone, Debug)]
pub enum Predictions {
    /// Predictions of a classification.
    Classes(ClassPredictions),
    /// Predictions of a regression.
    Reals(RealPredictions),
    /// Predictions of counts.
    Counts(CountPredictions),
    /// Predictions of several targets by the same draws, at least two.
    Several(Vec<TargetPredictions>),
}

/// The predictions of one of several targets.
#[derive(Clone, Debug)]
pub struct TargetPredictions {
    /// The name of the target.
    pub name: String,
    /// The standard deviation by which the target was standardised, in which errors of several targets are averaged; 1
    /// for labels, and for targets that were not standardised.
    pub unit: f64,
    /// Its predictions.
    pub predictions: Predictions,
}

/// Class probabilities for every draw and row.
#[derive(Clone, Debug)]
pub struct ClassPredictions {
    /// The names of the classes, in the order of the probabilities.
    pub classes: Vec<String>,
    /// The number of draws.
    pub draws: usize,
    /// The number of draws of each member of an ensemble, in this order; of a single model, all.
    pub members: Vec<usize>,
    /// `[draws, rows, classes]`, row-major.
    pub probabilities: Vec<f64>,
}

/// Means for every draw and row, and the standard deviations of the observation noise.
#[derive(Clone, Debug)]
pub struct RealPredictions {
    /// The number of draws.
    pub draws: usize,
    /// The number of draws of each member of an ensemble, in this order; of a single model, all.
    pub members: Vec<usize>,
    /// `[draws, rows]`, row-major, on the target's own scale.
    pub means: Vec<f64>,
    /// The standard deviations of the noise, on the target's own scale.
    pub noise: NoiseDeviations,
}

/// Standard deviations of observation noise.
#[derive(Clone, Debug, PartialEq)]
pub enum NoiseDeviations {
    /// One for all predictions of each member of an ensemble; for a single model, one.
    PerMember(Vec<f64>),
    /// One for every draw and row, `[draws, rows]`, row-major.
    PerPrediction(Vec<f64>),
}

impl Predictions {
    /// The predictions of an ensemble from those of its members for the same rows.
    ///
    /// # Panics
    /// If there are none, or some predict classes and others numbers.
    pub(crate) fn of_members(members: Vec<Self>) -> Self {
        let members = members.into_iter();
        let joined = members.reduce(|mut joined, member| {
            joined.join(member);
            joined
        });
        joined.expect("an ensemble has a member")
    }

    /// Adds the draws of one more member.
    fn join(&mut self, member: Self) {
        match (self, member) {
            (Self::Classes(joined), Self::Classes(mut member)) => {
                joined.draws += member.draws;
                joined.members.append(&mut member.members);
                joined.probabilities.append(&mut member.probabilities);
            }
            (Self::Reals(joined), Self::Reals(mut member)) => {
                joined.draws += member.draws;
                joined.members.append(&mut member.members);
                joined.means.append(&mut member.means);
                joined.noise.append(member.noise);
            }
            (Self::Counts(joined), Self::Counts(mut member)) => {
                joined.draws += member.draws;
                joined.members.append(&mut member.members);
                joined.rates.append(&mut member.rates);
            }
            (Self::Several(joined), Self::Several(member)) => {
                let pairs = joined.iter_mut().zip(member);
                pairs.for_each(|(joined, member)| joined.predictions.join(member.predictions));
            }
            _ => unreachable!("all members predict the same target"),
        }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Classes(predictions) => predictions.rows(),
            Self::Reals(predictions) => predictions.rows(),
            Self::Counts(predictions) => predictions.rows(),
            Self::Several(targets) => {
                let first = targets.first();
                first.map_or(0, |target| target.predictions.rows())
            }
        }
    }

    /// The number of draws.
    pub(crate) fn draws(&self) -> usize {
        match self {
            Self::Classes(predictions) => predictions.draws,
            Self::Reals(predictions) => predictions.draws,
            Self::Counts(predictions) => predictions.draws,
            Self::Several(targets) => {
                let first = targets.first();
                first.map_or(0, |target| target.predictions.draws())
            }
        }
    }

    /// The predictions of one draw.
    pub(crate) fn of_draw(&self, draw: usize) -> Self {
        fn of_draw(values: &[f64], draws: usize, draw: usize) -> Vec<f64> {
            let count = values.len() / draws.max(1);
            values[draw * count..][..count].to_vec()
        }
        let (draws, members) = (1, vec![1]);
        match self {
            Self::Classes(all) => Self::Classes(ClassPredictions {
                classes: all.classes.clone(),
                draws,
                members,
                probabilities: of_draw(&all.probabilities, all.draws, draw),
            }),
            Self::Reals(all) => Self::Reals(RealPredictions {
                draws,
                members,
                means: of_draw(&all.means, all.draws, draw),
                noise: match &all.noise {
                    NoiseDeviations::PerMember(deviations) => {
                        let member = members_of_draws(&all.members).nth(draw).unwrap_or_default();
                        NoiseDeviations::PerMember(vec![deviations[member]])
                    }
                    NoiseDeviations::PerPrediction(deviations) => {
                        NoiseDeviations::PerPrediction(of_draw(deviations, all.draws, draw))
                    }
                },
            }),
            Self::Counts(all) => Self::Counts(CountPredictions {
                draws,
                members,
                rates: of_draw(&all.rates, all.draws, draw),
            }),
            Self::Several(targets) => Self::Several(mapped(targets, |one| one.of_draw(draw))),
        }
    }

    /// The moments of numbers and counts; `None` for classes and several targets, and without rows.
    pub(crate) fn moments(&self) -> Result<Option<Moments>> {
        Ok(match self {
            _ if self.rows() == 0 => None,
            Self::Classes(_) | Self::Several(_) => None,
            Self::Reals(predictions) => Some(Moments::of_numbers(&predictions.checked()?)),
            Self::Counts(predictions) => Some(Moments::of_counts(&predictions.checked()?)),
        })
    }

    /// Predictions of no rows, by two members with a draw each.
    pub(crate) fn none(target: &Target) -> Self {
        let (draws, members) = (2, vec![1, 1]);
        match target {
            Target::Classes(classes) => Self::Classes(ClassPredictions {
                classes: classes.clone(),
                draws,
                members,
                probabilities: Vec::new(),
            }),
            Target::Real(_) => Self::Reals(RealPredictions {
                draws,
                members,
                means: Vec::new(),
                noise: NoiseDeviations::PerPrediction(Vec::new()),
            }),
            Target::Counts { .. } => Self::Counts(CountPredictions {
                draws,
                members,
                rates: Vec::new(),
            }),
            Target::Several(targets) => {
                let none = |(name, target): &(String, Target)| TargetPredictions {
                    name: name.clone(),
                    unit: target.unit(),
                    predictions: Self::none(target),
                };
                Self::Several(targets.iter().map(none).collect())
            }
        }
    }

    /// The predictions of some of the rows.
    pub(crate) fn of_rows(&self, rows: &[usize]) -> Self {
        match self {
            Self::Classes(predictions) => Self::Classes(predictions.of_rows(rows)),
            Self::Reals(predictions) => Self::Reals(predictions.of_rows(rows)),
            Self::Counts(predictions) => Self::Counts(predictions.of_rows(rows)),
            Self::Several(targets) => Self::Several(mapped(targets, |one| one.of_rows(rows))),
        }
    }

    /// The predictions of all rows from those of parts, each with its rows. The noise of a part is that of its rows.
    ///
    /// # Panics
    /// If there are none, or the parts are of different fits, or of several targets.
    pub(crate) fn of_parts(parts: Vec<(Vec<usize>, Self)>) -> Self {
        let count = parts.iter().map(|(rows, _)| rows.len()).sum();
        let (_, first) = parts.first().expect("there is a part");
        match first.clone() {
            Self::Classes(first) => {
                let values = parts.iter().map(|(rows, part)| match part {
                    Self::Classes(part) => (&rows[..], &part.probabilities[..]),
                    _ => unreachable!("all parts predict the same target"),
                });
                let width = first.classes.len();
                Self::Classes(ClassPredictions {
                    probabilities: scattered(values, first.draws, count, width),
                    ..first
                })
            }
            Self::Reals(first) => {
                let parts: Vec<_> = parts
                    .into_iter()
                    .map(|(rows, part)| match part {
                        Self::Reals(part) => (rows, part.noise_of_predictions(), part.means),
                        _ => unreachable!("all parts predict the same target"),
                    })
                    .collect();
                let means = parts.iter().map(|(rows, _, means)| (&rows[..], &means[..]));
                let noise = parts.iter().map(|(rows, noise, _)| (&rows[..], &noise[..]));
                let noise = scattered(noise, first.draws, count, 1);
                Self::Reals(RealPredictions {
                    means: scattered(means, first.draws, count, 1),
                    noise: NoiseDeviations::PerPrediction(noise),
                    ..first
                })
            }
            Self::Counts(first) => {
                let rates = parts.iter().map(|(rows, part)| match part {
                    Self::Counts(part) => (&rows[..], &part.rates[..]),
                    _ => unreachable!("all parts predict the same target"),
                });
                Self::Counts(CountPredictions {
                    rates: scattered(rates, first.draws, count, 1),
                    ..first
                })
            }
            Self::Several(_) => unreachable!("parts are of one target"),
        }
    }
}

/// The same targets with other predictions.
fn mapped(
    targets: &[TargetPredictions],
    of: impl Fn(&Predictions) -> Predictions,
) -> Vec<TargetPredictions> {
    let target = |one: &TargetPredictions| TargetPredictions {
        name: one.name.clone(),
        unit: one.unit,
        predictions: of(&one.predictions),
    };
    targets.iter().map(target).collect()
}

impl NoiseDeviations {
    /// Those of one more member, with the same likelihood.
    fn append(&mut self, member: Self) {
        match (self, member) {
            (Self::PerMember(joined), Self::PerMember(mut member))
            | (Self::PerPrediction(joined), Self::PerPrediction(mut member)) => {
                joined.append(&mut member);
            }
            _ => unreachable!("all members have the same likelihood"),
        }
    }
}

/// The values of some of `count` rows, `[draws, rows, width]`, row-major.
pub(super) fn gathered(values: &[f64], count: usize, width: usize, rows: &[usize]) -> Vec<f64> {
    let draws = values.chunks_exact((count * width).max(1));
    draws
        .flat_map(|draw| rows.iter().map(move |row| &draw[row * width..][..width]))
        .flatten()
        .copied()
        .collect()
}

/// The inverse for parts with their rows, which together are all `count` rows.
fn scattered<'a>(
    parts: impl Iterator<Item = (&'a [usize], &'a [f64])>,
    draws: usize,
    count: usize,
    width: usize,
) -> Vec<f64> {
    let mut all = vec![0.0; draws * count * width];
    for (rows, values) in parts {
        let places = (0..draws).flat_map(|draw| rows.iter().map(move |row| draw * count + row));
        for (place, values) in places.zip(values.chunks_exact(width)) {
            all[place * width..][..width].copy_from_slice(values);
        }
    }
    all
}

/// The member of each draw.
pub(crate) fn members_of_draws(members: &[usize]) -> impl Iterator<Item = usize> {
    let members = members.iter().enumerate();
    members.flat_map(|(member, &draws)| std::iter::repeat_n(member, draws))
}

/// The member of each draw; `None` for a single model.
pub(crate) fn members(counts: &[usize]) -> Option<Vec<usize>> {
    (counts.len() > 1).then(|| members_of_draws(counts).collect())
}

/// The error of predictions that are scored by the targets of another task.
pub(crate) fn mismatched(predictions: &Predictions) -> TabularError {
    let (predicted, given) = match predictions {
        Predictions::Classes(_) => ("classes", "numbers"),
        Predictions::Reals(_) => ("numbers", "classes"),
        Predictions::Counts(_) => ("counts", "classes"),
        Predictions::Several(_) => ("several targets", "others"),
    };
    TabularError::Data(format!(
        "the fit predicts {predicted}, but the target column was read as {given}; use rows of the same task"
    ))
}

impl ClassPredictions {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.probabilities.len() / (self.draws * self.classes.len()).max(1)
    }

    fn of_rows(&self, rows: &[usize]) -> Self {
        let (count, width) = (self.rows(), self.classes.len());
        Self {
            probabilities: gathered(&self.probabilities, count, width, rows),
            ..self.clone()
        }
    }

    /// Checks the probabilities, for the computation of scores.
    pub fn checked(&self) -> Result<DrawProbabilities<'_>> {
        let (rows, classes) = (self.rows(), self.classes.len());
        Ok(DrawProbabilities::new(
            &self.probabilities,
            self.draws,
            rows,
            classes,
        )?)
    }
}

impl RealPredictions {
    /// The predictions of some of the rows.
    pub(crate) fn of_rows(&self, rows: &[usize]) -> Self {
        let count = self.rows();
        let selected = |values: &[f64]| gathered(values, count, 1, rows);
        Self {
            draws: self.draws,
            members: self.members.clone(),
            means: selected(&self.means),
            noise: match &self.noise {
                NoiseDeviations::PerPrediction(deviations) => {
                    NoiseDeviations::PerPrediction(selected(deviations))
                }
                per_member => per_member.clone(),
            },
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.means.len() / self.draws.max(1)
    }

    /// The standard deviation of the noise of every draw and row.
    pub(crate) fn noise_of_predictions(&self) -> Vec<f64> {
        match &self.noise {
            NoiseDeviations::PerPrediction(deviations) => deviations.clone(),
            NoiseDeviations::PerMember(deviations) => members_of_draws(&self.members)
                .flat_map(|member| std::iter::repeat_n(deviations[member], self.rows()))
                .collect(),
        }
    }

    /// The standard deviation of the noise, its root mean square over draws and rows.
    pub fn noise_deviation(&self) -> f64 {
        let mean_square = match &self.noise {
            NoiseDeviations::PerMember(deviations) => match **deviations {
                [deviation] => return deviation,
                _ => {
                    let members = self.members.iter().zip(deviations);
                    let squares =
                        members.map(|(&draws, deviation)| draws as f64 * deviation.powi(2));
                    squares.sum::<f64>() / self.draws as f64
                }
            },
            NoiseDeviations::PerPrediction(deviations) => {
                let squares = deviations.iter().map(|deviation| deviation.powi(2));
                squares.sum::<f64>() / deviations.len() as f64
            }
        };
        mean_square.sqrt()
    }

    /// The predictive mixture of Gaussians for each row, checked, for the computation of scores.
    pub fn checked(&self) -> Result<GaussianMixture<'_>> {
        let (NoiseDeviations::PerMember(deviations) | NoiseDeviations::PerPrediction(deviations)) =
            &self.noise;
        let precisions = deviations.iter().map(|deviation| deviation.powi(-2));
        let precisions: Vec<f64> = precisions.collect();
        let per_draw: Vec<f64>;
        let noise = match (&self.noise, &precisions[..]) {
            (NoiseDeviations::PerPrediction(_), _) => NoisePrecision::PerPrediction(&precisions),
            (NoiseDeviations::PerMember(_), &[precision]) => NoisePrecision::Shared(precision),
            (NoiseDeviations::PerMember(_), _) => {
                per_draw = members_of_draws(&self.members)
                    .map(|member| precisions[member])
                    .collect();
                NoisePrecision::PerDraw(&per_draw)
            }
        };
        Ok(GaussianMixture::new(
            &self.means,
            self.draws,
            self.rows(),
            noise,
        )?)
    }
}
