//! Factored per-example gradients against their definition, in double precision on the host.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_bayes::graph::{Block, ExampleGradients, ExampleJacobians, Term};
use proptest::prelude::*;

use crate::support::{EPSILON, assert_close, device, matrix, normals, values, widened};

/// The specification of a term; the seed determines its numbers.
#[derive(Clone, Copy, Debug)]
enum Form {
    Outer {
        groups: usize,
        positions: usize,
        sides: [usize; 2],
    },
    Rows {
        len: usize,
    },
    Lookup {
        positions: usize,
        rows: usize,
        width: usize,
    },
}

/// The length of a parameter, and the terms that add up to its gradient.
#[derive(Clone, Debug)]
struct Parameter {
    len: usize,
    forms: Vec<Form>,
}

/// Gradients, and the same numbers on the host.
struct Case {
    gradients: ExampleGradients,
    dense: Dense,
}

/// `[count, len]`, row-major.
#[derive(Clone)]
struct Dense {
    count: usize,
    len: usize,
    rows: Vec<f64>,
    /// For each element, the sum of the sizes of its terms.
    sizes: Vec<f64>,
}

fn tensor<const R: usize>(values: &[f32], dims: [usize; R]) -> Tensor<R> {
    Tensor::from_data(TensorData::new(values.to_vec(), dims), &device())
}

impl Form {
    fn len(self) -> usize {
        match self {
            Self::Outer { groups, sides, .. } => groups * sides[0] * sides[1],
            Self::Rows { len } => len,
            Self::Lookup { rows, width, .. } => rows * width,
        }
    }

    /// Builds the term and adds its rows to those of the parameter. The first seed is that of the inputs: the left sides
    /// and the indices.
    fn term(self, [seed, other]: [u64; 2], dense: &mut Dense) -> Term {
        let count = dense.count;
        match self {
            Self::Outer {
                groups,
                positions,
                sides,
            } => {
                let [height, width] = sides;
                let uses = groups * count * positions;
                let left = normals(seed, uses * height);
                let right = normals(other, uses * width);
                for used in 0..uses {
                    let (group, example) = (used / (count * positions), used / positions % count);
                    for row in 0..height {
                        for column in 0..width {
                            let element = (group * height + row) * width + column;
                            let left = f64::from(left[used * height + row]);
                            let right = f64::from(right[used * width + column]);
                            dense.add(example, element, left * right);
                        }
                    }
                }
                Term::outer(
                    tensor(&left, [groups, count, positions, height]),
                    tensor(&right, [groups, count, positions, width]),
                )
            }
            Self::Rows { len } => {
                let rows = normals(other, count * len);
                for (index, &value) in rows.iter().enumerate() {
                    dense.add(index / len, index % len, value.into());
                }
                Term::rows(tensor(&rows, [count, len]))
            }
            Self::Lookup {
                positions,
                rows,
                width,
            } => {
                let chosen = normals(seed, count * positions);
                let chosen: Vec<i64> = chosen
                    .iter()
                    .map(|number| (number.abs() * 3.0) as i64 % rows as i64)
                    .collect();
                let numbers = normals(other, count * positions * width);
                for (used, &row) in chosen.iter().enumerate() {
                    for column in 0..width {
                        let element = row as usize * width + column;
                        dense.add(
                            used / positions,
                            element,
                            numbers[used * width + column].into(),
                        );
                    }
                }
                let indices = TensorData::new(chosen, [count, positions]);
                Term::lookup(
                    Tensor::<2, Int>::from_data(indices, &device()),
                    tensor(&numbers, [count, positions, width]),
                    rows,
                )
            }
        }
    }
}

impl Case {
    fn new(count: usize, parameters: &[Parameter]) -> Self {
        Self::of_set(0, count, parameters)
    }

    /// Sets with other numbers have other gradients.
    fn of_set(number: usize, count: usize, parameters: &[Parameter]) -> Self {
        Self::with_seeds([number, number], count, parameters)
    }

