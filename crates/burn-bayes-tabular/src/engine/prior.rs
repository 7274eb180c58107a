//! The precision α of the prior over the weights, given or learned while the weights are.
//!
//! For a posterior q of n weights with the same α, the bound on the evidence is largest at
//! α = n / Σ E_q θ². After every epoch of the second half of a training but the last, α moves towards this value, by a fifth at
//! most: the posterior must follow, because α would not stop growing if the deviations stayed as small as they begin.

use burn::module::ParamGroup;
use burn_bayes::{FactorPosterior, Prior};

use crate::error::Result;
use crate::settings::{FitSettings, Method, NetworkShape, PriorLearning, PriorPrecision, refused};

/// Bounds of α on the standardised scale of the network.
const BOUNDS: (f64, f64) = (1e-4, 1e6);
/// The fraction of the epochs with the first value.
const WAITING: f64 = 0.5;
/// The largest factor by which an epoch changes α.
const LARGEST_CHANGE: f64 = 1.2;

/// α beside a Gaussian process: weak, so that the process chooses the function.
const BESIDE_PROCESS: f64 = 0.01;

/// The prior deviation of a weight that is sampled, times √fan-in.
const SAMPLED_DEVIATION: f64 = 2.0;

/// α of the weights: one number for all layers, or one for each.
pub(crate) type LayerPrecisions = Vec<f64>;

/// The prior, with these precisions if they are learned. Biases have their own if it was given, and otherwise that of
/// their layer.
pub(super) fn prior(settings: &FitSettings, learned: Option<&[f64]>) -> Prior {
    let initial = match (settings.prior.kernel(), settings.prior_precision) {
        (Some(_), PriorPrecision::Auto(_)) => BESIDE_PROCESS,
        (_, precision) => precision.initial(),
    };
    let is_auto = matches!(settings.prior_precision, PriorPrecision::Auto(_));
    let prior = match learned {
        None if is_auto && settings.method.is_sampled() => Prior::by_fan_in(SAMPLED_DEVIATION),
        None => Prior::isotropic(initial),
        Some(&[precision]) => Prior::isotropic(precision),
        Some(layers) => layers
            .iter()
            .enumerate()
            .fold(Prior::isotropic(initial), |prior, (layer, &precision)| {
                prior.with_group(layer_group(layer), precision)
            }),
    };
    match settings.bias_prior_precision {
        // A group without parameters would be refused.
        Some(precision) if !settings.no_intercept => prior.with_group(biases(), precision),
        _ => prior,
    }
}

/// α of the weights of a network, learned.
#[derive(Clone, Debug)]
pub(super) struct LearnedPrior {
    /// The parameters that share each α.
    groups: Vec<ParamGroup>,
    /// The first value.
    initial: f64,
    /// The last epoch (from 1) with the first value.
    waiting: usize,
    epochs: usize,
}

impl LearnedPrior {
    /// `None` if α is given.
    pub(super) fn new(settings: &FitSettings, rows: usize) -> Option<Self> {
        let PriorPrecision::Learned(learning) = settings.prior_precision else {
            return None;
        };
        let count = groups(learning, &settings.shape());
        let group = |layer| match count {
            1 => ParamGroup::all(),
            _ => layer_group(layer),
        };
        let has_own = settings.bias_prior_precision.is_some() && !settings.no_intercept;
        let without_biases = |group: ParamGroup| match has_own {
            true => group.exclude(biases()),
            false => group,
        };
        let epochs = settings.epochs(rows);
        Some(Self {
            groups: (0..count).map(group).map(without_biases).collect(),
            initial: settings.prior_precision.initial(),
            waiting: (WAITING * epochs as f64).ceil() as usize,
            epochs,
        })
    }

    /// Whether α is estimated after an epoch (from 1): not after the last, since no step would follow.
    pub(super) fn is_due(&self, epoch: usize) -> bool {
        epoch > self.waiting && epoch < self.epochs
    }

    /// α after an epoch, from the posterior and the last value.
    pub(super) fn next(
        &self,
        posterior: &FactorPosterior,
        last: Option<&[f64]>,
    ) -> Result<LayerPrecisions> {
        let next = |(at, group)| {
            let last = last.map_or(self.initial, |last| last[at]);
            let best = posterior.prior_precision(group)?;
            let next = best.clamp(last / LARGEST_CHANGE, last * LARGEST_CHANGE);
            Ok(bounded(next))
        };
        self.groups.iter().enumerate().map(next).collect()
    }
}

/// α within its bounds.
pub(super) fn bounded(precision: f64) -> f64 {
    precision.clamp(BOUNDS.0, BOUNDS.1)
}

/// Fails if α is learned by a method without a bound on the evidence.
pub(super) fn check(settings: &FitSettings) -> Result<()> {
    let is_learned = matches!(settings.prior_precision, PriorPrecision::Learned(_));
    let method = settings.method;
    if is_learned && (method.is_of_iterates() || method.is_sampled() || method == Method::Map) {
        let problem = format!(
            "cannot be learned by {method}, which has no bound on the evidence; give a number, or use another method, such \
             as vifa"
        );
        return Err(refused("prior_precision", problem));
    }
    Ok(())
}

/// The number of precisions.
fn groups(learning: PriorLearning, model: &NetworkShape) -> usize {
    match learning {
        PriorLearning::Learned => 1,
        PriorLearning::LearnedPerLayer => model.hidden.len() + 1,
    }
}

/// The parameters of a layer.
pub(super) fn layer_group(layer: usize) -> ParamGroup {
    ParamGroup::from_predicate(format!("layers.{layer}."))
}

/// The parameters with a precision of their own in the prior.
pub(super) fn biases() -> ParamGroup {
    ParamGroup::from_predicate("bias")
}

/// The noise of the targets, where it is a weight.
pub(super) fn noises() -> ParamGroup {
    ParamGroup::from_predicate("noise")
}
