//! What is kept from the first time that it is asked for: the posterior of the present parameters,
//! and the recording of the model's loss.
//!
//! The posterior is kept in a module without parameters, so that whatever changes parameters (a
//! record, a move to a device, a mapper) makes it forget. A recording holds no parameters, and is
//! good for all copies of a model.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
};
use burn::tensor::Device;

use crate::error::Result;
use crate::posterior::FactorPosterior;

/// A recording that was made, if it was, of the one type that is asked for.
#[derive(Clone, Default)]
pub(crate) struct RecordingCache(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl RecordingCache {
    /// This one, from the start.
    pub(crate) fn holding<R: Send + Sync + 'static>(recording: R) -> Self {
        let known: Arc<dyn Any + Send + Sync> = Arc::new(recording);
        Self(Arc::new(OnceLock::from(known)))
    }

    /// The recording, if there is one of this type.
    pub(crate) fn known<R: Send + Sync + 'static>(&self) -> Option<Arc<R>> {
        self.0.get()?.clone().downcast().ok()
    }

    /// The recording, made if there is none.
    pub(crate) fn get<R: Send + Sync + 'static>(&self, make: impl Fn() -> R) -> Arc<R> {
        let known = self.0.get_or_init(|| Arc::new(make())).clone();
        known.downcast().unwrap_or_else(|_| Arc::new(make()))
    }
}

impl fmt::Debug for RecordingCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordingCache")
            .field(&self.0.get().is_some())
            .finish()
    }
}

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

impl fmt::Display for PosteriorCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.get() {
            Some(_) => "PosteriorCache(known)",
            None => "PosteriorCache(not computed)",
        })
    }
}
