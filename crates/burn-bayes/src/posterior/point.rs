//! A point mass: one vector of weights.

use std::path::Path;
use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;

use super::storage::{Contents, MEAN, Saved};
use super::{ModelState, Posterior, Sampler, check_finite};
use crate::error::{Error, Result};
use crate::noise::Noise;

/// All probability on one vector of weights, as in ordinary training.
///
/// A [`Mixture`](super::Mixture) of point masses is a deep ensemble.
///
/// ```
/// use burn::{module::ParamGroup, nn::LinearConfig, tensor::Device};
/// use burn_bayes::posterior::{Mixture, PointPosterior, Posterior};
/// use burn_bayes::Noise;
///
/// let members = (0..3).map(|_| {
///     let layer = LinearConfig::new(2, 1).init(&Device::default());
///     PointPosterior::of(&layer, &ParamGroup::all())
/// });
/// let ensemble = Mixture::uniform(members.collect::<Result<_, _>>()?)?;
/// assert_eq!(ensemble.sampler()?.draws(Noise::new(0), 5)?.dims(), [5, 3]);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PointPosterior {
    layout: Arc<Layout>,
    weights: Tensor<1>,
    state: ModelState,
}

/// The name of the form in saved files.
const FORM: &str = "point";

impl PointPosterior {
    /// A point mass on these weights, `[D]`.
    pub fn new(layout: Arc<Layout>, weights: Tensor<1>) -> Result<Self> {
        let [len] = weights.dims();
        if len != layout.len() {
            return Err(Error::layout(format!(
                "a vector of {len} weights was given, the layout holds {}",
                layout.len()
            )));
        }
        let weights = weights.without_autodiff();
        check_finite("weights", &weights, &layout)?;
        Ok(Self {
            layout,
            weights,
            state: ModelState::default(),
        })
    }

    /// A point mass on the current weights of `model`, with the state of the model: its other parameters, its running
    /// statistics and its settings.
    pub fn of<M: Module>(model: &M, group: &ParamGroup) -> Result<Self> {
        let layout = Arc::new(Layout::new(model, group)?);
        let weights = layout.flatten(model)?;
        Self::new(layout, weights)?.with_model_state(model)
    }

    /// The weights, `[D]`.
    pub fn weights(&self) -> Tensor<1> {
        self.weights.clone()
    }
}

impl Posterior for PointPosterior {
    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn sampler(&self) -> Result<Box<dyn Sampler>> {
        Ok(Box::new(Constant(self.weights())))
    }

    fn mean_weights(&self) -> Result<Tensor<1>> {
        Ok(self.weights())
    }

    fn shared_state(&self) -> Option<ModelState> {
        Some(self.state.clone())
    }

    fn with_state(self, state: ModelState) -> Self {
        let state = self.state.replaced_by(state);
        Self { state, ..self }
    }

    fn save(&self, path: &Path) -> Result<()> {
        Contents::new(FORM, &self.layout, &self.state)
            .with(MEAN, self.weights())
            .write(path)
    }

    fn load(path: &Path, device: &Device) -> Result<Self> {
        let mut saved = Saved::read(path, device)?;
        saved.expect_form(&[FORM])?;
        let weights = saved.vector(MEAN)?;
        saved.expect_empty()?;
        let point = Self::new(saved.layout(), weights).map_err(|error| saved.damaged(error))?;
        Ok(point.with_state(saved.state()))
    }
}

/// Every draw is the same.
#[derive(Debug)]
struct Constant(Tensor<1>);

impl Sampler for Constant {
    fn draw(&self, _noise: Noise) -> Result<Tensor<1>> {
        Ok(self.0.clone())
    }
}
