//! Mini-batches, and mappers over their tensors.

use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hasher};

use burn::backend::DispatchTensor;
use burn::tensor::{DType, Tensor, kind};

use crate::debug_text::hash_fields;
use crate::error::{Kind, Result};

/// A mini-batch: the first axis of every tensor is the example axis.
///
/// Tensors implement it, and so do tuples of up to four batches. For a structure of tensors and batches it
/// is derived. A field that all examples share is passed on as it is, and is a constant of a recording: batches
/// with another value have a recording of their own, see [`visit_shared`](Self::visit_shared).
///
/// ```
/// use burn::tensor::{Int, Tensor};
/// use burn_bayes_graph::ExampleBatch;
///
/// #[derive(Clone, ExampleBatch)]
/// #[batch(crate = burn_bayes_graph)] // not with `use burn_bayes::ExampleBatch`
/// struct ImageBatch {
///     images: Tensor<4>,
///     labels: Tensor<1, Int>,
///     #[batch(shared)]
///     class_weights: [f32; 10],
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no batch of examples",
    label = "neither a tensor nor a batch",
    note = "a structure of tensors becomes one by `#[derive(ExampleBatch)]`; mark a field that all \
            examples share with `#[batch(shared)]`"
)]
pub trait ExampleBatch: Clone {
    /// Replaces every tensor by the result of `mapper`, always in the same order.
    #[must_use]
    fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self;

    /// Adds every field that [`map_tensors`](Self::map_tensors) does not map to `fields`, by its value. Batches with
    /// different values do not share a recording.
    ///
    /// The derived implementation adds the fields with `#[batch(shared)]`. The default adds nothing; if the batch then
    /// has something besides its tensors, the losses of every replay are compared with the loss itself, which costs a
    /// forward pass.
    fn visit_shared(&self, fields: &mut SharedFields) {
        if !has_only_tensors(self) {
            fields.hide();
        }
    }
}

/// The values of a batch that all its examples share.
#[derive(Debug, Default)]
pub struct SharedFields {
    hasher: DefaultHasher,
    text: String,
    /// Whether there is a field whose value is not known.
    is_hidden: bool,
}

impl SharedFields {
    /// Adds a field by its `Debug` output, which must show its value. That of a tensor does not, so that a field with
    /// tensors counts as hidden.
    pub fn add<T: Debug + ?Sized>(&mut self, field: &T) {
        self.text.clear();
        // Writing to a string fails only if the field's own `Debug` does.
        self.is_hidden |= write!(self.text, "{field:?}").is_err();
        self.is_hidden |= hash_fields(&self.text, &mut self.hasher);
    }

    /// Declares that there is a field whose value cannot be added.
    pub fn hide(&mut self) {
        self.is_hidden = true;
    }
}

/// What the derived implementation of [`ExampleBatch`] calls: internal; not covered by semver.
#[doc(hidden)]
pub mod shared {
    use std::fmt::Debug;

    use super::SharedFields;

    /// A shared field. A method call on a reference to it prefers [`Shown`], which needs `Debug`, to [`Hidden`].
    #[derive(Debug)]
    pub struct Field<'a, T: ?Sized>(pub &'a T);

    /// A field with a `Debug` output.
    pub trait Shown {
        /// Adds the field.
        fn add_to(&self, fields: &mut SharedFields);
    }

    /// A field without one.
    pub trait Hidden {
        /// Declares the field.
        fn add_to(&self, fields: &mut SharedFields);
    }

    impl<T: Debug + ?Sized> Shown for Field<'_, T> {
        fn add_to(&self, fields: &mut SharedFields) {
            fields.add(self.0);
        }
    }

    impl<T: ?Sized> Hidden for &Field<'_, T> {
        fn add_to(&self, fields: &mut SharedFields) {
            fields.hide();
        }
    }
}

/// Whether a batch is as large as its tensors are together.
fn has_only_tensors<B: ExampleBatch>(batch: &B) -> bool {
    struct Sizes(usize);
    impl TensorMapper for Sizes {
        fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
            self.0 += size_of::<Tensor<R, K>>();
            tensor
        }
    }
    let mut sizes = Sizes(0);
    let _ = batch.clone().map_tensors(&mut sizes);
    sizes.0 == size_of::<B>()
}

