//! Predictions under draws of the weights.

use burn_bayes::eval::{DrawProbabilities, GaussianMixture, NoisePrecision};

use crate::error::Result;

/// The predictions of rows under every draw.
#[derive(Clone, Debug)]
pub enum Predictions {
    /// Predictions of a classification.
    Classes(ClassPredictions),
    /// Predictions of a regression.
    Reals(RealPredictions),
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
    /// The standard deviation of each member's noise, on the target's own scale.
    pub noise_deviations: Vec<f64>,
}

impl Predictions {
    /// The predictions of an ensemble from those of its members for the same rows.
    ///
    /// # Panics
    /// If there are none, or some predict classes and others numbers.
    pub(crate) fn of_members(members: Vec<Self>) -> Self {
        let mut members = members.into_iter();
        let mut joined = members.next().expect("an ensemble has a member");
        for member in members {
            match (&mut joined, member) {
                (Self::Classes(joined), Self::Classes(mut member)) => {
                    joined.draws += member.draws;
                    joined.members.append(&mut member.members);
                    joined.probabilities.append(&mut member.probabilities);
                }
                (Self::Reals(joined), Self::Reals(mut member)) => {
                    joined.draws += member.draws;
                    joined.members.append(&mut member.members);
                    joined.means.append(&mut member.means);
                    joined.noise_deviations.append(&mut member.noise_deviations);
                }
                _ => unreachable!("all members predict the same target"),
            }
        }
        joined
    }

    /// The predictions of a point estimate as this number of equal draws, by which a mixture weights it.
    pub(crate) fn repeated(self, draws: usize) -> Self {
        match self {
            Self::Classes(one) => Self::Classes(ClassPredictions {
                draws,
                members: vec![draws],
                probabilities: one.probabilities.repeat(draws),
                ..one
            }),
            Self::Reals(one) => Self::Reals(RealPredictions {
                draws,
                members: vec![draws],
                means: one.means.repeat(draws),
                ..one
            }),
        }
    }
}

/// The member of each draw.
pub(crate) fn members_of_draws(members: &[usize]) -> impl Iterator<Item = usize> {
    let members = members.iter().enumerate();
    members.flat_map(|(member, &draws)| std::iter::repeat_n(member, draws))
}

impl ClassPredictions {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.probabilities.len() / (self.draws * self.classes.len()).max(1)
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
        let of_draw = |draw: usize| rows.iter().map(move |&row| self.means[draw * count + row]);
        Self {
            draws: self.draws,
            members: self.members.clone(),
            means: (0..self.draws).flat_map(of_draw).collect(),
            noise_deviations: self.noise_deviations.clone(),
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.means.len() / self.draws.max(1)
    }

    /// The standard deviation of the noise, its root mean square over draws.
    pub fn noise_deviation(&self) -> f64 {
        match *self.noise_deviations {
            [deviation] => deviation,
            _ => {
                let members = self.members.iter().zip(&self.noise_deviations);
                let squares = members.map(|(&draws, deviation)| draws as f64 * deviation.powi(2));
                (squares.sum::<f64>() / self.draws as f64).sqrt()
            }
        }
    }

    /// The predictive mixture of Gaussians for each row, checked, for the computation of scores.
    pub fn checked(&self) -> Result<GaussianMixture<'_>> {
        let precisions = self.noise_deviations.iter();
        let precisions: Vec<f64> = precisions.map(|deviation| deviation.powi(-2)).collect();
        let per_draw: Vec<f64>;
        let noise = match *precisions {
            [precision] => NoisePrecision::Shared(precision),
            _ => {
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
