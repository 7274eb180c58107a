//! Sums of outer products: gradients of the weights of linear layers and convolutions.
//!
//! Let L, `[M·T, P]`, and R, `[M·T, Q]`, be the two sides at all examples and positions. The numbers of
//! multiplications per group, for r rows of weights and l vectors, are
//!
//! | product | from the factors | from the rows |
//! |---|---|---|
//! | gram | (L Lᵀ) ⊙ (R Rᵀ): (M·T)²·(P+Q) | M·T·P·Q + M²·P·Q |
//! | weighted sums | Lᵀ diag(w_r) R: r·M·T·(P+1)·Q | M·T·P·Q + r·M·P·Q |
//! | dot | rowsum((L V_l) ⊙ R): l·M·T·(P+1)·Q | M·T·P·Q + l·M·P·Q |
//! | sum of squares | (L²)ᵀ R², where T = 1: M·P·Q | M·T·P·Q + M·P·Q |

use std::ops::Range;

use crate::cpu::Assembly;
use burn::tensor::{DType, Tensor};

use super::{Factor, Grouping, SCRATCH, between_examples, by_rows, steps};

/// gᵢ as `[G, P, Q]` = Σ_t left[g, i, t, :] ⊗ right[g, i, t, :].
#[derive(Clone, Debug)]
pub(super) struct Outer {
    /// `[G, M, T, P]`.
    left: Tensor<4>,
    /// `[G, M, T, Q]`.
    right: Tensor<4>,
}

impl Outer {
    pub(super) fn new(left: Tensor<4>, right: Tensor<4>) -> Self {
        assert_eq!(
            left.dims()[..3],
            right.dims()[..3],
            "the sides of an outer product differ in groups, examples or positions"
        );
        Self { left, right }
    }

    /// The sum of both, by concatenating positions.
    pub(super) fn merged(&self, other: &Self) -> Option<Self> {
        let shape = |outer: &Self| (outer.groups(), outer.width(), outer.height());
        (shape(self) == shape(other)).then(|| {
            let join = |left: &Tensor<4>, right: &Tensor<4>| {
                Tensor::cat(vec![left.clone(), right.clone()], 2)
            };
            Self {
                left: join(&self.left, &other.left),
                right: join(&self.right, &other.right),
            }
        })
    }

    /// Concatenates the examples of all sets.
    pub(super) fn joined(sets: &[&Self]) -> Option<Self> {
        let shape = |outer: &Self| {
            let [groups, _, positions, height] = outer.left.dims();
            [groups, positions, height, outer.width()]
        };
        let first = shape(sets[0]);
        sets.iter().all(|set| shape(set) == first).then(|| {
            let join = |side: fn(&Self) -> &Tensor<4>| {
                Tensor::cat(sets.iter().map(|set| side(set).clone()).collect(), 1)
            };
            Self::new(join(|set| &set.left), join(|set| &set.right))
        })
    }

    pub(super) fn part(&self, examples: Range<usize>) -> Self {
        let part = |side: &Tensor<4>| side.clone().slice_dim(1, examples.clone());
        Self::new(part(&self.left), part(&self.right))
    }

    /// The positions of the examples in a group become positions of one example.
    pub(super) fn grouped(&self, grouping: Grouping) -> Self {
        let Grouping {
            size,
            groups,
            scale,
        } = grouping;
        let regroup = |side: &Tensor<4>| {
            let [outer, _, positions, width] = side.dims();
            grouping
                .fill(side.clone(), 1)
                .reshape([outer, groups, size * positions, width])
        };
        Self::new(regroup(&self.left).mul_scalar(scale), regroup(&self.right))
    }

    /// Both sides, `[G, M, P]` and `[G, M, Q]`, if T = 1.
    pub(super) fn sides_of_one_position(&self) -> Option<(Tensor<3>, Tensor<3>)> {
        let side = |side: &Tensor<4>| side.clone().squeeze_dim(2);
        (self.positions() == 1).then(|| (side(&self.left), side(&self.right)))
    }

    /// G.
    fn groups(&self) -> usize {
        self.left.dims()[0]
    }

    /// T.
    fn positions(&self) -> usize {
        self.left.dims()[2]
    }

    /// P.
    fn height(&self) -> usize {
        self.left.dims()[3]
    }

    /// Q.
    fn width(&self) -> usize {
        self.right.dims()[3]
    }

    /// Whether the Gram matrix needs fewer multiplications from rows.
    fn gram_is_cheaper_by_rows(&self) -> bool {
        let (count, positions) = (self.count(), self.positions());
        let (sum, product) = (self.height() + self.width(), self.height() * self.width());
        // Divided by M.
        positions * product + count * product < count * positions.pow(2) * sum
    }

