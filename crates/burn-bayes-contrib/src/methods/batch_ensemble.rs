//! Batch ensembles: members that share all matrices up to factors of rank one (Wen et al. 2020).
//!
//! Member m has for every matrix W, `[a, b]` or `[a, b, …]`, the weights
//!
//! * W_m = W ∘ r_m s_mᵀ, with r_m of length a and s_m of length b, broadcast over further axes,
//!
//! and its own vectors (biases, scales of normalisations). The loss is the mean over the M members of their mean
//! negative log-likelihood and α/2λ ‖θ_m‖², the penalty of the prior on all weights θ_m of a member. With the gradient
//! G_m of both at member m, its gradients are
//!
//! * ∂W = 1/M Σ_m G_m ∘ r_m s_mᵀ, ∂r_m = 1/M (G_m ∘ W) s_m, ∂s_m = 1/M (G_m ∘ W)ᵀ r_m.
//!
//! An ensemble of ten members of a network has little more parameters than the network. A step evaluates all
//! members on the same mini-batch, which costs as much as that of M networks; with
//! [`with_batched_draws`](burn_bayes::Bayesian::with_batched_draws) it is one pass.
//!
//! λ weakens the prior, unlike that of other methods: members have no deviations that it could change. With α/2N, a transformer with
//! more weights than rows lost .60 nats per row, and a network without a penalty .23.
//!
//! Use no weight decay of the optimiser. It would shrink W, r and s by themselves, and where all are near zero, their
//! gradients are too. The paper has weight decay on W only.
//!
//! Every member has running statistics of its own, such as those of batch norm: it is evaluated with them, and updates them.
//!
//! The posterior is the mixture of the members, with equal weights.
//!
//! | symbol | field |
//! |---|---|
//! | W | `shared` |
//! | r_m, s_m and the vectors | row m of `own` |
//! | M | `members` |
//! | N, λ | `train_len`, `ess` |
//! | α | `prior` |

mod pieces;

use std::convert::Infallible;
use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param, RunningState};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn_bayes::graph::Layout;
use burn_bayes::kernels::to_host;
use burn_bayes::memory::{MemoryPlan, OptimizerMemory};
use burn_bayes::methods::checks::{counts, positive};
use burn_bayes::methods::{
    Algorithm, BayesianConfig, Draw, FromGradients, GradientPieces, LearningRates, MethodConfig,
    Proposal, Setup, StepId, Update, joined, purpose, trained,
};
use burn_bayes::posterior::{Mixture, PointPosterior, running};
use burn_bayes::prior::{Prior, PriorPrecisions};
use burn_bayes::{Noise, Result};
use serde::{Deserialize, Serialize};

use self::pieces::{Piece, pieces};
use super::samples::{member_statistics, point};

/// The initial r_m and s_m.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum InitialRankOne {
    /// ±1 at random: members begin as unrelated networks, which some networks do not recover from.
    Signs,
    /// 1 plus Gaussian noise of this standard deviation; small for models that are trained already.
    NearOne(f64),
}

/// Settings of a batch ensemble.
///
/// ```
/// use burn_bayes::BayesianConfig;
/// use burn_bayes_contrib::methods::{BatchEnsembleConfig, InitialRankOne};
///
/// let config = BayesianConfig::new(60_000, BatchEnsembleConfig::new(4));
/// let near = InitialRankOne::NearOne(0.1);
/// let fine_tuning = config.map_method(|method| method.with_initial_rank_one(near));
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct BatchEnsembleConfig {
    /// M, the number of members. Paper: 4.
    pub members: usize,
    /// The initial r and s. Paper: random signs.
    #[config(default = "InitialRankOne::NearOne(0.5)")]
    pub initial_rank_one: InitialRankOne,
}

impl MethodConfig for BatchEnsembleConfig {
    type Algorithm = BatchEnsemble;

