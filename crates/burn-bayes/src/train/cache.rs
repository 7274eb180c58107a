//! A cache of the posterior of the current parameters, computed on first use.
//!
//! The cache is a module without parameters, so that every operation that changes parameters
//! (loading a record, moving to a device, a mapper) clears it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::Device;

use crate::error::Result;
use crate::posterior::{Posterior, Sampler};

/// The cached posterior, if it has been computed.
#[derive(Clone, Debug)]
pub(crate) struct PosteriorCache<P>(Arc<OnceLock<Known<P>>>);

#[derive(Debug)]
struct Known<P> {
    posterior: P,
    sampler: OnceLock<Arc<dyn Sampler>>,
}

impl<P> Default for PosteriorCache<P> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<P: Posterior> PosteriorCache<P> {
    /// The posterior, computed if it is not cached.
    pub(crate) fn get(&self, compute: impl FnOnce() -> Result<P>) -> Result<P> {
        Ok(self.known(compute)?.posterior.clone())
    }

    /// The posterior and its sampler.
    pub(crate) fn with_sampler(
        &self,
        compute: impl FnOnce() -> Result<P>,
    ) -> Result<(P, Arc<dyn Sampler>)> {
        let known = self.known(compute)?;
        let sampler = match known.sampler.get() {
            Some(sampler) => sampler.clone(),
            None => {
                let sampler = known.posterior.sampler()?.into();
                known.sampler.get_or_init(|| sampler).clone()
            }
        };
        Ok((known.posterior.clone(), sampler))
    }

    fn known(&self, compute: impl FnOnce() -> Result<P>) -> Result<&Known<P>> {
        if let Some(known) = self.0.get() {
            return Ok(known);
        }
        let posterior = compute()?;
        Ok(self.0.get_or_init(|| Known {
            posterior,
            sampler: OnceLock::new(),
        }))
    }
}

impl<P: Posterior> Module for PosteriorCache<P> {
    fn visit<V: ModuleVisitor>(&self, _visitor: &mut V) {}

    fn map<M: ModuleMapper>(self, _mapper: &mut M) -> Self {
        Self::default()
    }

    fn to_device(self, _device: &Device) -> Self {
        Self::default()
    }

    fn fork(self, _device: &Device) -> Self {
        Self::default()
    }

    fn collect_devices(&self, devices: Devices) -> Devices {
        devices
    }

    fn materialize(self) -> Self {
        self
    }

    fn valid(&self) -> Self {
        self.clone()
    }

    fn train(self) -> Self {
        self
    }
}

impl<P: Posterior> ModuleDisplayDefault for PosteriorCache<P> {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&self.to_string()).optional()
    }
}

impl<P: Posterior> ModuleDisplay for PosteriorCache<P> {}

impl<P> fmt::Display for PosteriorCache<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.get() {
            Some(_) => "PosteriorCache(known)",
            None => "PosteriorCache(not computed)",
        })
    }
}