/// A function of the tensors of a batch.
pub trait TensorMapper {
    /// Maps one tensor.
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K>;
}

impl<const R: usize, K: kind::Autodiff> ExampleBatch for Tensor<R, K> {
    fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self {
        mapper.map(self)
    }

    fn visit_shared(&self, _fields: &mut SharedFields) {}
}

macro_rules! tuple_batches {
    ($($name:ident)+) => {
        impl<$($name: ExampleBatch),+> ExampleBatch for ($($name,)+) {
            fn map_tensors<Mapper: TensorMapper>(self, mapper: &mut Mapper) -> Self {
                #[allow(non_snake_case, reason = "a field is named like its type parameter")]
                let ($($name,)+) = self;
                ($($name.map_tensors(mapper),)+)
            }

            fn visit_shared(&self, fields: &mut SharedFields) {
                #[allow(non_snake_case, reason = "a field is named like its type parameter")]
                let ($($name,)+) = self;
                $($name.visit_shared(fields);)+
            }
        }
    };
}

tuple_batches!(A);
tuple_batches!(A B);
tuple_batches!(A B C);
tuple_batches!(A B C D);

/// Keeps one example.
pub(crate) struct Single(pub(crate) usize);

impl TensorMapper for Single {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        tensor.narrow(0, self.0, 1)
    }
}

/// Replaces all examples by copies of one.
pub(crate) struct Copies(pub(crate) usize);

impl TensorMapper for Copies {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let examples = tensor.dims()[0];
        tensor.narrow(0, self.0, 1).repeat_dim(0, examples)
    }
}

/// Appends a copy of the first example.
pub(crate) struct OneMoreExample;

impl TensorMapper for OneMoreExample {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let first = tensor.clone().narrow(0, 0, 1);
        Tensor::cat(vec![tensor, first], 0)
    }
}

/// Collects the tensors, without autodiff.
pub(crate) struct Inputs(Vec<DispatchTensor>);

impl Inputs {
    pub(crate) fn of<B: ExampleBatch>(batch: &B) -> Vec<DispatchTensor> {
        let mut inputs = Self(Vec::new());
        let _ = batch.clone().map_tensors(&mut inputs);
        inputs.0
    }
}

impl TensorMapper for Inputs {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        self.0
            .push(tensor.clone().without_autodiff().into_dispatch());
        tensor
    }
}

/// What the recording of a batch depends on. Batches of equal signature share a recording.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signature {
    /// The rank and shape of each tensor.
    pub(crate) shapes: Vec<usize>,
    pub(crate) types: Vec<DType>,
    /// A hash of the values that all examples share.
    pub(crate) shared: u64,
    /// Whether there are further values, which the signature does not show.
    pub(crate) has_hidden: bool,
}

impl Signature {
    pub(crate) fn of<B: ExampleBatch>(batch: &B) -> Self {
        let mut signature = Self {
            shapes: Vec::new(),
            types: Vec::new(),
            shared: 0,
            has_hidden: false,
        };
        let _ = batch.clone().map_tensors(&mut signature);
        let mut fields = SharedFields::default();
        batch.visit_shared(&mut fields);
        Self {
            shared: fields.hasher.finish(),
            has_hidden: fields.is_hidden,
            ..signature
        }
    }
}

impl TensorMapper for Signature {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        self.shapes.push(R);
        self.shapes.extend(tensor.dims());
        self.types.push(tensor.dtype());
        tensor
    }
}

/// Whether all tensors are on a device with autodiff.
pub(crate) fn is_tracked<B: ExampleBatch>(batch: &B) -> bool {
    struct Tracked(bool);
    impl TensorMapper for Tracked {
        fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
            self.0 &= tensor.device().is_autodiff();
            tensor
        }
    }
    let mut tracked = Tracked(true);
    let _ = batch.clone().map_tensors(&mut tracked);
    tracked.0
}

