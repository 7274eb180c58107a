//! The true mean and covariance of a logistic regression's posterior, by Hamiltonian Monte Carlo.
//!
//! With U(θ) = Σ log(1 + exp(−t xᵀθ)) + ½ α‖θ‖² and a Gaussian N(m, LLᵀ) near the posterior, chains run in
//! z with θ = m + L z, where the posterior is near N(0, I). A trajectory of length π/2 then leads to an
//! all but independent draw. Moments come with Stein control variates: with g = Lᵀ∇U(θ), integration by
//! parts gives E g = 0 and E (z − E z) gᵀ = I for any posterior, so that
//!
//! ```text
//! E z   = E [z − g]
//! Cov z = I + E [(z − E z)(z − E z − g)ᵀ]
//! ```
//!
//! where the brackets vanish as the posterior nears the Gaussian. That takes away nearly all of the
//! sampling error, which in hundreds of dimensions would otherwise hide what is measured.
//!
//! References: Neal (2011), "MCMC using Hamiltonian dynamics"; Mira, Solgi and Imparato (2013), "Zero
//! variance Markov chain Monte Carlo for Bayesian estimators".

use std::f64::consts::FRAC_PI_2;

use burn_bayes::algebra::SquareMatrix;
use burn_bayes::posterior::DenseGaussian;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use serde::Serialize;

use burn_bayes_tabular::error::{Result, TabularError};

use super::linear_model::Rows;
use super::logistic::{add, dot, sigmoid, softplus};

/// How long to sample.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sampling {
    /// Points of each of the two chains, after as many as a tenth of them.
    pub(crate) draws: usize,
    /// Leaps of a trajectory.
    pub(crate) leaps: usize,
    pub(crate) seed: u64,
}

/// Moments from two chains.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    /// With the average of the chains' moments.
    pub(crate) gaussian: DenseGaussian,
    /// Half the relative distance of the chains' covariances: about the error of their average.
    pub(crate) covariance_error: f64,
}

/// Share of the trajectories that must be accepted for the draws to count.
const LEAST_ACCEPTANCE: f64 = 0.5;

impl Sampling {
    /// The posterior's moments under a prior of this precision, from a Gaussian near it.
    ///
    /// # Errors
    ///
    /// A Gaussian so far off that trajectories are not accepted.
    pub(crate) fn moments(&self, rows: &Rows, prior: f64, near: &DenseGaussian) -> Result<Moments> {
        let posterior = Posterior { rows, prior, near };
        let [first, second] = self.chains(&posterior)?;
        let (first, second) = (posterior.moments(&first)?, posterior.moments(&second)?);
        let middle = |left: &[f64], right: &[f64]| -> Vec<f64> {
            left.iter().zip(right).map(|(l, r)| 0.5 * (l + r)).collect()
        };
        let apart = first.relative_covariance_distance(&second)?;
        Ok(Moments {
            gaussian: DenseGaussian::new(
                middle(first.mean(), second.mean()),
                middle(
                    first.covariance().as_slice(),
                    second.covariance().as_slice(),
                ),
            )?,
            covariance_error: 0.5 * apart,
        })
    }

    /// P(t = 1 | x) for every row of `inputs` by each of the two chains, from a Gaussian near the posterior.
    ///
    /// # Errors
    ///
    /// As [`Sampling::moments`].
    pub(crate) fn probabilities(
        &self,
        rows: &Rows,
        prior: f64,
        near: &DenseGaussian,
        inputs: &[f64],
    ) -> Result<[Vec<f64>; 2]> {
        let posterior = Posterior { rows, prior, near };
        let of_chain = |draws: &Vec<Point>| -> Result<Vec<f64>> {
            let mut sums = vec![0.0; inputs.len() / rows.width];
            for draw in draws {
                let theta = near.draw(&draw.z)?;
                for (sum, x) in sums.iter_mut().zip(inputs.chunks_exact(rows.width)) {
                    *sum += sigmoid(dot(x, &theta)) / draws.len() as f64;
                }
            }
            Ok(sums)
        };
        let [first, second] = self.chains(&posterior)?;
        Ok([of_chain(&first)?, of_chain(&second)?])
    }

    fn chains(&self, posterior: &Posterior<'_>) -> Result<[Vec<Point>; 2]> {
        Ok([self.chain(posterior, 0)?, self.chain(posterior, 1)?])
    }

    fn chain(&self, posterior: &Posterior<'_>, chain: u64) -> Result<Vec<Point>> {
        let width = posterior.rows.width;
        let mut generator = StdRng::seed_from_u64(2 * self.seed + chain);
        let mut point = posterior.point(vec![0.0; width])?;
        let mut draws = Vec::with_capacity(self.draws);
        let mut accepted = 0;
        for draw in 0..self.draws / 10 + self.draws {
            let proposal = self.trajectory(posterior, &point, &mut generator)?;
            if generator.random::<f64>().ln() < proposal.log_ratio {
                accepted += 1;
                point = proposal.point;
            }
            if draw >= self.draws / 10 {
                draws.push(point.clone());
            }
        }
        let share = accepted as f64 / (self.draws / 10 + self.draws) as f64;
        if share < LEAST_ACCEPTANCE {
            return Err(TabularError::Numerical(format!(
                "only {share:.2} of the trajectories were accepted; use more leaps"
            )));
        }
        Ok(draws)
    }

