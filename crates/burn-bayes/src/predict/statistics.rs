//! Recomputes the running statistics of batch norm for new weights.
//!
//! The running mean and variance that a `BatchNorm` layer uses for inference belong to the weights
//! with which they were collected. For other weights, such as the posterior mean, a draw or an
//! average of iterates, they are recomputed by forward passes in training mode over a few
//! mini-batches b. Each statistic becomes the average (1/B) Σ_b s_b of the mini-batch statistics.
//!
//! A layer does not expose s_b, only its exponential average r ← (1 − m) r + m s_b with the layer's
//! momentum m. With r = 0 before a pass, the result is m s_b. With r so large that s_b is
//! negligible, the result is (1 − m) r, which determines m. This costs one additional pass over the
//! first mini-batch.
//!
//! Reference: P. Izmailov et al., "Averaging weights leads to wider optima and better
//! generalization" (2018), section 3.2.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Tensor};
use burn_bayes_graph::StatisticPlace;

use crate::error::{Error, Result};

/// A copy of a model, ready for inference, with batch-norm statistics recomputed for its current
/// weights on these mini-batches. The model itself is not changed.
///
/// `forward` runs a mini-batch through the given model; its result is ignored. The mini-batches
/// must be on an autodiff device, because Burn's layers use training mode on such devices only. All
/// mini-batches have equal weight. Dropout is active as in training, unless it is switched off, as
/// in the models of a [`Bayesian`](crate::Bayesian). Frozen layers keep their statistics.
///
/// ```
/// use burn::nn::{BatchNormConfig, LinearConfig};
/// # use burn::module::Module;
/// # use burn::nn::{BatchNorm, Linear};
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_bayes::predict::refresh_running_statistics;
/// # #[derive(Module, Debug)]
/// # struct Model { layer: Linear, norm: BatchNorm }
/// # impl Model {
/// #     fn forward(&self, input: Tensor<2>) -> Tensor<2> {
/// #         self.norm.forward(self.layer.forward(input))
/// #     }
/// # }
///
/// let device = Device::default().autodiff();
/// let model = Model {
///     layer: LinearConfig::new(3, 2).init(&device),
///     norm: BatchNormConfig::new(2).init(&device),
/// };
/// let batches = (0..4).map(|_| Tensor::<2>::random([8, 3], Distribution::Default, &device));
/// let fresh = refresh_running_statistics(&model, batches, |model: &Model, batch| {
///     model.forward(batch.clone())
/// })?;
/// # Ok::<(), burn_bayes::Error>(())
/// ```
///
/// # Errors
///
/// There are no mini-batches, or no statistic changed although the model has some: the mini-batches
/// are on a device without autodiff, or every layer is frozen.
pub fn refresh_running_statistics<M: Module, B, T>(
    model: &M,
    batches: impl IntoIterator<Item = B>,
    mut forward: impl FnMut(&M, &B) -> T,
) -> Result<M> {
    let mut batches = batches.into_iter().peekable();
    let Some(first) = batches.peek() else {
        return Err(Error::config(
            "batches",
            "are empty; running statistics need at least one mini-batch",
        ));
    };
    // `valid` and `train` copy the statistics, which clones would share, and apply the layers'
    // pending updates.
    let model = model.valid();
    let mut pass_from = |batch: &B, start: fn(Tensor<1>) -> Tensor<1>| {
        let training = model.clone().train().no_grad();
        let training = training.map(&mut Replace::new(|_, statistic| start(statistic)));
        forward(&training, batch);
        statistics_of(&training.valid())
    };

    let momenta = momenta(pass_from(first, large))?;
    let mut sums: HashMap<ParamId, Tensor<1>> = HashMap::new();
    let mut count = 0;
    for batch in batches {
        count += 1;
        for (id, share) in pass_from(&batch, |statistic| statistic.zeros_like()) {
            let sum = match sums.remove(&id) {
                Some(sum) => sum + share,
                None => share,
            };
            sums.insert(id, sum);
        }
    }
    let average = |id, old| match (momenta.get(&id), sums.get(&id)) {
        (Some(momentum), Some(sum)) => sum.clone() / (momentum * f64::from(count)),
        _ => old,
    };
    Ok(model.map(&mut Replace::new(average)))
}

