//! How a step in closed form gets from the evidence to the optimiser's turn.
//!
//! The evidence decides the new values, but the step has to wait for the learning rate. In between it
//! travels with the gradients, under ids of its own that no parameter has: what adds gradients up
//! (accumulation, several devices) drops them, and the loss is noticed where a sum of steps would
//! not be.

use burn::module::ParamId;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_bayes_graph::Layout;

use crate::error::{Error, Result};

/// Steps rejected in a row after which training stops.
pub const MAX_REJECTIONS: u32 = 10;

/// The most vectors that travel.
const VECTORS: usize = 3;

/// The values of a step.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) vectors: [Tensor<1>; VECTORS],
    pub(crate) factors: Option<Tensor<2>>,
}

/// The ids under which steps of one algorithm travel, and how many were rejected in a row.
#[derive(Clone, Debug)]
pub(crate) struct Courier {
    vectors: [ParamId; VECTORS],
    factors: ParamId,
    rejection: ParamId,
    rejected: u32,
}

impl Courier {
    pub(crate) fn new() -> Self {
        Self {
            vectors: [(); VECTORS].map(|()| ParamId::new()),
            factors: ParamId::new(),
            rejection: ParamId::new(),
            rejected: 0,
        }
    }

    /// Gradients that carry a step.
    ///
    /// # Errors
    ///
    /// The algorithm, of which `mean` is a parameter, is a replica: each would make its own steps.
    pub(crate) fn send(&self, parcel: Parcel, mean: &Tensor<1>) -> Result<GradientsParams> {
        if mean.is_distributed() {
            return Err(Error::lost_step());
        }
        let mut gradients = GradientsParams::new();
        for (id, vector) in self.vectors.iter().zip(parcel.vectors) {
            gradients.register(*id, vector);
        }
        if let Some(factors) = parcel.factors {
            gradients.register(self.factors, factors);
        }
        Ok(gradients)
    }

    /// Gradients that carry the order not to move, where a step would not be finite.
    ///
    /// # Errors
    ///
    /// There were [`MAX_REJECTIONS`] of them; names the first weight whose `gradient` is not finite.
    pub(crate) fn reject(
        &self,
        step: u64,
        gradient: Tensor<1>,
        layout: &Layout,
    ) -> Result<GradientsParams> {
        let device = gradient.device();
        let values = gradient.into_data();
        let bad = values.iter::<f64>().position(|value| !value.is_finite());
        let path = bad.and_then(|index| layout.path_at(index));
        let error = Error::non_finite(step, path.unwrap_or("the precision"));
        if self.rejected >= MAX_REJECTIONS {
            return Err(error);
        }
        if self.rejected == 0 {
            log::warn!(
                "{error}; the step is left out, and those after it until a gradient is finite, at most \
                 {MAX_REJECTIONS} in a row"
            );
        }
        let mut gradients = GradientsParams::new();
        gradients.register(self.rejection, Tensor::<1>::zeros([1], &device));
        Ok(gradients)
    }

    /// Takes the step out of the gradients; `None` if it was rejected.
    ///
    /// # Errors
    ///
    /// Nothing is there.
    pub(crate) fn receive(&mut self, gradients: &mut GradientsParams) -> Result<Option<Parcel>> {
        if gradients.remove::<1>(self.rejection).is_some() {
            self.rejected += 1;
            return Ok(None);
        }
        let mut take = |id| gradients.remove::<1>(id).ok_or_else(Error::lost_step);
        let [first, second, third] = self.vectors;
        let vectors = [take(first)?, take(second)?, take(third)?];
        self.rejected = 0;
        Ok(Some(Parcel {
            vectors,
            factors: gradients.remove::<2>(self.factors),
        }))
    }
}