    /// A trajectory from a point with a fresh momentum, and the logarithm of its acceptance ratio.
    fn trajectory(
        &self,
        posterior: &Posterior<'_>,
        start: &Point,
        generator: &mut StdRng,
    ) -> Result<Proposal> {
        let mut momentum: Vec<f64> = (0..start.z.len())
            .map(|_| StandardNormal.sample(generator))
            .collect();
        // Lengths that differ keep trajectories from closing.
        let step = FRAC_PI_2 / self.leaps as f64 * generator.random_range(0.8..1.2);
        let energy = start.energy + 0.5 * dot(&momentum, &momentum);
        let mut point = start.clone();
        for _ in 0..self.leaps {
            add(&mut momentum, -0.5 * step, &point.gradient);
            let mut z = point.z;
            add(&mut z, step, &momentum);
            point = posterior.point(z)?;
            add(&mut momentum, -0.5 * step, &point.gradient);
        }
        let log_ratio = energy - point.energy - 0.5 * dot(&momentum, &momentum);
        Ok(Proposal { point, log_ratio })
    }
}

struct Posterior<'a> {
    rows: &'a Rows,
    prior: f64,
    near: &'a DenseGaussian,
}

#[derive(Clone)]
struct Point {
    z: Vec<f64>,
    /// U.
    energy: f64,
    /// g.
    gradient: Vec<f64>,
}

struct Proposal {
    point: Point,
    log_ratio: f64,
}

impl Posterior<'_> {
    fn point(&self, z: Vec<f64>) -> Result<Point> {
        let theta = self.near.draw(&z)?;
        let mut energy = 0.5 * self.prior * dot(&theta, &theta);
        let mut gradient: Vec<f64> = theta.iter().map(|weight| self.prior * weight).collect();
        for (x, target) in self.rows.iter() {
            let margin = target * dot(x, &theta);
            energy += softplus(-margin);
            add(&mut gradient, -target * sigmoid(-margin), x);
        }
        // Lᵀ∇U, by the rows of L.
        let mut whitened = vec![0.0; z.len()];
        for (row, slope) in gradient.iter().enumerate() {
            let lower = &self.near.cholesky().lower().row(row)[..=row];
            add(&mut whitened[..=row], *slope, lower);
        }
        Ok(Point {
            z,
            energy,
            gradient: whitened,
        })
    }

    fn moments(&self, draws: &[Point]) -> Result<DenseGaussian> {
        let width = self.rows.width;
        let count = draws.len() as f64;
        let mut mean = vec![0.0; width];
        for Point { z, gradient, .. } in draws {
            add(&mut mean, count.recip(), z);
            add(&mut mean, -count.recip(), gradient);
        }
        let mut rest = vec![0.0; width * width];
        for Point { z, gradient, .. } in draws {
            let centred: Vec<f64> = z.iter().zip(&mean).map(|(z, m)| z - m).collect();
            let left: Vec<f64> = centred.iter().zip(gradient).map(|(c, g)| c - g).collect();
            for (row, entry) in centred.iter().enumerate() {
                add(&mut rest[row * width..][..width], entry / count, &left);
            }
        }
        let covariance = SquareMatrix::from_fn(width, |i, j| {
            let identity = if i == j { 1.0 } else { 0.0 };
            identity + 0.5 * (rest[i * width + j] + rest[j * width + i])
        });
        let lower = self.near.cholesky().lower();
        let covariance = lower.multiply(&covariance)?.multiply(&lower.transpose())?;
        Ok(DenseGaussian::new(
            self.near.draw(&mean)?,
            covariance.into_row_major(),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use burn_bayes_contrib::methods::LogisticPosterior;

    use crate::logistic::posterior;

    /// Few rows, so that the posterior is skewed.
    fn rows() -> Rows {
        let inputs = vec![1.0, 0.5, 1.0, -1.0, 1.0, 2.0, 1.0, -0.2, 1.0, 0.9, 1.0, 1.5];
        Rows {
            inputs,
            targets: vec![1.0, -1.0, 1.0, -1.0, -1.0, 1.0],
            width: 2,
        }
    }

    #[test]
    fn moments_are_those_of_a_grid() {
        let (rows, prior) = (rows(), 0.3);
        let near = posterior(&rows, prior, LogisticPosterior::Full).unwrap();
        let sampling = Sampling {
            draws: 20_000,
            leaps: 5,
            seed: 1,
        };
        let Moments {
            gaussian,
            covariance_error,
        } = sampling.moments(&rows, prior, &near).unwrap();
        let exact = Grid::new(&rows, prior, &near).unwrap().moments().unwrap();
        // Sampling errors: what the control variates leave of 1/√draws.
        let deviation = exact.variances()[0].sqrt();
        for (found, expected) in gaussian.mean().iter().zip(exact.mean()) {
            assert!((found - expected).abs() < 0.02 * deviation);
        }
        let distance = exact.relative_covariance_distance(&gaussian).unwrap();
        assert!(distance < 0.04, "{distance}");
        assert!(covariance_error < 0.04, "{covariance_error}");
        // The Gaussian that the chains started from is further off.
        let nearby = exact.relative_covariance_distance(&near).unwrap();
        assert!(nearby > 2.0 * distance, "{nearby} {distance}");
    }
}
