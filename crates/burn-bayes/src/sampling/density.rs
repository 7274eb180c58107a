//! What samplers draw from: densities, and the posterior of a model as one.

use std::ops::Range;
use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::tensor::{Device, Tensor, TensorData, kind};
use burn_bayes_graph::{
    CapturedLoss, CompiledBatch, ExampleBatch, Layout, Template, TensorMapper, module_device,
};

use super::budget::work_of_step;
use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::prior::Prior;
use crate::train::ExampleLoss;

/// The density of d numbers, up to a factor.
///
/// Every chain has its own, so that an evaluation may keep its memory from one call to the next.
pub trait LogDensity: Send {
    /// The logarithm of the density at a place, up to a constant; its gradient is written to `gradient`, of the same length.
    ///
    /// # Errors
    ///
    /// If it cannot be evaluated. A place without a density is no error: its logarithm is −∞ or NaN.
    fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64>;

    /// The number of parts of the data, each of which gives an estimate.
    fn parts(&self) -> usize {
        1
    }

    /// What [`evaluate`](Self::evaluate) gives, estimated from one part of the data: without a bias, if each part is as likely.
    ///
    /// # Errors
    ///
    /// If it cannot be evaluated.
    fn estimate(&mut self, _part: usize, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
        self.evaluate(place, gradient)
    }
}

/// The most rows of a batch.
const MOST_ROWS: usize = 512;

/// The rows of batches of equal size that samplers are fast with: few enough for a warm start in many steps, enough for compiled
/// gradients. Neighbours are in different batches, so that sorted rows make no difference.
pub fn batches_of_rows(rows: usize) -> impl Iterator<Item = Vec<usize>> {
    let batches = rows.div_ceil(MOST_ROWS);
    (0..batches).map(move |first| (first..rows).step_by(batches).collect())
}

/// At most so many of these rows, evenly from all.
pub fn some_rows(rows: usize, most: usize) -> impl Iterator<Item = usize> {
    (0..rows).step_by(rows.div_ceil(most).max(1))
}

/// A batch on a device, without autodiff.
pub(crate) fn placed<B: ExampleBatch>(batch: B, device: &Device) -> B {
    struct Place(Device);
    impl TensorMapper for Place {
        fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
            tensor.without_autodiff().to_device(&self.0)
        }
    }
    batch.map_tensors(&mut Place(device.clone().inner()))
}

/// The posterior over the weights of a model, in units of the prior's standard deviations, or of 1 where these are larger.
///
/// Losses are compiled where that is possible. Otherwise a step is one pass of Burn's autodiff, with the model in inference
/// mode either way.
#[derive(Clone, Debug)]
pub(super) struct ModelDensity<M: Module + ExampleLoss> {
    layout: Arc<Layout>,
    losses: Arc<CapturedLoss<M, M::Input>>,
    batches: Vec<Batch<M::Input>>,
    model: M,
    /// The size of every weight's unit, and α in these units.
    units: Arc<[f64]>,
    precisions: Arc<[f64]>,
    /// Memory of an evaluation.
    weights: Vec<f32>,
    gradient: Vec<f32>,
}

/// Rows of the training data.
#[derive(Clone, Debug)]
enum Batch<B> {
    Compiled(Arc<CompiledBatch>),
    Direct(B),
}

