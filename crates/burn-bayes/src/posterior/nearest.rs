//! The low-rank-plus-diagonal Gaussian that is nearest to a known Gaussian, in f64.
//!
//! With H the precision of p and q of the same mean, KL(q‖p) is minimised over the diagonal w and the K
//! rows of factors. Given w, the best factors have a closed form, as in maximum-likelihood factor
//! analysis: with μₖ, uₖ the eigenpairs of w^-½ A w^-½, they match the K largest μₖ that exceed 1.
//!
//! ```text
//! covariance form  FᵀF + diag w, A = H⁻¹
//!   2 KL(w) = Σⱼ (wⱼ Hⱼⱼ − 1 − log wⱼ) − log|H| − Σₖ (log μₖ − 1 + 1/μₖ)
//!   2 ∂KL/∂log wⱼ = wⱼ Hⱼⱼ − 1 + Σₖ (1 − 1/μₖ) uₖⱼ²
//! precision form   UᵀU + diag w, A = H
//!   2 KL(w) = Σⱼ (Hⱼⱼ/wⱼ − 1 + log wⱼ) − log|H| − Σₖ (μₖ − 1 − log μₖ)
//!   2 ∂KL/∂log wⱼ = 1 − Hⱼⱼ/wⱼ + Σₖ (μₖ − 1) uₖⱼ²
//! ```
//!
//! log w is found by L-BFGS from several starts, because there are local minima. The best wⱼ may be 0, next
//! to which rounding of the largest μ hides the others: so w has a floor, and the divergence is that of the
//! Gaussian that was found, not the formula's.
//!
//! Reference: Jöreskog (1967), "Some contributions to maximum likelihood factor analysis", for the
//! precision form.

use burn_bayes_eval::Bounded;

use super::dense::DenseGaussian;
use super::factor::FormKind;
use crate::algebra::{AlgebraError, EigenPair, Lbfgs, SquareMatrix, SymmetricEigen};
use crate::error::Result;

/// The smallest share of a weight's own A that the second start leaves to the diagonal.
const LEAST_REST: f64 = 1e-2;

/// The least w, relative to that of the best diagonal Gaussian. It is far above the rounding of single
/// precision, in which posteriors are kept.
const FLOOR: f64 = 1e-6;

/// The low-rank-plus-diagonal Gaussian that is nearest to another one, with the same mean.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NearestGaussian {
    /// F or U, K×D row by row. K is smaller than asked for if fewer factors suffice.
    pub factors: Vec<f64>,
    /// ψ or d.
    pub diagonal: Vec<f64>,
    /// KL(q‖p), in nats.
    pub divergence: f64,
}

impl DenseGaussian {
    /// The Gaussian with these factors, K×D row by row, and this diagonal, in either form.
    pub fn from_factors(
        form: FormKind,
        mean: Vec<f64>,
        factors: &[f64],
        diagonal: &[f64],
    ) -> Result<Self> {
        match form {
            FormKind::Covariance => Self::from_covariance_factors(mean, factors, diagonal),
            FormKind::Precision => Self::from_precision_factors(mean, factors, diagonal),
        }
    }

    /// The low-rank-plus-diagonal Gaussian q of this form and rank with the least KL(q‖p) to this Gaussian p.
    ///
    /// There are local minima, and this is the least of those from two starts: the best diagonal, and what the
    /// leading eigenvectors leave of the diagonal. `more_starts` are other diagonals to begin from.
    pub fn nearest(
        &self,
        form: FormKind,
        rank: usize,
        more_starts: &[Vec<f64>],
    ) -> Result<NearestGaussian> {
        self.nearest_of(form, rank, |problem| {
            let mut starts = problem.starts()?;
            starts.extend(more_starts.iter().map(|diagonal| logarithms(diagonal)));
            Ok(starts)
        })
    }

    /// The local minimum of [`nearest`](Self::nearest) that a search from one diagonal finds. It is cheap if the
    /// diagonal is almost the best one, for example that of a Gaussian which differs little.
    pub fn nearest_from(
        &self,
        form: FormKind,
        rank: usize,
        diagonal: &[f64],
    ) -> Result<NearestGaussian> {
        self.nearest_of(form, rank, |_| Ok(vec![logarithms(diagonal)]))
    }

