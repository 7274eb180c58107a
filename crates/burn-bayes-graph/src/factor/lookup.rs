//! Gradients of rows that were selected by index: embeddings.
//!
//! | product | from the values | from the rows |
//! |---|---|---|
//! | gram | inner products of values with equal indices: (M·T)²·Q | M·V·Q + M²·V·Q |
//! | weighted sums | scaled values added to their rows: r·M·T·Q | |
//! | dot | rows of the vectors times values: l·M·T·Q | |
//! | sum of squares | values times sums over an example's values with equal indices: M·T²·Q | M·V·Q |

use std::ops::Range;

use crate::cpu::Assembly;
use burn::tensor::{DType, IndexingUpdateOp, Int, Tensor};

use super::{Factor, Grouping, SCRATCH, between_examples, by_rows, steps};

/// gᵢ as `[V, Q]` = Σ_t e(indices[i, t]) ⊗ values[i, t, :].
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    /// `[M, T]`.
    indices: Tensor<2, Int>,
    /// `[M, T, Q]`.
    values: Tensor<3>,
    /// V.
    rows: usize,
}

impl Lookup {
    pub(super) fn new(indices: Tensor<2, Int>, values: Tensor<3>, rows: usize) -> Self {
        assert_eq!(
            indices.dims()[..],
            values.dims()[..2],
            "the indices and the values of a lookup differ in examples or positions"
        );
        Self {
            indices,
            values,
            rows,
        }
    }

    /// The sum of both, by concatenating positions.
    pub(super) fn merged(&self, other: &Self) -> Option<Self> {
        let is_alike = self.rows == other.rows && self.width() == other.width();
        is_alike.then(|| Self {
            indices: Tensor::cat(vec![self.indices.clone(), other.indices.clone()], 1),
            values: Tensor::cat(vec![self.values.clone(), other.values.clone()], 1),
            rows: self.rows,
        })
    }

    /// Concatenates the examples of all sets.
    pub(super) fn joined(sets: &[&Self]) -> Option<Self> {
        let shape = |lookup: &Self| [lookup.rows, lookup.positions(), lookup.width()];
        let first = shape(sets[0]);
        sets.iter().all(|set| shape(set) == first).then(|| {
            let indices = sets.iter().map(|set| set.indices.clone());
            let values = sets.iter().map(|set| set.values.clone());
            Self {
                indices: Tensor::cat(indices.collect(), 0),
                values: Tensor::cat(values.collect(), 0),
                rows: sets[0].rows,
            }
        })
    }

    pub(super) fn part(&self, examples: Range<usize>) -> Self {
        Self {
            indices: self.indices.clone().slice_dim(0, examples.clone()),
            values: self.values.clone().slice_dim(0, examples),
            rows: self.rows,
        }
    }

    /// The positions of the examples in a group become positions of one example. Padding has index and value
    /// zero.
    pub(super) fn grouped(&self, grouping: Grouping) -> Self {
        let Grouping {
            size,
            groups,
            scale,
        } = grouping;
        let positions = size * self.positions();
        let values = grouping.fill(self.values.clone(), 0);
        Self {
            indices: grouping
                .fill(self.indices.clone(), 0)
                .reshape([groups, positions]),
            values: values
                .reshape([groups, positions, self.width()])
                .mul_scalar(scale),
            rows: self.rows,
        }
    }

    /// T.
    fn positions(&self) -> usize {
        self.values.dims()[1]
    }

    /// Q.
    fn width(&self) -> usize {
        self.values.dims()[2]
    }

    /// Whether the Gram matrix needs fewer multiplications from rows.
    fn gram_is_cheaper_by_rows(&self) -> bool {
        let count = self.count();
        // Divided by M·Q.
        self.rows + count * self.rows < count * self.positions().pow(2)
    }

    /// Whether the sum of squares needs fewer multiplications from rows.
    fn squares_are_cheaper_by_rows(&self) -> bool {
        // Divided by M·Q.
        self.rows < self.positions().pow(2)
    }

    /// The indices as `[M·T]`.
    fn flat_indices(&self) -> Tensor<1, Int> {
        self.indices
            .clone()
            .reshape([self.count() * self.positions()])
    }

