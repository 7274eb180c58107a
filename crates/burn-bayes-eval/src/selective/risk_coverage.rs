//! The risk–coverage curve: the mean loss of the kept rows for every number of kept rows.
//!
//! With rows sorted by ascending uncertainty and losses ℓ₍₁₎ … ℓ₍N₎, L_k = Σ_{i≤k} ℓ₍ᵢ₎:
//!
//!   selective risk r_k = L_k / k at coverage k/N AURC = (1/N) Σ_k r_k E-AURC = AURC − AURC of the
//!   losses sorted ascending (exact, not approximated) AUGRC = (1/N²) Σ_k ½(L_{k−1} + L_k) (L₀ = 0)
//!
//! AUGRC weights a wrong row by the coverage at which it is reached, without AURC's emphasis on the
//! first few rows. For losses of 0 and 1 with accuracy a, and A the AUROC of the uncertainty for
//! finding wrong rows, AUGRC = (1 − A)·a·(1 − a) + ½(1 − a)².
//!
//! **Ties.** Each of m rows with equal uncertainty counts with their mean loss. All quantities
//! above are linear in L_k, so this is exactly their expectation over random orders of tied rows,
//! and the result does not depend on the order of the input.
//!
//! References: Y. Geifman, G. Uziel and R. El-Yaniv, "Bias-reduced uncertainty estimation for deep
//! neural classifiers" (2019), for E-AURC; J. Traub et al., "Overcoming common flaws in the
//! evaluation of selective classification systems" (2024), for AUGRC and the identity.

use crate::Bounded;
use crate::check;
use crate::error::EvalError;
use crate::order::{ascending, compare, mean, rank, tie_groups};

/// The risk of keeping the k most certain rows, for every k.
///
/// ```
/// use burn_bayes_eval::RiskCoverage;
///
/// let curve = RiskCoverage::new(&[0.1, 0.2, 0.3, 0.4], &[0.0, 0.0, 1.0, 1.0])?;
/// assert_eq!(curve.points()[2].risk, 1.0 / 3.0);
/// assert_eq!(curve.excess_aurc(), 0.0); // wrong rows come last: no order is better
/// assert_eq!(curve.augrc(), 0.125);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RiskCoverage {
    points: Vec<RiskCoveragePoint>,
    thresholds: Vec<OperatingPoint>,
    optimal_aurc: f64,
    augrc: f64,
}

/// One point of a [`RiskCoverage`] curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RiskCoveragePoint {
    /// Number of rows kept.
    pub kept: usize,
    /// Fraction of rows kept.
    pub coverage: f64,
    /// Mean loss of the kept rows.
    pub risk: f64,
}

/// A point of the curve that corresponds to a threshold on the uncertainty, without splitting ties.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatingPoint {
    /// Rows with an uncertainty of at most this are kept.
    pub threshold: f64,
    /// Number of rows kept.
    pub kept: usize,
    /// Fraction of rows kept.
    pub coverage: f64,
    /// Mean loss of the kept rows.
    pub risk: f64,
}

impl RiskCoverage {
    /// The curve for one loss and one uncertainty per row; higher means more uncertain.
    ///
    /// For classification the usual loss is [`zero_one_losses`](crate::zero_one_losses).
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows, an uncertainty is NaN or a loss is
    /// not finite.
    pub fn new(uncertainty: &[f64], losses: &[f64]) -> Result<Self, EvalError> {
        check::not_empty("uncertainty", uncertainty.len())?;
        check::same_length("losses", losses.len(), uncertainty.len())?;
        check::comparable("uncertainty", uncertainty)?;
        check::finite("losses", losses)?;

        let rows = losses.len() as f64;
        let order = ascending(uncertainty);
        let mut points = Vec::with_capacity(losses.len());
        let mut thresholds = Vec::new();
        let (mut before, mut areas) = (0.0, 0.0);
        for group in tie_groups(&order, uncertainty) {
            let total: f64 = group.iter().map(|&row| losses[row]).sum();
            let size = group.len() as f64;
            for position in 1..=group.len() {
                let cumulated = before + total * (position as f64 / size);
                let kept = points.len() + 1;
                let risk = cumulated / kept as f64;
                points.push(RiskCoveragePoint {
                    kept,
                    coverage: kept as f64 / rows,
                    risk,
                });
            }
            // The curve is linear over the group: its mean height times the width.
            areas += size * (before + 0.5 * total);
            before += total;
            let kept = points.len();
            let (coverage, risk) = (kept as f64 / rows, before / kept as f64);
            let threshold = uncertainty[group[0]];
            thresholds.push(OperatingPoint {
                threshold,
                kept,
                coverage,
                risk,
            });
        }
        let optimal_aurc = optimal_aurc(losses);
        Ok(Self {
            points,
            thresholds,
            optimal_aurc,
            augrc: areas / (rows * rows),
        })
    }