/// The length of each tensor's first axis.
pub fn lengths<B: ExampleBatch>(batch: &B) -> Vec<usize> {
    struct Lengths(Vec<usize>);
    impl TensorMapper for Lengths {
        fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
            self.0.push(tensor.dims().first().copied().unwrap_or(0));
            tensor
        }
    }
    let mut lengths = Lengths(Vec::new());
    let _ = batch.clone().map_tensors(&mut lengths);
    lengths.0
}

/// The number of examples, M.
pub(crate) fn examples_of<B: ExampleBatch>(batch: &B) -> Result<usize> {
    let problem = match lengths(batch).as_slice() {
        [] => "the batch has no tensors".to_owned(),
        [0, ..] => "the batch has no examples".to_owned(),
        [first, rest @ ..] => match rest.iter().position(|len| len != first) {
            None => return Ok(*first),
            Some(index) => format!(
                "tensor {} of the batch has {} entries along its first axis, tensor 0 has {first}; \
                 every tensor must have one entry for each example",
                index + 1,
                rest[index]
            ),
        },
    };
    Err(Kind::Batch(problem).into())
}

/// Fails unless the loss has one value for each example.
pub(crate) fn check_count(losses: &[f64], examples: usize) -> Result<()> {
    if losses.len() == examples {
        return Ok(());
    }
    Err(Kind::Batch(format!(
        "the loss has {} values for {examples} examples; return one value for each example",
        losses.len()
    ))
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use burn_bayes_derive::ExampleBatch;

    fn tensor() -> Tensor<2> {
        Tensor::zeros([2, 3], &Device::default())
    }

    /// A batch by hand, with a number that it does not add.
    #[derive(Clone)]
    struct ByHand(Tensor<2>, f32);

    impl ExampleBatch for ByHand {
        fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self {
            Self(self.0.map_tensors(mapper), self.1)
        }
    }

    /// The same without the number.
    #[derive(Clone)]
    struct Wrapped((Tensor<2>, Tensor<2>));

    impl ExampleBatch for Wrapped {
        fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self {
            Self(self.0.map_tensors(mapper))
        }
    }

    #[derive(Clone, ExampleBatch)]
    #[batch(crate = crate)]
    struct Derived<T: Clone + Debug> {
        inputs: Tensor<2>,
        #[batch(shared)]
        scale: T,
    }

    #[derive(Clone)]
    struct NotShown;

    #[derive(Clone, ExampleBatch)]
    #[batch(crate = crate)]
    struct WithoutDebug {
        inputs: (Tensor<2>, Derived<f32>),
        #[batch(shared)]
        _scale: NotShown,
    }

    #[test]
    fn a_signature_shows_the_values_that_examples_share_or_says_that_it_does_not() {
        let derived = |scale: f32| Derived {
            inputs: tensor(),
            scale,
        };
        let of = Signature::of(&derived(1.0));
        assert!(!of.has_hidden);
        assert_eq!(of, Signature::of(&derived(1.0)));
        assert_ne!(of, Signature::of(&derived(2.0)));
        let nested = |scale| Signature::of(&(tensor(), derived(scale)));
        assert_ne!(nested(1.0), nested(2.0));
        assert!(!Signature::of(&Wrapped((tensor(), tensor()))).has_hidden);
        assert!(Signature::of(&ByHand(tensor(), 1.0)).has_hidden);
        let of_tensor = Derived {
            inputs: tensor(),
            scale: Some(tensor()),
        };
        assert!(Signature::of(&of_tensor).has_hidden);
        let without = |scale| WithoutDebug {
            inputs: (tensor(), derived(scale)),
            _scale: NotShown,
        };
        let of = Signature::of(&without(1.0));
        assert!(of.has_hidden);
        assert_ne!(of, Signature::of(&without(2.0)));
    }

    #[test]
    fn a_signature_has_the_element_types() {
        let [single, double] = [DType::F32, DType::F64].map(|dtype| tensor().cast(dtype));
        assert_ne!(Signature::of(&single), Signature::of(&double));
    }
}
