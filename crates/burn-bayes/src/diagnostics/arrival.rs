//! How far a Gaussian fit q = N(c, S) is from the best of its family, in nats, without knowing the best.
//!
//! With the gradient G(θ) = N ∇NLL(θ) + α⊙θ of the negative log joint density, two quantities vanish at the
//! optimum of the bound:
//!
//! * the **decrement** ½ ĝᵀSĝ with ĝ = E_q G(θ), which a Newton step of the mean would gain;
//! * the **scale gain** Σ_j ½(x_j − 1 − ln x_j) with x_j = E_q\[H_jj\] / (S⁻¹)_jj, which new scales of the weights
//!   would gain.
//!
//! Draws are antithetic pairs c ± δ. Their mean estimates ĝ without the noise that is linear in δ. With
//! a = ½(G(c+δ) − G(c−δ)) and u = S⁻¹δ, Price's theorem gives E\[u⊙a\] = E\[diag H\] and E\[u⊙u\] = diag S⁻¹, so
//! x = Σ u⊙a / Σ u⊙u over the pairs, which is exactly 1 for every δ if S⁻¹ = H. The expected Monte-Carlo
//! errors of both quantities are subtracted.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Tensor;
use burn::train::TrainStep;

use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::likelihood::MixDraws;
use crate::methods::Draw;
use crate::noise::Noise;
use crate::posterior::FactorPosterior;
use crate::prior::Prior;
use crate::train::one_by_one;

/// The distance of a fit from the optimum of its family.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Arrival {
    /// What a better mean would gain, in nats.
    pub decrement: f64,
    /// What better scales of the weights would gain, in nats.
    pub scale_gain: f64,
    /// The Monte-Carlo standard error of their sum.
    pub standard_error: f64,
}

impl Arrival {
    /// The sum of both gains, an estimate of the excess divergence from the true posterior over that of the
    /// best fit of the family, in nats.
    pub fn excess(&self) -> f64 {
        self.decrement + self.scale_gain
    }
}

/// Estimates the distance of a fit from the optimum of its family in one pass over the training data.
///
/// ```
/// use burn::module::Module;
/// use burn::train::TrainStep;
/// use burn_bayes::diagnostics::ArrivalTest;
/// use burn_bayes::likelihood::MixDraws;
/// use burn_bayes::FactorPosterior;
///
/// fn excess<M>(
///     model: &M,
///     posterior: &FactorPosterior,
///     train_len: usize,
///     batches: Vec<<M as TrainStep>::Input>,
/// ) -> burn_bayes::Result<f64>
/// where
///     M: Module + TrainStep<Input: Clone, Output: MixDraws>,
/// {
///     let arrival = ArrivalTest::new(train_len).measure(model, posterior, batches)?;
///     println!("{:.1} ± {:.1} nats from the optimum", arrival.excess(), arrival.standard_error);
///     Ok(arrival.excess())
/// }
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct ArrivalTest {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// The prior over the weights, with which the posterior was fitted.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// The number of antithetic pairs of draws; at least 2.
    #[config(default = 4)]
    pub pairs: usize,
    /// Seed of the draws.
    #[config(default = 0)]
    pub seed: u64,
}

/// One antithetic pair.
struct Pair {
    /// S⁻¹δ.
    scaled: Vec<f64>,
    /// ½(G(c+δ) + G(c−δ)).
    mean: Vec<f64>,
    /// ½(G(c+δ) − G(c−δ)).
    difference: Vec<f64>,
}