    /// The curve, by increasing coverage: one point per number of kept rows.
    pub fn points(&self) -> &[RiskCoveragePoint] {
        &self.points
    }

    /// Area under the curve: the mean of the selective risks over all coverages.
    pub fn aurc(&self) -> f64 {
        self.points.iter().map(|point| point.risk).sum::<f64>() / self.points.len() as f64
    }

    /// The minimal area for these losses: rows sorted by the loss itself.
    pub fn optimal_aurc(&self) -> f64 {
        self.optimal_aurc
    }

    /// E-AURC: the excess of the area over the optimum. Never negative; rounding errors below zero
    /// are clipped.
    pub fn excess_aurc(&self) -> f64 {
        (self.aurc() - self.optimal_aurc).at_least(0.0)
    }

    /// AUGRC: the area under the generalised risk L_k/N over coverage.
    pub fn augrc(&self) -> f64 {
        self.augrc
    }

    /// The threshold that keeps the most rows with a risk of at most `target`; `None` if even the
    /// most certain rows exceed it.
    ///
    /// Tied rows are kept or referred together, because a threshold cannot separate them. The risk
    /// holds for these rows; for a guarantee on new rows see
    /// [`SelectiveBounds`](crate::SelectiveBounds).
    ///
    /// ```
    /// # use burn_bayes_eval::RiskCoverage;
    /// let curve = RiskCoverage::new(&[0.1, 0.2, 0.3, 0.4], &[0.0, 1.0, 0.0, 1.0])?;
    /// let point = curve.coverage_at_risk(0.4)?.expect("the first row is right");
    /// assert_eq!((point.coverage, point.threshold), (0.75, 0.3));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A config error if `target` is not finite.
    pub fn coverage_at_risk(&self, target: f64) -> Result<Option<OperatingPoint>, EvalError> {
        check::finite_setting("target", target)?;
        Ok(self
            .thresholds
            .iter()
            .rev()
            .find(|point| point.risk <= target)
            .copied())
    }

    /// The lowest threshold that keeps at least the fraction `target` of the rows; tied rows are
    /// kept together.
    ///
    /// ```
    /// # use burn_bayes_eval::RiskCoverage;
    /// let curve = RiskCoverage::new(&[0.1, 0.2, 0.2, 0.4], &[0.0, 1.0, 0.0, 1.0])?;
    /// let point = curve.risk_at_coverage(0.5)?;
    /// assert_eq!((point.coverage, point.threshold, point.risk), (0.75, 0.2, 1.0 / 3.0));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A config error if `target` is not above 0 and at most 1.
    pub fn risk_at_coverage(&self, target: f64) -> Result<OperatingPoint, EvalError> {
        check::fraction("target", target)?;
        let kept = rank(target, self.points.len());
        let index = self.thresholds.partition_point(|point| point.kept < kept);
        Ok(self.thresholds[index])
    }
}

