//! Distributions over the weights of a model.
//!
//! Every method returns a [`Posterior`]: a [`FactorPosterior`] (a low-rank-plus-diagonal Gaussian),
//! a [`PointPosterior`] (one vector of weights, as in ordinary training), a [`SamplePosterior`] (the draws of chains), one of these two
//! ([`AnyPosterior`]), or a [`Mixture`] of posteriors of the same type (an ensemble).

mod any;
mod covariance;
mod dense;
mod divergence;
mod factor;
mod form;
mod inverse;
mod mixture;
mod model_state;
mod nearest;
mod point;
mod precision;
mod reparameterization;
mod sample;
mod settings;
mod storage;

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;

pub use self::any::AnyPosterior;
pub use self::dense::DenseGaussian;
#[doc(hidden)]
pub use self::dense::linear_regression_posterior;
pub use self::divergence::GaussianDistance;
pub use self::factor::{FactorPosterior, FormKind};
pub(crate) use self::form::CovarianceTerms;
pub use self::mixture::Mixture;
pub use self::model_state::ModelState;
pub(crate) use self::model_state::unshared;
#[doc(hidden)]
pub use self::model_state::{changing, running};
#[doc(hidden)]
pub use self::nearest::NearestGaussian;
pub use self::point::PointPosterior;
pub(crate) use self::precision::{PrecisionDraws, precision_draws};
pub use self::sample::SamplePosterior;
pub(crate) use self::settings::hash_of_settings;
#[doc(hidden)]
pub use self::storage::FORMAT_VERSION;
pub(crate) use self::storage::write_whole;
use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::noise::Noise;

/// A distribution over the weights of a model.
///
/// # Laws
///
/// * A draw depends only on the noise: the same noise gives a bit-identical draw from every sampler
///   of the posterior, also after [`save`](Self::save) and [`load`](Self::load).
/// * Row s of [`draws`](Sampler::draws) equals [`draw`](Sampler::draw) with `noise.row(s)`.
/// * Draws and mean list the weights in the order of the [`layout`](Self::layout).
pub trait Posterior: Clone + Debug + Send + Sync + 'static {
    /// The random weights and their positions in a draw.
    fn layout(&self) -> &Arc<Layout>;

    /// A sampler; it computes once what all draws share.
    fn sampler(&self) -> Result<Box<dyn Sampler>>;

    /// The mean of the weights, `[D]`.
    fn mean_weights(&self) -> Result<Tensor<1>>;

    /// The state that all draws share; `None` if the components of a mixture have states of their own.
    fn shared_state(&self) -> Option<ModelState>;

    /// The state of the model outside the layout that belongs to the draw with this noise; by default the shared one.
    ///
    /// # Errors
    ///
    /// If a component of a mixture cannot be read.
    fn state(&self, noise: Noise) -> Result<ModelState> {
        let _ = noise;
        self.mean_state()
    }

    /// The state of the model at the mean: for a mixture, the average of those of its components. By default the shared one.
    fn mean_state(&self) -> Result<ModelState> {
        Ok(self.shared_state().unwrap_or_default())
    }

    /// The same distribution with this state of the model, for every component of a mixture.
    #[must_use]
    fn with_state(self, state: ModelState) -> Self;

    /// The same distribution with the state of this model outside the layout: its other parameters, its running
    /// statistics and its settings.
    ///
    /// Posteriors of trainings have the state of their model. Call this for a posterior made from tensors, or to say that
    /// the state of another model is right, for example that of a record, or with other settings.
    ///
    /// # Errors
    ///
    /// If the posterior is over other parameters than the model's.
    fn with_model_state<M: Module>(self, model: &M) -> Result<Self> {
        self.layout().check(model)?;
        let state = ModelState::of(model, self.layout());
        Ok(self.with_state(state))
    }

    /// The same distribution with the state of the model that `change` makes from the one with the mean as its weights,
    /// once for every component of a mixture.
    #[doc(hidden)]
    fn map_states<M: Module>(
        self,
        model: &M,
        change: &mut dyn FnMut(M) -> Result<M>,
    ) -> Result<Self> {
        let changed = change(self.write_mean(model.clone())?)?;
        self.with_model_state(&changed)
    }

    /// The model with the mean as its weights, and with its state.
    ///
    /// # Errors
    ///
    /// If the model has other parameters than that of the posterior, and if the posterior was read from a file, other
    /// settings, or a state that the file does not have.
    fn write_mean<M: Module>(&self, model: M) -> Result<M> {
        let weights = self.mean_weights()?;
        let model = self.mean_state()?.restore(model, self.layout())?;
        Ok(self.layout().write(model, weights)?)
    }

    /// Saves the posterior to `path`: as safetensors if it ends in `.safetensors`, otherwise as burnpack, and a mixture as a
    /// folder. An incomplete file never appears there.
    fn save(&self, path: &Path) -> Result<()>;

    /// Loads a saved posterior onto `device`.
    ///
    /// # Errors
    ///
    /// With a specific message for another format version, a truncated or changed file, missing or unknown tensors, tensors of
    /// another shape, numbers that are not finite, or a diagonal that is not positive.
    fn load(path: &Path, device: &Device) -> Result<Self>;
}

/// Draws from a posterior.
pub trait Sampler: Debug + Send + Sync {
    /// A draw of all weights, `[D]`.
    fn draw(&self, noise: Noise) -> Result<Tensor<1>>;

    /// `count` draws, `[count, D]`; at least one.
    fn draws(&self, noise: Noise, count: usize) -> Result<Tensor<2>> {
        let draws = (0..count as u64).map(|row| self.draw(noise.row(row)));
        Ok(Tensor::stack(draws.collect::<Result<_>>()?, 0))
    }
}

/// Fails with a readable difference if the layouts `found` and `expected` differ.
fn expect_layout(expected: &Layout, found: &Layout) -> Result<()> {
    match expected.difference(found) {
        None => Ok(()),
        Some(difference) => Err(Error::layout(difference)),
    }
}

/// Fails at the first number that is not finite, in one or more rows of weights. The numbers are
/// copied to the host only if there is one.
fn check_finite<const R: usize>(name: &str, tensor: &Tensor<R>, layout: &Layout) -> Result<()> {
    if tensor.clone().is_finite().all().into_scalar() {
        return Ok(());
    }
    let values = to_host(tensor.clone());
    let at = values.iter().position(|value| !value.is_finite());
    let at = at.expect("one number is not finite");
    Err(Error::numerical(format!(
        "{name} is {} at {}; likely cause: training diverged",
        values[at],
        layout.path_at(at % layout.len()).unwrap_or("?")
    )))
}
