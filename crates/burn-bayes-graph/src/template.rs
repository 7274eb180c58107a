//! A model as recordings see it.

use std::borrow::Cow;
use std::fmt;

use burn::module::Module;

use crate::batch::ExampleBatch;
use crate::fields::fields_of;
use crate::layout::Layout;
use crate::memo::Key;
use crate::parameters::{ModuleTensor, module_tensors, roles_hash};

/// A model that does not change for a while: what recordings of it depend on and the tensors that they read, for
/// evaluations at several batches and weights.
///
/// Which fields a model has is a hash of their text, which takes longer than a step of a small network.
pub struct Template<'a, M: Module> {
    model: Cow<'a, M>,
    fields: u64,
    /// See [`roles_hash`].
    roles: u64,
    tensors: Vec<ModuleTensor>,
}

impl<M: Module> fmt::Debug for Template<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

impl<'a, M: Module> Template<'a, M> {
    /// The model as it is now. The weights of the layout are given to evaluations.
    pub fn new(model: &'a M, layout: &Layout) -> Self {
        let tensors = module_tensors(model, layout);
        Self {
            fields: fields_of(model),
            roles: roles_hash(&tensors),
            tensors,
            model: Cow::Borrowed(model),
        }
    }

    /// The same without the borrow.
    #[must_use]
    pub fn into_owned(self) -> Template<'static, M> {
        Template {
            model: Cow::Owned(self.model.into_owned()),
            fields: self.fields,
            roles: self.roles,
            tensors: self.tensors,
        }
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// A hash of the model's fields. Internal; not covered by semver.
    #[doc(hidden)]
    pub fn fields(&self) -> u64 {
        self.fields
    }

    /// The number of running statistics of batch norm whose training flag is on. Internal; not covered by semver.
    #[doc(hidden)]
    pub fn trained_statistics(&self) -> usize {
        let tensors = self.tensors.iter();
        tensors.filter(|tensor| tensor.statistic.is_some()).count()
    }

    pub(crate) fn tensors(&self) -> &[ModuleTensor] {
        &self.tensors
    }

    /// A hash of what the module's tensors are for.
    pub(crate) fn roles(&self) -> u64 {
        self.roles
    }

    /// What a recording for this batch depends on.
    pub(crate) fn key<B: ExampleBatch>(&self, batch: &B, draws: usize) -> Key {
        Key::new(self.fields, batch, draws)
    }
}
