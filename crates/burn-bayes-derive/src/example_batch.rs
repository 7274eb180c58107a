//! From a structure to its implementation of `ExampleBatch`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Field, Path, Result, parse_quote};

/// The implementation, or what is wrong with the structure.
pub(crate) fn expand(input: DeriveInput) -> Result<TokenStream> {
    let graph = graph_path(&input.attrs)?;
    let Data::Struct(data) = &input.data else {
        let problem = "ExampleBatch can be derived for structures only";
        return Err(Error::new_spanned(&input.ident, problem));
    };
    let fields = data.fields.iter().zip(data.fields.members());
    let mut mapped_types = Vec::new();
    let mut values = Vec::new();
    let mut shared = Vec::new();
    for (field, member) in fields {
        if is_shared(field)? {
            values.push(quote!(#member: self.#member));
            // A field without `Debug` chooses the other trait.
            shared.push(quote!((&#graph::shared::Field(&self.#member)).add_to(fields)));
        } else {
            let ty = &field.ty;
            mapped_types.push(ty);
            // The span of the type makes the compiler point at the field that is no batch.
            let map = quote_spanned!(ty.span()=> #graph::ExampleBatch::map_tensors);
            values.push(quote!(#member: #map(self.#member, mapper)));
            shared.push(quote!(#graph::ExampleBatch::visit_shared(&self.#member, fields)));
        }
    }
    if mapped_types.is_empty() {
        let problem =
            "a batch has at least one field with a tensor whose first axis is the example axis";
        return Err(Error::new_spanned(&input.ident, problem));
    }
    let name = &input.ident;
    let mut generics = input.generics.clone();
    if generics.type_params().next().is_some() {
        let clauses = &mut generics.make_where_clause().predicates;
        clauses.push(parse_quote!(Self: ::core::clone::Clone));
        clauses.extend(
            mapped_types
                .iter()
                .map(|ty| -> syn::WherePredicate { parse_quote!(#ty: #graph::ExampleBatch) }),
        );
    }
    let (parameters, arguments, clauses) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters #graph::ExampleBatch for #name #arguments #clauses {
            fn map_tensors<__Mapper: #graph::TensorMapper>(self, mapper: &mut __Mapper) -> Self {
                Self { #(#values),* }
            }

            fn visit_shared(&self, fields: &mut #graph::SharedFields) {
                #[allow(unused_imports, reason = "each is for other fields")]
                use #graph::shared::{Hidden as _, Shown as _};
                #(#shared;)*
            }
        }
    })
}

/// What `#[batch(crate = …)]` names.
fn graph_path(attributes: &[Attribute]) -> Result<Path> {
    let mut path = parse_quote!(::burn_bayes::graph);
    for attribute in batch_attributes(attributes) {
        attribute.parse_nested_meta(|setting| {
            if setting.path.is_ident("crate") {
                path = setting.value()?.call(Path::parse_mod_style)?;
                Ok(())
            } else {
                Err(setting.error("unknown setting; a structure can have `#[batch(crate = path)]`"))
            }
        })?;
    }
    Ok(path)
}

/// Whether the field has `#[batch(shared)]`.
fn is_shared(field: &Field) -> Result<bool> {
    let mut is_shared = false;
    for attribute in batch_attributes(&field.attrs) {
        attribute.parse_nested_meta(|setting| {
            if setting.path.is_ident("shared") {
                is_shared = true;
                Ok(())
            } else {
                Err(setting.error("unknown setting; a field can have `#[batch(shared)]`"))
            }
        })?;
    }
    Ok(is_shared)
}

fn batch_attributes(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("batch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: DeriveInput, expected: TokenStream) {
        assert_eq!(expand(input).unwrap().to_string(), expected.to_string());
    }

    fn message(input: DeriveInput) -> String {
        expand(input).unwrap_err().to_string()
    }

    #[test]
    fn fields_are_mapped_unless_they_are_shared() {
        let input = parse_quote! {
            struct Batch {
                images: Tensor<4>,
                #[batch(shared)]
                scale: f32,
            }
        };
        let expected = quote! {
            #[automatically_derived]
            impl ::burn_bayes::graph::ExampleBatch for Batch {
                fn map_tensors<__Mapper: ::burn_bayes::graph::TensorMapper>(
                    self,
                    mapper: &mut __Mapper
                ) -> Self {
                    Self {
                        images: ::burn_bayes::graph::ExampleBatch::map_tensors(self.images, mapper),
                        scale: self.scale
                    }
                }

                fn visit_shared(&self, fields: &mut ::burn_bayes::graph::SharedFields) {
                    #[allow(unused_imports, reason = "each is for other fields")]
                    use ::burn_bayes::graph::shared::{Hidden as _, Shown as _};
                    ::burn_bayes::graph::ExampleBatch::visit_shared(&self.images, fields);
                    (&::burn_bayes::graph::shared::Field(&self.scale)).add_to(fields);
                }
            }
        };
        check(input, expected);
    }

    #[test]
    fn a_generic_tuple_structure_is_a_batch_where_its_fields_are() {
        let input = parse_quote! {
            #[batch(crate = graph)]
            struct Pair<T, const R: usize>(T, Tensor<R>) where T: Send;
        };
        let expected = quote! {
            #[automatically_derived]
            impl<T, const R: usize> graph::ExampleBatch for Pair<T, R>
            where
                T: Send,
                Self: ::core::clone::Clone,
                T: graph::ExampleBatch,
                Tensor<R>: graph::ExampleBatch
            {
                fn map_tensors<__Mapper: graph::TensorMapper>(
                    self,
                    mapper: &mut __Mapper
                ) -> Self {
                    Self {
                        0: graph::ExampleBatch::map_tensors(self.0, mapper),
                        1: graph::ExampleBatch::map_tensors(self.1, mapper)
                    }
                }

                fn visit_shared(&self, fields: &mut graph::SharedFields) {
                    #[allow(unused_imports, reason = "each is for other fields")]
                    use graph::shared::{Hidden as _, Shown as _};
                    graph::ExampleBatch::visit_shared(&self.0, fields);
                    graph::ExampleBatch::visit_shared(&self.1, fields);
                }
            }
        };
        check(input, expected);
    }

    #[test]
    fn what_is_no_batch_is_refused() {
        let choice = message(parse_quote!(
            enum Choice {
                One(Tensor<1>),
            }
        ));
        assert!(choice.contains("structures only"), "{choice}");
        for empty in [
            parse_quote!(
                struct Empty;
            ),
            parse_quote!(
                struct Empty {
                    #[batch(shared)]
                    scale: f32,
                }
            ),
        ] {
            let empty = message(empty);
            assert!(empty.contains("at least one field"), "{empty}");
        }
    }

    #[test]
    fn unknown_settings_are_refused_with_those_there_are() {
        let field = message(parse_quote!(
            struct Batch {
                #[batch(skip)]
                x: f32,
            }
        ));
        assert!(field.contains("#[batch(shared)]"), "{field}");
        let structure = message(parse_quote!(
            #[batch(shared)]
            struct Batch {
                x: f32,
            }
        ));
        assert!(structure.contains("#[batch(crate = path)]"), "{structure}");
    }
}