    const USES: &'static [&'static str] = &["ess", "prior"];

    fn learning_rates(&self) -> LearningRates {
        // A step moves the shared matrices and both of a member's vectors.
        LearningRates::new(0.005)
    }

    fn validate(BayesianConfig { method, .. }: &BayesianConfig<Self>) -> Result<()> {
        counts([("members", method.members)])?;
        match method.initial_rank_one {
            InitialRankOne::Signs => Ok(()),
            InitialRankOne::NearOne(deviation) => positive("initial_rank_one", deviation),
        }
    }

    /// Of members whose shared weights are most.
    fn memory(
        config: &BayesianConfig<Self>,
        weights: usize,
        optimizer: OptimizerMemory,
    ) -> MemoryPlan {
        MemoryPlan::gaussian(weights, 0, config.method.members, optimizer)
    }

    fn build<M: Module>(config: &BayesianConfig<Self>, model: &M) -> Result<BatchEnsemble> {
        let method = &config.method;
        let setup = Setup::of(config, model)?.with_ess(config.ess);
        let weights = setup.layout.flatten(model)?;
        let prior = config.prior().resolve(&setup.layout)?;
        let pieces = pieces(&setup.layout);
        let device = weights.device();
        let rows = (0..method.members as u64).map(|member| {
            let noise = setup.noise.fold(purpose::INITIAL_FACTORS).row(member);
            method.initial_row(&pieces, &weights, noise, &device)
        });
        let own = Tensor::stack(rows.collect(), 0);
        let matrices = pieces.iter().filter(|piece| piece.shape.is_some());
        let matrices = matrices.map(|piece| weights.clone().narrow(0, piece.offset, piece.len));
        let matrices: Vec<_> = matrices.collect();
        let shared = (!matrices.is_empty()).then(|| trained(Tensor::cat(matrices, 0)));
        let running = running(model);
        let statistics = member_statistics(model, running.as_deref(), method.members)?;
        Ok(BatchEnsemble {
            shared,
            own: trained(own),
            statistics,
            running,
            settings: Arc::new(Settings {
                config: method.clone(),
                setup,
                prior,
                pieces,
            }),
        })
    }
}

impl BatchEnsembleConfig {
    /// What one member has of its own at the start.
    fn initial_row(
        &self,
        pieces: &[Piece],
        weights: &Tensor<1>,
        noise: Noise,
        device: &Device,
    ) -> Tensor<1> {
        let parts = pieces.iter().zip(0..).map(|(piece, index)| {
            if piece.shape.is_none() {
                return weights.clone().narrow(0, piece.offset, piece.len);
            }
            let normals = noise.fold(index).normal(piece.own_len(), device);
            match self.initial_rank_one {
                InitialRankOne::Signs => normals
                    .greater_elem(0.0)
                    .float()
                    .mul_scalar(2.0)
                    .sub_scalar(1.0),
                InitialRankOne::NearOne(deviation) => normals.mul_scalar(deviation).add_scalar(1.0),
            }
        });
        Tensor::cat(parts.collect(), 0)
    }
}

/// The shared matrices, and what the members have of their own.
#[derive(Module, Debug)]
pub struct BatchEnsemble {
    /// Absent if the layout has no matrix.
    shared: Option<Param<Tensor<1>>>,
    own: Param<Tensor<2>>,
    /// The running statistics of every member; empty if the model has none.
    statistics: Vec<RunningState<Tensor<1>>>,
    /// The places of the running statistics.
    #[module(skip)]
    running: Option<Arc<Layout>>,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    config: BatchEnsembleConfig,
    setup: Setup,
    prior: PriorPrecisions,
    pieces: Vec<Piece>,
}

impl BatchEnsemble {
    /// The configuration.
    pub fn config(&self) -> &BatchEnsembleConfig {
        &self.settings.config
    }

    /// r, s and the vectors of a member.
    fn row(&self, member: usize) -> Tensor<1> {
        let own = self.own.val().without_autodiff();
        let [_, len] = own.dims();
        own.narrow(0, member, 1).reshape([len])
    }

    /// A shared matrix as `[a, b, rest]`.
    fn matrix(&self, piece: Piece, shape: [usize; 3]) -> Option<Tensor<3>> {
        let shared = self.shared.as_ref()?.val().without_autodiff();
        Some(shared.narrow(0, piece.shared, piece.len).reshape(shape))
    }

