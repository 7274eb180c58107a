//! A posterior of samples with equal weights, such as the draws of chains.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;

use super::storage::{Contents, Saved};
use super::{ModelState, Posterior, Sampler, check_finite};
use crate::error::{Error, Result};
use crate::noise::Noise;

/// S vectors of weights of equal probability, in one file.
///
/// A draw is one of them. The rows of one noise choose them evenly: S rows are all of the samples, each once.
///
/// ```
/// use burn::module::ParamGroup;
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes::Noise;
/// use burn_bayes::graph::Layout;
/// use burn_bayes::posterior::{Posterior, SamplePosterior};
///
/// let device = Device::default();
/// let layer = LinearConfig::new(1, 1).with_bias(false).init(&device);
/// let layout = Layout::new(&layer, &ParamGroup::all())?;
/// let samples = Tensor::from_floats([[1.0], [2.0], [3.0]], &device);
/// let posterior = SamplePosterior::new(layout.into(), samples)?;
/// let mut draws: Vec<f32> = posterior.sampler()?.draws(Noise::new(0), 3)?.into_data().iter().collect();
/// draws.sort_by(f32::total_cmp);
/// assert_eq!(draws, [1.0, 2.0, 3.0]);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SamplePosterior {
    layout: Arc<Layout>,
    /// `[S, D]`.
    samples: Tensor<2>,
    state: ModelState,
}

/// The name of the form in saved files, and that of the tensor.
const FORM: &str = "samples";

impl SamplePosterior {
    /// These samples of the weights, `[S, D]`.
    ///
    /// # Errors
    ///
    /// If there are none, if they have other numbers of weights than the layout, or if a weight is not finite.
    pub fn new(layout: Arc<Layout>, samples: Tensor<2>) -> Result<Self> {
        let [count, len] = samples.dims();
        if count == 0 {
            return Err(Error::config(
                "samples",
                "has no rows; it must have at least one",
            ));
        }
        if len != layout.len() {
            return Err(Error::layout(format!(
                "samples of {len} weights were given, the layout holds {}",
                layout.len()
            )));
        }
        let samples = samples.without_autodiff();
        check_finite("a sample", &samples, &layout)?;
        Ok(Self {
            layout,
            samples,
            state: ModelState::default(),
        })
    }

    /// The samples, `[S, D]`.
    pub fn samples(&self) -> Tensor<2> {
        self.samples.clone()
    }

    /// S.
    pub fn count(&self) -> usize {
        self.samples.dims()[0]
    }

    /// Whether a file has this form.
    pub(super) fn is_in(saved: &Saved<'_>) -> bool {
        saved.expect_form(&[FORM]).is_ok()
    }

    pub(super) fn from_file(mut saved: Saved<'_>) -> Result<Self> {
        saved.expect_form(&[FORM])?;
        let samples = saved.rows(FORM)?;
        let samples = samples.ok_or_else(|| saved.damaged("the tensor `samples` is missing"))?;
        saved.expect_empty()?;
        let posterior = Self::new(saved.layout(), samples);
        let posterior = posterior.map_err(|error| saved.damaged(error))?;
        Ok(posterior.with_state(saved.state()))
    }
}

impl Posterior for SamplePosterior {
    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn sampler(&self) -> Result<Box<dyn Sampler>> {
        Ok(Box::new(OneOf(self.samples())))
    }

    fn mean_weights(&self) -> Result<Tensor<1>> {
        Ok(self.samples().mean_dim(0).squeeze_dim(0))
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
            .with(FORM, self.samples())
            .write(path)
    }

    fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::from_file(Saved::read(path, device)?)
    }
}

/// Draws one of the rows.
#[derive(Debug)]
struct OneOf(Tensor<2>);

impl Sampler for OneOf {
    fn draw(&self, noise: Noise) -> Result<Tensor<1>> {
        let [count, _] = self.0.dims();
        let place = (noise.stratified(count) * count as f64) as usize;
        let row = self.0.clone().narrow(0, place.min(count - 1), 1);
        Ok(row.squeeze_dim(0))
    }
}
