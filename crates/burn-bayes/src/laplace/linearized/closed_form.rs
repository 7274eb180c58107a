//! Covariances of linearised outputs in closed form.
//!
//! With Σ = diag w ± VᵀV, the diagonal of J Σ Jᵀ is that of J diag(w) Jᵀ ± (J Vᵀ)(J Vᵀ)ᵀ. Both are products with
//! Jacobians in factored form ([`ExampleJacobians`]), for a whole micro-batch in one pass: one forward and one backward
//! pass for each output, and the multiplications of one forward pass for w and for each of the K rows of V. Where a
//! difference would lose digits, in precision form, it is computed again from the rows of J.

use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_graph::ExampleJacobians;

use super::super::outputs::{ModelOutputs, micro_batches};
use super::Linearized;
use crate::error::{Error, Result};

/// The number of elements of the Jacobian of a micro-batch by rows, which fits into a processor's cache.
const ELEMENTS: usize = 1 << 19;
/// The number of elements of the Jacobian of a micro-batch in factored form.
const FACTORED_ELEMENTS: usize = 1 << 23;
/// The least number of examples in a micro-batch, each of which costs a pass over the model.
const FEWEST_EXAMPLES: usize = 16;
/// The smallest quotient of a difference and its first term that keeps four digits in single precision.
const LEAST_DIFFERENCE: f64 = 0.01;

/// What is found out at the first examples.
#[derive(Debug)]
pub(super) struct Batching {
    /// The identity matrix of the outputs, `[C, C]`.
    pub(super) identity: Tensor<2>,
    /// The number of examples in a micro-batch.
    examples: usize,
}

/// A part of the covariance of every example's outputs: the variances, or all of it.
pub(super) trait Part<const R: usize> {
    /// That of J diag(w) Jᵀ.
    fn of_diagonal(&self, jacobians: &ExampleJacobians, weights: &Tensor<1>) -> Tensor<R>;

    /// That of H Hᵀ for H, `[M, C, K]`.
    fn of_product(&self, root: Tensor<3>) -> Tensor<R>;

    /// The variances, `[M, C]`.
    fn variances(&self, part: Tensor<R>) -> Tensor<2>;
}

/// The diagonal.
pub(super) struct Variances;

impl Part<2> for Variances {
    fn of_diagonal(&self, jacobians: &ExampleJacobians, weights: &Tensor<1>) -> Tensor<2> {
        jacobians.weighted_squares(weights)
    }

    fn of_product(&self, root: Tensor<3>) -> Tensor<2> {
        root.square().sum_dim(2).squeeze_dim(2)
    }

    fn variances(&self, part: Tensor<2>) -> Tensor<2> {
        part
    }
}

/// All of it, with the identity matrix of the outputs.
pub(super) struct Covariances<'a>(pub(super) &'a Tensor<2>);

impl Part<3> for Covariances<'_> {
    fn of_diagonal(&self, jacobians: &ExampleJacobians, weights: &Tensor<1>) -> Tensor<3> {
        jacobians.weighted_grams(weights)
    }

    fn of_product(&self, root: Tensor<3>) -> Tensor<3> {
        root.clone().matmul(root.transpose())
    }

    fn variances(&self, part: Tensor<3>) -> Tensor<2> {
        let diagonal = part * self.0.clone().unsqueeze::<3>();
        diagonal.sum_dim(2).squeeze_dim(2)
    }
}

fn without_examples() -> Error {
    Error::config("features", "have no examples")
}

impl<M: Module + ModelOutputs + 'static> Linearized<M> {
    /// The outputs, and a part of their covariance.
    pub(super) fn closed_form<const R: usize>(
        &self,
        features: &M::Features,
        part: &impl Part<R>,
    ) -> Result<(Tensor<2>, Tensor<R>)> {
        let Batching { identity, examples } = self.batching(features)?;
        let (mut means, mut covariances) = (Vec::new(), Vec::new());
        for features in micro_batches(features, *examples)? {
            let (mean, jacobians) = self.gradients.jacobians(&self.model, &features, identity)?;
            let first = part.of_diagonal(&jacobians, &self.terms.diagonal);
            let covariance = match &self.terms.vectors {
                None => first,
                Some(vectors) => {
                    let second = part.of_product(jacobians.dot(vectors));
                    match self.terms.is_difference {
                        false => first + second,
                        true => self.difference(&features, part, first, second)?,
                    }
                }
            };
            means.push(mean);
            covariances.push(covariance);
        }
        if means.is_empty() {
            return Err(without_examples());
        }
        Ok((Tensor::cat(means, 0), Tensor::cat(covariances, 0)))
    }

    /// The difference of both terms; where it would lose digits, the covariance from the rows of the Jacobian.
    fn difference<const R: usize>(
        &self,
        features: &M::Features,
        part: &impl Part<R>,
        first: Tensor<R>,
        second: Tensor<R>,
    ) -> Result<Tensor<R>> {
        let least = part.variances(first.clone()) * LEAST_DIFFERENCE;
        let difference = first - second;
        let is_small = part.variances(difference.clone()).lower(least);
        if !is_small.clone().any().into_scalar::<bool>() {
            return Ok(difference);
        }
        let roots = self.posterior.covariance_roots()?;
        let [_, outputs] = is_small.dims();
        let mut start = 0;
        let parts = micro_batches(features, self.rows_at_a_time(outputs))?.map(|features| {
            let values = self.gradients.outputs(&self.model, &features)?;
            let range = start..start + values.dims()[0];
            start = range.end;
            let is_small = is_small.clone().slice_dim(0, range.clone()).any();
            if !is_small.into_scalar::<bool>() {
                return Ok(difference.clone().slice_dim(0, range));
            }
            let rows = (0..outputs).map(|output| {
                let rows = self
                    .gradients
                    .of_output(&self.model, &features, &values, output)?;
                Ok(roots.of(rows.materialise()))
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            let products = (0..rows[0].len()).map(|root| {
                let of_outputs = rows.iter().map(|rows| rows[root].clone());
                part.of_product(Tensor::stack(of_outputs.collect(), 1))
            });
            let sum = products.reduce(|sum, product| sum + product);
            Ok(sum.expect("a covariance has a root"))
        });
        Ok(Tensor::cat(parts.collect::<Result<_>>()?, 0))
    }

    /// The outputs, and how many examples are computed at a time.
    pub(super) fn batching(&self, features: &M::Features) -> Result<&Batching> {
        if let Some(batching) = self.batching.get() {
            return Ok(batching);
        }
        let first = micro_batches(features, FEWEST_EXAMPLES)?.next();
        let first = first.ok_or_else(without_examples)?;
        let outputs = self.gradients.outputs(&self.model, &first)?;
        let [_, width] = outputs.dims();
        let identity: Tensor<2> = Tensor::eye(width, &outputs.device());
        let identity = identity.cast(outputs.dtype());
        let (_, jacobians) = self.gradients.jacobians(&self.model, &first, &identity)?;
        let elements = jacobians.stored().div_ceil(jacobians.count());
        let examples = (FACTORED_ELEMENTS / elements).max(FEWEST_EXAMPLES);
        Ok(self
            .batching
            .get_or_init(|| Batching { identity, examples }))
    }

    /// The number of examples whose Jacobians by rows, with so many outputs, are in memory at a time.
    fn rows_at_a_time(&self, outputs: usize) -> usize {
        (ELEMENTS / (outputs * self.posterior.len())).max(FEWEST_EXAMPLES)
    }
}
