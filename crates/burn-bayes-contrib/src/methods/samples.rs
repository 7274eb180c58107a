//! Samples of a posterior: rows of a buffer, of which later ones replace the oldest, and the mixture of samples.
//!
//! A sample is a vector of weights, and the state of the model outside the layout as far as it changes in a training: trained
//! point estimates, and running statistics.

use std::sync::Arc;

use burn::module::{Module, Param, RunningState};
use burn::tensor::{Device, Tensor};
use burn_bayes::Result;
use burn_bayes::graph::Layout;
use burn_bayes::methods::{buffer, updated};
use burn_bayes::posterior::{Mixture, ModelState, PointPosterior, Posterior, changing};

/// The last samples of a training.
#[derive(Module, Debug)]
pub(super) struct Samples {
    /// One sample per row.
    weights: Param<Tensor<2>>,
    /// One state per row, if the model has a state that changes.
    states: Option<Param<Tensor<2>>>,
    #[module(skip)]
    changing: Option<Arc<Layout>>,
}

impl Samples {
    /// Room for `count` samples.
    pub(super) fn new<M: Module>(
        count: usize,
        model: &M,
        layout: &Layout,
        device: &Device,
    ) -> Self {
        let changing = changing(model, layout);
        let rows = |len| buffer(Tensor::zeros([count, len], device));
        Self {
            weights: rows(layout.len()),
            states: changing.as_ref().map(|changing| rows(changing.len())),
            changing,
        }
    }

    /// The parameters and running statistics of a state.
    pub(super) fn changing(&self) -> Option<&Arc<Layout>> {
        self.changing.as_ref()
    }

    /// The samples with this one, which is number `number`, from 1.
    pub(super) fn with_weights(self, number: u64, weights: Tensor<1>) -> Self {
        let weights = with_row(self.weights, number, weights);
        Self { weights, ..self }
    }

    /// The samples with this state of sample number `number`, from 1.
    pub(super) fn with_state(self, number: u64, state: Tensor<1>) -> Self {
        let states = self.states.map(|states| with_row(states, number, state));
        Self { states, ..self }
    }

    /// The mixture of the first `count` samples, with equal weights.
    pub(super) fn mixture(
        &self,
        layout: &Arc<Layout>,
        count: usize,
    ) -> Result<Mixture<PointPosterior>> {
        let states = self.states.as_ref().zip(self.changing.as_ref());
        let points = (0..count).map(|index| {
            let state = states.map(|(states, changing)| (changing.clone(), row(states, index)));
            point(layout, row(&self.weights, index), state)
        });
        Mixture::uniform(points.collect::<Result<_>>()?)
    }
}

/// A point with the state of a sample, if there is one.
pub(super) fn point(
    layout: &Arc<Layout>,
    weights: Tensor<1>,
    state: Option<(Arc<Layout>, Tensor<1>)>,
) -> Result<PointPosterior> {
    let point = PointPosterior::new(layout.clone(), weights)?;
    Ok(match state {
        None => point,
        Some((changing, values)) => point.with_state(ModelState::of_sample(changing, values)),
    })
}

/// The running statistics of a model, once for each of `count` members; none if it has no such statistics.
pub(super) fn member_statistics<M: Module>(
    model: &M,
    running: Option<&Layout>,
    count: usize,
) -> Result<Vec<RunningState<Tensor<1>>>> {
    let Some(running) = running else {
        return Ok(Vec::new());
    };
    let values = running.flatten(&model.valid())?;
    let of_member = |_| RunningState::new(Tensor::from_inner(values.clone()));
    Ok((0..count).map(of_member).collect())
}

fn with_row(rows: Param<Tensor<2>>, number: u64, row: Tensor<1>) -> Param<Tensor<2>> {
    updated(rows, |rows| {
        let [count, len] = rows.dims();
        let index = ((number - 1) % count as u64) as usize;
        // A sharded optimiser moves parameters between devices, but not buffers.
        let row = row.to_device(&rows.device());
        rows.slice_assign([index..index + 1, 0..len], row.unsqueeze())
    })
}

fn row(rows: &Param<Tensor<2>>, index: usize) -> Tensor<1> {
    let rows = rows.val().without_autodiff();
    rows.narrow(0, index, 1).squeeze_dim(0)
}
