//! The benchmark cases: a network with its mini-batch, and the variants of training it.

use std::fmt;
use std::time::{Duration, Instant};

use burn::module::{Module, ModuleDisplay};
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::Device;
use burn::train::{TrainOutput, TrainStep};
use burn_bayes::likelihood::MixDraws;
use burn_bayes::methods::{Averaging, FromGradients, MeanStage, StepId, Update, Vifa};
use burn_bayes::{Bayesian, FusedAdamConfig, VifaConfig};

use crate::batches::{classification_batch, image_batch, regression_batch};
use crate::models::{MlpClassifier, MlpRegressor, ResNet18};
use crate::training::{Holder, Training};

/// A network and the shape of its mini-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A regression network 13-50-1 with mini-batches of 10 rows.
    Small,
    /// A classifier 784-400-400-10 with mini-batches of 200 rows.
    Mlp,
    /// ResNet-18 with mini-batches of 16 images, 32×32.
    ResNet32,
    /// ResNet-18 with mini-batches of 16 images, 64×64.
    ResNet64,
}

impl Case {
    /// All cases, fastest first.
    pub const ALL: [Self; 4] = [Self::Small, Self::Mlp, Self::ResNet32, Self::ResNet64];

    /// The network and its mini-batch.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "13-50-1/batch=10",
            Self::Mlp => "784-400-400-10/batch=200",
            Self::ResNet32 => "resnet18/32x32/batch=16",
            Self::ResNet64 => "resnet18/64x64/batch=16",
        }
    }

    /// The variants of training that are compared; ratios are relative to the first.
    pub fn variants(self) -> Vec<Variant> {
        let mut variants = vec![
            Variant::Plain(Optimizer::Burn),
            Variant::Plain(Optimizer::Fused),
            Variant::vifa(1),
        ];
        match self {
            Self::Small => variants.push(Variant::Vifa {
                rank: 1,
                draws: 4,
                optimizer: Optimizer::Fused,
            }),
            Self::Mlp => variants.extend([Variant::vifa(8), Variant::vifa(32)]),
            Self::ResNet32 | Self::ResNet64 => {}
        }
        variants
    }

    /// A training of this case, for one variant.
    pub fn stepper(self, variant: Variant, holder: Holder) -> Box<dyn Stepper> {
        let device = Device::default().autodiff();
        device.seed(0);
        match self {
            Self::Small => stepper(
                MlpRegressor::new(&[13, 50, 1], &device),
                regression_batch(10, 13, &device),
                variant,
                holder,
            ),
            Self::Mlp => stepper(
                MlpClassifier::new(&[784, 400, 400, 10], &device),
                classification_batch(200, 784, 10, &device),
                variant,
                holder,
            ),
            Self::ResNet32 | Self::ResNet64 => {
                let side = if self == Self::ResNet32 { 32 } else { 64 };
                let model = ResNet18::new(3, 10, &device);
                stepper(
                    model,
                    image_batch(16, [3, side], 10, &device),
                    variant,
                    holder,
                )
            }
        }
    }
}

/// The implementation of Adam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimizer {
    /// Burn's Adam.
    Burn,
    /// Our fused Adam, in one pass.
    Fused,
}

impl Optimizer {
    fn init(self) -> ModuleOptimizer {
        match self {
            Self::Burn => AdamConfig::new().init(),
            Self::Fused => FusedAdamConfig::new().init(),
        }
    }
}

/// A variant of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The plain model.
    Plain(Optimizer),
    /// VIFA with this rank and number of draws.
    Vifa {
        /// Number of factors.
        rank: usize,
        /// Draws per step.
        draws: usize,
        /// The optimiser.
        optimizer: Optimizer,
    },
}

impl Variant {
    /// VIFA with this rank, one draw and our Adam.
    pub fn vifa(rank: usize) -> Self {
        Self::Vifa {
            rank,
            draws: 1,
            optimizer: Optimizer::Fused,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adam = |optimizer: &Optimizer| match optimizer {
            Optimizer::Burn => "Adam",
            Optimizer::Fused => "FusedAdam",
        };
        match self {
            Self::Plain(optimizer) => write!(f, "plain/{}", adam(optimizer)),
            Self::Vifa {
                rank,
                draws,
                optimizer,
            } => write!(f, "vifa/k={rank}/draws={draws}/{}", adam(optimizer)),
        }
    }
}

/// A training with erased model type.
pub trait Stepper {
    /// One step.
    fn step(&mut self);

    /// The times of the parts of one VIFA step; `None` for a plain model.
    fn parts(&mut self) -> Option<Parts>;
}

/// The times of the parts of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// The draw, and the K×K block computed with it.
    pub draw: Duration,
    /// Writing the draw into a copy of the model.
    pub write: Duration,
    /// The model's own forward and backward pass.
    pub model: Duration,
    /// The gradient of the posterior's parameters from that of the model.
    pub gradient: Duration,
    /// The optimiser.
    pub optimizer: Duration,
}

struct Plain<M: TrainStep>(Training<M>, <M as TrainStep>::Input);

struct Wrapped<M: Module + TrainStep>(Training<Bayesian<M, Vifa>>, <M as TrainStep>::Input, u64);

fn stepper<M>(
    model: M,
    batch: <M as TrainStep>::Input,
    variant: Variant,
    holder: Holder,
) -> Box<dyn Stepper>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws> + 'static,
{
    match variant {
        Variant::Plain(optimizer) => {
            Box::new(Plain(Training::new(model, optimizer.init(), holder), batch))
        }
        Variant::Vifa {
            rank,
            draws,
            optimizer,
        } => {
            let bayesian = VifaConfig::new(60_000)
                .with_rank(rank)
                .with_draws(draws)
                .with_mean_stage(MeanStage::None)
                .with_averaging(Averaging::None)
                .init(model);
            let training = Training::new(bayesian, optimizer.init(), holder);
            Box::new(Wrapped(training, batch, 0))
        }
    }
}

impl<M: Module + TrainStep<Input: Clone>> Stepper for Plain<M> {
    fn step(&mut self) {
        self.0.step(self.1.clone());
    }

    fn parts(&mut self) -> Option<Parts> {
        None
    }
}

impl<M> Stepper for Wrapped<M>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws> + 'static,
{
    fn step(&mut self) {
        self.0.step(self.1.clone());
    }

    fn parts(&mut self) -> Option<Parts> {
        let Self(training, batch, step) = self;
        *step += 1;
        let id = StepId {
            step: *step,
            pass: 0,
        };
        let mut parts = Parts::default();
        let bayesian = training.model();
        let (algorithm, layout) = (bayesian.algorithm(), bayesian.layout());
        let proposal = timed(&mut parts.draw, || algorithm.propose(id)).ok()?;
        let (mut pieces, mut rows) = (Vec::new(), 0);
        for draw in &proposal.draws {
            let model = timed(&mut parts.write, || {
                layout.write_leaves(bayesian.template().clone(), draw.weights.clone())
            })
            .ok()?;
            let TrainOutput { mut grads, item } =
                timed(&mut parts.model, || TrainStep::step(&model, batch.clone()));
            rows = item.rows();
            let piece = timed(&mut parts.gradient, || {
                layout.gradient_parts(&model, &mut grads)
            });
            pieces.push(piece.ok()?);
        }
        let update = timed(&mut parts.gradient, || {
            algorithm.step(proposal, pieces, rows)
        });
        if let Update::Gradients(gradients) = update.ok()? {
            timed(&mut parts.optimizer, || training.update(gradients));
        }
        Some(parts)
    }
}

/// Adds the time that `work` takes to `total`.
fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *total += start.elapsed();
    result
}