    /// Whether products with this many vectors or rows of weights need fewer multiplications from rows.
    fn products_are_cheaper_by_rows(&self, vectors: usize) -> bool {
        let (positions, height) = (self.positions(), self.height());
        // Divided by M·Q. Scaling one side costs one multiplication more.
        positions * height + vectors * height < vectors * positions * (height + 1)
    }

    /// A side as `[G, M·T, _]`.
    fn flat(side: &Tensor<4>) -> Tensor<3> {
        let [groups, count, positions, width] = side.dims();
        side.clone().reshape([groups, count * positions, width])
    }

    /// Inner products of positions, for as many examples at a time as fit into [`SCRATCH`].
    fn gram_by_positions(&self) -> Tensor<2> {
        let (groups, count, positions) = (self.groups(), self.count(), self.positions());
        let per_example = groups * positions * count * positions;
        let rows = steps(count, (SCRATCH / per_example).max(1)).map(|examples| {
            let inner = |side: &Tensor<4>| {
                let some = Self::flat(&side.clone().slice_dim(1, examples.clone()));
                some.matmul(Self::flat(side).transpose())
            };
            let products = inner(&self.left) * inner(&self.right);
            let flat = [examples.len() * positions, count * positions];
            between_examples(products.sum_dim(0).reshape(flat), positions)
        });
        Tensor::cat(rows.collect(), 0)
    }

    /// Lᵀ diag(w) R for every row of weights. A position has the weight of its example.
    fn weighted_sums_by_positions(
        &self,
        weights: &Tensor<2>,
        sums: Assembly,
        column: usize,
    ) -> Assembly {
        let [rows, count] = weights.dims();
        let (positions, size) = (self.positions(), self.height() * self.width());
        let weights = weights.clone().unsqueeze_dim::<3>(2);
        let weights = weights
            .repeat_dim(2, positions)
            .reshape([rows, count * positions]);
        let group = |side: &Tensor<4>, group: usize| {
            let width = side.dims()[3];
            let side = side.clone().slice_dim(0, group..group + 1);
            side.reshape([count * positions, width])
        };
        (0..self.groups()).fold(sums, |sums, index| {
            let (left, right) = (group(&self.left, index), group(&self.right, index));
            sums.put_products(column + index * size, &left, &right, &weights)
        })
    }

    /// The row sums of (L V) ⊙ R or of L ⊙ (R Vᵀ), whichever product is smaller. It takes one vector at a
    /// time, which avoids copying them.
    fn dot_by_positions(&self, vectors: &Tensor<2>) -> Tensor<2> {
        let [groups, count, positions, height] = self.left.dims();
        let width = self.width();
        let (left, right) = (Self::flat(&self.left), Self::flat(&self.right));
        let dots = (0..vectors.dims()[0]).map(|index| {
            let vector = vectors.clone().slice_dim(0, index..index + 1);
            let vector = vector.reshape([groups, height, width]);
            let products = if width <= height {
                left.clone().matmul(vector) * right.clone()
            } else {
                right.clone().matmul(vector.swap_dims(1, 2)) * left.clone()
            };
            products
                .sum_dim(2)
                .reshape([groups, count, positions])
                .sum_dim(2)
                .sum_dim(0)
                .reshape([count, 1])
        });
        Tensor::cat(dots.collect(), 1)
    }

    /// The groups and rows of the parameter that contain a range of its elements.
    fn slice(&self, range: &Range<usize>) -> Slice {
        let (height, width) = (self.height(), self.width());
        // Row indices over all groups.
        let rows = range.start / width..range.end.div_ceil(width);
        let groups = rows.start / height..rows.end.div_ceil(height);
        let heights = match groups.len() {
            1 => rows.start - groups.start * height..rows.end - groups.start * height,
            _ => 0..height,
        };
        Slice { groups, heights }
    }
}

/// Several groups, or several rows of one group.
struct Slice {
    groups: Range<usize>,
    heights: Range<usize>,
}

impl Factor for Outer {
    fn count(&self) -> usize {
        self.left.dims()[1]
    }

    fn len(&self) -> usize {
        self.groups() * self.height() * self.width()
    }

    fn stored(&self) -> usize {
        self.groups() * self.count() * self.positions() * (self.height() + self.width())
    }

    fn dtype(&self) -> DType {
        self.left.dtype()
    }

    fn columns(&self, range: Range<usize>) -> Tensor<2> {
        let Slice { groups, heights } = self.slice(&range);
        let width = self.width();
        let made = (groups.start * self.height() + heights.start) * width;
        let len = groups.len() * heights.len() * width;
        let left = self.left.clone().slice_dim(0, groups.clone());
        let left = left.slice_dim(3, heights).swap_dims(2, 3);
        let right = self.right.clone().slice_dim(0, groups);
        let products = if self.positions() == 1 {
            left * right
        } else {
            left.matmul(right)
        };
        products
            .swap_dims(0, 1)
            .reshape([self.count(), len])
            .slice_dim(1, range.start - made..range.end - made)
    }

