//! The log marginal likelihood, and the prior precisions that maximise it.
//!
//! With the curvature G = UᵀU + diag r at θ*, H = G + diag α and d = r + α:
//!
//! ```text
//! log p(D) ≈ log p(D|θ*) + log p(θ*) + ½ D log 2π − ½ log|H|
//!          = log p(D|θ*) − ½ Σ α θ*² + ½ Σ log α − ½ [Σ log d + log|I + U d⁻¹ Uᵀ|]
//! γ_g  = n_g − α_g tr_g H⁻¹                          how many of the n_g weights of group g the data determine
//!      = Σ_g r/d + α_g tr((I + U d⁻¹ Uᵀ)⁻¹ U_g d_g⁻² U_gᵀ)          terms that are not negative
//! α_g⁺ = α_g^½ (γ_g / Σ_g θ*²)^½                     MacKay's fixed point, with half a step in log α
//! ```
//!
//! The log marginal likelihood at fixed θ* is concave in log α, because |H| is a polynomial in α with coefficients
//! that are not negative. A whole step in log α of one group overshoots, and by less than the distance to the
//! maximum; half a step at least halves that distance.
//!
//! Reference: MacKay (1992), "The evidence framework applied to classification networks".

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::fitted::LaplaceFit;
use crate::algebra::{IdentityPlus, SquareMatrix, dot};
use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::prior::PriorPrecisions;

/// The change of log α at which the iteration has converged.
const CHANGE: f64 = 1e-9;
/// Number of iterations after which it fails.
const MOST_STEPS: usize = 500;

/// Which weights share a prior precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PriorSharing {
    /// All weights.
    Global,
    /// The weights of each parameter: every layer's weights, and every layer's biases.
    PerParameter,
}

impl LaplaceFit {
    /// The log marginal likelihood of the training data, in nats.
    ///
    /// # Errors
    ///
    /// If the curvature is not finite.
    pub fn log_marginal_likelihood(&self) -> Result<f64> {
        let evidence = Evidence::new(self, runs(&self.prior));
        let precisions: Vec<_> = self.prior.segments().iter().map(|run| run.1).collect();
        evidence.log_marginal_likelihood(self.log_likelihood, &precisions)
    }

    /// The same curvature with the prior precisions that maximise the log marginal likelihood. The weights stay
    /// those that were trained.
    ///
    /// # Errors
    ///
    /// If there is no maximum, because the weights of a group are all zero or do not change the outputs.
    pub fn with_optimal_prior(self, sharing: PriorSharing) -> Result<Self> {
        let entries = self.layout.entries().iter();
        let groups = match sharing {
            PriorSharing::Global => std::iter::once(0..self.layout.len()).collect(),
            PriorSharing::PerParameter => entries
                .map(|entry| entry.offset..entry.offset + entry.len())
                .collect(),
        };
        let evidence = Evidence::new(&self, groups);
        let precisions = evidence.best_precisions(|group| {
            let path = self.layout.path_at(evidence.groups[group].start);
            Error::numerical(format!(
                "the log marginal likelihood has no maximum over the prior precision of the weights from `{}` on; \
                 likely causes: they are all zero, or the outputs do not depend on them; give a prior by `with_prior`",
                path.unwrap_or_default()
            ))
        })?;
        let lens = evidence.groups.iter().map(ExactSizeIterator::len);
        let prior = PriorPrecisions::from_segments(lens.zip(precisions).collect());
        Ok(Self { prior, ..self })
    }
}

/// The weights of every run of equal precisions.
fn runs(prior: &PriorPrecisions) -> Vec<Range<usize>> {
    let mut start = 0;
    let runs = prior.segments().iter().map(|&(len, _)| {
        let range = start..start + len;
        start = range.end;
        range
    });
    runs.collect()
}

/// The parts of the evidence that do not depend on α, in double precision.
struct Evidence {
    groups: Vec<Range<usize>>,
    /// U, K×D row by row.
    factors: Vec<f64>,
    rank: usize,
    /// r.
    rest: Vec<f64>,
    /// Σ_g θ*².
    squared_norms: Vec<f64>,
    /// U_g U_gᵀ, where r is 0: then d is constant in each group.
    grams: Option<Vec<SquareMatrix>>,
}

/// What depends on α.
struct AtPrecisions {
    /// log|H|.
    log_determinant: f64,
    /// γ_g.
    determined: Vec<f64>,
}