    /// The best of the local minima from some starts.
    fn nearest_of(
        &self,
        form: FormKind,
        rank: usize,
        starts: impl FnOnce(&Nearest<'_>) -> Result<Vec<Vec<f64>>>,
    ) -> Result<NearestGaussian> {
        let precision = self.precision();
        let problem = Nearest {
            form,
            rank,
            matrix: match form {
                FormKind::Covariance => self.covariance(),
                FormKind::Precision => &precision,
            },
            curvature: precision.diagonal().collect(),
            log_determinant: -self.log_determinant(),
        };
        let mut best: Option<NearestGaussian> = None;
        for start in starts(&problem)? {
            let found = SEARCH.minimum(start, |at| problem.divergence(at))?;
            let found = problem.gaussian(self, &found)?;
            let least = best.as_ref().map_or(f64::INFINITY, |best| best.divergence);
            if found.divergence < least {
                best = Some(found);
            }
        }
        let failed = || AlgebraError::NoConvergence {
            what: "the nearest low-rank-plus-diagonal Gaussian",
            size: self.dimension(),
        };
        Ok(best.ok_or_else(failed)?)
    }
}

fn logarithms(diagonal: &[f64]) -> Vec<f64> {
    diagonal.iter().map(|value| value.ln()).collect()
}

struct Nearest<'a> {
    form: FormKind,
    rank: usize,
    /// A.
    matrix: &'a SquareMatrix,
    /// Hⱼⱼ.
    curvature: Vec<f64>,
    /// log|H|.
    log_determinant: f64,
}

impl Nearest<'_> {
    /// 1 in covariance form, −1 in precision form, where the best diagonal is H's.
    fn sign(&self) -> f64 {
        match self.form {
            FormKind::Covariance => 1.0,
            FormKind::Precision => -1.0,
        }
    }

    /// w = floor + exp(`logs`).
    fn diagonal(&self, logs: &[f64]) -> Vec<f64> {
        let floor = self.curvature.iter().map(|h| FLOOR * h.powf(-self.sign()));
        logs.iter()
            .zip(floor)
            .map(|(log, floor)| log.exp() + floor)
            .collect()
    }

    /// The pairs μₖ > 1, uₖ of this diagonal.
    fn matched(&self, diagonal: &[f64]) -> Result<Vec<EigenPair>> {
        let scales: Vec<f64> = diagonal.iter().map(|w| w.sqrt().recip()).collect();
        let mut pairs = leading(self.matrix, &scales, self.rank)?;
        pairs.retain(|pair| pair.value > 1.0);
        Ok(pairs)
    }

    /// KL at the best factors for floor + exp(`logs`), and its gradient.
    fn divergence(&self, logs: &[f64]) -> Result<(f64, Vec<f64>)> {
        let sign = self.sign();
        let diagonal = self.diagonal(logs);
        let mut twice = -self.log_determinant;
        let mut gradient = Vec::with_capacity(logs.len());
        for (w, h) in diagonal.iter().zip(&self.curvature) {
            let ratio = w.powf(sign) * h;
            twice += ratio - 1.0 - sign * w.ln();
            gradient.push(0.5 * sign * (ratio - 1.0));
        }
        for EigenPair { value, vector } in self.matched(&diagonal)? {
            let (gain, slope) = match self.form {
                FormKind::Covariance => (value.ln() - 1.0 + value.recip(), 1.0 - value.recip()),
                FormKind::Precision => (value - 1.0 - value.ln(), value - 1.0),
            };
            twice -= gain;
            let entries = gradient.iter_mut().zip(&vector);
            entries.for_each(|(entry, u)| *entry += 0.5 * slope * u * u);
        }
        let chain = gradient.iter_mut().zip(logs).zip(&diagonal);
        chain.for_each(|((entry, log), w)| *entry *= log.exp() / w);
        Ok((0.5 * twice, gradient))
    }

    /// The Gaussian with the best factors for floor + exp(`logs`), √(μₖ − 1) w^½ uₖ in either form, and its
    /// divergence from `truth`.
    fn gaussian(&self, truth: &DenseGaussian, logs: &[f64]) -> Result<NearestGaussian> {
        let diagonal = self.diagonal(logs);
        let row = |pair: EigenPair| {
            let scale = (pair.value - 1.0).sqrt();
            let entries = pair.vector.into_iter().zip(&diagonal);
            entries
                .map(|(u, w)| scale * w.sqrt() * u)
                .collect::<Vec<f64>>()
        };
        let pairs = self.matched(&diagonal)?.into_iter();
        let factors: Vec<f64> = pairs.flat_map(row).collect();
        let mean = truth.mean().to_vec();
        let gaussian = DenseGaussian::from_factors(self.form, mean, &factors, &diagonal)?;
        let divergence = gaussian.kl_divergence(truth)?;
        Ok(NearestGaussian {
            factors,
            diagonal,
            divergence,
        })
    }

    /// The best diagonal Gaussian; what the leading eigenvectors of A leave of its diagonal.
    fn starts(&self) -> Result<Vec<Vec<f64>>> {
        let logs = self.curvature.iter().map(|h| -self.sign() * h.ln());
        let diagonal: Vec<f64> = logs.collect();
        if self.rank == 0 {
            return Ok(vec![diagonal]);
        }
        let scales: Vec<f64> = self.matrix.diagonal().map(|a| a.sqrt().recip()).collect();
        let mut rest = vec![1.0; scales.len()];
        for pair in leading(self.matrix, &scales, self.rank)? {
            let entries = rest.iter_mut().zip(&pair.vector);
            entries.for_each(|(rest, u)| *rest -= pair.value * u * u);
        }
        let own = self.matrix.diagonal().zip(rest);
        let factors: Vec<f64> = own
            .map(|(a, rest)| (a * rest.at_least(LEAST_REST)).ln())
            .collect();
        Ok(vec![diagonal, factors])
    }
}

