//! A step of IVON: computed from sums over examples, and applied with the learning rate.

use burn::tensor::Tensor;

use super::Ivon;
use crate::error::Result;
use crate::methods::average::approach;
use crate::methods::start::updated;

/// A step of IVON, before the learning rate is applied.
#[derive(Debug)]
pub struct IvonStep {
    /// The number of the step, from 1.
    step: u64,
    /// M.
    examples: f64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A step of the first stage, by the gradient λĝ + α⊙m.
    Mean(Box<Tensor<1>>),
    Newton(Box<Newton>),
}

#[derive(Debug)]
struct Newton {
    /// ĝ.
    gradient: Tensor<1>,
    /// h + δ.
    curvature: Tensor<1>,
    /// The length √(rᵀP⁻¹r) of r = λ(ĝ + δ⊙m).
    length: f64,
}

impl Ivon {
    /// Step number `step` from the sums over examples of ĝ and, where draws are made, of ĝ⊙(θ−m).
    ///
    /// # Errors
    ///
    /// A numerical error if the step would not be finite.
    pub(super) fn update(
        &self,
        step: u64,
        gradient: Tensor<1>,
        products: Option<Tensor<1>>,
        examples: Tensor<1>,
    ) -> Result<IvonStep> {
        let (ess, gradient) = (self.fixed.ess, gradient / examples.clone());
        let mean = self.mean.val().without_autodiff();
        let regularised = gradient.clone() + self.fixed.delta(&mean.device()) * mean;
        let square = regularised.clone().square();
        let curvature =
            products.map(|products| self.next_curvature(step, products / examples.clone()));
        let (size, finite) = match &curvature {
            Some(curvature) => (square / curvature.clone(), curvature),
            None => (square, &gradient),
        };
        // One read from the device; the sums are not finite if any element is not finite.
        let numbers = Tensor::cat(vec![examples, size.sum(), finite.clone().sum()], 0);
        let numbers: Vec<f64> = numbers.into_data().iter::<f64>().collect();
        if !(numbers[1] + numbers[2]).is_finite() {
            return Err(self.fixed.setup.non_finite(step, gradient));
        }
        let kind = match curvature {
            Some(curvature) => Kind::Newton(Box::new(Newton {
                gradient,
                curvature,
                length: (ess * numbers[1]).sqrt(),
            })),
            None => Kind::Mean(Box::new(regularised.mul_scalar(ess))),
        };
        Ok(IvonStep {
            step,
            examples: numbers[0],
            kind,
        })
    }

    /// h + δ after step number `step`, from the mean of ĝ⊙(θ−m).
    fn next_curvature(&self, step: u64, products: Tensor<1>) -> Tensor<1> {
        let before = self.curvature.val().without_autodiff();
        let delta = self.fixed.delta(&before.device());
        // (ĥ+δ)/(h+δ), and the new h+δ by completing the square.
        let ratio = products.mul_scalar(self.fixed.ess) + delta / before.clone();
        let rate = self.config().precision_rate.at(step - 1);
        let root = ratio.sub_scalar(1.0).mul_scalar(rate).add_scalar(1.0);
        before * root.square().add_scalar(1.0).mul_scalar(0.5)
    }

    /// Applies a step.
    pub(super) fn with_update(self, update: IvonStep, learning_rate: f64) -> Self {
        let IvonStep {
            step,
            examples,
            kind,
        } = update;
        match kind {
            Kind::Mean(gradient) => self.with_mean_step(*gradient, step, examples),
            Kind::Newton(newton) => {
                let ivon = self.with_newton(*newton, step, learning_rate);
                ivon.with_average(step)
            }
        }
    }

    fn with_newton(mut self, newton: Newton, step: u64, learning_rate: f64) -> Self {
        let config = &self.fixed.config;
        let scale = (config.radius / (learning_rate * newton.length)).min(1.0);
        let (decay, share) = (config.momentum, (1.0 - config.momentum) * scale);
        let gradient = newton.gradient.mul_scalar(share);
        self.moment = updated(self.moment, |moment| moment.mul_scalar(decay) + gradient);
        self.weight = updated(self.weight, |weight| {
            weight.mul_scalar(decay).add_scalar(share)
        });

        let [mean, moment, weight] =
            [&self.mean, &self.moment, &self.weight].map(|param| param.val().without_autodiff());
        let count = step - self.second_stage().unwrap_or(0);
        let left = decay.powi(i32::try_from(count).unwrap_or(i32::MAX));
        let regularised = moment + self.fixed.delta(&mean.device()) * mean * weight;
        let direction = regularised.div_scalar(1.0 - left) / newton.curvature.clone();
        let direction = match config.clip_radius {
            Some(radius) => direction.clamp(-radius, radius),
            None => direction,
        };
        let change = direction.mul_scalar(learning_rate);
        self.mean = updated(self.mean, |mean| mean - change);
        self.curvature = updated(self.curvature, |_| newton.curvature);
        self
    }

    /// With the mean after step number `step` in the average.
    fn with_average(mut self, step: u64) -> Self {
        let count = self.averaged(step);
        if count > 0 {
            let weight = self.config().averaging.weight(count);
            let mean = self.mean.val().without_autodiff();
            self.average = self.average.map(|average| approach(average, &mean, weight));
        }
        self
    }

    /// Adam's step of the first stage, and at the stage's end the curvature.
    fn with_mean_step(mut self, gradient: Tensor<1>, step: u64, examples: f64) -> Self {
        let (fixed, config) = (&self.fixed, &self.fixed.config);
        let Some(training) = self.mean_training.take() else {
            return self;
        };
        let stage = config
            .mean_stage
            .resolved(config.train_len, examples as usize);
        let rate = config.mean_stage_rate;
        let (training, mean) = training.step(self.mean, gradient, step, rate, stage);
        self.mean = mean;
        if training.end().is_some() && config.initial_hessian.is_none() {
            // The gradients of this stage have the factor λ.
            let scale = examples / fixed.ess.powi(2);
            let hessian = training.squares(step).mul_scalar(scale);
            let delta = fixed.delta(&hessian.device());
            self.curvature = updated(self.curvature, |_| hessian + delta);
        }
        self.mean_training = Some(training);
        self
    }
}
