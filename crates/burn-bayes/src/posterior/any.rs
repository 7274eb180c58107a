//! A posterior in one of the forms that a fit chooses between.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;

use super::storage::Saved;
use super::{FactorPosterior, ModelState, Posterior, SamplePosterior, Sampler};
use crate::error::Result;

/// A Gaussian or samples: what the file of a posterior has, whichever it is.
#[derive(Clone, Debug)]
pub enum AnyPosterior {
    /// A Gaussian.
    Gaussian(FactorPosterior),
    /// Samples with equal weights.
    Samples(SamplePosterior),
}

impl From<FactorPosterior> for AnyPosterior {
    fn from(posterior: FactorPosterior) -> Self {
        Self::Gaussian(posterior)
    }
}

impl From<SamplePosterior> for AnyPosterior {
    fn from(posterior: SamplePosterior) -> Self {
        Self::Samples(posterior)
    }
}

impl AnyPosterior {
    /// The Gaussian, if it is one.
    pub fn as_gaussian(&self) -> Option<&FactorPosterior> {
        match self {
            Self::Gaussian(posterior) => Some(posterior),
            Self::Samples(_) => None,
        }
    }
}

/// The same of either form.
macro_rules! of_either {
    ($any:expr, $posterior:ident => $value:expr) => {
        match $any {
            AnyPosterior::Gaussian($posterior) => $value,
            AnyPosterior::Samples($posterior) => $value,
        }
    };
}

impl Posterior for AnyPosterior {
    fn layout(&self) -> &Arc<Layout> {
        of_either!(self, posterior => Posterior::layout(posterior))
    }

    fn sampler(&self) -> Result<Box<dyn Sampler>> {
        of_either!(self, posterior => Posterior::sampler(posterior))
    }

    fn mean_weights(&self) -> Result<Tensor<1>> {
        of_either!(self, posterior => posterior.mean_weights())
    }

    fn shared_state(&self) -> Option<ModelState> {
        of_either!(self, posterior => posterior.shared_state())
    }

    fn with_state(self, state: ModelState) -> Self {
        of_either!(self, posterior => posterior.with_state(state).into())
    }

    fn save(&self, path: &Path) -> Result<()> {
        of_either!(self, posterior => posterior.save(path))
    }

    fn load(path: &Path, device: &Device) -> Result<Self> {
        let saved = Saved::read(path, device)?;
        match SamplePosterior::is_in(&saved) {
            true => Ok(SamplePosterior::from_file(saved)?.into()),
            false => Ok(FactorPosterior::from_file(saved)?.into()),
        }
    }
}
