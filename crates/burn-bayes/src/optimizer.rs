//! Adam and stochastic gradient descent that read and write each number once.
//!
//! Both implement Burn's [`Optimizer`], take the settings of Burn's own and give the same steps; use
//! them for any module. On backends without fused kernels they run as composed tensor operations.
//!
//! Adam (Kingma and Ba 2015): m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²,
//! θ ← θ − lr · m̂/(√v̂ + ε) with m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ). AMSGrad (Reddi, Kale and Kumar 2018)
//! replaces v by its largest value so far.

use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{LearningRate, ModuleOptimizer, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

use crate::kernels::{self, AdamStep, AdamValues, SgdMomentum, SgdStep, SgdValues};

/// Settings of [`FusedAdam`]: those of Burn's `AdamConfig`.
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

    /// The optimiser of a whole module.
    pub fn init(&self) -> ModuleOptimizer {
        with_clipping(self.build().into(), self.grad_clipping.as_ref())
    }
}

/// Adam in one pass.
#[derive(Clone, Debug)]
pub struct FusedAdam {
    config: FusedAdamConfig,
}

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
            weight_decay: penalty(self.config.weight_decay.as_ref()),
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

/// Settings of [`FusedSgd`]: those of Burn's `SgdConfig`.
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct FusedSgdConfig {
    /// L2 penalty, added to the gradient.
    pub weight_decay: Option<WeightDecayConfig>,
    /// Momentum, its dampening, and Nesterov's look-ahead.
    pub momentum: Option<MomentumConfig>,
    /// Clipping of each parameter's gradient.
    pub gradient_clipping: Option<GradientClippingConfig>,
}

impl FusedSgdConfig {
    /// The bare optimiser, for `ModuleOptimizer::with_group`.
    pub fn build(&self) -> FusedSgd {
        FusedSgd {
            config: self.clone(),
        }
    }

    /// The optimiser of a whole module.
    pub fn init(&self) -> ModuleOptimizer {
        with_clipping(self.build().into(), self.gradient_clipping.as_ref())
    }
}

/// Stochastic gradient descent in one pass.
#[derive(Clone, Debug)]
pub struct FusedSgd {
    config: FusedSgdConfig,
}

/// The velocity of [`FusedSgd`].
#[derive(Clone, Debug)]
pub struct FusedSgdState<const D: usize> {
    velocity: Option<Tensor<D>>,
}

impl<const D: usize> RecordState for FusedSgdState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        if let Some(velocity) = &self.velocity {
            out.push_tensor(prefix, "velocity", velocity.to_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let velocity = src.take_tensor(prefix, "velocity");
        Some(Self {
            velocity: velocity.map(|data| Tensor::from_data(data, device)),
        })
    }
}

impl Optimizer for FusedSgd {
    type State<const D: usize> = FusedSgdState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: LearningRate,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let step = SgdStep {
            learning_rate,
            momentum: self.config.momentum.as_ref().map(|config| SgdMomentum {
                factor: config.momentum as f32,
                dampening: config.dampening,
                nesterov: config.nesterov,
            }),
            weight_decay: penalty(self.config.weight_decay.as_ref()),
        };
        let velocity = state.and_then(|state| state.velocity);
        let SgdValues {
            parameter,
            velocity,
        } = kernels::sgd(
            SgdValues {
                parameter,
                velocity,
            },
            gradient,
            step,
        );
        (parameter, Some(FusedSgdState { velocity }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        FusedSgdState {
            velocity: state.velocity.map(|velocity| velocity.to_device(device)),
        }
    }
}

fn penalty(decay: Option<&WeightDecayConfig>) -> f32 {
    decay.map_or(0.0, |decay| decay.penalty)
}

fn with_clipping(
    optimizer: ModuleOptimizer,
    clipping: Option<&GradientClippingConfig>,
) -> ModuleOptimizer {
    match clipping {
        Some(clipping) => optimizer.with_grad_clipping(clipping.init()),
        None => optimizer,
    }
}