    /// With these numbers of the set of inputs and of the set of everything else.
    fn with_seeds(numbers: [usize; 2], count: usize, parameters: &[Parameter]) -> Self {
        let mut blocks = Vec::new();
        let mut dense = Dense::zeros(count, 0);
        for (index, parameter) in parameters.iter().enumerate() {
            let mut part = Dense::zeros(count, parameter.len);
            let mut terms = Vec::new();
            for (place, form) in parameter.forms.iter().enumerate() {
                let seed = |number: usize| (1000 * number + 100 * index + 2 * place) as u64;
                let [inputs, others] = numbers.map(seed);
                terms.push(form.term([inputs, others + 1], &mut part));
            }
            blocks.push(Block::new(parameter.len, terms));
            dense = dense.beside(&part);
        }
        Self {
            gradients: ExampleGradients::new(count, blocks, &device()),
            dense,
        }
    }

    /// Every operation, with `vectors` rows of weights and vectors.
    fn check(&self, vectors: usize) {
        let Dense { count, len, .. } = self.dense;
        assert_eq!((self.gradients.count(), self.gradients.len()), (count, len));
        let close =
            |what: &str, found: Vec<f64>, [expected, sizes]: [Vec<f64>; 2], terms: usize| {
                // Every number is a sum of such products, each of which is rounded.
                let tolerance = 8.0 * EPSILON * (1.0 + terms as f64).sqrt();
                assert_close(what, &found, &expected, &sizes, tolerance);
            };
        let Dense { rows, sizes, .. } = self.dense.clone();
        let found = values(&self.gradients.materialise());
        close("rows", found, [rows, sizes], 64);

        let mean = vec![1.0 / count as f64; count];
        close(
            "mean",
            values(&self.gradients.mean()),
            self.dense.weigh(&mean),
            64 * count,
        );

        let weights = matrix(vectors, count, &normals(7, vectors * count));
        let expected = self.dense.weigh(&values(&weights));
        let found = values(&self.gradients.weighted_sums(weights));
        close("weighted sums", found, expected, 64 * count);

        let directions = matrix(vectors, len, &normals(8, vectors * len));
        let expected = self
            .dense
            .dot(&values(&directions), &values(&directions.clone().abs()));
        close(
            "dot",
            values(&self.gradients.dot(directions)),
            expected,
            64 * len,
        );

        let gram = values(&self.gradients.gram());
        for row in 0..count {
            for column in 0..row {
                assert_eq!(gram[row * count + column], gram[column * count + row]);
            }
        }
        close(
            "gram",
            gram,
            self.dense.dot(&self.dense.rows, &self.dense.sizes),
            64 * len,
        );

        let found = values(&self.gradients.sum_of_squares());
        close("sum of squares", found, self.dense.squares(), 64 * count);
    }

    fn joined(sets: Vec<Self>) -> Self {
        let mut dense = Dense::zeros(0, sets[0].dense.len);
        for set in &sets {
            dense.count += set.dense.count;
            dense.rows.extend(&set.dense.rows);
            dense.sizes.extend(&set.dense.sizes);
        }
        let sets = sets.into_iter().map(|set| set.gradients);
        Self {
            gradients: ExampleGradients::joined(sets.collect()),
            dense,
        }
    }

    fn grouped(&self, size: usize) -> Self {
        Self {
            gradients: self.gradients.grouped(size),
            dense: self.dense.grouped(size),
        }
    }
}

impl Dense {
    /// The values of a row, and their sizes.
    fn row(&self, row: usize) -> [&[f64]; 2] {
        let range = row * self.len..(row + 1) * self.len;
        [&self.rows, &self.sizes].map(|matrix| &matrix[range.clone()])
    }

    fn zeros(count: usize, len: usize) -> Self {
        let zeros = vec![0.0; count * len];
        Self {
            count,
            len,
            rows: zeros.clone(),
            sizes: zeros,
        }
    }

    fn add(&mut self, example: usize, element: usize, value: f64) {
        let index = example * self.len + element;
        self.rows[index] += value;
        self.sizes[index] += value.abs();
    }

