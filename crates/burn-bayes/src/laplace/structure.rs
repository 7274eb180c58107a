//! Sums of outer products of rows, Σᵢ jᵢjᵢᵀ ≈ UᵀU + diag r, gathered batch by batch.
//!
//! | structure | U | r |
//! |---|---|---|
//! | diagonal | none | Σᵢ jᵢ² |
//! | low rank | the L leading directions of \[U; jᵢ\], after every batch | the rest of the diagonal, Σᵢ jᵢ² − Σₖ uₖ² |
//! | full | √λₖ vₖ for all eigenpairs of the D×D sum | 0 |
//!
//! The low-rank sum is exact if its rank is at least that of the rows, and its diagonal always is. Neither it nor
//! the diagonal needs an N×D or D×D matrix. U is rounded to single precision at every batch, Σᵢ jᵢ² is summed in double
//! precision, and what is no more than the rounding of U is not a part of r.

use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes_eval::Bounded;
use burn_bayes_graph::ExampleGradients;

use super::Laplace;
use crate::algebra::{SquareMatrix, SymmetricEigen};
use crate::error::{Error, Result};
use crate::kernels::composed::{from_host, to_host};
use crate::kernels::statistics::column_dot;
use crate::kernels::{inner_products, mix};
use crate::methods::truncation::StackedFactors;

/// UᵀU + diag r.
#[derive(Clone, Debug)]
pub(super) struct Factored {
    /// U, `[K, D]`; absent at rank 0.
    pub(super) factors: Option<Tensor<2>>,
    /// r, `[D]`, at least 0.
    pub(super) rest: Tensor<1>,
}

impl Factored {
    /// s (UᵀU + diag r).
    pub(super) fn scaled(self, scale: f64) -> Self {
        Self {
            factors: self.factors.map(|factors| factors * scale.sqrt()),
            rest: self.rest * scale,
        }
    }

    /// vᵀ(UᵀU + diag r)v.
    pub(super) fn squared_length(&self, vector: Tensor<1>) -> f64 {
        let squares = |tensor: Tensor<1>| to_host(tensor).iter().map(|v| v * v).sum::<f64>();
        let of_rest = squares(vector.clone() * self.rest.clone().sqrt());
        match &self.factors {
            Some(factors) => {
                let product = factors.clone().matmul(vector.unsqueeze_dim(1));
                of_rest + squares(product.squeeze_dim(1))
            }
            None => of_rest,
        }
    }
}

/// A sum of this structure.
pub(super) trait RowSum {
    /// Adds Σᵢ jᵢjᵢᵀ.
    fn add(&mut self, rows: &ExampleGradients) -> Result<()>;

    /// The number of rows that are best added at a time.
    fn rows_at_a_time(&self) -> usize {
        ROWS_AT_A_TIME
    }

    /// The sum.
    fn finish(self: Box<Self>) -> Result<Factored>;
}

/// The number of rows whose Gram matrix is decomposed at a time.
pub(super) const ROWS_AT_A_TIME: usize = 128;

/// The diagonal only.
#[derive(Debug)]
pub(super) struct Diagonal {
    squares: Vec<f64>,
    batches: usize,
    device: Device,
}

impl Diagonal {
    pub(super) fn new(len: usize, device: &Device) -> Self {
        Self {
            squares: vec![0.0; len],
            batches: 0,
            device: device.clone(),
        }
    }

    /// The diagonal without the squares of U's columns, where the difference is more than U's rounding.
    fn without(&self, kept: &[f64]) -> Vec<f64> {
        let rounding = (4.0 + (self.batches as f64).sqrt()) * f64::from(f32::EPSILON);
        let pairs = self.squares.iter().zip(kept);
        let rests = pairs.map(|(square, kept)| match square - kept {
            rest if rest <= rounding * square => 0.0,
            rest => rest,
        });
        rests.collect()
    }

    fn tensor(&self, values: &[f64]) -> Tensor<1> {
        from_host(values, [self.squares.len()], &self.device)
    }
}