    /// All weights of a member, `[D]`.
    fn weights(&self, member: usize) -> Tensor<1> {
        let row = self.row(member);
        let parts = self.settings.pieces.iter().map(|&piece| {
            let matrix = piece.shape.and_then(|shape| {
                let [left, right] = piece.rank_one(&row, shape);
                Some((self.matrix(piece, shape)? * left * right).reshape([piece.len]))
            });
            matrix.unwrap_or_else(|| row.clone().narrow(0, piece.own, piece.len))
        });
        Tensor::cat(parts.collect(), 0)
    }

    fn all_weights(&self) -> impl Iterator<Item = Tensor<1>> {
        (0..self.config().members).map(|member| self.weights(member))
    }
}

impl Algorithm for BatchEnsemble {
    type Signal = GradientPieces;
    type Posterior = Mixture<PointPosterior>;
    type ClosedForm = Infallible;

    fn setup(&self) -> &Setup {
        &self.settings.setup
    }

    fn perturbs_weights(&self) -> bool {
        false
    }

    fn last_mean(&self) -> Option<Tensor<1>> {
        Some(self.weights(0))
    }

    fn posterior(&self, _step: u64) -> Result<Mixture<PointPosterior>> {
        let layout = &self.setup().layout;
        let members = self.all_weights().enumerate().map(|(member, weights)| {
            let values = self
                .statistics
                .get(member)
                .map(|state| state.valid().value());
            point(layout, weights, self.running.clone().zip(values))
        });
        Mixture::uniform(members.collect::<Result<_>>()?)
    }

    fn with_prior(self, prior: &Prior) -> Result<Self> {
        let Settings {
            config,
            setup,
            pieces,
            ..
        } = self.settings.as_ref();
        let settings = Settings {
            config: config.clone(),
            setup: setup.clone(),
            prior: prior.resolve(&setup.layout)?,
            pieces: pieces.clone(),
        };
        Ok(Self {
            settings: Arc::new(settings),
            ..self
        })
    }

    fn apply_step(self, update: Infallible, _learning_rate: f64) -> Self {
        match update {}
    }
}