    /// The values as `[M·T, Q]`.
    fn flat_values(&self) -> Tensor<2> {
        let [count, positions, width] = self.values.dims();
        self.values.clone().reshape([count * positions, width])
    }

    /// Adds `values` at `indices` to tables of zeros with `rows` rows each. `indices` has one row per table.
    /// The result stacks the tables.
    fn scatter(indices: Tensor<2, Int>, values: Tensor<2>, rows: usize) -> Tensor<2> {
        let [tables, targets] = indices.dims();
        let [_, width] = values.dims();
        let device = values.device();
        let first = Tensor::<1, Int>::arange(0..tables as i64, (&device, indices.dtype()));
        let first = first.mul_scalar(rows as i64).reshape([tables, 1]);
        let indices = (indices + first).reshape([tables * targets]);
        Tensor::zeros([tables * rows, width], (&device, values.dtype())).select_assign(
            0,
            indices,
            values,
            IndexingUpdateOp::Add,
        )
    }

    /// Inner products of values, for as many examples at a time as fit into [`SCRATCH`].
    fn gram_by_positions(&self) -> Tensor<2> {
        let (count, positions) = (self.count(), self.positions());
        let (values, indices) = (self.flat_values(), self.flat_indices());
        let per_example = positions * count * positions;
        let rows = steps(count, (SCRATCH / per_example).max(1)).map(|examples| {
            let some = examples.start * positions..examples.end * positions;
            let shape = [some.len(), count * positions];
            let products = values
                .clone()
                .slice_dim(0, some.clone())
                .matmul(values.clone().transpose());
            let left = indices
                .clone()
                .slice_dim(0, some)
                .unsqueeze_dim::<2>(1)
                .expand(shape);
            let right = indices.clone().unsqueeze::<2>().expand(shape);
            between_examples(products.mask_fill(left.not_equal(right), 0.0), positions)
        });
        Tensor::cat(rows.collect(), 0)
    }

    /// Σᵢ Σ_t v_it ⊙ (Σ_s v_is over positions s with the index of t), added to its row: `[V, Q]`.
    fn sum_of_squares_by_positions(&self) -> Tensor<2> {
        let (count, positions, width) = (self.count(), self.positions(), self.width());
        let table = Tensor::zeros([self.rows, width], (&self.values.device(), self.dtype()));
        let at_a_time = (SCRATCH / (positions * positions.max(width))).max(1);
        steps(count, at_a_time).fold(table, |table, examples| {
            let shape = [examples.len(), positions, positions];
            let values = self.values.clone().slice_dim(0, examples.clone());
            let indices = self.indices.clone().slice_dim(0, examples);
            let left = indices.clone().unsqueeze_dim::<3>(2).expand(shape);
            let right = indices.clone().unsqueeze_dim::<3>(1).expand(shape);
            let is_equal = left.equal(right).float().cast(self.dtype());
            let squares = is_equal.matmul(values.clone()) * values;
            let targets = shape[0] * positions;
            let squares = squares.reshape([targets, width]);
            table.select_assign(
                0,
                indices.reshape([targets]),
                squares,
                IndexingUpdateOp::Add,
            )
        })
    }
}

impl Factor for Lookup {
    fn count(&self) -> usize {
        self.values.dims()[0]
    }

    fn len(&self) -> usize {
        self.rows * self.width()
    }

    fn stored(&self) -> usize {
        self.count() * self.positions() * (self.width() + 1)
    }

    fn dtype(&self) -> DType {
        self.values.dtype()
    }

    fn columns(&self, range: Range<usize>) -> Tensor<2> {
        let width = self.width();
        let rows = range.start / width..range.end.div_ceil(width);
        let made = rows.start * width;
        let indices = self.indices.clone().sub_scalar(rows.start as i64);
        let is_outside = indices
            .clone()
            .lower_elem(0)
            .bool_or(indices.clone().greater_equal_elem(rows.len() as i64));
        let mask = is_outside
            .clone()
            .reshape([self.count() * self.positions(), 1]);
        let values = self.flat_values();
        let values = values.clone().mask_fill(mask.expand(values.dims()), 0.0);
        Self::scatter(indices.mask_fill(is_outside, 0), values, rows.len())
            .reshape([self.count(), rows.len() * width])
            .slice_dim(1, range.start - made..range.end - made)
    }

