//! A step of IVON: computed from means over examples, and applied with the learning rate.

use burn::module::Param;
use burn::tensor::{Device, Tensor};
use burn_bayes_eval::Bounded;

use super::IvonState;
use crate::error::Result;
use crate::kernels::{sum, to_host};
use crate::methods::method_state::Context;
use crate::methods::start::updated;

/// A step of IVON, before the learning rate is applied.
#[derive(Debug)]
pub struct IvonStep {
    /// ĝ.
    gradient: Tensor<1>,
    /// h + δ.
    curvature: Tensor<1>,
    /// The length √(rᵀP⁻¹r) of r = λ(ĝ + δ⊙m).
    length: f64,
}

/// δ, broadcastable to `[D]`.
fn delta(context: Context<'_>, device: &Device) -> Tensor<1> {
    context.prior.tensor(device).div_scalar(context.setup.ess)
}

impl IvonState {
    /// Step number `step` from the means over so many examples of ĝ and of ĝ⊙(θ−m).
    ///
    /// # Errors
    ///
    /// A numerical error if the step would not be finite.
    pub(super) fn newton_step(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        step: u64,
        gradient: Tensor<1>,
        products: Tensor<1>,
        examples: Tensor<1>,
    ) -> Result<IvonStep> {
        let regularised = gradient.clone() + delta(context, &mean.device()) * mean;
        let curvature = self.next_curvature(context, step, products, examples);
        // One read from the device; the sums are not finite if any element is not finite.
        let size = regularised.square() / curvature.clone();
        let numbers = to_host(Tensor::cat(vec![sum(size), sum(curvature.clone())], 0));
        if !numbers.iter().sum::<f64>().is_finite() {
            return Err(context.setup.non_finite(step, gradient));
        }
        Ok(IvonStep {
            gradient,
            curvature,
            length: (context.setup.ess * numbers[0]).sqrt(),
        })
    }

    /// h + δ after step number `step`, from the mean of ĝ⊙(θ−m).
    fn next_curvature(
        &self,
        context: Context<'_>,
        step: u64,
        products: Tensor<1>,
        examples: Tensor<1>,
    ) -> Tensor<1> {
        let before = self.curvature.val().without_autodiff();
        let delta = delta(context, &before.device());
        // (ĥ+δ)/(h+δ), and the new h+δ by completing the square.
        let ratio = products.mul_scalar(context.setup.ess) + delta / before.clone();
        let rate = self.config.covariance_rate;
        let price = rate.of_price(context.length, step - 1);
        // The number of examples is on the device.
        let rate = examples.mul_scalar(price.most / context.setup.ess);
        let rate = rate.clamp_max(price.weight);
        let root = (ratio.sub_scalar(1.0) * rate).add_scalar(1.0);
        before * root.square().add_scalar(1.0).mul_scalar(0.5)
    }

    /// Applies a step.
    pub(super) fn with_newton_step(
        mut self,
        context: Context<'_>,
        mean: Param<Tensor<1>>,
        newton: IvonStep,
        learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>) {
        let config = &self.config;
        let scale = (config.radius / (learning_rate * newton.length)).at_most(1.0);
        let (decay, share) = (config.momentum, (1.0 - config.momentum) * scale);
        let gradient = newton.gradient.mul_scalar(share);
        self.moment = updated(self.moment, |moment| moment.mul_scalar(decay) + gradient);
        self.weight = updated(self.weight, |weight| {
            weight.mul_scalar(decay).add_scalar(share)
        });

        let [center, moment, weight] =
            [&mean, &self.moment, &self.weight].map(|param| param.val().without_autodiff());
        let count = self.steps.value() + 1;
        self.steps = self.steps.with_value(count);
        let left = decay.powi(i32::try_from(count).unwrap_or(i32::MAX));
        let regularised = moment + delta(context, &center.device()) * center * weight;
        let direction = regularised.div_scalar(1.0 - left) / newton.curvature.clone();
        let direction = match self.config.clip_value {
            Some(largest) => direction.clamp(-largest, largest),
            None => direction,
        };
        let change = direction.mul_scalar(learning_rate);
        self.curvature = updated(self.curvature, |_| newton.curvature);
        (self, updated(mean, |mean| mean - change))
    }
}