impl FromGradients for BatchEnsemble {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let noise = id.noise(self.setup().noise);
        let noises = (0..).map(|member| noise.row(member));
        let draws = self.all_weights().zip(noises);
        let draws = draws.map(|(weights, noise)| Draw { weights, noise });
        let proposal = Proposal::new(id, draws.collect());
        Ok(proposal.with_statistics(self.running.clone(), self.statistics.clone()))
    }

    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        _batch_size: usize,
    ) -> Result<Update<Infallible>> {
        let Settings {
            config,
            setup,
            prior,
            pieces,
        } = self.settings.as_ref();
        let share = 1.0 / config.members as f64;
        let precisions = prior.expanded(&self.own.val().device().inner());
        let penalty = precisions.div_scalar(setup.ess);
        let mut of_shared: Option<Tensor<1>> = None;
        let mut of_own = Vec::with_capacity(gradients.len());
        let gradients = joined(gradients);
        // One read from the device; a sum is not finite if any element is not finite.
        let totals = gradients.iter().map(|gradient| gradient.clone().sum());
        let totals = to_host(Tensor::cat(totals.collect(), 0));
        if let Some(bad) = totals.iter().position(|total| !total.is_finite()) {
            return Err(setup.non_finite(proposal.id.step + 1, gradients[bad].clone()));
        }
        let draws = proposal.draws.into_iter().zip(gradients);
        for (member, (draw, gradient)) in draws.enumerate() {
            let row = self.row(member);
            let pulls = penalty.clone() * draw.weights;
            let (mut matrices, mut own) = (Vec::new(), Vec::new());
            let gradient = (gradient + pulls).mul_scalar(share);
            for &piece in pieces {
                let part = gradient.clone().narrow(0, piece.offset, piece.len);
                let matrix = piece
                    .shape
                    .and_then(|shape| Some((shape, self.matrix(piece, shape)?)));
                let Some((shape, matrix)) = matrix else {
                    own.push(part);
                    continue;
                };
                let [left, right] = piece.rank_one(&row, shape);
                let part = part.reshape(shape);
                let product = part.clone() * matrix;
                let [rows, columns, _] = shape;
                let of_left = (product.clone() * right.clone()).sum_dim(2).sum_dim(1);
                own.push(of_left.reshape([rows]));
                let of_right = (product * left.clone()).sum_dim(2).sum_dim(0);
                own.push(of_right.reshape([columns]));
                matrices.push((part * left * right).reshape([piece.len]));
            }
            of_own.push(Tensor::cat(own, 0));
            if !matrices.is_empty() {
                let matrices = Tensor::cat(matrices, 0);
                of_shared = Some(match of_shared {
                    None => matrices,
                    Some(sum) => sum + matrices,
                });
            }
        }
        let mut sums = GradientsParams::new();
        if let Some((shared, gradient)) = self.shared.as_ref().zip(of_shared) {
            sums.register(shared.id, gradient);
        }
        sums.register(self.own.id, Tensor::<1>::stack::<2>(of_own, 0));
        Ok(Update::Gradients(sums))
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::conv::{Conv2d, Conv2dConfig};
    use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
    use burn_bayes::posterior::Posterior;

    use super::*;

    #[derive(Module, Debug)]
    struct Mixed {
        convolution: Conv2d,
        norm: LayerNorm,
        linear: Linear,
    }

    fn mixed() -> Mixed {
        let device = Device::default().autodiff();
        Mixed {
            convolution: Conv2dConfig::new([2, 3], [2, 1]).init(&device),
            norm: LayerNormConfig::new(3).init(&device),
            linear: LinearConfig::new(3, 2).init(&device),
        }
    }

    fn values<const R: usize>(tensor: &Tensor<R>) -> Vec<f64> {
        tensor.clone().into_data().iter().collect()
    }

    const PRECISION: f64 = 3.0;

    fn config() -> BayesianConfig<BatchEnsembleConfig> {
        BayesianConfig::new(10, BatchEnsembleConfig::new(3)).with_prior(Prior::isotropic(PRECISION))
    }

    /// A fixed direction in the space of weights: the linear loss whose gradient it is.
    fn direction(member: u64, len: usize) -> Tensor<1> {
        Noise::new(4).row(member).normal(len, &Device::default())
    }

    /// The mean over members of the linear losses and the penalty of the prior.
    fn loss(ensemble: &BatchEnsemble) -> f64 {
        let penalty = 0.5 * PRECISION / ensemble.setup().ess;
        let members = ensemble.all_weights().zip(0..);
        let losses = members.map(|(weights, member)| {
            let direction = values(&direction(member, weights.dims()[0]));
            let terms = direction.iter().zip(values(&weights));
            terms
                .map(|(direction, weight)| direction * weight + penalty * weight * weight)
                .sum::<f64>()
        });
        losses.sum::<f64>() / ensemble.config().members as f64
    }

    #[test]
    fn gradients_are_differences_of_the_loss() {
        let ensemble = config().build(&mixed()).unwrap();
        let layout = ensemble.setup().layout.clone();
        let pieces = (0..3).map(|member| vec![direction(member, layout.len())]);
        let proposal = ensemble.propose(StepId::default()).unwrap();
        let update = ensemble.step(proposal, pieces.collect(), 1).unwrap();
        let Update::Gradients(gradients) = update else {
            panic!("for an optimiser");
        };
        let shared = ensemble.shared.as_ref().unwrap();
        let of_shared = values(&gradients.get::<1>(shared.id).unwrap());
        let of_own = values(&gradients.get::<2>(ensemble.own.id).unwrap());
        // 3·2·2·1 weights of the convolution, 3·2 of the linear layer.
        assert_eq!(of_shared.len(), 12 + 6);
        // r, s and bias of each, scale and offset of the normalisation.
        assert_eq!(of_own.len(), 3 * (3 + 2 + 3 + 3 + 3 + 3 + 2 + 2));

        // The loss is quadratic in every single number, so a central difference has no error but rounding.
        let changed = |at: usize, len: usize| -> Tensor<1> {
            let mut step = vec![0.0f32; len];
            step[at] = 1.0;
            Tensor::from_floats(&step[..], &Device::default())
        };
        let agree = |place: String, [above, below]: [f64; 2], gradient: f64| {
            let difference = 0.5 * (above - below);
            let error = (difference - gradient).abs();
            assert!(error < 3e-5, "{place}: {difference} {gradient}");
        };
        for (at, &gradient) in of_shared.iter().enumerate() {
            let losses = [1.0, -1.0].map(|sign| {
                let value = shared.val().without_autodiff();
                let value = value + changed(at, of_shared.len()).mul_scalar(sign);
                loss(&BatchEnsemble {
                    shared: Some(trained(value)),
                    ..ensemble.clone()
                })
            });
            agree(format!("shared {at}"), losses, gradient);
        }
        for (at, &gradient) in of_own.iter().enumerate() {
            let losses = [1.0, -1.0].map(|sign| {
                let own = ensemble.own.val().without_autodiff();
                let change = changed(at, of_own.len()).reshape(own.dims());
                loss(&BatchEnsemble {
                    own: trained(own + change.mul_scalar(sign)),
                    ..ensemble.clone()
                })
            });
            agree(format!("own {at}"), losses, gradient);
        }
    }

    /// The optimiser would write them into the matrices that all members share.
    #[test]
    fn a_gradient_of_any_member_that_is_not_finite_is_an_error_with_step_and_path() {
        let ensemble = config().build(&mixed()).unwrap();
        let layout = ensemble.setup().layout.clone();
        let last = layout.len() - 1..layout.len();
        for (member, value) in [(0, f32::NAN), (2, f32::INFINITY), (1, f32::NEG_INFINITY)] {
            let mut pieces: Vec<_> = (0..3)
                .map(|member| vec![direction(member, layout.len())])
                .collect();
            let bad = pieces[member].remove(0).slice_fill([last.clone()], value);
            pieces[member].push(bad);
            let id = StepId { step: 6, pass: 0 };
            let proposal = ensemble.propose(id).unwrap();
            let error = ensemble.step(proposal, pieces, 1).unwrap_err();
            let message = error.to_string();
            let path = layout.path_at(last.start).unwrap();
            assert!(error.is_numerical(), "{message}");
            assert!(
                message.contains("step 7") && message.contains(path),
                "{message}"
            );
        }
    }

    #[test]
    fn members_begin_as_the_model_up_to_signs() {
        let model = mixed();
        let config = BayesianConfig::new(
            10,
            BatchEnsembleConfig::new(4).with_initial_rank_one(InitialRankOne::Signs),
        );
        let ensemble = config.build(&model).unwrap();
        let layout = &ensemble.setup().layout;
        let expected = values(&layout.flatten(&model).unwrap());
        let members: Vec<_> = ensemble
            .all_weights()
            .map(|member| values(&member))
            .collect();
        for member in &members {
            for entry in layout.entries() {
                for at in entry.offset..entry.offset + entry.len() {
                    match entry.shape.len() {
                        1 => assert_eq!(member[at], expected[at]),
                        _ => assert_eq!(member[at].abs(), expected[at].abs()),
                    }
                }
            }
        }
        assert!((1..4).all(|member| members[member] != members[0]));
    }

    #[test]
    fn the_posterior_has_one_component_for_each_member() {
        let ensemble = config().build(&mixed()).unwrap();
        let posterior = ensemble.posterior(0).unwrap();
        assert_eq!(posterior.weights(), [1.0 / 3.0; 3]);
        for (index, expected) in ensemble.all_weights().enumerate() {
            let found = posterior.component(index).unwrap().mean_weights().unwrap();
            assert_eq!(values(&found), values(&expected));
        }
    }

    #[test]
    fn refused_settings_name_their_field() {
        let near = |deviation| {
            let near = InitialRankOne::NearOne(deviation);
            BatchEnsembleConfig::new(2).with_initial_rank_one(near)
        };
        let cases = [
            (BatchEnsembleConfig::new(0), "members"),
            (near(0.0), "initial_rank_one"),
            (near(f64::INFINITY), "initial_rank_one"),
        ];
        for (method, field) in cases {
            let error = BayesianConfig::new(10, method).validate().expect_err(field);
            let message = error.to_string();
            assert!(error.is_config() && message.starts_with(field), "{message}");
        }
    }
}
