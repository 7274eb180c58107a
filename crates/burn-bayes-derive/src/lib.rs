//! `#[derive(ExampleBatch)]`, which `burn-bayes` and `burn-bayes-graph` export beside the trait.

mod example_batch;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `ExampleBatch` for a structure whose fields are tensors or batches themselves.
///
/// ```ignore
/// #[derive(Clone, ExampleBatch)]
/// struct ImageBatch {
///     images: Tensor<4>,
///     labels: Tensor<1, Int>,
///     #[batch(shared)]
///     class_weights: [f32; 10],
/// }
/// ```
///
/// # Attributes
///
/// * `#[batch(shared)]` on a field: all examples share its value, which is passed on as it is and is a
///   constant of a recording. Batches whose values differ in their `Debug` output have recordings of their
///   own; a field without `Debug`, or with tensors, is compared at every use.
/// * `#[batch(crate = path)]` on the structure: the path of `burn-bayes-graph`, for a package that does
///   not depend on `burn-bayes` or gives it another name. The default is `::burn_bayes::graph`.
#[proc_macro_derive(ExampleBatch, attributes(batch))]
pub fn derive_example_batch(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    example_batch::expand(input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