impl Evidence {
    fn new(fit: &LaplaceFit, groups: Vec<Range<usize>>) -> Self {
        let weights = to_host(fit.mean.clone());
        let square_sum = |group: &Range<usize>| weights[group.clone()].iter().map(|w| w * w).sum();
        let factors = &fit.curvature.factors;
        let mut evidence = Self {
            squared_norms: groups.iter().map(square_sum).collect(),
            rank: factors.as_ref().map_or(0, |factors| factors.dims()[0]),
            factors: factors.clone().map_or_else(Vec::new, to_host),
            rest: to_host(fit.curvature.rest.clone()),
            grams: None,
            groups,
        };
        if evidence.rest.iter().all(|&rest| rest == 0.0) {
            let grams = evidence.groups.iter();
            let grams = grams.map(|group| evidence.gram(group.clone(), |_| 1.0));
            evidence.grams = Some(grams.collect());
        }
        evidence
    }

    /// U_g diag(s²) U_gᵀ for the columns in `group`.
    fn gram(&self, group: Range<usize>, scale: impl Fn(usize) -> f64) -> SquareMatrix {
        let scales: Vec<f64> = group.clone().map(scale).collect();
        let len = self.rest.len();
        let rows = (0..self.rank).flat_map(|row| {
            let row = &self.factors[row * len + group.start..row * len + group.end];
            row.iter().zip(&scales).map(|(entry, scale)| entry * scale)
        });
        let rows: Vec<f64> = rows.collect();
        SquareMatrix::gram(self.rank, &rows).expect("the rows have equal lengths")
    }

    fn log_marginal_likelihood(&self, log_likelihood: f64, precisions: &[f64]) -> Result<f64> {
        let groups = self.groups.iter().zip(precisions).zip(&self.squared_norms);
        let prior = groups.map(|((group, precision), square)| {
            group.len() as f64 * precision.ln() - precision * square
        });
        let determinant = self.at(precisions)?.log_determinant;
        Ok(log_likelihood + 0.5 * (prior.sum::<f64>() - determinant))
    }

    fn at(&self, precisions: &[f64]) -> Result<AtPrecisions> {
        let mut log_determinant = 0.0;
        let mut inner = vec![0.0; self.rank * self.rank];
        let mut parts = Vec::with_capacity(self.groups.len());
        for (index, (group, &precision)) in self.groups.iter().zip(precisions).enumerate() {
            let diagonal = |at: usize| self.rest[at] + precision;
            log_determinant += group.clone().map(|at| diagonal(at).ln()).sum::<f64>();
            let of_rest = group.clone().map(|at| self.rest[at] / diagonal(at));
            let [once, twice] = match &self.grams {
                Some(grams) => [1, 2].map(|power| {
                    let scale = precision.powi(-power);
                    let gram = &grams[index];
                    SquareMatrix::from_fn(self.rank, |row, column| scale * gram.get(row, column))
                }),
                None => [
                    self.gram(group.clone(), |at| diagonal(at).sqrt().recip()),
                    self.gram(group.clone(), |at| diagonal(at).recip()),
                ],
            };
            let entries = inner.iter_mut().zip(once.as_slice());
            entries.for_each(|(sum, entry)| *sum += entry);
            parts.push((of_rest.sum::<f64>(), precision, twice));
        }
        let inner = IdentityPlus::new(&SquareMatrix::from_row_major(self.rank, inner)?)?;
        let inverse = inner.inverse();
        let determined = parts.iter().map(|(of_rest, precision, twice)| {
            of_rest + precision * dot(inverse.as_slice(), twice.as_slice())
        });
        Ok(AtPrecisions {
            log_determinant: log_determinant + inner.log_determinant(),
            determined: determined.collect(),
        })
    }

    /// The precision of every group at the maximum. Without one, the error is `no_maximum` of the group that has none.
    fn best_precisions(&self, no_maximum: impl Fn(usize) -> Error) -> Result<Vec<f64>> {
        let starts = self.groups.iter().zip(&self.squared_norms);
        let starts = starts.map(|(group, square)| group.len() as f64 / square);
        let mut precisions: Vec<f64> = starts.collect();
        let is_usable = |value: f64| value.is_finite() && value > 0.0;
        let mut slowest = 0;
        for _ in 0..MOST_STEPS {
            if let Some(group) = precisions.iter().position(|&value| !is_usable(value)) {
                return Err(no_maximum(group));
            }
            let determined = self.at(&precisions)?.determined;
            let mut most = 0.0;
            for (group, precision) in precisions.iter_mut().enumerate() {
                let next = (*precision * determined[group] / self.squared_norms[group]).sqrt();
                if !is_usable(next) {
                    return Err(no_maximum(group));
                }
                let change = (next / *precision).ln().abs();
                if change > most {
                    (most, slowest) = (change, group);
                }
                *precision = next;
            }
            if most < CHANGE {
                return Ok(precisions);
            }
        }
        Err(no_maximum(slowest))
    }
}
