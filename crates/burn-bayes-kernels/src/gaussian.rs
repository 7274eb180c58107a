//! The Gaussian of the kernels: N(mean, FᵀF + diag ψ), with F of shape K × D, given as such or in units of
//! the deviations, F = V diag(ψ^½).

use crate::elementary::exponential_pair;
use crate::normal::NormalStream;

/// The diagonal part ψ of a covariance, one number per parameter.
#[derive(Clone, Copy, Debug)]
pub enum Diagonal<'a> {
    /// ln ψ, the trained parameter.
    LogVariance(&'a [f32]),
    /// ψ, as in a finished posterior.
    Variance(&'a [f32]),
}

impl Diagonal<'_> {
    /// Number of parameters.
    pub(crate) fn len(&self) -> usize {
        let (Self::LogVariance(values) | Self::Variance(values)) = self;
        values.len()
    }

    /// ψ^½ of the elements from `start`.
    ///
    /// # Panics
    ///
    /// If there are fewer elements than `out` has.
    #[inline(always)]
    pub fn deviations(&self, start: usize, out: &mut [f32]) {
        match self {
            Self::LogVariance(values) => {
                let values = &values[start..start + out.len()];
                for (out, value) in out.iter_mut().zip(values) {
                    *out = exponential_pair(0.5 * value).0;
                }
            }
            Self::Variance(values) => {
                let values = &values[start..start + out.len()];
                for (out, value) in out.iter_mut().zip(values) {
                    *out = value.sqrt();
                }
            }
        }
    }

    /// ψ^½ and ψ^-½ of the elements from `start`.
    ///
    /// # Panics
    ///
    /// If the outputs differ in length, or there are fewer elements than they have.
    #[inline(always)]
    pub fn deviations_and_inverses(&self, start: usize, out: &mut [f32], inverses: &mut [f32]) {
        let range = start..start + out.len();
        assert_eq!(out.len(), inverses.len(), "the outputs differ in length");
        let outs = out.iter_mut().zip(inverses.iter_mut());
        match self {
            Self::LogVariance(values) => {
                for ((out, inverse), value) in outs.zip(&values[range]) {
                    (*out, *inverse) = exponential_pair(0.5 * value);
                }
            }
            Self::Variance(values) => {
                for ((out, inverse), value) in outs.zip(&values[range]) {
                    *out = value.sqrt();
                    *inverse = 1.0 / *out;
                }
            }
        }
    }
}

/// The units in which the factors are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorUnits {
    /// F, in the units of the weights.
    Weights,
    /// V, in units of the deviations ψ^½: F = V diag(ψ^½).
    Deviations,
}

/// A borrowed Gaussian with a low-rank-plus-diagonal covariance.
#[derive(Clone, Copy, Debug)]
pub struct LowRankGaussian<'a> {
    /// Mean, one number per parameter.
    pub mean: &'a [f32],
    /// The factors F or V, row-major; empty for rank 0.
    pub factors: &'a [f32],
    /// Which of the two they are.
    pub units: FactorUnits,
    /// The diagonal part of the covariance.
    pub diagonal: Diagonal<'a>,
}

impl LowRankGaussian<'_> {
    /// Checks that the shapes of the parts match.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub fn check(&self, rank: usize) {
        let length = self.mean.len();
        assert_eq!(
            self.diagonal.len(),
            length,
            "the diagonal has another length than the mean"
        );
        assert_eq!(
            self.factors.len(),
            rank * length,
            "the factors are not [{rank}, {length}]"
        );
    }
}

/// The random numbers of a draw θ = mean + hᵀF + sign · ψ^½ ⊙ z.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// h, one number per factor.
    pub latent: &'a [f32],
    /// The stream of z.
    pub noise: NormalStream,
    /// 1, or −1 together with −h for an antithetic draw.
    pub sign: f32,
}

/// `out += Σ_k coefficients[k] · row(k)`, with the factors in order.
#[inline(always)]
pub(crate) fn add_rows<'a>(
    out: &mut [f32],
    coefficients: &[f32],
    row: impl Fn(usize) -> &'a [f32],
) {
    let length = out.len();
    // Four rows at a time, so that `out` is read and written once for four rows.
    let (fours, rest) = coefficients.as_chunks::<4>();
    for (index, h) in fours.iter().enumerate() {
        let (a, b) = (&row(4 * index)[..length], &row(4 * index + 1)[..length]);
        let (c, d) = (&row(4 * index + 2)[..length], &row(4 * index + 3)[..length]);
        for i in 0..length {
            let sum = h[1].mul_add(b[i], h[0].mul_add(a[i], out[i]));
            out[i] = h[3].mul_add(d[i], h[2].mul_add(c[i], sum));
        }
    }
    for (index, h) in rest.iter().enumerate() {
        let a = &row(4 * fours.len() + index)[..length];
        for i in 0..length {
            out[i] = h.mul_add(a[i], out[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::numbers;

    #[test]
    fn both_forms_of_a_diagonal_agree() {
        let log_variance: Vec<f32> = numbers(1, 100).iter().map(|x| 8.0 * x).collect();
        let variance: Vec<f32> = log_variance.iter().map(|x| x.exp()).collect();
        let results = [
            Diagonal::LogVariance(&log_variance),
            Diagonal::Variance(&variance),
        ]
        .map(|diagonal| {
            assert_eq!(diagonal.len(), 100);
            let (mut alone, mut both, mut inverses) = ([0.0; 50], [0.0; 50], [0.0; 50]);
            diagonal.deviations(30, &mut alone);
            diagonal.deviations_and_inverses(30, &mut both, &mut inverses);
            assert_eq!(alone, both);
            (alone, inverses)
        });
        for i in 0..50 {
            let exact = f64::from(log_variance[30 + i] / 2.0).exp();
            for (deviations, inverses) in results {
                // Two units in the last place for the functions, and half a unit for the rounded
                // variance.
                let tolerance = 3.0 * f64::from(f32::EPSILON);
                assert!((f64::from(deviations[i]) / exact - 1.0).abs() < tolerance);
                assert!((f64::from(inverses[i]) * exact - 1.0).abs() < tolerance);
            }
        }
    }

    #[test]
    fn rows_are_added_in_order() {
        for rank in 0..=9 {
            let (rows, coefficients) = (numbers(1, rank * 20), numbers(2, rank));
            let mut out = numbers(3, 20);
            let mut expected = out.clone();
            add_rows(&mut out, &coefficients, |k| &rows[k * 20..]);
            for (k, coefficient) in coefficients.iter().enumerate() {
                for (i, sum) in expected.iter_mut().enumerate() {
                    *sum = coefficient.mul_add(rows[k * 20 + i], *sum);
                }
            }
            assert_eq!(out, expected);
        }
    }
}
