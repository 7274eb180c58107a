//! Adam that reads and writes each number once.
//!
//! It implements Burn's [`Optimizer`], takes the settings of Burn's own and gives the same steps; use
//! it for any module. On backends without fused kernels it runs as composed tensor operations.
//!
//! Adam (Kingma and Ba 2015): m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²,
//! θ ← θ − lr · m̂/(√v̂ + ε) with m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ). AMSGrad (Reddi, Kale and Kumar 2018)
//! replaces v by its largest value so far.

use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{LearningRate, ModuleOptimizer, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

use crate::kernels::{self, AdamStep, AdamValues};
use crate::methods::share_of_prior;

/// Settings of [`FusedAdam`]: those of Burn's `AdamConfig`, and a penalty that grows.
///
/// ```
/// use burn_bayes::FusedAdamConfig;
///
/// let optimizer = FusedAdamConfig::new().init(); // where Burn's `AdamConfig::new().init()` stood
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct FusedAdamConfig {
    /// β₁, the decay of the first moment.
    #[config(default = 0.9)]
    pub beta_1: f32,
    /// β₂, the decay of the second moment.
    #[config(default = 0.999)]
    pub beta_2: f32,
    /// ε, added to the root of the second moment.
    #[config(default = 1e-5)]
    pub epsilon: f32,
    /// Whether to divide by the largest second moment so far (AMSGrad).
    #[config(default = false)]
    pub amsgrad: bool,
    /// L2 penalty, added to the gradient.
    pub weight_decay: Option<WeightDecayConfig>,
    /// The number of steps in which the penalty grows from nothing. Deep networks may not get away from the origin with a
    /// penalty from the first step on.
    #[config(default = 0)]
    pub decay_warm_up: u64,
    /// Clipping of each parameter's gradient.
    pub grad_clipping: Option<GradientClippingConfig>,
}

impl FusedAdamConfig {
    /// The bare optimiser, for `ModuleOptimizer::with_group`.
    pub fn build(&self) -> FusedAdam {
        FusedAdam {
            config: self.clone(),
        }
    }

    /// The penalty of step number `step`, from 1.
    fn penalty(&self, step: u64) -> f32 {
        let decay = self.weight_decay.as_ref();
        let penalty = decay.map_or(0.0, |decay| decay.penalty);
        penalty * share_of_prior(step, self.decay_warm_up) as f32
    }

    /// The optimiser of a whole module.
    pub fn init(&self) -> ModuleOptimizer {
        let optimizer = ModuleOptimizer::from(self.build());
        match &self.grad_clipping {
            Some(clipping) => optimizer.with_grad_clipping(clipping.init()),
            None => optimizer,
        }
    }
}

/// Adam in one pass.
#[derive(Clone, Debug)]
pub struct FusedAdam {
    config: FusedAdamConfig,
}

#[doc(hidden)]
/// The moments of [`FusedAdam`].
#[derive(Clone, Debug)]
pub struct FusedAdamState<const D: usize> {
    time: usize,
    moment_1: Tensor<D>,
    moment_2: Tensor<D>,
    max_moment_2: Option<Tensor<D>>,
}

impl<const D: usize> RecordState for FusedAdamState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_scalar(prefix, "time", self.time.into());
        out.push_tensor(prefix, "moment_1", self.moment_1.to_data());
        out.push_tensor(prefix, "moment_2", self.moment_2.to_data());
        if let Some(largest) = &self.max_moment_2 {
            out.push_tensor(prefix, "max_moment_2", largest.to_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self {
            time: src.take_scalar(prefix, "time")?.try_into().ok()?,
            moment_1: Tensor::from_data(src.take_tensor(prefix, "moment_1")?, device),
            moment_2: Tensor::from_data(src.take_tensor(prefix, "moment_2")?, device),
            max_moment_2: src
                .take_tensor(prefix, "max_moment_2")
                .map(|data| Tensor::from_data(data, device)),
        })
    }
}

impl Optimizer for FusedAdam {
    type State<const D: usize> = FusedAdamState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let FusedAdamState {
            time,
            moment_1,
            moment_2,
            max_moment_2,
        } = state.unwrap_or_else(|| FusedAdamState {
            time: 0,
            moment_1: parameter.zeros_like(),
            moment_2: parameter.zeros_like(),
            max_moment_2: None,
        });
        let time = time + 1;
        let amsgrad = self.config.amsgrad;
        let max_moment_2 = amsgrad.then(|| max_moment_2.unwrap_or_else(|| parameter.zeros_like()));
        let step = AdamStep {
            learning_rate,
            beta_1: self.config.beta_1,
            beta_2: self.config.beta_2,
            epsilon: self.config.epsilon,
            weight_decay: self.config.penalty(time as u64),
            time,
        };
        let values = AdamValues {
            parameter,
            moment_1,
            moment_2,
            max_moment_2,
        };
        let AdamValues {
            parameter,
            moment_1,
            moment_2,
            max_moment_2,
        } = kernels::adam(values, gradient, step);
        (
            parameter,
            Some(FusedAdamState {
                time,
                moment_1,
                moment_2,
                max_moment_2,
            }),
        )
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        FusedAdamState {
            time: state.time,
            moment_1: state.moment_1.to_device(device),
            moment_2: state.moment_2.to_device(device),
            max_moment_2: state.max_moment_2.map(|largest| largest.to_device(device)),
        }
    }
}
