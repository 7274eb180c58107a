//! The posterior of the present parameters, kept from the first time that it is asked for.
//!
//! It is a module without parameters, so that whatever changes parameters (a record, a move to a
//! device, a mapper) makes it forget.

use std::sync::{Arc, OnceLock};

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::Device;
use burn_bayes_core::FactorPosterior;

use crate::error::Result;

/// A posterior that was computed, if it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct PosteriorCache(Arc<OnceLock<FactorPosterior>>);

impl PosteriorCache {
    /// The posterior, computed if it is not known.
    pub(crate) fn get(
        &self,
        compute: impl FnOnce() -> Result<FactorPosterior>,
    ) -> Result<FactorPosterior> {
        if let Some(posterior) = self.0.get() {
            return Ok(posterior.clone());
        }
        let posterior = compute()?;
        Ok(self.0.get_or_init(|| posterior).clone())
    }
}

impl Module for PosteriorCache {
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

impl ModuleDisplayDefault for PosteriorCache {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&self.to_string()).optional()
    }
}

impl ModuleDisplay for PosteriorCache {}

impl std::fmt::Display for PosteriorCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0.get() {
            Some(_) => "PosteriorCache(known)",
            None => "PosteriorCache(not computed)",
        })
    }
}
