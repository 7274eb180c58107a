//! The epistemic uncertainty of a mixture, apart within and between its components.
//!
//! Each draw belongs to one component, for example one member of an ensemble of posteriors. The
//! disagreement of all draws is the mean disagreement of the draws of one component plus that of the
//! components' averages:
//!
//!   classes     I = Σ_m π_m (H[p̄_m] − Ē_m)  +  H[p̄] − Σ_m π_m H[p̄_m]
//!   regression  V = Σ_m π_m V_m              +  Σ_m π_m (f̄_m − f̄)²
//!                   within                       between
//!
//! | Symbol | Here |
//! |---|---|
//! | π_m | the fraction of the draws that belong to component m |
//! | p̄_m, f̄_m | the average of the probabilities and of the means over its draws; without index, over all draws |
//! | Ē_m, V_m | the mean entropy of its draws' probabilities, and the variance of their means |
//! | I | [`mutual_information`](crate::mutual_information) |
//! | V | [`GaussianMixture::variance_between_draws`] |
//!
//! Components without a spread of their own, as in a deep ensemble, have no disagreement within.
//!
//! Reference: A. G. Wilson and P. Izmailov, "Bayesian deep learning and a probabilistic perspective
//! of generalization" (2020), for mixtures of Gaussians around independent trainings (MultiSWAG).

use std::collections::BTreeMap;

use crate::Bounded;
use crate::check;
use crate::counts::CountMixture;
use crate::error::EvalError;
use crate::uncertainty::entropy;
use crate::views::DrawProbabilities;
use crate::views::mixture::GaussianMixture;

/// The disagreement of the draws of a mixture about each row, in two parts.
///
/// ```
/// use burn_bayes_eval::{DrawProbabilities, MemberDisagreement};
///
/// // Two draws of each of two members: they agree within a member, and the members disagree.
/// let draws = DrawProbabilities::binary(&[0.9, 0.9, 0.1, 0.1], 4, 1)?;
/// let parts = MemberDisagreement::of_classes(&draws, &[0, 0, 1, 1])?;
/// assert!(parts.within[0] < 1e-15 && parts.between[0] > 0.3);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MemberDisagreement {
    /// The mean disagreement of the draws of one component.
    pub within: Vec<f64>,
    /// The disagreement of the averages of the components.
    pub between: Vec<f64>,
}

impl MemberDisagreement {
    /// The parts of the mutual information between label and draw, in nats, where draw s belongs to
    /// the component `members[s]`.
    ///
    /// # Errors
    /// A data error if there is not one member for every draw.
    pub fn of_classes(draws: &DrawProbabilities<'_>, members: &[usize]) -> Result<Self, EvalError> {
        let groups = groups(members, draws.draws())?;
        let average = |row: usize, group: &[usize]| -> Vec<f64> {
            let mut sums = vec![0.0; draws.classes()];
            for &draw in group {
                for (sum, value) in sums.iter_mut().zip(draws.row(draw, row)) {
                    *sum += value;
                }
            }
            sums.iter().map(|sum| sum / group.len() as f64).collect()
        };
        let all: Vec<usize> = (0..draws.draws()).collect();
        let parts = (0..draws.rows()).map(|row| {
            let of_draws = all.iter().map(|&draw| entropy(draws.row(draw, row)));
            let of_draws = of_draws.sum::<f64>() / all.len() as f64;
            let of_members = weighted(&groups, |group| entropy(&average(row, group)));
            let total = entropy(&average(row, &all));
            // Rounding may give a part below zero.
            (
                (of_members - of_draws).at_least(0.0),
                (total - of_members).at_least(0.0),
            )
        });
        let (within, between) = parts.unzip();
        Ok(Self { within, between })
    }

    /// The parts of the variance of the draws' means, where draw s belongs to the component
    /// `members[s]`.
    ///
    /// ```
    /// use burn_bayes_eval::{GaussianMixture, MemberDisagreement, NoisePrecision};
    ///
    /// let means = [0.0, 2.0, 5.0, 7.0];
    /// let mixture = GaussianMixture::new(&means, 4, 1, NoisePrecision::Shared(1.0))?;
    /// let parts = MemberDisagreement::of_means(&mixture, &[0, 0, 1, 1])?;
    /// assert_eq!((parts.within[0], parts.between[0]), (1.0, 6.25));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if there is not one member for every draw.
    pub fn of_means(mixture: &GaussianMixture<'_>, members: &[usize]) -> Result<Self, EvalError> {
        let rows = (0..mixture.rows()).map(|row| mixture.draw_means(row));
        let groups = groups(members, mixture.draws())?;
        Ok(Self::of_values(rows, &groups))
    }