impl ArrivalTest {
    /// The distance of `posterior`, fitted to the data of `batches`, from the optimum. The model's step must
    /// return gradients of the mean negative log-likelihood, and its weights outside the posterior must be those
    /// of the fit.
    ///
    /// # Errors
    ///
    /// If there are fewer than two pairs or no batches, or a gradient is not finite.
    pub fn measure<M>(
        &self,
        model: &M,
        posterior: &FactorPosterior,
        batches: impl IntoIterator<Item = <M as TrainStep>::Input>,
    ) -> Result<Arrival>
    where
        M: Module + TrainStep<Input: Clone, Output: MixDraws>,
    {
        if self.pairs < 2 {
            let problem = format!("is {}; it must be at least 2", self.pairs);
            return Err(Error::config("pairs", problem));
        }
        let layout = posterior.layout();
        let mean = posterior.mean();
        let noise = Noise::host(self.seed).fold(ARRIVAL);
        let deviations: Vec<Tensor<1>> = (0..self.pairs as u64)
            .map(|pair| Ok(posterior.draw(noise.row(pair))? - mean.clone()))
            .collect::<Result<_>>()?;
        let both = |deviation: &Tensor<1>| {
            [
                mean.clone() + deviation.clone(),
                mean.clone() - deviation.clone(),
            ]
        };
        let draws = deviations
            .iter()
            .flat_map(both)
            .map(|weights| Draw { weights, noise });
        let draws: Vec<Draw> = draws.collect();
        let mut sums: Vec<Option<Tensor<1>>> = vec![None; draws.len()];
        let mut examples = 0;
        for batch in batches {
            let gathered = one_by_one(layout, model, &draws, &batch, |_, pieces| {
                Ok(Tensor::cat(pieces, 0))
            })?;
            let rows = gathered.item.rows();
            examples += rows;
            for (sum, gradient) in sums.iter_mut().zip(gathered.signal) {
                let gradient = gradient.mul_scalar(rows as f64);
                *sum = Some(match sum.take() {
                    Some(sum) => sum + gradient,
                    None => gradient,
                });
            }
        }
        let prior = self.prior.resolve(layout)?.expanded(&mean.device());
        let scale = self.train_len as f64 / examples.max(1) as f64;
        let gradients = sums.into_iter().zip(&draws).map(|(sum, draw)| {
            let sum = sum.ok_or_else(|| Error::config("batches", "there are none"))?;
            Ok(sum.mul_scalar(scale) + draw.weights.clone() * prior.clone())
        });
        let gradients = gradients.collect::<Result<Vec<_>>>()?;
        let pairs = gradients.chunks_exact(2).zip(&deviations);
        let pairs = pairs.map(|(gradients, deviation)| {
            let [plus, minus] = [0, 1].map(|at| to_host(gradients[at].clone()));
            let half = |sign: f64| {
                let values = plus.iter().zip(&minus);
                values
                    .map(|(plus, minus)| 0.5 * (plus + sign * minus))
                    .collect()
            };
            Ok(Pair {
                scaled: to_host(posterior.precision_product(deviation)?),
                mean: half(1.0),
                difference: half(-1.0),
            })
        });
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        let values = pairs.iter().flat_map(|pair| pair.mean.iter());
        if !values.clone().all(|value| value.is_finite()) {
            return Err(Error::numerical(
                "the gradient at a draw of the posterior is not finite",
            ));
        }
        let all: Vec<&Pair> = pairs.iter().collect();
        let [decrement, scale_gain] = self.gains(posterior, &all)?;
        // Jackknife over the pairs.
        let mut left_out = Vec::with_capacity(pairs.len());
        for out in 0..pairs.len() {
            let rest: Vec<&Pair> = (0..pairs.len())
                .filter(|&at| at != out)
                .map(|at| &pairs[at])
                .collect();
            left_out.push(self.gains(posterior, &rest)?.iter().sum::<f64>());
        }
        let count = left_out.len() as f64;
        let center = left_out.iter().sum::<f64>() / count;
        let spread: f64 = left_out.iter().map(|gain| (gain - center).powi(2)).sum();
        Ok(Arrival {
            decrement,
            scale_gain,
            standard_error: ((count - 1.0) / count * spread).sqrt(),
        })
    }

    /// The decrement and the scale gain.
    fn gains(&self, posterior: &FactorPosterior, pairs: &[&Pair]) -> Result<[f64; 2]> {
        let count = pairs.len() as f64;
        let len = posterior.len();
        let center: Vec<f64> = (0..len)
            .map(|at| pairs.iter().map(|pair| pair.mean[at]).sum::<f64>() / count)
            .collect();
        let square = |vector: &[f64]| -> Result<f64> {
            let values: Vec<f32> = vector.iter().map(|&value| value as f32).collect();
            let tensor = Tensor::<1>::from_data(values.as_slice(), &posterior.device());
            let product = to_host(posterior.covariance_product(&tensor)?);
            Ok(vector.iter().zip(product).map(|(v, p)| v * p).sum())
        };
        let mut bias = 0.0;
        if pairs.len() > 1 {
            for pair in pairs {
                let gap: Vec<f64> = pair.mean.iter().zip(&center).map(|(m, c)| m - c).collect();
                bias += square(&gap)? / (count * (count - 1.0));
            }
        }
        let decrement = 0.5 * (square(&center)? - bias);
        let gain = (0..len).map(|at| {
            let terms = || {
                pairs
                    .iter()
                    .map(|pair| (pair.scaled[at], pair.difference[at]))
            };
            let squares: f64 = terms().map(|(u, _)| u * u).sum();
            let ratio = terms().map(|(u, a)| u * a).sum::<f64>() / squares;
            let rest: f64 = terms().map(|(u, a)| (a - ratio * u).powi(2)).sum();
            let variance = rest / ((count - 1.0).max(1.0) * squares);
            let ratio = ratio.max(SMALLEST_RATIO);
            0.5 * (ratio - 1.0 - ratio.ln()) - 0.25 * variance / (ratio * ratio).max(1.0)
        });
        Ok([decrement.max(0.0), gain.sum::<f64>().max(0.0)])
    }
}

/// A curvature ratio below this is not distinguished from no curvature.
const SMALLEST_RATIO: f64 = 0.01;
/// The random stream of the test.
const ARRIVAL: u64 = 0x6172_7269;