/// The leading eigenpairs of the matrix with rows and columns multiplied by `scales`.
fn leading(matrix: &SquareMatrix, scales: &[f64], count: usize) -> Result<Vec<EigenPair>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let scaled = SquareMatrix::from_fn(matrix.size(), |i, j| {
        scales[i] * matrix.get(i, j) * scales[j]
    });
    Ok(SymmetricEigen::leading(&scaled, count.min(matrix.size()))?)
}

/// The search for a minimum of KL, in nats, over logarithms. The second derivatives are near ½, so that the
/// value at convergence is the square of `flat` above the minimum.
const SEARCH: Lbfgs = Lbfgs {
    most_steps: 200,
    flat: 1e-3,
    first_scale: 2.0,
    longest: 2.0,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;
    use crate::posterior::linear_regression_posterior;

    const FORMS: [FormKind; 2] = [FormKind::Covariance, FormKind::Precision];

    /// Normals that differ from call to call.
    struct Normals(Noise, u64);

    impl Normals {
        fn take(&mut self, count: usize) -> Vec<f64> {
            self.1 += 1;
            let values = self.0.row(self.1).latent(count);
            values.into_iter().map(f64::from).collect()
        }
    }

    /// The posterior of a regression on few rows, whose weights are correlated.
    fn truth(weights: usize, seed: u64) -> DenseGaussian {
        let mut normals = Normals(Noise::new(seed), 0);
        let rows = weights + 2;
        let (inputs, targets) = (normals.take(rows * weights), normals.take(rows));
        linear_regression_posterior(&inputs, &targets, 0.1, 3.0).unwrap()
    }

    fn gaussian(
        truth: &DenseGaussian,
        form: FormKind,
        factors: &[f64],
        diagonal: &[f64],
    ) -> Result<DenseGaussian> {
        let mean = truth.mean().to_vec();
        match form {
            FormKind::Covariance => DenseGaussian::from_covariance_factors(mean, factors, diagonal),
            FormKind::Precision => DenseGaussian::from_precision_factors(mean, factors, diagonal),
        }
    }

    fn least(truth: &DenseGaussian, form: FormKind, rank: usize) -> f64 {
        truth.nearest(form, rank, &[]).unwrap().divergence
    }

    /// The least KL that a (1+1) evolution strategy finds over factors and diagonal, from several starts.
    fn by_brute_force(truth: &DenseGaussian, form: FormKind, rank: usize) -> f64 {
        let weights = truth.dimension();
        let divergence = |at: &[f64]| {
            let (factors, logs) = at.split_at(rank * weights);
            let diagonal: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
            gaussian(truth, form, factors, &diagonal)
                .map_or(f64::INFINITY, |q| q.kl_divergence(truth).unwrap())
        };
        let mut normals = Normals(Noise::new(1), 0);
        let count = (rank + 1) * weights;
        let runs = (0..8).map(|_| {
            let mut point = normals.take(count);
            let (mut least, mut step) = (divergence(&point), 0.5);
            for _ in 0..20_000 {
                let mut next = point.clone();
                let entries = next.iter_mut().zip(normals.take(count));
                entries.for_each(|(entry, normal)| *entry += step * normal);
                let found = divergence(&next);
                // One step in five should succeed.
                step *= if found < least { 1.5 } else { 0.9 };
                if found < least {
                    (point, least) = (next, found);
                }
            }
            least
        });
        runs.fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn brute_force_finds_nothing_better() {
        for (weights, rank) in [(2, 1), (4, 1), (5, 2), (6, 3)] {
            let truth = truth(weights, 7 + weights as u64);
            for form in FORMS {
                let found = least(&truth, form, rank);
                let brute = by_brute_force(&truth, form, rank);
                assert!(
                    found <= brute + 1e-6,
                    "{weights} {rank} {form:?}: {brute} against {found}"
                );
            }
        }
    }

    #[test]
    fn a_search_from_the_best_diagonal_stays_there() {
        let truth = truth(6, 3);
        for form in FORMS {
            let best = truth.nearest(form, 2, &[]).unwrap();
            let again = truth.nearest_from(form, 2, &best.diagonal).unwrap();
            let gap = (again.divergence - best.divergence).abs();
            assert!(gap < 1e-5, "{form:?}: {gap}");
        }
    }

    #[test]
    fn factors_and_diagonal_have_the_divergence() {
        for (weights, rank) in [(4, 1), (6, 3), (30, 5)] {
            let truth = truth(weights, 3);
            for form in FORMS {
                let found = truth.nearest(form, rank, &[]).unwrap();
                let gaussian = gaussian(&truth, form, &found.factors, &found.diagonal).unwrap();
                let divergence = gaussian.kl_divergence(&truth).unwrap();
                let error = (divergence - found.divergence).abs();
                assert!(
                    error < 1e-5 * (1.0 + divergence),
                    "{divergence} {}",
                    found.divergence
                );
            }
        }
    }

    #[test]
    fn it_falls_with_the_rank_to_zero() {
        let truth = truth(6, 3);
        for form in FORMS {
            let divergences: Vec<f64> = (0..=6).map(|rank| least(&truth, form, rank)).collect();
            assert!(
                divergences.is_sorted_by(|less, more| *more <= less + 1e-6),
                "{divergences:?}"
            );
            assert!(
                divergences[0] > 0.5 && divergences[6] < 1e-6,
                "{divergences:?}"
            );
        }
    }

    #[test]
    fn without_factors_the_diagonal_is_that_of_the_precision() {
        let truth = truth(5, 4);
        let variances: Vec<f64> = truth.precision().diagonal().map(f64::recip).collect();
        let best = DenseGaussian::from_variances(truth.mean().to_vec(), &variances).unwrap();
        let expected = best.kl_divergence(&truth).unwrap();
        for form in FORMS {
            let found = least(&truth, form, 0);
            assert!(
                (found - expected).abs() < 1e-9 * expected,
                "{found} {expected}"
            );
        }
    }
}