    fn beside(&self, other: &Self) -> Self {
        let join = |left: &[f64], right: &[f64]| {
            let rows = (0..self.count).flat_map(|row| {
                let left = &left[row * self.len..(row + 1) * self.len];
                let right = &right[row * other.len..(row + 1) * other.len];
                [left, right].concat()
            });
            rows.collect()
        };
        Self {
            count: self.count,
            len: self.len + other.len,
            rows: join(&self.rows, &other.rows),
            sizes: join(&self.sizes, &other.sizes),
        }
    }

    /// Sums of `size` rows each, times (number of groups)/M.
    fn grouped(&self, size: usize) -> Self {
        let groups = self.count.div_ceil(size);
        let mut weights = vec![0.0; groups * self.count];
        for example in 0..self.count {
            weights[example / size * self.count + example] = groups as f64 / self.count as f64;
        }
        let [rows, sizes] = self.weigh(&weights);
        Self {
            count: groups,
            len: self.len,
            rows,
            sizes,
        }
    }

    /// weights · rows, and the sizes of the terms; `weights` is row-major, `[_, M]`.
    fn weigh(&self, weights: &[f64]) -> [Vec<f64>; 2] {
        let (mut sums, mut sizes) = (vec![], vec![]);
        for weights in weights.chunks(self.count) {
            let mut sum = vec![[0.0; 2]; self.len];
            for (example, weight) in weights.iter().enumerate() {
                let first = example * self.len;
                for (element, [sum, size]) in sum.iter_mut().enumerate() {
                    *sum += weight * self.rows[first + element];
                    *size += weight.abs() * self.sizes[first + element];
                }
            }
            sums.extend(sum.iter().map(|[sum, _]| sum));
            sizes.extend(sum.iter().map(|[_, size]| size));
        }
        [sums, sizes]
    }

    /// rows · vectorsᵀ, and the sizes of the terms; `vectors` is row-major, `[_, D]`.
    fn dot(&self, vectors: &[f64], vector_sizes: &[f64]) -> [Vec<f64>; 2] {
        let products = |left: &[f64], right: &[f64]| {
            let mut sums = vec![];
            for row in left.chunks(self.len) {
                for vector in right.chunks(self.len) {
                    sums.push(
                        row.iter()
                            .zip(vector)
                            .map(|(left, right)| left * right)
                            .sum(),
                    );
                }
            }
            sums
        };
        [
            products(&self.rows, vectors),
            products(&self.sizes, vector_sizes),
        ]
    }

    fn squares(&self) -> [Vec<f64>; 2] {
        [&self.rows, &self.sizes].map(|matrix| {
            let column = |element: usize| matrix[element..].iter().step_by(self.len);
            let sum = |element| column(element).map(|value| value * value).sum();
            (0..self.len).map(sum).collect()
        })
    }
}

