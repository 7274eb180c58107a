//! The parameters of a kernel and the noise that maximise the marginal likelihood.

use burn::config::Config;
use burn_bayes::algebra::Lbfgs;
use burn_bayes::{Error, Noise, Result};

use super::points::{MOST_POINTS, Points, subset};
use super::regression::{GaussianProcess, check_targets};

/// The largest factor by which a parameter changes from its start.
const LARGEST_FACTOR: f64 = 1e5;

/// The largest factor by which the parameters of a restart differ from the given ones.
const RESTART_FACTOR: f64 = 10.0;

const SEARCH: Lbfgs = Lbfgs {
    most_steps: 200,
    flat: 1e-5,
    first_scale: 1.0,
    longest: 1.0,
};

/// Maximises the marginal likelihood of targets over the parameters of a Gaussian process.
///
/// The marginal likelihood has local maxima, above all over periods, so the search starts from the given parameters and
/// from random ones near them, and the best result is kept. A parameter changes by at most a factor of 10⁵.
///
/// ```
/// use burn_bayes_contrib::functional::{GaussianProcess, Kernel, MarginalLikelihood, Points};
///
/// fn learned(points: &Points, targets: &[f64]) -> burn_bayes::Result<GaussianProcess> {
///     let kernel = Kernel::rbf([1.0]).with_median_length_scales(points)?;
///     let start = GaussianProcess::new(kernel.with_term_variances(), 0.1)?;
///     MarginalLikelihood::new().maximise(&start, points, targets)
/// }
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct MarginalLikelihood {
    /// The number of points used, a random subset if there are more. A step costs the cube of it.
    #[config(default = 500)]
    pub subset: usize,
    /// The number of searches from random parameters, besides that from the given ones.
    #[config(default = 4)]
    pub restarts: usize,
    /// Whether the noise variance is learned too.
    #[config(default = true)]
    pub learns_noise: bool,
    /// Seed of the subset and of the random parameters.
    #[config(default = 0)]
    pub seed: u64,
}

impl MarginalLikelihood {
    /// The Gaussian process with the best parameters.
    ///
    /// # Errors
    ///
    /// Those of [`GaussianProcess::fit`] at the given parameters; also if the subset is empty or too large.
    pub fn maximise(
        &self,
        start: &GaussianProcess,
        points: &Points,
        targets: &[f64],
    ) -> Result<GaussianProcess> {
        check_targets(points, targets)?;
        if self.subset == 0 || self.subset > MOST_POINTS {
            let problem = format!("is {}; it must be from 1 to {MOST_POINTS}", self.subset);
            return Err(Error::config("subset", problem));
        }
        let noise = Noise::new(self.seed);
        let chosen = subset(noise.fold(SUBSET), self.subset, points.len());
        let points = points.select(&chosen);
        let targets: Vec<f64> = chosen.iter().map(|&index| targets[index]).collect();
        let search = Search {
            start,
            learns_noise: self.learns_noise,
        };
        let mut best = start.fit(&points, &targets)?;
        for restart in 0..=self.restarts as u64 {
            let from = search.restart(noise.fold(RESTARTS).fold(restart), restart > 0);
            let found = SEARCH.minimum(from, |at| {
                Ok::<_, Error>(search.negative(at, &points, &targets))
            })?;
            let found = search
                .process(&found)
                .and_then(|found| found.fit(&points, &targets));
            if let Ok(found) = found
                && found.log_marginal_likelihood() > best.log_marginal_likelihood()
            {
                best = found;
            }
        }
        Ok(best.process().clone())
    }
}

const SUBSET: u64 = 1;
const RESTARTS: u64 = 2;

/// A search over u with log φ = log φ₀ + h tanh(u/h), which bounds the parameters φ.
struct Search<'a> {
    start: &'a GaussianProcess,
    learns_noise: bool,
}

impl Search<'_> {
    /// Zeros, or random numbers.
    fn restart(&self, noise: Noise, is_random: bool) -> Vec<f64> {
        let count = self.start.kernel().parameters().len() + usize::from(self.learns_noise);
        let number = |index: usize| match is_random {
            true => RESTART_FACTOR.ln() * (2.0 * noise.fold(index as u64).uniform() - 1.0),
            false => 0.0,
        };
        (0..count).map(number).collect()
    }

    fn process(&self, at: &[f64]) -> Result<GaussianProcess> {
        let kernel = self.start.kernel();
        let parameters = kernel.parameters();
        let reach = LARGEST_FACTOR.ln();
        let factors: Vec<f64> = at
            .iter()
            .map(|u| (reach * (u / reach).tanh()).exp())
            .collect();
        let (factors, noise_factor) = factors.split_at(parameters.len());
        let parameters = parameters.iter().zip(factors);
        let parameters: Vec<f64> = parameters.map(|(own, factor)| own * factor).collect();
        let noise_factor = noise_factor.first().unwrap_or(&1.0);
        GaussianProcess::new(
            kernel.with_parameters(&parameters)?,
            self.start.noise_variance() * noise_factor,
        )
    }

    /// −log p(y) and its gradient; infinite where the covariance cannot be factorised.
    fn negative(&self, at: &[f64], points: &Points, targets: &[f64]) -> (f64, Vec<f64>) {
        let fit = self
            .process(at)
            .and_then(|process| process.fit(points, targets));
        let Ok(fit) = fit else {
            return (f64::INFINITY, vec![0.0; at.len()]);
        };
        let reach = LARGEST_FACTOR.ln();
        let slopes = at.iter().map(|u| (u / reach).cosh().powi(-2));
        let gradient = fit.log_marginal_gradient();
        let gradient = gradient.iter().zip(slopes).map(|(g, slope)| -g * slope);
        (-fit.log_marginal_likelihood(), gradient.collect())
    }
}

#[cfg(test)]
mod tests;