impl<M> ModelDensity<M>
where
    M: Module + ExampleLoss<Input: ExampleBatch> + 'static,
{
    /// The posterior over the weights of `model` that `group` selects, given the batches of all rows, on the model's device.
    ///
    /// # Errors
    ///
    /// If the group selects none, the prior does not fit, or a batch cannot be evaluated.
    pub(super) fn new(
        model: &M,
        group: &ParamGroup,
        prior: &Prior,
        batches: &[M::Input],
    ) -> Result<Self> {
        let layout = Arc::new(Layout::new(model, group)?);
        let prior = prior.resolve(&layout)?;
        let losses = |model: &M, batch| model.example_losses(batch);
        let losses = CapturedLoss::new(layout.clone(), losses);
        let template = Template::new(model, &layout);
        let device = module_device(model).inner();
        let batches = batches.iter().map(|batch| {
            let batch = placed(batch.clone(), &device);
            let compiled = losses.compiled(&template, &batch)?;
            Ok(match compiled {
                Some(compiled) => Batch::Compiled(Arc::new(compiled)),
                None => Batch::Direct(batch),
            })
        });
        let batches: Vec<_> = batches.collect::<Result<_>>()?;
        let runs = prior.segments().iter();
        let precisions = runs.flat_map(|&(len, precision)| std::iter::repeat_n(precision, len));
        let unit_of = |precision: f64| precision.sqrt().recip().min(1.0);
        let (units, precisions): (Vec<_>, Vec<_>) = precisions
            .map(|precision| {
                let unit = unit_of(precision);
                (unit, precision * unit * unit)
            })
            .unzip();
        Ok(Self {
            losses: Arc::new(losses),
            batches,
            model: model.clone(),
            units: units.into(),
            precisions: precisions.into(),
            weights: vec![0.0; layout.len()],
            gradient: vec![0.0; layout.len()],
            layout,
        })
    }

    /// The work of a step; `None` if the gradient is not compiled.
    pub(super) fn work(&self) -> Option<f64> {
        let (mut multiplications, mut numbers) = (0, 0);
        for batch in &self.batches {
            let Batch::Compiled(batch) = batch else {
                return None;
            };
            multiplications += batch.multiplications();
            numbers += batch.numbers();
        }
        Some(work_of_step(multiplications, numbers))
    }

    /// Where losses are evaluated.
    pub(super) fn device(&self) -> Device {
        module_device(&self.model).inner()
    }

    /// Which weights they are.
    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The place of the weights of a model.
    ///
    /// # Errors
    ///
    /// If the model has others, or one that is not finite.
    pub(super) fn place_of(&self, model: &M) -> Result<Vec<f64>> {
        let weights = to_host(self.layout.flatten(model)?.without_autodiff());
        if let Some(index) = weights.iter().position(|weight| !weight.is_finite()) {
            let path = self.layout.path_at(index).unwrap_or("?");
            let problem = format!("the weights of `{path}` are not finite where a chain starts");
            return Err(Error::numerical(problem));
        }
        let weights = weights.into_iter().zip(self.units.iter());
        Ok(weights.map(|(weight, unit)| weight / unit).collect())
    }

    /// The weights at a place.
    pub(super) fn weights_at(&self, place: &[f64]) -> Vec<f32> {
        scaled(place, &self.units).collect()
    }
}

/// Weights from their places in these units.
fn scaled(place: &[f64], units: &[f64]) -> impl Iterator<Item = f32> {
    let pairs = place.iter().zip(units);
    pairs.map(|(z, unit)| (z * unit) as f32)
}

impl<M> ModelDensity<M>
where
    M: Module + ExampleLoss<Input: ExampleBatch + Send> + 'static,
{
    /// The logarithm of the prior minus the losses of these batches, scaled up to all of them.
    fn sum(&mut self, batches: Range<usize>, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
        self.weights.clear();
        self.weights.extend(scaled(place, &self.units));
        let mut log_density = 0.0;
        for ((slope, z), precision) in gradient.iter_mut().zip(place).zip(self.precisions.iter()) {
            *slope = -precision * z;
            log_density += 0.5 * *slope * z;
        }
        let times = (self.batches.len() / batches.len()) as f64;
        for batch in &self.batches[batches] {
            log_density -= times
                * match batch {
                    Batch::Compiled(batch) => batch.sum(&self.weights, &mut self.gradient),
                    Batch::Direct(batch) => {
                        let weights = TensorData::new(self.weights.clone(), [self.weights.len()]);
                        let weights = Tensor::from_data(weights, &self.device());
                        let (losses, pieces) = self.losses.direct(&self.model, weights, batch)?;
                        let pieces = Tensor::cat(pieces, 0).into_data();
                        self.gradient = pieces.iter::<f32>().collect();
                        losses.into_data().iter::<f64>().sum()
                    }
                };
            let gradients = self.gradient.iter().zip(self.units.iter());
            for (slope, (&loss, unit)) in gradient.iter_mut().zip(gradients) {
                *slope -= times * f64::from(loss) * unit;
            }
        }
        Ok(log_density)
    }

    /// The sum of the losses of all rows at a place.
    pub(super) fn loss(&mut self, place: &[f64]) -> Result<f64> {
        let log_density = self.evaluate(place, &mut vec![0.0; place.len()])?;
        let pairs = place.iter().zip(self.precisions.iter());
        let squares = pairs.map(|(z, precision)| precision * z * z);
        Ok(-log_density - 0.5 * squares.sum::<f64>())
    }
}

impl<M> LogDensity for ModelDensity<M>
where
    M: Module + ExampleLoss<Input: ExampleBatch + Send> + 'static,
{
    fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
        self.sum(0..self.batches.len(), place, gradient)
    }

    fn parts(&self) -> usize {
        self.batches.len()
    }

    fn estimate(&mut self, part: usize, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
        self.sum(part..part + 1, place, gradient)
    }
}
