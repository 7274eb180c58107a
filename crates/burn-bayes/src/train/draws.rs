//! Evaluates the user's training step at draws of the weights.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::{TrainOutput, TrainStep};
use burn_bayes_graph::Layout;

use crate::error::{Error, Result};
use crate::methods::{Draw, DrawStatistics};
use crate::noise::Noise;

/// The results of the evaluations at several draws.
pub(crate) struct Gathered<S, O> {
    pub(crate) signal: S,
    /// Gradients of parameters outside the layout, averaged over draws.
    pub(crate) outside: GradientsParams,
    /// The model's output at the first draw.
    pub(crate) item: O,
}

/// Runs the user's step at every draw. `signal_of` computes the signal from the model at a draw and
/// its gradients.
pub(crate) fn one_by_one<M: Module + TrainStep<Input: Clone>, S>(
    layout: &Layout,
    model: &M,
    draws: &[Draw],
    item: &<M as TrainStep>::Input,
    signal_of: impl FnMut(&M, Vec<Tensor<1>>) -> Result<S>,
) -> Result<Gathered<Vec<S>, <M as TrainStep>::Output>> {
    with_statistics(layout, model, draws, None, item, signal_of)
}

/// The same with running statistics of every draw.
pub(crate) fn with_statistics<M: Module + TrainStep<Input: Clone>, S>(
    layout: &Layout,
    model: &M,
    draws: &[Draw],
    statistics: Option<&DrawStatistics>,
    item: &<M as TrainStep>::Input,
    mut signal_of: impl FnMut(&M, Vec<Tensor<1>>) -> Result<S>,
) -> Result<Gathered<Vec<S>, <M as TrainStep>::Output>> {
    let share = 1.0 / draws.len() as f64;
    let mut signal = Vec::with_capacity(draws.len());
    let mut outside = GradientsParams::new();
    let mut first = None;
    for (index, draw) in draws.iter().enumerate() {
        let model = match statistics {
            Some(statistics) => statistics.enter(index, model.clone())?,
            None => model.clone(),
        };
        let model = layout.write_leaves(model, draw.weights.clone())?;
        let TrainOutput { mut grads, item } = TrainStep::step(&model, item.clone());
        if let Some(statistics) = statistics {
            statistics.leave(index, &model)?;
        }
        let pieces = layout.gradient_parts(&model, &mut grads)?;
        Outside::add(&model, share, &mut grads, &mut outside);
        first.get_or_insert(item);
        signal.push(signal_of(&model, pieces)?);
    }
    Ok(Gathered {
        signal,
        outside,
        item: first.ok_or_else(no_draws)?,
    })
}

/// The weights of the model itself.
pub(crate) fn at<M: Module>(layout: &Layout, model: &M) -> Result<Draw> {
    Ok(Draw {
        weights: layout.flatten(model)?,
        noise: Noise::new(0),
    })
}

/// The weights of all draws, `[S, D]`.
pub(crate) fn stacked(draws: &[Draw]) -> Tensor<2> {
    Tensor::stack(draws.iter().map(|draw| draw.weights.clone()).collect(), 0)
}

/// The error for an algorithm that proposed no draws.
pub(crate) fn no_draws() -> Error {
    Error::config("draws", "the algorithm proposed no draws")
}

/// Adds the gradients of parameters outside the layout, which stay point estimates.
pub(crate) struct Outside<'a> {
    share: f64,
    found: &'a mut GradientsParams,
    sum: &'a mut GradientsParams,
}

impl Outside<'_> {
    /// Adds `share` times every gradient in `found` that belongs to `model` to `sum`.
    pub(crate) fn add<M: Module>(
        model: &M,
        share: f64,
        found: &mut GradientsParams,
        sum: &mut GradientsParams,
    ) {
        if !found.is_empty() {
            model.visit(&mut Outside { share, found, sum });
        }
    }
}

impl ModuleVisitor for Outside<'_> {
    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        if let Some(gradient) = self.found.remove::<R>(param.id) {
            let gradient = if self.share == 1.0 {
                gradient
            } else {
                gradient * self.share
            };
            let sum = match self.sum.remove::<R>(param.id) {
                Some(sum) => sum + gradient,
                None => gradient,
            };
            self.sum.register(param.id, sum);
        }
    }
}
