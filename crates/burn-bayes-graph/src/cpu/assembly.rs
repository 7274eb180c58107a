//! A matrix as wide as the model has weights, put together from pieces.

use burn::tensor::{DType, Device, Tensor};

use super::Scratch;
#[cfg(feature = "flex")]
use super::flex;

/// A matrix into which pieces are copied as they are made, so that they need not be held together.
///
/// Its pieces must cover it: what no piece covers may be any number.
#[derive(Debug)]
pub struct Assembly {
    shape: [usize; 2],
    body: Body,
}

#[derive(Debug)]
enum Body {
    Composed(Box<Tensor<2>>),
    #[cfg(feature = "flex")]
    Fused(Vec<f32>, Scratch),
}

impl Assembly {
    /// A matrix without pieces, whose memory comes from `scratch` where the kernels are fused.
    pub fn new(shape: [usize; 2], options: (&Device, DType), scratch: &Scratch) -> Self {
        #[cfg(feature = "flex")]
        if flex::applies(options) {
            let values = scratch.take(shape[0] * shape[1]);
            let body = Body::Fused(values, scratch.clone());
            return Self { shape, body };
        }
        let body = Body::Composed(Tensor::zeros(shape, options).into());
        Self { shape, body }
    }

    /// With `values` where their first element is at `[row, column]`.
    ///
    /// They are `[rows, runs, length]`: the columns of a row are its runs, one after the other. Runs
    /// need not be so in memory.
    ///
    /// # Panics
    ///
    /// If they reach over the matrix.
    pub fn put(self, [row, column]: [usize; 2], values: Tensor<3>) -> Self {
        let [rows, runs, length] = values.dims();
        let columns = runs * length;
        let [height, width] = self.shape;
        assert!(
            row + rows <= height && column + columns <= width,
            "a piece of {rows}×{columns} at row {row}, column {column} reaches over a matrix of \
             {height}×{width}"
        );
        let body = match self.body {
            Body::Composed(tensor) => {
                let place = [row..row + rows, column..column + columns];
                let tensor = tensor.slice_assign(place, values.reshape([rows, columns]));
                Body::Composed(tensor.into())
            }
            #[cfg(feature = "flex")]
            Body::Fused(mut whole, scratch) => {
                flex::copy_runs(&mut whole[row * width..], width, column, values);
                Body::Fused(whole, scratch)
            }
        };
        Self { body, ..self }
    }

    /// With leftᵀ diag(w) right, `[height, width]` in row-major order, for every row w of `weights`,
    /// from `column` on: row r of the matrix gets the product of row r of the weights.
    ///
    /// `left` is `[n, height]`, `right` `[n, width]` and `weights` `[rows, n]`.
    ///
    /// # Panics
    ///
    /// If they reach over the matrix, or differ in n.
    pub fn put_products(
        self,
        column: usize,
        left: &Tensor<2>,
        right: &Tensor<2>,
        weights: &Tensor<2>,
    ) -> Self {
        let [rows, terms] = weights.dims();
        let [height, width] = [left.dims()[1], right.dims()[1]];
        assert!(
            left.dims()[0] == terms && right.dims()[0] == terms,
            "the two sides and the weights of a product differ in the number of terms"
        );
        assert!(
            rows <= self.shape[0] && column + height * width <= self.shape[1],
            "products of {height}×{width} from column {column} on reach over a matrix of {:?}",
            self.shape
        );
        match self.body {
            #[cfg(feature = "flex")]
            Body::Fused(mut whole, scratch) => {
                let columns = column..column + height * width;
                let filled = &mut whole[..rows * self.shape[1]];
                flex::products(filled, columns, left, right, weights);
                let body = Body::Fused(whole, scratch);
                Self { body, ..self }
            }
            Body::Composed(_) => (0..rows).fold(self, |assembly, row| {
                let weights = weights.clone().narrow(0, row, 1).transpose();
                let product = left.clone().transpose().matmul(right.clone() * weights);
                assembly.put([row, column], product.unsqueeze())
            }),
        }
    }

    /// The matrix.
    pub fn finish(self) -> Tensor<2> {
        match self.body {
            Body::Composed(tensor) => *tensor,
            #[cfg(feature = "flex")]
            Body::Fused(values, scratch) => flex::lent(values, self.shape, &scratch),
        }
    }
}
