//! A step of IVON: computed from sums over examples, and applied with the learning rate.

use burn::tensor::Tensor;
use burn_bayes_eval::Bounded;

use super::{Fixed, Ivon};
use crate::error::Result;
use crate::methods::average::Iterate;
use crate::methods::stages::{StageEvent, StageUpdate};
use crate::methods::start::updated;

/// A step of IVON, before the learning rate is applied.
#[derive(Debug)]
pub struct IvonStep {
    /// The number of the step, from 1.
    step: u64,
    /// ĝ.
    gradient: Tensor<1>,
    /// h + δ.
    curvature: Tensor<1>,
    /// The length √(rᵀP⁻¹r) of r = λ(ĝ + δ⊙m).
    length: f64,
}

impl Ivon {
    /// Step number `step` from the sums over examples of ĝ and of ĝ⊙(θ−m).
    ///
    /// # Errors
    ///
    /// A numerical error if the step would not be finite.
    pub(super) fn update(
        &self,
        step: u64,
        gradient: Tensor<1>,
        products: Tensor<1>,
        examples: Tensor<1>,
    ) -> Result<IvonStep> {
        let (ess, gradient) = (self.fixed.setup.ess, gradient / examples.clone());
        let mean = self.mean.val().without_autodiff();
        let regularised = gradient.clone() + self.delta(&mean.device()) * mean;
        let curvature = self.next_curvature(step, products / examples);
        // One read from the device; the sums are not finite if any element is not finite.
        let size = regularised.square() / curvature.clone();
        let numbers = Tensor::cat(vec![size.sum(), curvature.clone().sum()], 0);
        let numbers: Vec<f64> = numbers.into_data().iter::<f64>().collect();
        if !numbers.iter().sum::<f64>().is_finite() {
            return Err(self.fixed.setup.non_finite(step, gradient));
        }
        Ok(IvonStep {
            step,
            gradient,
            curvature,
            length: (ess * numbers[0]).sqrt(),
        })
    }

    /// h + δ after step number `step`, from the mean of ĝ⊙(θ−m).
    fn next_curvature(&self, step: u64, products: Tensor<1>) -> Tensor<1> {
        let before = self.curvature.val().without_autodiff();
        let delta = self.delta(&before.device());
        // (ĥ+δ)/(h+δ), and the new h+δ by completing the square.
        let ratio = products.mul_scalar(self.fixed.setup.ess) + delta / before.clone();
        let rate = self.config().precision_rate.at(step - 1);
        let root = ratio.sub_scalar(1.0).mul_scalar(rate).add_scalar(1.0);
        before * root.square().add_scalar(1.0).mul_scalar(0.5)
    }

    /// Applies a step.
    pub(super) fn with_update(mut self, newton: IvonStep, learning_rate: f64) -> Self {
        let config = &self.fixed.config;
        let scale = (config.radius / (learning_rate * newton.length)).at_most(1.0);
        let (decay, share) = (config.momentum, (1.0 - config.momentum) * scale);
        let gradient = newton.gradient.mul_scalar(share);
        self.moment = updated(self.moment, |moment| moment.mul_scalar(decay) + gradient);
        self.weight = updated(self.weight, |weight| {
            weight.mul_scalar(decay).add_scalar(share)
        });

        let [mean, moment, weight] =
            [&self.mean, &self.moment, &self.weight].map(|param| param.val().without_autodiff());
        let count = self.steps.value() + 1;
        self.steps = self.steps.with_value(count);
        let left = decay.powi(i32::try_from(count).unwrap_or(i32::MAX));
        let regularised = moment + self.delta(&mean.device()) * mean * weight;
        let direction = regularised.div_scalar(1.0 - left) / newton.curvature.clone();
        let direction = match config.clip_radius {
            Some(radius) => direction.clamp(-radius, radius),
            None => direction,
        };
        let change = direction.mul_scalar(learning_rate);
        self.mean = updated(self.mean, |mean| mean - change);
        self.curvature = updated(self.curvature, |_| newton.curvature);
        let mean = || Iterate::of_mean(self.mean.val().without_autodiff());
        self.stages = self.stages.with_iterate(newton.step, mean);
        self
    }

    /// Applies a step of the first two stages.
    pub(super) fn with_stage(mut self, update: StageUpdate) -> Self {
        let Fixed { setup, config } = self.fixed.as_ref();
        let (stages, mean, event) = self.stages.apply(setup, update, self.mean);
        self.stages = stages;
        self.mean = mean;
        let curvature = match event {
            StageEvent::Start(curvature) if config.initial_hessian.is_none() => {
                let precision = self.stages.start(setup, curvature);
                updated(self.curvature, |_| precision.div_scalar(setup.ess))
            }
            StageEvent::Rescale(factors) => {
                updated(self.curvature, |curvature| curvature / factors)
            }
            _ => self.curvature,
        };
        Self { curvature, ..self }
    }
}
