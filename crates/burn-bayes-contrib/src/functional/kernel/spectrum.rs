//! Frequencies of kernels that depend on x − y only.
//!
//! Such a kernel is k(x, x) E cos(ωᵀ(x − y)) with frequencies ω from its spectrum. With normal numbers z_d:
//!
//! | kernel | ω_d |
//! |---|---|
//! | constant | 0 |
//! | RBF | z_d/ℓ_d |
//! | Matérn ν | z_d/(ℓ_d √(s/2ν)), s of the χ² distribution with 2ν degrees of freedom |
//! | rational quadratic | √τ z_d/ℓ_d, τ of the gamma distribution with shape a and mean 1 |
//! | periodic | 2π n_d/p, n_d the difference of two Poisson numbers with mean 1/2ℓ_d² |
//!
//! A sum has those of a term, chosen by its variance, and a product the sum of those of its factors.
//!
//! Reference: Rahimi and Recht (2007), "Random features for large-scale kernel machines".

use std::f64::consts::TAU;

use burn_bayes::{Error, Noise, Result};

use super::base::{BaseKernel, Family};
use super::{Kernel, Node};

impl Kernel {
    /// A random frequency of the kernel's spectrum, one number for each of `width` coordinates.
    ///
    /// # Errors
    ///
    /// If the kernel is not a function of x − y.
    pub(crate) fn frequency(&self, width: usize, noise: Noise) -> Result<Vec<f64>> {
        let bases = self.node.bases();
        if let Some(base) = bases.iter().find(|base| !base.has_frequencies()) {
            let problem = format!(
                "`{}` has no frequencies, because its functions change from place to place; leave it out",
                base.family.name()
            );
            return Err(Error::config("kernel", problem));
        }
        Ok(self.node.frequency(width, noise))
    }
}

impl Node {
    fn frequency(&self, width: usize, noise: Noise) -> Vec<f64> {
        let part = |index: usize| noise.fold(index as u64);
        match self {
            Self::Base(base) => base.frequency(width, noise),
            Self::Sum(terms) => {
                let origin = vec![0.0; width];
                let variances = terms.iter().map(|term| term.value(&origin, &origin));
                let variances: Vec<f64> = variances.collect();
                let mut rest = part(0).uniform() * variances.iter().sum::<f64>();
                let chosen = variances.iter().position(|variance| {
                    rest -= variance;
                    rest < 0.0
                });
                let chosen = chosen.unwrap_or(terms.len() - 1);
                terms[chosen].frequency(width, part(1))
            }
            Self::Product(factors) => {
                let mut sum = vec![0.0; width];
                for (index, factor) in factors.iter().enumerate() {
                    let frequency = factor.frequency(width, part(index));
                    sum.iter_mut()
                        .zip(frequency)
                        .for_each(|(sum, own)| *sum += own);
                }
                sum
            }
        }
    }
}

impl BaseKernel {
    fn has_frequencies(&self) -> bool {
        !matches!(
            self.family,
            Family::Linear | Family::ArcCosine0 | Family::ArcCosine1
        )
    }

    fn frequency(&self, width: usize, noise: Noise) -> Vec<f64> {
        let shared = noise.fold(0);
        let spread = match self.family {
            Family::Constant => 0.0,
            Family::Matern12 => student_scale(1, shared),
            Family::Matern32 => student_scale(3, shared),
            Family::Matern52 => student_scale(5, shared),
            Family::RationalQuadratic => (gamma(self.shape(), shared) / self.shape()).sqrt(),
            _ => 1.0,
        };
        let of_coordinate = |d: usize| {
            let noise = noise.fold(1 + d as u64);
            match self.family {
                Family::Constant => 0.0,
                Family::Periodic => TAU / self.shape() * harmonic(self.scale(d).powi(-2), noise),
                _ => spread * normal(noise) / self.scale(d),
            }
        };
        (0..width).map(of_coordinate).collect()
    }
}

fn normal(noise: Noise) -> f64 {
    f64::from(noise.latent(1)[0])
}

/// √(n/s), s of the χ² distribution with n degrees of freedom: normals times this are Student's.
fn student_scale(degrees: usize, noise: Noise) -> f64 {
    let normals = noise.latent(degrees).into_iter().map(f64::from);
    let squares: f64 = normals.map(|z| z * z).sum();
    (degrees as f64 / squares).sqrt()
}

/// A number of the gamma distribution with scale 1 (Marsaglia and Tsang 2000).
fn gamma(shape: f64, noise: Noise) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, noise.fold(0)) * noise.fold(1).uniform().powf(shape.recip());
    }
    let d = shape - 1.0 / 3.0;
    let attempt = |noise: Noise| {
        let z = normal(noise.fold(0));
        let cube = (1.0 + z / (9.0 * d).sqrt()).powi(3);
        let is_accepted =
            cube > 0.0 && noise.fold(1).uniform().ln() < 0.5 * z * z + d * (1.0 - cube + cube.ln());
        is_accepted.then_some(d * cube)
    };
    let mut attempts = (2..).map(|at| noise.fold(at));
    attempts.find_map(attempt).expect("an endless sequence")
}

/// The mean above which a difference of Poisson numbers is taken for a rounded normal.
const MANY: f64 = 1000.0;

/// The difference of two Poisson numbers with mean κ/2 each, whose probabilities are e^−κ I_n(κ): the coefficients of
/// the cosines in exp(κ (cos t − 1)).
fn harmonic(kappa: f64, noise: Noise) -> f64 {
    if kappa > MANY {
        return (kappa.sqrt() * normal(noise)).round();
    }
    let count = |noise: Noise| {
        let times = (0_u64..).scan(0.0, |time, event| {
            *time -= noise.fold(event).uniform().ln();
            Some(*time)
        });
        times.take_while(|time| *time < 0.5 * kappa).count() as f64
    };
    count(noise.fold(0)) - count(noise.fold(1))
}