    /// Whole groups if they are short, otherwise rows of a group.
    fn pieces(&self, longest: usize) -> Vec<Range<usize>> {
        let group = self.height() * self.width();
        if group <= longest {
            return steps(self.len(), longest / group * group).collect();
        }
        let step = (longest / self.width()).max(1) * self.width();
        (0..self.groups())
            .flat_map(|index| {
                let start = index * group;
                steps(group, step).map(move |range| start + range.start..start + range.end)
            })
            .collect()
    }

    fn gram(&self) -> Tensor<2> {
        if self.gram_is_cheaper_by_rows() {
            by_rows::gram(self)
        } else {
            self.gram_by_positions()
        }
    }

    fn weighted_sums(&self, weights: &Tensor<2>, sums: Assembly, column: usize) -> Assembly {
        if self.products_are_cheaper_by_rows(weights.dims()[0]) {
            by_rows::weighted_sums(self, weights, sums, column)
        } else {
            self.weighted_sums_by_positions(weights, sums, column)
        }
    }

    fn dot(&self, vectors: &Tensor<2>) -> Tensor<2> {
        if self.products_are_cheaper_by_rows(vectors.dims()[0]) {
            by_rows::dot(self, vectors)
        } else {
            self.dot_by_positions(vectors)
        }
    }

    fn sum_of_squares(&self, sums: Assembly, column: usize) -> Assembly {
        if self.positions() > 1 {
            return by_rows::sum_of_squares(self, sums, column);
        }
        // With one position, gᵢ² is the outer product of the squared sides.
        let squares = Self::new(self.left.clone().square(), self.right.clone().square());
        let ones = Tensor::ones([1, self.count()], (&self.left.device(), self.dtype()));
        squares.weighted_sums_by_positions(&ones, sums, column)
    }
}

#[cfg(test)]
mod tests {
    use crate::cpu::Scratch;
    use burn::tensor::{Device, Distribution};

    use super::*;

    const GROUPS: usize = 2;
    const COUNT: usize = 5;
    const SIDES: [usize; 2] = [40, 30];

    fn outer(positions: usize) -> Outer {
        let device = Device::default();
        let normal = Distribution::Normal(0.0, 1.0);
        let side = |width| Tensor::random([GROUPS, COUNT, positions, width], normal, &device);
        Outer::new(side(SIDES[0]), side(SIDES[1]))
    }

    /// Both are sums of `terms` products of normals.
    #[track_caller]
    fn assert_alike(left: Tensor<2>, right: Tensor<2>, terms: usize) {
        let difference = (left - right).abs().max().into_scalar::<f32>();
        let allowed = 8.0 * f32::EPSILON * terms as f32;
        assert!(
            difference <= allowed,
            "off by {difference}, allowed {allowed}"
        );
    }

    #[test]
    fn both_ways_give_one_answer() {
        let device = Device::default();
        let vectors = Tensor::random([3, 2 * 40 * 30], Distribution::Normal(0.0, 1.0), &device);
        let weights = vectors.clone().slice_dim(1, 0..COUNT);
        for positions in [1, 4] {
            let outer = outer(positions);
            let terms = outer.len() * positions;
            assert_alike(outer.gram_by_positions(), by_rows::gram(&outer), terms);
            assert_alike(
                outer.dot_by_positions(&vectors),
                by_rows::dot(&outer, &vectors),
                terms,
            );
            let sums = || {
                let options = (&device, outer.dtype());
                Assembly::new([3, outer.len()], options, &Scratch::default())
            };
            assert_alike(
                outer
                    .weighted_sums_by_positions(&weights, sums(), 0)
                    .finish(),
                by_rows::weighted_sums(&outer, &weights, sums(), 0).finish(),
                COUNT * positions,
            );
        }
    }

    #[test]
    fn the_way_of_fewer_multiplications_is_taken() {
        // 5·70·T² of inner products against 1200·(T + 5) of rows, for each group.
        assert!(!outer(1).gram_is_cheaper_by_rows());
        assert!(!outer(6).gram_is_cheaper_by_rows());
        assert!(outer(7).gram_is_cheaper_by_rows());
        // 41·T·R from the sides, which are scaled, against 40·(T + R).
        assert!(!outer(1).products_are_cheaper_by_rows(40));
        assert!(outer(1).products_are_cheaper_by_rows(41));
        assert!(!outer(40).products_are_cheaper_by_rows(1));
        assert!(outer(2).products_are_cheaper_by_rows(2));
    }
}