    /// The parts of the variance of the draws' rates, as [`of_means`](Self::of_means).
    ///
    /// # Errors
    /// A data error if there is not one member for every draw.
    pub fn of_rates(mixture: &CountMixture<'_>, members: &[usize]) -> Result<Self, EvalError> {
        let groups = groups(members, mixture.draws())?;
        Ok(Self::of_values(mixture.rates_of_rows(), &groups))
    }

    /// The parts of the variance of the values of every row, one per draw.
    fn of_values(rows: impl Iterator<Item = Vec<f64>>, groups: &[Vec<usize>]) -> Self {
        let parts = rows.map(|values| {
            let mean_of = |group: &[usize]| {
                group.iter().map(|&draw| values[draw]).sum::<f64>() / group.len() as f64
            };
            let mean = weighted(groups, mean_of);
            let within = weighted(groups, |group| {
                let center = mean_of(group);
                let squares = group.iter().map(|&draw| (values[draw] - center).powi(2));
                squares.sum::<f64>() / group.len() as f64
            });
            let between = weighted(groups, |group| (mean_of(group) - mean).powi(2));
            (within, between)
        });
        let (within, between) = parts.unzip();
        Self { within, between }
    }
}

/// The draws of each component.
fn groups(members: &[usize], draws: usize) -> Result<Vec<Vec<usize>>, EvalError> {
    check::same_length("members", members.len(), draws)?;
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (draw, &member) in members.iter().enumerate() {
        groups.entry(member).or_default().push(draw);
    }
    Ok(groups.into_values().collect())
}

/// Σ_m π_m value(m).
fn weighted(groups: &[Vec<usize>], value: impl Fn(&[usize]) -> f64) -> f64 {
    let draws: usize = groups.iter().map(Vec::len).sum();
    let terms = groups.iter().map(|group| group.len() as f64 * value(group));
    terms.sum::<f64>() / draws as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::uniforms;
    use crate::uncertainty::mutual_information;
    use crate::views::mixture::NoisePrecision;

    /// Draws of components of different sizes, in mixed order.
    const MEMBERS: [usize; 6] = [0, 3, 0, 1, 3, 0];
    const ROWS: usize = 4;

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let values = uniforms(MEMBERS.len() * ROWS, 5);
        let draws = DrawProbabilities::binary(&values, MEMBERS.len(), ROWS).unwrap();
        let parts = MemberDisagreement::of_classes(&draws, &MEMBERS).unwrap();
        for (row, whole) in mutual_information(&draws).into_iter().enumerate() {
            let sum = parts.within[row] + parts.between[row];
            assert!((sum - whole).abs() < 1e-14, "{sum} {whole}");
            assert!(parts.within[row] > 0.0 && parts.between[row] > 0.0);
        }
        let noise = NoisePrecision::Shared(1.0);
        let mixture = GaussianMixture::new(&values, MEMBERS.len(), ROWS, noise).unwrap();
        let parts = MemberDisagreement::of_means(&mixture, &MEMBERS).unwrap();
        let wholes = mixture.variance_between_draws();
        for (row, whole) in wholes.into_iter().enumerate() {
            let sum = parts.within[row] + parts.between[row];
            assert!((sum - whole).abs() < 1e-14, "{sum} {whole}");
        }
    }

    #[test]
    fn points_disagree_only_between_and_one_component_only_within() {
        let values = uniforms(3 * ROWS, 6);
        let draws = DrawProbabilities::binary(&values, 3, ROWS).unwrap();
        let mixture = GaussianMixture::new(&values, 3, ROWS, NoisePrecision::Shared(1.0)).unwrap();
        for (members, is_within) in [([0, 1, 2], false), ([4, 4, 4], true)] {
            for parts in [
                MemberDisagreement::of_classes(&draws, &members).unwrap(),
                MemberDisagreement::of_means(&mixture, &members).unwrap(),
            ] {
                let (some, none) = match is_within {
                    true => (parts.within, parts.between),
                    false => (parts.between, parts.within),
                };
                assert!(some.iter().all(|&part| part > 1e-6), "{some:?}");
                assert!(none.iter().all(|&part| part < 1e-15), "{none:?}");
            }
        }
    }

    #[test]
    fn every_draw_needs_a_member() {
        let draws = DrawProbabilities::binary(&[0.5, 0.5], 2, 1).unwrap();
        let error = MemberDisagreement::of_classes(&draws, &[0]).unwrap_err();
        assert!(error.is_data());
    }
}