/// Whether a forward pass changes a running statistic of the given copy of the model.
pub(crate) fn moves_statistics<M: Module>(model: &M, forward: impl FnOnce(&M)) -> bool {
    let training = model.valid().train();
    let training = training.map(&mut Replace::new(|_, statistic| large(statistic)));
    forward(&training);
    momenta(statistics_of(&training.valid())).is_ok_and(|moved| !moved.is_empty())
}

/// A power of two so large that a mini-batch statistic is negligible.
fn large(statistic: Tensor<1>) -> Tensor<1> {
    statistic.full_like(large_number(statistic.dtype()))
}

fn large_number(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(15),
        _ => 2f64.powi(60),
    }
}

/// The momentum of every statistic that changed in a pass that started from [`large`].
fn momenta(statistics: HashMap<ParamId, Tensor<1>>) -> Result<HashMap<ParamId, f64>> {
    let any = !statistics.is_empty();
    let shares = shares_of_large(statistics).into_iter();
    let momenta: HashMap<_, _> = shares.map(|(id, share)| (id, 1.0 - share)).collect();
    if any && momenta.is_empty() {
        let problem = "changed no running statistic; they must be on an autodiff device, and at \
                       least one batch-norm layer must not be frozen";
        return Err(Error::config("batches", problem));
    }
    Ok(momenta)
}

/// What is left of the start of every statistic that changed in passes that started from [`large`]: (1 − m)ᵏ for k
/// passes.
fn shares_of_large(statistics: HashMap<ParamId, Tensor<1>>) -> HashMap<ParamId, f64> {
    let shares = statistics.into_iter().filter_map(|(id, statistic)| {
        let large = large_number(statistic.dtype());
        let value = statistic.narrow(0, 0, 1).into_scalar::<f64>();
        (value != large).then_some((id, value / large))
    });
    shares.collect()
}

/// The model with such large running statistics that [`left_of_large_statistics`] shows how much a pass replaces.
pub(crate) fn with_large_statistics<M: Module>(model: M) -> M {
    model.map(&mut Replace::new(|_, statistic| large(statistic)))
}

/// What is left of the start of every statistic that changed since [`with_large_statistics`]: (1 − m)ᵏ for k evaluations
/// of a layer with momentum m.
pub(crate) fn left_of_large_statistics<M: Module>(model: &M) -> HashMap<ParamId, f64> {
    shares_of_large(statistics_of(&model.valid()))
}

/// Replaces running statistics by a function of their ids and values, in the model and its clones.
pub(crate) fn replace_statistics<M: Module>(
    model: &M,
    with: impl FnMut(ParamId, Tensor<1>) -> Tensor<1>,
) {
    drop(model.clone().map(&mut Replace::new(with)));
}

fn statistics_of<M: Module>(model: &M) -> HashMap<ParamId, Tensor<1>> {
    let mut collect = Collect::default();
    model.visit(&mut collect);
    collect.found
}

#[derive(Default)]
struct Collect {
    place: StatisticPlace,
    found: HashMap<ParamId, Tensor<1>>,
}

impl ModuleVisitor for Collect {
    burn_bayes_graph::track_path!(place, container_type);

    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if self.place.is_statistic() {
            self.found.insert(param.id, param.val().reshape([-1]));
        }
    }
}

struct Replace<F> {
    place: StatisticPlace,
    with: F,
}

impl<F: FnMut(ParamId, Tensor<1>) -> Tensor<1>> Replace<F> {
    fn new(with: F) -> Self {
        let place = StatisticPlace::default();
        Self { place, with }
    }
}

impl<F: FnMut(ParamId, Tensor<1>) -> Tensor<1>> ModuleMapper for Replace<F> {
    burn_bayes_graph::track_path!(place, container_type);

    fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
        if !self.place.is_statistic() {
            return param;
        }
        let id = param.id;
        param.map(|statistic| {
            let shape = statistic.shape();
            (self.with)(id, statistic.reshape([-1])).reshape(shape)
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{BatchNorm, BatchNormConfig, Initializer, Linear, LinearConfig};
    use burn::tensor::Device;

    use super::*;
    use crate::BayesianConfig;
    use crate::methods::VifaConfig;
    use crate::metric::testing::assert_close;

    #[derive(Module, Debug)]
    struct Net {
        layer: Linear,
        norm: BatchNorm,
    }

    impl Net {
        fn new(momentum: f64, device: &Device) -> Self {
            let norm = BatchNormConfig::new(1).with_momentum(momentum).init(device);
            // With a weight near zero, only rounding errors would be normalised.
            let layer =
                LinearConfig::new(1, 1).with_initializer(Initializer::Constant { value: 0.5 });
            Self {
                layer: layer.init(device),
                norm,
            }
        }

        /// The statistics are those of the input.
        fn normalise(&self, input: &Tensor<2>) -> Tensor<2> {
            self.norm.forward(input.clone())
        }

        fn forward(&self, input: &Tensor<2>) -> Tensor<2> {
            self.norm.forward(self.layer.forward(input.clone()))
        }
    }

    /// The running mean and variance, without pending updates.
    fn statistics(norm: &BatchNorm) -> [f64; 2] {
        [&norm.running_mean, &norm.running_var].map(|state| state.value().into_scalar::<f64>())
    }

    /// Means 2 and 5, variances 1 and 9.
    fn batches(device: &Device) -> [Tensor<2>; 2] {
        [[1.0, 3.0], [2.0, 8.0]].map(|[a, b]| Tensor::from_data([[a], [b]], device))
    }

    #[test]
    fn statistics_are_the_average_of_the_batches_whatever_the_momentum() {
        let device = Device::default().autodiff();
        for momentum in [0.01, 0.1, 0.5, 1.0] {
            let net = Net::new(momentum, &device);
            let fresh = refresh_running_statistics(&net, batches(&device), Net::normalise).unwrap();
            let [mean, variance] = statistics(&fresh.norm);
            // The momentum is the difference of two numbers near 1.
            let roundings = (4.0 / momentum) as usize;
            assert_close(mean, 3.5, roundings);
            assert_close(variance, 5.0, roundings);
        }
    }

    #[test]
    fn the_model_and_its_clones_are_left_alone() {
        let device = Device::default().autodiff();
        let net = Net::new(0.1, &device);
        let clone = net.clone();
        let before = statistics(&net.norm);
        let fresh = refresh_running_statistics(&net, batches(&device), Net::forward).unwrap();
        assert_ne!(statistics(&fresh.norm), before);
        assert_eq!(statistics(&net.norm), before);
        assert_eq!(statistics(&clone.norm), before);
        assert_eq!(
            net.norm.running_mean.value_sync().into_scalar::<f64>(),
            before[0]
        );
    }

    #[test]
    fn every_draw_has_its_own_statistics_and_the_template_keeps_its_own() {
        let device = Device::default().autodiff();
        let bayes = BayesianConfig::new(4, VifaConfig::new()).init(Net::new(0.1, &device));
        let template = statistics(&bayes.template().norm);
        let refreshed = |model: &Net| {
            let fresh = refresh_running_statistics(model, batches(&device), Net::forward).unwrap();
            (statistics(&fresh.norm), fresh)
        };
        let (mean, mean_model) = refreshed(&bayes.mean_model().unwrap());
        let (first, _) = refreshed(&bayes.drawn_model(0).unwrap());
        let (second, _) = refreshed(&bayes.drawn_model(1).unwrap());
        assert!(mean != first && mean != second && first != second);
        assert_eq!(statistics(&bayes.template().norm), template);

        // Inference now centres its input: the mean over both mini-batches is beta, 0.
        let plain = device.inner();
        let output = Tensor::cat(batches(&plain).to_vec(), 0);
        let centre = mean_model.forward(&output).mean().into_scalar::<f64>();
        assert_close(centre, 0.0, 64);
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let device = Device::default().autodiff();
        let net = Net::new(0.1, &device);
        let none: [Tensor<2>; 0] = [];
        let error = refresh_running_statistics(&net, none, Net::forward).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("empty"));

        let outside_training = |net: &Net, batch: &Tensor<2>| {
            net.norm.forward(batch.clone().inner());
        };
        let error =
            refresh_running_statistics(&net, batches(&device), outside_training).unwrap_err();
        assert!(error.to_string().contains("autodiff"));

        let frozen = net.freeze();
        let error = refresh_running_statistics(&frozen, batches(&device), Net::normalise);
        assert!(error.unwrap_err().to_string().contains("frozen"));
    }

    #[test]
    fn a_model_without_batch_norm_needs_no_refreshing() {
        let device = Device::default().autodiff();
        let layer = LinearConfig::new(1, 1).init(&device);
        let forward = |layer: &Linear, batch: &Tensor<2>| layer.forward(batch.clone());
        assert!(refresh_running_statistics(&layer, batches(&device), forward).is_ok());
    }
}