impl RowSum for Diagonal {
    fn add(&mut self, rows: &ExampleGradients) -> Result<()> {
        let sums = self.squares.iter_mut();
        let squares = to_host(rows.sum_of_squares());
        sums.zip(squares).for_each(|(sum, square)| *sum += square);
        self.batches += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Factored> {
        Ok(Factored {
            factors: None,
            rest: self.tensor(&self.squares),
        })
    }
}

/// The leading directions and the exact diagonal.
#[derive(Debug)]
pub(super) struct LowRank {
    factors: Tensor<2>,
    /// U Uᵀ.
    gram: Vec<f64>,
    diagonal: Diagonal,
}

impl LowRank {
    pub(super) fn new(rank: usize, len: usize, device: &Device) -> Self {
        Self {
            factors: Tensor::zeros([rank, len], device),
            gram: vec![0.0; rank * rank],
            diagonal: Diagonal::new(len, device),
        }
    }
}

impl RowSum for LowRank {
    fn add(&mut self, rows: &ExampleGradients) -> Result<()> {
        self.diagonal.add(rows)?;
        let stack = StackedFactors {
            factors: &self.factors,
            gram: &self.gram,
            rows,
            old: 1.0,
            new: 1.0,
            scaled: None,
        };
        let [rank, _] = self.factors.dims();
        let truncation = stack.truncated()?;
        self.factors = mix(&self.factors, &truncation.mixing, rank) + truncation.rows;
        self.gram = to_host(inner_products(&self.factors, &self.factors));
        Ok(())
    }

    fn rows_at_a_time(&self) -> usize {
        ROWS_AT_A_TIME.max(2 * self.factors.dims()[0])
    }

    fn finish(self: Box<Self>) -> Result<Factored> {
        let Self {
            factors, diagonal, ..
        } = *self;
        let kept = to_host(column_dot(factors.clone(), factors.clone()));
        Ok(Factored {
            rest: diagonal.tensor(&diagonal.without(&kept)),
            factors: Some(factors),
        })
    }
}

/// All of the D×D sum, in double precision, for small D.
#[derive(Debug)]
pub(super) struct Full {
    sum: Vec<f64>,
    len: usize,
    device: Device,
}

impl Full {
    pub(super) fn new(len: usize, device: &Device) -> Result<Self> {
        check_limit(len)?;
        Ok(Self {
            sum: vec![0.0; len * len],
            len,
            device: device.clone(),
        })
    }
}

impl RowSum for Full {
    fn add(&mut self, rows: &ExampleGradients) -> Result<()> {
        add_products(&mut self.sum, rows.materialise());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Factored> {
        let sum = SquareMatrix::from_row_major(self.len, self.sum)?;
        let sum = SymmetricEigen::new(&sum)?;
        let pairs = sum.values().iter().enumerate();
        let pairs = pairs.map(|(k, &value)| (value, sum.vectors().row(k).to_vec()));
        Ok(from_eigenpairs(pairs, self.len, &self.device))
    }
}

/// sum += RᵀR.
pub(super) fn add_products(sum: &mut [f64], rows: Tensor<2>) {
    let products = to_host(rows.clone().transpose().matmul(rows));
    let entries = sum.iter_mut().zip(products);
    entries.for_each(|(sum, product)| *sum += product);
}

/// Fails if a D×D matrix would be too large.
pub(super) fn check_limit(len: usize) -> Result<()> {
    const LIMIT: usize = Laplace::FULL_LIMIT;
    if len <= LIMIT {
        return Ok(());
    }
    let problem = format!(
        "needs a matrix of {len}² numbers; the limit is {LIMIT} weights; select fewer with `group`, such as \
         the last layer, or use `LowRank`"
    );
    Err(Error::config("structure", problem))
}

/// Σₖ λₖ vₖvₖᵀ with all of it in the factors. Eigenvalues that are rounding errors are left out.
pub(super) fn from_eigenpairs(
    pairs: impl Iterator<Item = (f64, Vec<f64>)>,
    len: usize,
    device: &Device,
) -> Factored {
    let pairs: Vec<_> = pairs.collect();
    // Eigenvalues are finite.
    let largest = pairs.iter().map(|pair| pair.0).fold(0.0, f64::at_least);
    let least = len as f64 * f64::EPSILON * largest;
    let mut rows: Vec<f32> = Vec::new();
    for (value, vector) in pairs.iter().filter(|pair| pair.0 > least) {
        let scale = value.sqrt();
        rows.extend(vector.iter().map(|entry| (scale * entry) as f32));
    }
    let count = rows.len() / len.max(1);
    Factored {
        factors: (count > 0)
            .then(|| Tensor::from_data(TensorData::new(rows, [count, len]), device)),
        rest: Tensor::zeros([len], device),
    }
}
