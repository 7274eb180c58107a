//! Factored per-example gradients against the rows they stand for.

use burn::tensor::{Int, Tensor, TensorData};
use burn_bayes::Noise;
use burn_bayes::graph::{Block, ExampleGradients, Term};

use crate::support::{EPSILON, assert_close, device, matrix, normals, values};

fn tensor<const R: usize>(seed: u64, dims: [usize; R]) -> Tensor<R> {
    let numbers = normals(seed, dims.iter().product());
    Tensor::from_data(TensorData::new(numbers, dims), &device())
}

fn outer(seed: u64, [groups, count, positions]: [usize; 3], sides: [usize; 2]) -> Term {
    Term::outer(
        tensor(seed, [groups, count, positions, sides[0]]),
        tensor(seed + 1, [groups, count, positions, sides[1]]),
    )
}

fn lookup(seed: u64, [count, positions, width]: [usize; 3], rows: usize) -> Term {
    let numbers = Noise::host(seed).latent(count * positions);
    let indices: Vec<i64> = numbers
        .iter()
        .map(|number| (number.abs() * 7.0) as i64 % rows as i64)
        .collect();
    let indices = TensorData::new(indices, [count, positions]);
    Term::lookup(
        Tensor::<2, Int>::from_data(indices, &device()),
        tensor(seed + 1, [count, positions, width]),
        rows,
    )
}

/// gᵢᵀgⱼ and the other sums of products, in double precision, of rows on the host.
struct Dense {
    count: usize,
    len: usize,
    rows: Vec<f64>,
}

impl Dense {
    fn new(gradients: &ExampleGradients) -> Self {
        Self {
            count: gradients.count(),
            len: gradients.len(),
            rows: values(&gradients.materialise()),
        }
    }

    /// left · rows, with the sizes of the sums' terms; `left` is row-major, `[_, M]`.
    fn weigh(&self, left: &[f64]) -> [Vec<f64>; 2] {
        let (mut sums, mut sizes) = (vec![], vec![]);
        for weights in left.chunks(self.count) {
            for element in 0..self.len {
                let terms = weights
                    .iter()
                    .zip(self.rows[element..].iter().step_by(self.len));
                let terms = terms.map(|(weight, value)| weight * value);
                sums.push(terms.clone().sum());
                sizes.push(terms.map(f64::abs).sum());
            }
        }
        [sums, sizes]
    }

    /// rows · rightᵀ, with the sizes of the sums' terms; `right` is row-major, `[_, D]`.
    fn dot(&self, right: &[f64]) -> [Vec<f64>; 2] {
        let (mut sums, mut sizes) = (vec![], vec![]);
        for row in self.rows.chunks(self.len) {
            for vector in right.chunks(self.len) {
                let terms = row.iter().zip(vector).map(|(left, right)| left * right);
                sums.push(terms.clone().sum());
                sizes.push(terms.map(f64::abs).sum());
            }
        }
        [sums, sizes]
    }
}

/// Every operation against the rows.
fn check(what: &str, gradients: &ExampleGradients, depth: usize) {
    let (count, len) = (gradients.count(), gradients.len());
    let dense = Dense::new(gradients);
    let close = |part: &str, actual: Vec<f64>, [expected, sizes]: [Vec<f64>; 2], terms: usize| {
        // A term is itself a sum over positions and terms, whose sizes the rows do not show.
        let largest = sizes.iter().fold(0.0f64, |most, &size| most.max(size));
        let scales: Vec<f64> = sizes.iter().map(|size| size + largest).collect();
        let tolerance = 4.0 * EPSILON * ((terms * depth) as f64).sqrt();
        assert_close(
            &format!("{what}: {part}"),
            &actual,
            &expected,
            &scales,
            tolerance,
        );
    };
    let mean = vec![1.0 / count as f64; count];
    close("mean", values(&gradients.mean()), dense.weigh(&mean), count);
    close(
        "gram",
        values(&gradients.gram()),
        dense.dot(&dense.rows),
        len,
    );
    let weights = matrix(3, count, &normals(90, 3 * count));
    close(
        "weighted sums",
        values(&gradients.weighted_sums(weights.clone())),
        dense.weigh(&values(&weights)),
        count,
    );
    let vectors = matrix(2, len, &normals(91, 2 * len));
    close(
        "dot",
        values(&gradients.dot(vectors.clone())),
        dense.dot(&values(&vectors)),
        len,
    );
    let squares: Vec<f64> = (0..len)
        .map(|element| {
            dense.rows[element..]
                .iter()
                .step_by(len)
                .map(|v| v * v)
                .sum()
        })
        .collect();
    let found = values(&gradients.sum_of_squares());
    close("sum of squares", found, [squares.clone(), squares], count);
}

#[test]
fn every_kind_of_block_equals_its_rows() {
    const COUNT: usize = 5;
    let blocks = vec![
        Block::new(3 * 4, vec![outer(1, [1, COUNT, 1], [3, 4])]),
        Block::new(3 * 4, vec![outer(3, [1, COUNT, 6], [3, 4])]),
        Block::new(7, vec![]),
        Block::new(
            2 * 2 * 3,
            vec![
                outer(5, [2, COUNT, 4], [2, 3]),
                Term::rows(tensor(7, [COUNT, 12])),
            ],
        ),
        Block::new(5 * 2, vec![lookup(8, [COUNT, 4, 2], 5)]),
        Block::new(
            4 * 3,
            vec![
                lookup(10, [COUNT, 3, 3], 4),
                outer(12, [1, COUNT, 2], [4, 3]),
            ],
        ),
    ];
    let gradients = ExampleGradients::new(COUNT, blocks, &device());
    assert_eq!((gradients.count(), gradients.len()), (COUNT, 65));
    check("all kinds", &gradients, 6);
    check("grouped", &gradients.grouped(2), 6);
}

#[test]
fn rows_are_what_the_definition_says() {
    let left = Tensor::<4>::from_data([[[[1.0, 2.0], [3.0, 4.0]]]], &device());
    let right = Tensor::<4>::from_data([[[[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]]]], &device());
    let indices = Tensor::<2, Int>::from_data([[2, 0, 2]], &device());
    let looked_up = Tensor::<3>::from_data([[[1.0], [2.0], [4.0]]], &device());
    let blocks = vec![
        Block::new(6, vec![Term::outer(left, right)]),
        Block::new(1, vec![]),
        Block::new(3, vec![Term::lookup(indices, looked_up, 3)]),
    ];
    let gradients = ExampleGradients::new(1, blocks, &device());
    let expected = [29.0, 33.0, 37.0, 42.0, 48.0, 54.0, 0.0, 2.0, 0.0, 5.0];
    assert_eq!(values(&gradients.materialise()), expected);
}

#[test]
fn grouping_keeps_the_mean() {
    let rows = matrix(5, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
    let gradients = ExampleGradients::from_rows(rows);
    let even = ExampleGradients::from_rows(gradients.materialise().narrow(0, 0, 4)).grouped(2);
    assert_eq!(values(&even.materialise()), [2.0, 3.0, 6.0, 7.0]);
    let grouped = gradients.grouped(2);
    assert_eq!(grouped.count(), 3);
    let scales = [10.0; 2];
    let (found, expected) = (values(&grouped.mean()), [5.0, 6.0]);
    assert_close("mean", &found, &expected, &scales, 4.0 * EPSILON);
}