    fn pieces(&self, longest: usize) -> Vec<Range<usize>> {
        let width = self.width();
        steps(self.len(), (longest / width).max(1) * width).collect()
    }

    fn gram(&self) -> Tensor<2> {
        if self.gram_is_cheaper_by_rows() {
            by_rows::gram(self)
        } else {
            self.gram_by_positions()
        }
    }

    fn weighted_sums(&self, weights: &Tensor<2>, sums: Assembly, column: usize) -> Assembly {
        let [rows, count] = weights.dims();
        let indices = self.indices.clone().reshape([1, count * self.positions()]);
        (0..rows).fold(sums, |sums, row| {
            let weights = weights
                .clone()
                .slice_dim(0, row..row + 1)
                .reshape([count, 1, 1]);
            let values = self.values.clone() * weights;
            let values = values.reshape([count * self.positions(), self.width()]);
            let table = Self::scatter(indices.clone(), values, self.rows);
            sums.put([row, column], table.unsqueeze())
        })
    }

    fn dot(&self, vectors: &Tensor<2>) -> Tensor<2> {
        let [total, _] = vectors.dims();
        let (count, positions) = (self.count(), self.positions());
        let indices = self.flat_indices();
        let dots = (0..total).map(|index| {
            let vector = vectors.clone().slice_dim(0, index..index + 1);
            let chosen = vector
                .reshape([self.rows, self.width()])
                .select(0, indices.clone());
            (chosen * self.flat_values())
                .sum_dim(1)
                .reshape([count, positions])
                .sum_dim(1)
        });
        Tensor::cat(dots.collect(), 1)
    }

    fn sum_of_squares(&self, sums: Assembly, column: usize) -> Assembly {
        if self.squares_are_cheaper_by_rows() {
            by_rows::sum_of_squares(self, sums, column)
        } else {
            sums.put([0, column], self.sum_of_squares_by_positions().unsqueeze())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cpu::Scratch;
    use burn::tensor::{Device, Distribution};

    use super::*;

    const COUNT: usize = 5;
    const WIDTH: usize = 3;

    fn lookup(positions: usize, rows: usize) -> Lookup {
        let device = Device::default();
        let uniform = Distribution::Uniform(0.0, rows as f64);
        let normal = Distribution::Normal(0.0, 1.0);
        Lookup::new(
            Tensor::<2>::random([COUNT, positions], uniform, &device).int(),
            Tensor::random([COUNT, positions, WIDTH], normal, &device),
            rows,
        )
    }

    #[test]
    fn both_ways_give_one_answer() {
        for positions in [1, 6] {
            let lookup = lookup(positions, 8);
            let allowed = 8.0 * f32::EPSILON * (lookup.len() * positions * positions) as f32;
            let difference = lookup.gram_by_positions() - by_rows::gram(&lookup);
            assert!(difference.abs().max().into_scalar::<f32>() <= allowed);
            let options = (&Device::default(), lookup.dtype());
            let sums = Assembly::new([1, lookup.len()], options, &Scratch::default());
            let squares = by_rows::sum_of_squares(&lookup, sums, 0).finish();
            let table = lookup.sum_of_squares_by_positions();
            let difference = table.reshape([1, lookup.len()]) - squares;
            assert!(difference.abs().max().into_scalar::<f32>() <= allowed);
        }
    }

    #[test]
    fn the_way_of_fewer_multiplications_is_taken() {
        // 5·T² products of values against 6·V of rows, for each column and example.
        assert!(!lookup(2, 4).gram_is_cheaper_by_rows());
        assert!(lookup(2, 3).gram_is_cheaper_by_rows());
        // T² against V.
        assert!(!lookup(2, 4).squares_are_cheaper_by_rows());
        assert!(lookup(2, 3).squares_are_cheaper_by_rows());
    }
}
