//! Whether the quadratic approximation of the loss holds at draws of the posterior.
//!
//! With the curvature G at θ*, the quadratic approximation says that a draw θ* + δ of q = N(θ*, H⁻¹), H = G + diag α, loses
//!
//! ```text
//! N (L(θ* + δ) − L(θ*)) ≈ ½ δᵀGδ,   on average ½ tr(G H⁻¹) = ½ γ
//! ```
//!
//! where γ is the number of weights that the data determine. A classifier that fits its training rows has probabilities
//! near 0 and 1, where the loss is flat: G says nothing about its rise some steps away. The marginal likelihood then
//! prefers a wide prior, and draws lose hundreds of times as much as the approximation says. So α is raised by a common
//! factor until they lose at most [`LARGEST_RATIO`] times as much.
//!
//! Draws are antithetic pairs, so that a gradient that is not quite 0 at θ* cancels. Some of the rows are enough.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_graph::ExampleBatch;

use super::fitted::LaplaceFit;
use crate::error::Result;
use crate::kernels::composed::to_host;
use crate::noise::Noise;
use crate::posterior::Posterior;
use crate::train::ExampleLoss;

/// The largest loss of draws, as a multiple of that of the quadratic approximation.
const LARGEST_RATIO: f64 = 1.5;
/// The same for a prior that was given: far beyond any use of draws.
const WIDE_RATIO: f64 = 10.0;
/// The relative rounding of losses.
const ROUNDING: f64 = 1e-5;
/// Antithetic pairs of draws.
const PAIRS: u64 = 8;
/// Factor of α in a step, the factor far from the end, and the number of steps after which it stays.
const FACTOR: f64 = 2.0;
const LARGE_FACTOR: f64 = 8.0;
const MOST_STEPS: usize = 40;
/// Micro-batches that are kept.
const MOST_BATCHES: usize = 4;
/// The random stream of the draws.
const NEAR_DRAWS: u64 = 0x6e65_6172;

/// Some of the micro-batches of a pass, spread evenly over it.
#[derive(Debug)]
pub(super) struct SomeRows<B> {
    kept: Vec<B>,
    /// Every `stride`-th is kept.
    stride: usize,
    seen: usize,
}

impl<B> Default for SomeRows<B> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            stride: 1,
            seen: 0,
        }
    }
}

impl<B: ExampleBatch> SomeRows<B> {
    pub(super) fn add(&mut self, batch: &B) {
        if self.seen.is_multiple_of(self.stride) {
            self.kept.push(batch.clone());
        }
        self.seen += 1;
        if self.kept.len() > MOST_BATCHES {
            let mut is_kept = [true, false].into_iter().cycle();
            self.kept.retain(|_| is_kept.next() == Some(true));
            self.stride *= 2;
        }
    }

    /// The mean loss of a row of `model`.
    fn loss<M: ExampleLoss<Input = B>>(&self, model: &M) -> f64 {
        let (mut sum, mut rows) = (0.0, 0);
        for batch in &self.kept {
            let losses = to_host(model.example_losses(batch.clone()));
            sum += losses.iter().sum::<f64>();
            rows += losses.len();
        }
        sum / rows as f64
    }
}

/// The losses per row at draws and at the mean, and their difference according to the quadratic approximation.
struct Rise {
    at_mean: f64,
    at_draws: f64,
    quadratic: f64,
}

impl Rise {
    /// Whether draws lose more than a multiple of the quadratic approximation. A loss that is not finite is more.
    fn is_above(&self, ratio: f64) -> bool {
        let allowed = ratio * self.quadratic + ROUNDING * self.at_mean.abs();
        let is_near = self.at_draws - self.at_mean <= allowed;
        !is_near
    }
}

impl LaplaceFit {
    fn rise<M>(&self, rows: &SomeRows<M::Input>, model: &M) -> Result<Rise>
    where
        M: Module + ExampleLoss<Input: ExampleBatch>,
    {
        let model = model.valid();
        let posterior = self.posterior()?;
        let sampler = posterior.sampler()?;
        let noise = Noise::new(NEAR_DRAWS);
        let loss = |weights: Tensor<1>| -> Result<f64> {
            Ok(rows.loss(&self.layout.write(model.clone(), weights)?))
        };
        let (mut at_draws, mut quadratic) = (0.0, 0.0);
        for pair in 0..PAIRS {
            let draw = sampler.draw(noise.row(pair))?;
            let deviation = draw.clone() - self.mean.clone();
            let mirrored = self.mean.clone() - deviation.clone();
            at_draws += (loss(draw)? + loss(mirrored)?) / (2 * PAIRS) as f64;
            quadratic += 0.5 * self.curvature.squared_length(deviation) / PAIRS as f64;
        }
        Ok(Rise {
            at_mean: loss(self.mean.clone())?,
            at_draws,
            quadratic: quadratic / self.train_len as f64,
        })
    }

    /// The same curvature, with prior precisions that are raised by a common factor until the quadratic approximation
    /// holds at draws.
    pub(super) fn with_near_draws<M>(mut self, rows: &SomeRows<M::Input>, model: &M) -> Result<Self>
    where
        M: Module + ExampleLoss<Input: ExampleBatch>,
    {
        let mut raised = 1.0;
        for _ in 0..MOST_STEPS {
            let rise = self.rise(rows, model)?;
            if !rise.is_above(LARGEST_RATIO) {
                if raised > 1.0 {
                    log::info!(
                        "the prior precisions of the Laplace approximation are {raised} times those of the evidence, so that \
                         draws of the weights lose no more than the quadratic approximation says"
                    );
                }
                return Ok(self);
            }
            let factor = match rise.is_above(WIDE_RATIO) {
                true => LARGE_FACTOR,
                false => FACTOR,
            };
            raised *= factor;
            self.prior = self.prior.times(factor);
        }
        log::warn!(
            "no prior precision makes the loss at draws of the Laplace approximation near that at the trained weights; \
             likely cause: the model is not trained, or its weights are extremely sensitive; predict with the trained \
             weights"
        );
        Ok(self)
    }

    /// Warns if draws of the model's own weights lose far more than the quadratic approximation says.
    pub(super) fn warn_of_wide_draws<M>(&self, rows: &SomeRows<M::Input>, model: &M) -> Result<()>
    where
        M: Module + ExampleLoss<Input: ExampleBatch>,
    {
        let rise = self.rise(rows, model)?;
        if rise.is_above(WIDE_RATIO) {
            log::warn!(
                "draws of the weights from this Laplace approximation destroy the fit: the training loss is {:.3} at the \
                 trained weights and {:.3} at draws, where the quadratic approximation says {:.3}; predict with \
                 `Linearized` instead of draws, or choose the prior by the evidence, the default, instead of \
                 `with_prior`",
                rise.at_mean,
                rise.at_draws,
                rise.at_mean + rise.quadratic
            );
        }
        Ok(())
    }
}
