//! The Kronecker-factored GGN matrix of the last layer.
//!
//! A last linear layer f = Wᵀa + b with inputs a, `[H]`, has the GGN blocks Σᵢ aᵢaᵢᵀ ⊗ Λᵢ for W, `[H, C]`, and
//! Σᵢ Λᵢ for b. The first is approximated by (Σᵢ aᵢaᵢᵀ) ⊗ (1/M Σᵢ Λᵢ); the products of W and b are left out. With the
//! eigenpairs λₖ, vₖ and μ_c, w_c of the two factors, the eigenpairs of the product are λₖ μ_c, vₖ ⊗ w_c.
//!
//! The inputs a are read off the gradients of the first output, which are (a ⊗ e₀, e₀). A nonlinearity after the layer would
//! multiply them by its slope there, which a layer without a bias does not show. The gradients of the sum of all outputs
//! do: they are a ⊗ (1 … 1) only if the slopes at all outputs are equal, and then belong to a.
//!
//! Reference: Ritter, Botev and Barber (2018), "A scalable Laplace approximation for neural networks".

use burn::tensor::{Device, Tensor};
use burn_bayes_graph::{ExampleGradients, Layout};

use super::structure::{Factored, add_products, check_limit, from_eigenpairs};
use crate::algebra::{SquareMatrix, SymmetricEigen};
use crate::error::{Error, Result};

/// The two factors, summed over examples.
#[derive(Debug)]
pub(super) struct Kronecker {
    /// H and C.
    sizes: [usize; 2],
    has_bias: bool,
    /// Σᵢ aᵢaᵢᵀ.
    inputs: Vec<f64>,
    /// Σᵢ Λᵢ.
    outputs: Vec<f64>,
    examples: usize,
}

/// The largest difference of the inputs that two outputs see, as a share of the largest input: that of rounding.
const ROUNDING: f64 = 1e-4;

impl Kronecker {
    /// Fails unless the layout is that of one linear layer.
    pub(super) fn new(layout: &Layout) -> Result<Self> {
        check_limit(layout.len())?;
        let shapes = layout.entries().iter().map(|entry| &*entry.shape);
        let (sizes, has_bias) = match *shapes.collect::<Vec<_>>() {
            [&[inputs, outputs]] => ([inputs, outputs], false),
            [&[inputs, outputs], &[bias]] if bias == outputs => ([inputs, outputs], true),
            _ => return Err(not_last_layer("`group` selects other parameters")),
        };
        Ok(Self {
            sizes,
            has_bias,
            inputs: vec![0.0; sizes[0] * sizes[0]],
            outputs: vec![0.0; sizes[1] * sizes[1]],
            examples: 0,
        })
    }

    /// Adds examples with these gradients of the first output, and of the sum of all, and roots of Λ, `[M, C]` each.
    pub(super) fn add(
        &mut self,
        [first, all]: [&ExampleGradients; 2],
        roots: &[Tensor<2>],
    ) -> Result<()> {
        let [height, width] = self.sizes;
        let rows = first.materialise();
        let [examples, _] = rows.dims();
        if roots.iter().any(|root| root.dims()[1] != width) {
            return Err(not_last_layer(
                "the layer has another number of outputs than the model",
            ));
        }
        let by_output = |rows: Tensor<2>| {
            let weights = rows.narrow(1, 0, height * width);
            weights.reshape([examples, height, width])
        };
        let all = by_output(all.materialise());
        let by_output = by_output(rows.clone());
        let inputs = by_output.clone().narrow(2, 0, 1);
        let elsewhere = by_output.slice_fill([0..examples, 0..height, 0..1], 0.0);
        let mut is_last = elsewhere.equal_elem(0.0).all().into_scalar::<bool>();
        let largest = |tensor: Tensor<3>| -> f64 { tensor.abs().max().into_scalar() };
        is_last &= largest(all - inputs.clone()) <= ROUNDING * largest(inputs.clone());
        if self.has_bias {
            let bias = rows.narrow(1, height * width, width);
            let expected = bias.zeros_like().slice_fill([0..examples, 0..1], 1.0);
            is_last &= bias.equal(expected).all().into_scalar::<bool>();
        }
        if !is_last {
            return Err(not_last_layer("the outputs are not those of the layer"));
        }
        add_products(&mut self.inputs, inputs.squeeze_dim(2));
        roots
            .iter()
            .for_each(|root| add_products(&mut self.outputs, root.clone()));
        self.examples += examples;
        Ok(())
    }

    /// The product in its eigenvectors.
    pub(super) fn finish(self, device: &Device) -> Result<Factored> {
        let [height, width] = self.sizes;
        let eigen = |size, values| -> Result<_> {
            Ok(SymmetricEigen::new(&SquareMatrix::from_row_major(
                size, values,
            )?)?)
        };
        let inputs = eigen(height, self.inputs)?;
        let outputs = eigen(width, self.outputs)?;
        let len = height * width + if self.has_bias { width } else { 0 };
        let mut pairs = Vec::with_capacity(len);
        for (c, &output) in outputs.values().iter().enumerate() {
            let right = outputs.vectors().row(c);
            for (k, &input) in inputs.values().iter().enumerate() {
                let left = inputs.vectors().row(k);
                let mut vector: Vec<f64> = left
                    .iter()
                    .flat_map(|l| right.iter().map(move |r| l * r))
                    .collect();
                vector.resize(len, 0.0);
                pairs.push((input * output / self.examples as f64, vector));
            }
            if self.has_bias {
                let mut vector = vec![0.0; len];
                vector[height * width..].copy_from_slice(right);
                pairs.push((output, vector));
            }
        }
        Ok(from_eigenpairs(pairs.into_iter(), len, device))
    }
}

fn not_last_layer(problem: &str) -> Error {
    Error::config(
        "group",
        format!(
            "must select the weight and the bias of the last linear layer for `KroneckerLastLayer`, but {problem}"
        ),
    )
}