fn optimal_aurc(losses: &[f64]) -> f64 {
    let mut sorted = losses.to_vec();
    sorted.sort_by(|a, b| compare(*a, *b));
    let mut cumulated = 0.0;
    let risks: Vec<f64> = sorted
        .iter()
        .enumerate()
        .map(|(index, loss)| {
            cumulated += loss;
            cumulated / (index + 1) as f64
        })
        .collect();
    mean(&risks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: f64 = 8.0 * f64::EPSILON;

    #[test]
    fn hand_worked_curve() {
        // Sorted losses 1 0 1: risks 1, 1/2, 2/3. Optimal 0 1 1: 0, 1/2, 2/3.
        let curve = RiskCoverage::new(&[0.3, 0.1, 0.2], &[1.0, 1.0, 0.0]).unwrap();
        let risks: Vec<f64> = curve.points().iter().map(|point| point.risk).collect();
        assert_eq!(risks, [1.0, 0.5, 2.0 / 3.0]);
        assert!((curve.aurc() - 13.0 / 18.0).abs() < TOLERANCE);
        assert!((curve.optimal_aurc() - 7.0 / 18.0).abs() < TOLERANCE);
        assert!((curve.excess_aurc() - 1.0 / 3.0).abs() < TOLERANCE);
        // Trapezoids over L = 0, 1, 1, 2: (.5 + 1 + 1.5)/9.
        assert!((curve.augrc() - 1.0 / 3.0).abs() < TOLERANCE);
    }

    #[test]
    fn all_right_and_all_wrong() {
        let right = RiskCoverage::new(&[0.1, 0.2], &[0.0, 0.0]).unwrap();
        assert_eq!(
            (right.aurc(), right.excess_aurc(), right.augrc()),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(right.coverage_at_risk(0.0).unwrap().unwrap().coverage, 1.0);
        let wrong = RiskCoverage::new(&[0.1, 0.2], &[1.0, 1.0]).unwrap();
        assert_eq!(
            (wrong.aurc(), wrong.excess_aurc(), wrong.augrc()),
            (1.0, 0.0, 0.5)
        );
        assert_eq!(wrong.coverage_at_risk(0.5).unwrap(), None);
    }

    #[test]
    fn a_constant_score_has_the_mean_risk_everywhere() {
        let curve = RiskCoverage::new(&[5.0; 4], &[1.0, 0.0, 0.0, 0.0]).unwrap();
        assert!(curve.points().iter().all(|point| point.risk == 0.25));
        assert_eq!((curve.aurc(), curve.augrc()), (0.25, 0.125));
        let point = curve.coverage_at_risk(0.25).unwrap().unwrap();
        assert_eq!((point.kept, point.threshold), (4, 5.0));
        assert_eq!(curve.coverage_at_risk(0.2).unwrap(), None);
        assert_eq!(curve.risk_at_coverage(0.01).unwrap(), point);
    }

    #[test]
    fn ties_carry_their_mean_loss() {
        let curve = RiskCoverage::new(&[1.0, 2.0, 2.0], &[0.0, 1.0, 0.0]).unwrap();
        let risks: Vec<f64> = curve.points().iter().map(|point| point.risk).collect();
        assert_eq!(risks, [0.0, 0.25, 1.0 / 3.0]);
        // A threshold cannot keep half of the tie.
        assert_eq!(curve.coverage_at_risk(0.3).unwrap().unwrap().kept, 1);
    }

    #[test]
    fn rejects_nan_infinite_losses_and_lengths() {
        assert_eq!(
            RiskCoverage::new(&[0.0, f64::NAN], &[0.0, 0.0])
                .unwrap_err()
                .row(),
            Some(1)
        );
        let error = RiskCoverage::new(&[0.0, 1.0], &[0.0, f64::INFINITY]).unwrap_err();
        assert_eq!(error.row(), Some(1));
        assert!(
            RiskCoverage::new(&[0.0], &[0.0, 1.0])
                .unwrap_err()
                .is_data()
        );
        assert!(RiskCoverage::new(&[], &[]).unwrap_err().is_data());
        let curve = RiskCoverage::new(&[0.0], &[0.0]).unwrap();
        assert!(curve.coverage_at_risk(f64::NAN).unwrap_err().is_config());
        for target in [0.0, 1.1, f64::NAN] {
            assert!(curve.risk_at_coverage(target).unwrap_err().is_config());
        }
    }
}
