//! Samples of a posterior: rows of a buffer, of which later ones replace the oldest, and the mixture of samples.

use std::sync::Arc;

use burn::module::Param;
use burn::tensor::Tensor;
use burn_bayes_graph::Layout;

use super::start::updated;
use crate::error::Result;
use crate::posterior::{Mixture, PointPosterior};

/// The buffer with this sample, which is number `number`, from 1.
pub(super) fn with_sample(
    samples: Param<Tensor<2>>,
    number: u64,
    sample: Tensor<1>,
) -> Param<Tensor<2>> {
    updated(samples, |samples| {
        let [rows, len] = samples.dims();
        let row = ((number - 1) % rows as u64) as usize;
        samples.slice_assign([row..row + 1, 0..len], sample.unsqueeze())
    })
}

/// The first `count` rows of the buffer.
pub(super) fn first_samples(
    samples: &Param<Tensor<2>>,
    count: usize,
) -> impl Iterator<Item = Tensor<1>> {
    let samples = samples.val().without_autodiff();
    (0..count).map(move |row| samples.clone().narrow(0, row, 1).squeeze_dim(0))
}

/// The mixture of points with equal weights.
pub(super) fn mixture_of_points(
    layout: &Arc<Layout>,
    points: impl IntoIterator<Item = Tensor<1>>,
) -> Result<Mixture<PointPosterior>> {
    let points = points.into_iter();
    let points = points.map(|weights| PointPosterior::new(layout.clone(), weights));
    Mixture::uniform(points.collect::<Result<_>>()?)
}