/// Up to three terms of any form for a parameter `[G, P, Q]`; no term gives a zero block.
fn parameter() -> impl Strategy<Value = Parameter> {
    (1..=3usize, 1..=12usize, 1..=12usize).prop_flat_map(|(groups, height, width)| {
        let len = groups * height * width;
        let form = (0..4, 1..=5usize).prop_map(move |(kind, positions)| match kind {
            0 => Form::Outer {
                groups,
                positions,
                sides: [height, width],
            },
            1 => Form::Outer {
                groups: 1,
                positions,
                sides: [groups * height, width],
            },
            2 => Form::Lookup {
                positions,
                rows: groups * height,
                width,
            },
            _ => Form::Rows { len },
        });
        let forms = proptest::collection::vec(form, 0..=3);
        forms.prop_map(move |forms| Parameter { len, forms })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_operation_is_that_of_the_rows(
        count in 1..=7usize,
        parameters in proptest::collection::vec(parameter(), 1..=4),
        size in 1..=8usize,
        vectors in 1..=9usize,
    ) {
        let case = Case::new(count, &parameters);
        case.check(vectors);
        case.grouped(size).check(vectors);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn joined_sets_answer_as_their_rows_one_below_the_other(
        counts in proptest::collection::vec(1..=5usize, 1..=3),
        parameters in proptest::collection::vec(parameter(), 1..=3),
        others in proptest::collection::vec(parameter(), 3),
        size in 1..=4usize,
        vectors in 1..=6usize,
    ) {
        let sets = |count, number| Case::of_set(number, count, &parameters);
        let alike = counts.iter().zip(0..).map(|(&count, number)| sets(count, number));
        Case::joined(alike.collect()).check(vectors);
        let grouped = counts.iter().zip(0..).map(|(&count, number)| sets(count, number).grouped(size));
        Case::joined(grouped.collect()).check(vectors);

        // The last set has its gradients in other forms.
        let mut last = parameters.clone();
        for (parameter, other) in last.iter_mut().zip(others) {
            let fits = other.forms.iter().filter(|form| form.len() == parameter.len);
            parameter.forms = fits.copied().chain([Form::Rows { len: parameter.len }]).collect();
        }
        let mixed = [sets(3, 0), Case::of_set(1, 2, &last)];
        Case::joined(mixed.into()).check(vectors);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn jacobians_are_those_of_the_rows(
        count in 1..=5usize,
        parameters in proptest::collection::vec(parameter(), 1..=4),
        has_shared_inputs in proptest::collection::vec(proptest::bool::ANY, 1..=3),
        vectors in 1..=6usize,
    ) {
        let outputs = has_shared_inputs.iter().enumerate();
        let outputs = outputs.map(|(output, &is_shared)| {
            let inputs = if is_shared { 0 } else { output };
            Case::with_seeds([inputs, output], count, &parameters)
        });
        check_jacobians(&outputs.collect::<Vec<_>>(), vectors);
    }
}

/// Every product of the Jacobians of these outputs, with `vectors` vectors.
fn check_jacobians(outputs: &[Case], vectors: usize) {
    let Dense { count, len, .. } = outputs[0].dense;
    let jacobians = outputs.iter().map(|output| output.gradients.clone());
    let jacobians = ExampleJacobians::new(jacobians.collect());
    let tolerance = 8.0 * EPSILON * (1.0 + 64.0 * len as f64).sqrt();
    let directions = matrix(vectors, len, &normals(8, vectors * len));
    let weights: Vec<f32> = normals(9, len).into_iter().map(f32::abs).collect();
    let plain = |left: &[f64], right: &[f64]| {
        let terms = left.iter().zip(right);
        terms.map(|(l, r)| l * r).sum::<f64>()
    };
    let weighted = |left: &[f64], right: &[f64]| {
        let terms = left.iter().zip(right).zip(&weights);
        terms.map(|((l, r), w)| l * r * f64::from(*w)).sum::<f64>()
    };
    let vectors = values_of_rows(&directions, len).into_iter();
    let vectors = vectors.map(|vector| {
        let of_sizes: Vec<f64> = vector.iter().map(|value| value.abs()).collect();
        (vector, of_sizes)
    });
    let vectors: Vec<_> = vectors.collect();
    let (mut dots, mut squares, mut grams) = ([vec![], vec![]], [vec![], vec![]], [vec![], vec![]]);
    for example in 0..count {
        for left in outputs {
            let [values, sizes] = left.dense.row(example);
            for (vector, of_sizes) in &vectors {
                dots[0].push(plain(values, vector));
                dots[1].push(plain(sizes, of_sizes));
            }
            squares[0].push(weighted(values, values));
            squares[1].push(weighted(sizes, sizes));
            for right in outputs {
                let [others, other_sizes] = right.dense.row(example);
                grams[0].push(weighted(values, others));
                grams[1].push(weighted(sizes, other_sizes));
            }
        }
    }
    let weights = tensor(&weights, [len]);
    for (what, found, [expected, sizes]) in [
        ("dot", values(&jacobians.dot(&directions)), dots),
        (
            "squares",
            values(&jacobians.weighted_squares(&weights)),
            squares,
        ),
        ("grams", values(&jacobians.weighted_grams(&weights)), grams),
    ] {
        assert_close(what, &found, &expected, &sizes, tolerance);
    }
}

fn values_of_rows(matrix: &Tensor<2>, len: usize) -> Vec<Vec<f64>> {
    values(matrix).chunks(len).map(<[f64]>::to_vec).collect()
}

#[test]
fn jacobians_of_large_layers_are_computed_in_pieces() {
    let parameters = [
        Form::Outer {
            groups: 1,
            positions: 1,
            sides: [600, 800],
        },
        Form::Outer {
            groups: 3,
            positions: 2,
            sides: [500, 320],
        },
    ];
    let parameters = parameters.map(|form| Parameter {
        len: form.len(),
        forms: vec![form],
    });
    let outputs = [0, 1].map(|output| Case::with_seeds([0, output], 150, &parameters[..1]));
    check_jacobians(&outputs, 4);
    let outputs = [0, 1].map(|output| Case::with_seeds([0, output], 2, &parameters));
    check_jacobians(&outputs, 2);
}

#[test]
fn parameters_larger_than_the_scratch_are_answered_in_pieces() {
    // As rows these are at least 4·480 000 numbers; the factors are few.
    let parameters = [
        Form::Outer {
            groups: 1,
            positions: 1,
            sides: [600, 800],
        },
        Form::Outer {
            groups: 3,
            positions: 2,
            sides: [500, 320],
        },
        Form::Lookup {
            positions: 3,
            rows: 1200,
            width: 400,
        },
    ];
    let tied = Parameter {
        len: 480_000,
        forms: vec![parameters[1], parameters[2]],
    };
    for form in parameters {
        let alone = Parameter {
            len: 480_000,
            forms: vec![form],
        };
        Case::new(4, &[alone]).check(4);
    }
    Case::new(4, &[tied]).check(4);
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
fn a_group_is_the_mean_of_its_examples() {
    let numbers: Vec<f32> = (1..=10u8).map(f32::from).collect();
    let rows = matrix(5, 2, &numbers);
    let even = ExampleGradients::from_rows(rows.clone().narrow(0, 0, 4)).grouped(2);
    assert_eq!(values(&even.materialise()), [2.0, 3.0, 6.0, 7.0]);
    let odd = ExampleGradients::from_rows(rows).grouped(2);
    assert_eq!(odd.count(), 3);
    assert_close(
        "mean",
        &values(&odd.mean()),
        &[5.0, 6.0],
        &[6.0; 2],
        4.0 * EPSILON,
    );
}

#[test]
fn double_precision_is_kept_where_the_device_has_it() {
    let device = device();
    if !device.supports_dtype(DType::F64) {
        return;
    }
    let wide = |seed: u64, dims: [usize; 4], device: &Device| {
        let numbers = widened(&normals(seed, dims.iter().product()));
        Tensor::<4>::from_data(TensorData::new(numbers, dims), (device, DType::F64))
    };
    let term = Term::outer(
        wide(1, [1, 3, 2, 20], &device),
        wide(2, [1, 3, 2, 10], &device),
    );
    let blocks = vec![Block::new(5, vec![]), Block::new(200, vec![term])];
    let gradients = ExampleGradients::new(3, blocks, &device);
    let rows = gradients.materialise();
    let exact = |left: Tensor<2>, right: Tensor<2>| {
        let difference = (left - right).abs().max().into_scalar::<f64>();
        assert!(difference <= 1e-11, "off by {difference}");
    };
    exact(
        gradients.gram(),
        rows.clone().matmul(rows.clone().transpose()),
    );
    exact(gradients.mean().unsqueeze(), rows.clone().mean_dim(0));
    exact(
        gradients.sum_of_squares().unsqueeze(),
        rows.clone().square().sum_dim(0),
    );
    exact(
        gradients.dot(rows.clone()),
        rows.clone().matmul(rows.clone().transpose()),
    );
    let weights = rows.clone().slice_dim(1, 5..8).transpose();
    exact(
        gradients.weighted_sums(weights.clone()),
        weights.matmul(rows),
    );
}
