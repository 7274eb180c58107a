//! The benchmark cases: a network with its mini-batch, and the variants of training it.

use std::fmt;
use std::time::{Duration, Instant};

use burn::module::{Module, ModuleDisplay};
use burn::optim::{AdamConfig, ModuleOptimizer};
use burn::tensor::Device;
use burn::train::{TrainOutput, TrainStep};
use burn_bayes::graph::ExampleBatch;
use burn_bayes::likelihood::MixDraws;
use burn_bayes::methods::{Averaging, FromGradients, IvonConfig, MeanStage, StepId, Update, Vifa};
use burn_bayes::{
    Bayesian, BayesianConfig, ExampleLoss, FusedAdamConfig, SlangConfig, SwagConfig, VifaConfig,
};

use crate::batches::{classification_batch, image_batch, regression_batch};
use crate::models::{MlpClassifier, MlpRegressor, ResNet18};
use crate::training::{Holder, Training, wait};

/// N of every posterior: the training rows of MNIST.
const TRAIN_LEN: usize = 60_000;

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

    /// Plain training and VIFA.
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

    /// The variants whose launches on a GPU are counted.
    pub fn every_method(self) -> Vec<Variant> {
        let mut variants = self.compared();
        variants.extend([Variant::Ivon, Variant::Swag { rank: 20 }]);
        variants
    }

    /// The [variants](Self::variants) and SLANG, which needs the losses of examples; ratios are relative to the first.
    pub fn compared(self) -> Vec<Variant> {
        let mut variants = self.variants();
        if matches!(self, Self::Small | Self::Mlp) {
            variants.extend([1, 8].map(|rank| Variant::Slang { rank }));
        }
        variants
    }

    /// The case of this name on the command line.
    ///
    /// `None` if there is none.
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "small" => Some(Self::Small),
            "mlp" => Some(Self::Mlp),
            "resnet32" => Some(Self::ResNet32),
            "resnet64" => Some(Self::ResNet64),
            _ => None,
        }
    }

    /// A training of this case, for one variant.
    ///
    /// # Panics
    ///
    /// If SLANG is to train a ResNet: batch normalisation has no loss of one example.
    pub fn stepper(self, variant: Variant, holder: Holder) -> Box<dyn Stepper> {
        let device = Device::default().autodiff();
        device.seed(0);
        match self {
            Self::Small => example_stepper(
                MlpRegressor::new(&[13, 50, 1], &device),
                regression_batch(10, 13, &device),
                variant,
                holder,
            ),
            Self::Mlp => example_stepper(
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
    /// IVON at its defaults.
    Ivon,
    /// SWAG with this many deviations, from its first step on.
    Swag {
        /// Number of deviations.
        rank: usize,
    },
    /// SLANG of this rank.
    Slang {
        /// Number of factors.
        rank: usize,
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
            Self::Ivon => write!(f, "ivon"),
            Self::Swag { rank } => write!(f, "swag/k={rank}"),
            Self::Slang { rank } => write!(f, "slang/k={rank}"),
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
            let bayesian = BayesianConfig::new(TRAIN_LEN, VifaConfig::new().with_rank(rank))
                .with_draws(draws)
                .with_mean_stage(MeanStage::None)
                .with_averaging(Averaging::None)
                .init(model);
            let training = Training::new(bayesian, optimizer.init(), holder);
            Box::new(Wrapped(training, batch, 0))
        }
        Variant::Ivon => {
            let bayesian = BayesianConfig::new(TRAIN_LEN, IvonConfig::new())
                .with_mean_stage(MeanStage::None)
                .with_averaging(Averaging::None)
                .init(model);
            let training = Training::new(bayesian, Optimizer::Fused.init(), holder);
            Box::new(Plain(training, batch))
        }
        Variant::Swag { rank } => {
            let bayesian = BayesianConfig::new(
                TRAIN_LEN,
                SwagConfig::new().with_start(Some(1)).with_rank(rank),
            )
            .init(model);
            let training = Training::new(bayesian, Optimizer::Fused.init(), holder);
            Box::new(Plain(training, batch))
        }
        Variant::Slang { .. } => panic!("SLANG needs the losses of examples"),
    }
}

/// A training of a network that has a loss of every example.
fn example_stepper<M, B>(model: M, batch: B, variant: Variant, holder: Holder) -> Box<dyn Stepper>
where
    M: Module + ModuleDisplay + ExampleLoss + TrainStep<Input = B, Output: MixDraws> + 'static,
    B: ExampleBatch + 'static,
{
    let Variant::Slang { rank } = variant else {
        return stepper(model, batch, variant, holder);
    };
    let bayesian = BayesianConfig::new(TRAIN_LEN, SlangConfig::new().with_rank(rank))
        .with_mean_stage(MeanStage::None)
        .with_averaging(Averaging::None)
        .init(model);
    let training = Training::new(bayesian, Optimizer::Fused.init(), holder);
    Box::new(Plain(training, batch))
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
    wait();
    *total += start.elapsed();
    result
}
