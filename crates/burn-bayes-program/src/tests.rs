//! Programs against the obvious loops in `f64`, and their gradients against differences.

use burn_bayes_kernels::{Binary, Unary};

use crate::graph::{Graph, Kind, Leaf, Part, Route, Source, Value};
use crate::shape::{Axis, View};
use crate::{Expr, Given, Program, Workspace};

/// The given values of a graph.
#[derive(Clone)]
struct Data {
    shared: Vec<Vec<f64>>,
    rows: Vec<Vec<f64>>,
    count: usize,
}

/// The memory of every node.
fn evaluated(graph: &Graph, data: &Data) -> Vec<Vec<f64>> {
    let mut memory: Vec<Vec<f64>> = Vec::new();
    for node in &graph.nodes {
        let len: usize = lens(&node.axes, data.count).iter().product();
        let mut out = vec![0.0; len];
        let whole = View::whole(&node.axes);
        match &node.kind {
            Kind::Leaf(Leaf::Shared(number)) => out.clone_from(&data.shared[*number]),
            Kind::Leaf(Leaf::Rows(number)) => out.clone_from(&data.rows[*number]),
            Kind::Leaf(Leaf::Constant(values)) => {
                out = values.iter().map(|&value| f64::from(value)).collect();
            }
            Kind::Ruled { value, .. } => {
                for index in indices(&node.axes, data.count) {
                    out[place(&whole, &index)] = read(&memory, value, &index);
                }
            }
            Kind::Map(expr, operands) => {
                for index in indices(&node.axes, data.count) {
                    let values: Vec<_> = operands
                        .iter()
                        .map(|operand| read(&memory, operand, &index))
                        .collect();
                    out[place(&whole, &index)] = value_of(expr, &values);
                }
            }
            Kind::Total(parts) => {
                for Part { source, target } in parts {
                    for index in indices(&target.axes, data.count) {
                        let (distance, value) = match source {
                            Source::Copy(value) => (0, read(&memory, value, &index)),
                            Source::Product(left, right) => {
                                let left = read(&memory, left, &index);
                                (0, left * read(&memory, right, &index))
                            }
                            Source::Routed {
                                values,
                                index: chosen,
                                route,
                            } => {
                                let chosen = read(&memory, chosen, &index) as usize;
                                (distance(route, chosen), read(&memory, values, &index))
                            }
                        };
                        out[place(target, &index) + distance] += value;
                    }
                }
            }
            Kind::Arg {
                of,
                window,
                is_largest,
            } => {
                for index in indices(&node.axes, data.count) {
                    let first = place(&of.view, &index);
                    let values = window
                        .iter()
                        .map(|distance| memory[of.node][first + distance]);
                    let mut best = (0, f64::NAN);
                    for (number, value) in values.enumerate() {
                        let is_better = if *is_largest {
                            value > best.1
                        } else {
                            value < best.1
                        };
                        if number == 0 || is_better {
                            best = (number, value);
                        }
                    }
                    out[place(&whole, &index)] = best.0 as f64;
                }
            }
            Kind::Pick {
                table,
                index: chosen,
                route,
            } => {
                for index in indices(&node.axes, data.count) {
                    let chosen = read(&memory, chosen, &index) as usize;
                    let from = place(&table.view, &index) + distance(route, chosen);
                    out[place(&whole, &index)] = memory[table.node][from];
                }
            }
        }
        memory.push(out);
    }
    memory
}

fn distance(route: &Route, index: usize) -> usize {
    match route {
        Route::Listed(distances) => distances[index],
        Route::Even { stride, .. } => stride * index,
    }
}

fn lens(axes: &[Axis], count: usize) -> Vec<usize> {
    let len = |axis: &Axis| axis.len * if axis.per_row { count } else { 1 };
    axes.iter().map(len).collect()
}

fn indices(axes: &[Axis], count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for len in lens(axes, count) {
        all = all
            .into_iter()
            .flat_map(|index: Vec<usize>| {
                (0..len).map(move |entry| [index.clone(), vec![entry]].concat())
            })
            .collect();
    }
    all
}

fn place(view: &View, index: &[usize]) -> usize {
    let steps = index.iter().zip(&view.strides);
    let distance: isize = steps.map(|(&entry, stride)| entry as isize * stride).sum();
    (view.offset as isize + distance) as usize
}

fn read(memory: &[Vec<f64>], value: &Value, index: &[usize]) -> f64 {
    memory[value.node][place(&value.view, index)]
}

fn value_of(expr: &Expr, operands: &[f64]) -> f64 {
    let of = |expr: &Expr| value_of(expr, operands);
    let number = |is_true: bool| f64::from(u8::from(is_true));
    match expr {
        Expr::Operand(index) => operands[*index],
        Expr::Constant(value) => f64::from(*value),
        Expr::Unary(function, x) => {
            let x = of(x);
            match function {
                Unary::Neg => -x,
                Unary::Abs => x.abs(),
                Unary::Sign => (x > 0.0) as i32 as f64 - (x < 0.0) as i32 as f64,
                Unary::Exp => x.exp(),
                Unary::Log => x.ln(),
                Unary::Log1p => x.ln_1p(),
                Unary::Sqrt => x.sqrt(),
                Unary::Recip => 1.0 / x,
                Unary::Relu => x.max(0.0),
                Unary::Tanh => x.tanh(),
                Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
                Unary::Erf => libm::erf(x),
                Unary::Sin => x.sin(),
                Unary::Cos => x.cos(),
                Unary::Tan => x.tan(),
                Unary::Sinh => x.sinh(),
                Unary::Cosh => x.cosh(),
                Unary::Asin => x.asin(),
                Unary::Acos => x.acos(),
                Unary::Atan => x.atan(),
                Unary::Asinh => x.asinh(),
                Unary::Acosh => x.acosh(),
                Unary::Atanh => x.atanh(),
                Unary::Floor => x.floor(),
                Unary::Ceil => x.ceil(),
                Unary::Round => x.round_ties_even(),
                Unary::Trunc => x.trunc(),
                Unary::IsNan => number(x.is_nan()),
                Unary::IsInf => number(x.is_infinite()),
            }
        }
        Expr::Binary(function, a, b) => {
            let (a, b) = (of(a), of(b));
            match function {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Rem => a - b * (a / b).floor(),
                Binary::Pow => a.powf(b),
                Binary::Atan2 => a.atan2(b),
                Binary::Hypot => a.hypot(b),
                Binary::Max => a.max(b),
                Binary::Min => a.min(b),
                Binary::Greater => number(a > b),
                Binary::GreaterEqual => number(a >= b),
                Binary::Lower => number(a < b),
                Binary::LowerEqual => number(a <= b),
                Binary::Equal => number(a == b),
                Binary::NotEqual => number(a != b),
            }
        }
        Expr::Select(mask, a, b) => of(if of(mask) != 0.0 { a } else { b }),
    }
}

/// Numbers in [−1, 1) from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // With 23 digits, so that `f32` has the number.
        (self.0 >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    fn below(&mut self, bound: usize) -> usize {
        ((self.next() + 1.0) / 2.0 * bound as f64) as usize % bound
    }

    fn many(&mut self, len: usize) -> Vec<f64> {
        (0..len).map(|_| self.next()).collect()
    }
}

const ROWS: Axis = Axis {
    len: 1,
    per_row: true,
};

/// The results of a program for these rows.
fn run(graph: &Graph, outputs: &[Value], data: &Data) -> Vec<Vec<f32>> {
    let program = Program::new(graph.clone(), outputs).unwrap();
    // The second run finds what the first one left.
    run_with(&program, &mut Workspace::default(), data, 2)
}

/// The results of so many runs.
fn run_with(program: &Program, memory: &mut Workspace, data: &Data, times: usize) -> Vec<Vec<f32>> {
    let single = |values: &[Vec<f64>]| -> Vec<Vec<f32>> {
        let single = |values: &Vec<f64>| values.iter().map(|&value| value as f32).collect();
        values.iter().map(single).collect()
    };
    let (shared, rows) = (single(&data.shared), single(&data.rows));
    let shared: Vec<&[f32]> = shared.iter().map(Vec::as_slice).collect();
    let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
    let given = Given {
        shared: &shared,
        rows: &rows,
        count: data.count,
    };
    let mut results: Vec<Vec<f32>> = program
        .outputs()
        .iter()
        .map(|output| vec![f32::NAN; output.len * if output.per_row { data.count } else { 1 }])
        .collect();
    for _ in 0..times {
        let mut places: Vec<&mut [f32]> = results.iter_mut().map(Vec::as_mut_slice).collect();
        program.run(given, memory, &mut places);
    }
    results
}

/// Compares a program's result and gradients with those of the loops.
fn check(graph: Graph, loss: &Value, weights: &[Value], data: &Data, name: &str) {
    check_gradients(graph, loss, weights, data, (name, false));
}

/// A gradient that vanishes where rows are mixed is a sum of terms as large as the other gradients.
fn check_gradients(
    mut graph: Graph,
    loss: &Value,
    weights: &[Value],
    data: &Data,
    (name, can_vanish): (&str, bool),
) {
    let forward = graph.clone();
    let seed = graph.filled(loss.axes(), 0.75);
    let gradients = graph.gradients(loss, &seed, weights);
    let mut outputs = vec![loss.clone()];
    outputs.extend(gradients.iter().flatten().cloned());
    let found = run(&graph, &outputs, data);

    let sum = |data: &Data| -> (Vec<f64>, f64) {
        let memory = evaluated(&forward, data);
        let all = indices(loss.axes(), data.count);
        let losses: Vec<_> = all.iter().map(|index| read(&memory, loss, index)).collect();
        let sum = losses.iter().sum();
        (losses, sum)
    };
    let (expected, _) = sum(data);
    for (found, expected) in found[0].iter().zip(&expected) {
        let error = (f64::from(*found) - expected).abs();
        assert!(
            error <= 2e-5 * (1.0 + expected.abs()),
            "{name}: {found} is not {expected}"
        );
    }
    let largest = |values: &Vec<f32>| values.iter().fold(0.0f32, |size, g| size.max(g.abs()));
    let of_all = found[1..].iter().map(largest).fold(0.0, f32::max);
    let mut outputs = found[1..].iter();
    for (number, gradient) in gradients.iter().enumerate() {
        let of = gradient.as_ref().map(|_| outputs.next().unwrap());
        let len = data.shared[number].len();
        let elements = (0..len).filter(|element| len <= 6 || element % (len / 6) == 0);
        let size = if can_vanish {
            of_all
        } else {
            of.map_or(0.0, largest)
        };
        for element in elements {
            let at = |step: f64| {
                let mut data = data.clone();
                data.shared[number][element] += step;
                sum(&data).1
            };
            let slope = |step: f64| 0.75 * (at(step) - at(-step)) / (2.0 * step);
            let (near, nearer) = (slope(1e-5), slope(5e-6));
            if (near - nearer).abs() > 1e-5 * (1.0 + near.abs()) {
                // A kink is near.
                continue;
            }
            let found = of.map_or(0.0, |of| f64::from(of[element]));
            let allowed = 1e-4 * (1.0 + f64::from(size));
            assert!(
                (found - near).abs() <= allowed,
                "{name}: gradient {number}[{element}] is {found}, not {near}"
            );
        }
    }
}

/// A random chain of operations from rows of six numbers to one loss per row. The last two of the 18 kinds of operations
/// mix rows.
fn random_chain(seed: u64, kinds: usize) -> (Graph, Value, Vec<Value>, Data) {
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut graph = Graph::default();
    let mut data = Data {
        shared: Vec::new(),
        rows: Vec::new(),
        count: [1, 2, 3, 7, 300, 2000][numbers.below(5 + usize::from(seed.is_multiple_of(16)))],
    };
    let mut weights = Vec::new();
    let axes = [ROWS, Axis::fixed(2), Axis::fixed(3)];
    let mut x = graph.rows(&axes);
    data.rows.push(numbers.many(data.count * 6));
    for _ in 0..2 + numbers.below(7) {
        let mut weight = |graph: &mut Graph, lens: &[usize], numbers: &mut Numbers| {
            let weight = graph.shared(lens);
            data.shared.push(numbers.many(lens.iter().product()));
            weights.push(weight.clone());
            weight
        };
        let [_, height, width] = [0, 1, 2].map(|axis| x.axes()[axis].len);
        let fixed = Axis::fixed;
        x = match numbers.below(kinds) {
            0 => {
                let inner = [1, 4, 17][numbers.below(3)];
                let weight = weight(&mut graph, &[width, inner], &mut numbers);
                let left = x.inserted(3);
                let right = weight.inserted(0).inserted(0);
                graph.product(&left, &right, &[2]).unwrap().removed(2)
            }
            1 => {
                let functions = [
                    Unary::Tanh,
                    Unary::Relu,
                    Unary::Sigmoid,
                    Unary::Sin,
                    Unary::Erf,
                ];
                let function = functions[numbers.below(5)];
                graph.map(Expr::Operand(0).apply(function), &[x]).unwrap()
            }
            2 => {
                let bias = weight(&mut graph, &[height, 1], &mut numbers);
                let product = Expr::Operand(0) * Expr::Operand(1) + Expr::Operand(0);
                graph.map(product, &[x, bias]).unwrap()
            }
            3 => x.permuted(&[0, 2, 1]),
            4 => graph
                .reshaped(&x, &[ROWS, fixed(1), fixed(height * width)])
                .unwrap(),
            5 => {
                let sum = graph.sum(&x, &[2]);
                let mean = Expr::Operand(0) - Expr::Operand(1) * Expr::Constant(0.1);
                graph.map(mean, &[x, sum]).unwrap()
            }
            6 => {
                let bias = weight(&mut graph, &[width], &mut numbers);
                let part = bias.expanded(x.axes()).unwrap();
                graph.concatenated(&[x, part], 1)
            }
            7 => {
                let len = 1 + numbers.below(width);
                let part = x.sliced(2, width - len, 1, len);
                let padded = graph.padded(&part, &[(0, 0), (1, 0), (0, width - len)]);
                let flipped = padded.sliced(1, height, -1, height + 1);
                graph
                    .map(Expr::Operand(0) + Expr::Constant(0.5), &[flipped])
                    .unwrap()
            }
            8 => {
                let over = &[1, 2][numbers.below(2)..];
                let [largest, _] = graph.extreme(&x, over, numbers.below(2) == 0);
                let shifted = (Expr::Operand(0) - Expr::Operand(1)).apply(Unary::Sigmoid);
                graph.map(shifted, &[x, largest]).unwrap()
            }
            9 => {
                // Attention without a softmax.
                let left = x.inserted(2);
                let right = x.inserted(1);
                let scores = graph.product(&left, &right, &[3]).unwrap().removed(3);
                let scores = graph
                    .map(Expr::Operand(0).apply(Unary::Tanh), &[scores])
                    .unwrap();
                let mixed = graph.product(&scores.inserted(3), &x.inserted(1), &[2]);
                mixed.unwrap().removed(2)
            }
            10 => {
                let table = weight(&mut graph, &[5, width], &mut numbers);
                let index = graph.rows(&[ROWS, fixed(1), fixed(1)]);
                let chosen = (0..data.count).map(|_| numbers.below(5) as f64).collect();
                data.rows.push(chosen);
                let picked = graph.picked(&table.inserted(0), &index, 1).unwrap();
                let product = Expr::Operand(0) * Expr::Operand(1);
                graph.map(product, &[x, picked]).unwrap()
            }
            11 => {
                // A convolution along the last axis.
                let kernel = weight(&mut graph, &[2, height, 2], &mut numbers);
                let padded = graph.padded(&x, &[(0, 0), (0, 0), (1, 2)]);
                let count = width + 2;
                let windows = padded.windowed(2, [count, 1], [2, 1]);
                let patches = graph.copied(windows.permuted(&[0, 1, 3, 2]));
                let kernel = kernel.inserted(3).inserted(0);
                let product = graph
                    .product(&patches.inserted(1), &kernel, &[2, 3])
                    .unwrap();
                product.removed(3).removed(2)
            }
            12 => graph.softmax(&x, 1 + numbers.below(2), numbers.below(2) == 0),
            13 => {
                // A transposed one.
                let kernel = weight(&mut graph, &[height, 2, 3], &mut numbers);
                let left = x.inserted(2).inserted(4);
                let right = kernel.inserted(2).inserted(0);
                let windows = [(3, 2, 1)];
                let lens = [2 * (width - 1) + 3];
                graph
                    .unwindowed_product(&left, &right, &[1], &windows, &lens)
                    .unwrap()
                    .removed(1)
            }
            14 => {
                // Windows that overlap, or leave entries out.
                let padded = graph.padded(&x, &[(0, 0), (1, 1), (1, 2)]);
                let step = 1 + numbers.below(3);
                let rows = padded.windowed(2, [1 + width / step, step], [2, 1 + numbers.below(2)]);
                let windows = rows.windowed(1, [height, 1], [2, 1]);
                let is_largest = numbers.below(2) == 0;
                let [pooled, _] = graph.extreme(&windows, &[2, 4], is_largest);
                pooled.removed(4).removed(2)
            }
            16 => {
                let lens = [1, height, 1];
                let [scale, shift] = [0; 2].map(|_| weight(&mut graph, &lens, &mut numbers));
                let normalised = graph.batch_normalised(&x, &[0, 2], 0.05, [&scale, &shift]);
                normalised.unwrap().value
            }
            17 => {
                let over = &[0, 1][..1 + numbers.below(2)];
                let bias = weight(&mut graph, &[width], &mut numbers);
                let product = Expr::Operand(0) * Expr::Operand(1);
                let product = graph.map(product, &[x.clone(), bias.clone()]).unwrap();
                let sum = graph.sum(&product, over);
                let mixed = Expr::Operand(0) * Expr::Constant(0.05) + Expr::Operand(1);
                let mixed = mixed.apply(Unary::Tanh) * Expr::Operand(2);
                graph.map(mixed, &[sum, bias, x]).unwrap()
            }
            _ => {
                let scale = weight(&mut graph, &[1, 1, 1], &mut numbers);
                let square = graph
                    .map(Expr::Operand(0) * Expr::Operand(0), &[scale])
                    .unwrap();
                let quotient = Expr::Operand(0) / (Expr::Constant(1.0) + Expr::Operand(1));
                graph.map(quotient, &[x, square]).unwrap()
            }
        };
    }
    let square = graph
        .map(Expr::Operand(0) * Expr::Operand(0), &[x])
        .unwrap();
    let loss = graph.sum(&square, &[1, 2]).removed(2).removed(1);
    (graph, loss, weights, data)
}

#[test]
fn random_programs_are_the_loops() {
    for seed in 0..150 {
        let (graph, loss, weights, data) = random_chain(seed, 16);
        check(graph, &loss, &weights, &data, &format!("seed {seed}"));
    }
}

#[test]
fn random_programs_that_mix_rows_are_the_loops() {
    for seed in 1000..1080 {
        let (graph, loss, weights, data) = random_chain(seed, 18);
        let name = (&*format!("seed {seed}"), true);
        check_gradients(graph, &loss, &weights, &data, name);
    }
}

#[test]
fn a_sum_over_rows_of_a_shared_value_is_complete_before_it_is_read() {
    let mut graph = Graph::default();
    let weight = graph.shared(&[1]);
    let x = graph.rows(&[ROWS]);
    let square = graph
        .map(
            Expr::Operand(0) * Expr::Operand(0),
            std::slice::from_ref(&weight),
        )
        .unwrap();
    let sum = Expr::Operand(0) + Expr::Operand(1) * Expr::Operand(2);
    let loss = graph.map(sum, &[square, weight.clone(), x]).unwrap();
    let mut numbers = Numbers(5);
    let data = Data {
        shared: vec![vec![0.5]],
        rows: vec![numbers.many(40)],
        count: 40,
    };
    check(graph, &loss, &[weight], &data, "a penalty");
}

#[test]
fn more_axes_than_the_kernels_take_are_refused() {
    for count in [8, 9] {
        let mut graph = Graph::default();
        let x = graph.shared(&vec![2; count + 1]);
        let order: Vec<usize> = (0..=count).rev().collect();
        let [_, index] = graph.extreme(&x.permuted(&order), &[0], true);
        assert_eq!(Program::new(graph, &[index]).is_err(), count == 9);
    }
}

#[test]
fn the_first_of_equal_entries_has_the_gradient() {
    const LEN: usize = 11;
    const WINDOWS: [usize; 2] = [5, 2];
    const ENTRIES: [usize; 2] = [3, 1];
    let mut graph = Graph::default();
    let shift = graph.shared(&[LEN]);
    let x = graph.rows(&[ROWS, Axis::fixed(LEN)]);
    let sum = Expr::Operand(0) + Expr::Operand(1);
    let shifted = graph.map(sum, &[x, shift.clone()]).unwrap();
    let windows = shifted.windowed(1, WINDOWS, ENTRIES);
    let [largest, index] = graph.extreme(&windows, &[2], true);
    let seed = graph.filled(largest.axes(), 1.0);
    let gradient = graph.gradients(&largest, &seed, &[shift])[0].clone();
    let mut numbers = Numbers(3);
    // More than a block and a strip, with few different numbers.
    let count = 600;
    let values: Vec<f64> = (0..count * LEN).map(|_| numbers.below(3) as f64).collect();
    let data = Data {
        shared: vec![vec![0.0; LEN]],
        rows: vec![values.clone()],
        count,
    };
    let found = run(&graph, &[largest, index, gradient.unwrap()], &data);
    let (mut at, mut expected) = (0, vec![0.0f32; LEN]);
    for row in values.chunks_exact(LEN) {
        for window in 0..WINDOWS[0] {
            let first = window * WINDOWS[1];
            let entries = &row[first..first + ENTRIES[0]];
            let largest = entries.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let index = entries.iter().position(|&entry| entry == largest).unwrap();
            assert_eq!((found[0][at], found[1][at]), (largest as f32, index as f32));
            expected[first + index] += 1.0;
            at += 1;
        }
    }
    assert_eq!(found[2], expected);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut graph = Graph::default();
    let weight = graph.shared(&[8, 40]);
    let x = graph.rows(&[ROWS, Axis::fixed(8)]);
    let product = graph
        .product(&x.inserted(2), &weight.inserted(0), &[1])
        .unwrap()
        .removed(1);
    let hidden = graph
        .map(Expr::Operand(0).apply(Unary::Tanh), &[product])
        .unwrap();
    let loss = graph.sum(&hidden, &[1]).removed(1);
    let seed = graph.filled(loss.axes(), 1.0);
    let gradient = graph.gradients(&loss, &seed, std::slice::from_ref(&weight));
    let outputs = [loss, gradient[0].clone().unwrap()];
    let mut numbers = Numbers(7);
    let data = Data {
        shared: vec![numbers.many(320)],
        rows: vec![numbers.many(8 * 5000)],
        count: 5000,
    };
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| run(&graph, &outputs, &data))
    };
    let expected = with(1);
    assert!(expected[1].iter().all(|value| value.is_finite()));
    for threads in [2, 3, 8] {
        assert!(with(threads) == expected, "{threads} threads");
    }
}

/// Two normalised layers, one after the other: the losses, the statistics of the second layer and the gradients of all
/// weights for this factor of the losses.
fn two_normalised_layers(seed: f32) -> (Graph, Value, Vec<Value>, Vec<Value>) {
    let mut graph = Graph::default();
    let (mut weights, mut results) = (Vec::new(), Vec::new());
    let mut x = graph.rows(&[ROWS, Axis::fixed(4), Axis::fixed(6)]);
    for _ in 0..2 {
        let weight = graph.shared(&[4, 5, 1]);
        let [scale, shift] = [0; 2].map(|_| graph.shared(&[1, 5, 1]));
        let product = graph.product(&x.inserted(2), &weight.inserted(0), &[1]);
        let product = product.unwrap().removed(1);
        let normalised = graph
            .batch_normalised(&product, &[0, 2], 1e-3, [&scale, &shift])
            .unwrap();
        let tanh = Expr::Operand(0).apply(Unary::Tanh);
        let hidden = graph.map(tanh, &[normalised.value]).unwrap();
        x = hidden.sliced(1, 0, 1, 4);
        weights.extend([weight, scale, shift]);
        results = vec![normalised.mean, normalised.variance];
    }
    let square = graph
        .map(Expr::Operand(0) * Expr::Operand(0), &[x])
        .unwrap();
    let loss = graph.sum(&square, &[1, 2]).removed(2).removed(1);
    let seed = graph.filled(loss.axes(), seed);
    let gradients = graph.gradients(&loss, &seed, &weights);
    results.extend(gradients.into_iter().flatten());
    results.insert(0, loss.clone());
    (graph, loss, weights, results)
}

/// Numbers for [`two_normalised_layers`].
fn data_of_layers(count: usize) -> Data {
    let mut numbers = Numbers(11);
    Data {
        shared: [20, 5, 5, 20, 5, 5].map(|len| numbers.many(len)).to_vec(),
        rows: vec![numbers.many(count * 24)],
        count,
    }
}

#[test]
fn normalised_layers_are_the_loops_for_several_blocks_and_parts() {
    const COUNTS: [usize; 4] = [1, 2, 40, 2000];
    for count in COUNTS {
        let (graph, loss, weights, results) = two_normalised_layers(1.0 / count as f32);
        let data = data_of_layers(count);
        if count < 100 {
            check(graph.clone(), &loss, &weights, &data, &format!("{count}"));
        }
        let memory = evaluated(&graph, &data);
        let found = run(&graph, &results, &data);
        for (found, result) in found.iter().zip(&results) {
            let expected = indices(result.axes(), count);
            let expected = expected.iter().map(|index| read(&memory, result, index));
            for (&found, expected) in found.iter().zip(expected) {
                let error = (f64::from(found) - expected).abs();
                assert!(
                    error <= 1e-5 * (1.0 + expected.abs()),
                    "{count}: {found} is not {expected}"
                );
            }
        }
        let program = Program::new(graph, &results).unwrap();
        assert!(program.schedule.stages.len() > 4);
        assert_eq!(
            program.parts(count) > 1 && count > program.block(),
            count == 2000
        );
    }
}

#[test]
fn normalised_layers_have_the_same_bits_for_any_number_of_threads_and_after_other_counts() {
    let (graph, _, _, results) = two_normalised_layers(1.0);
    let data = data_of_layers(2000);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| run(&graph, &results, &data))
    };
    let expected = with(1);
    for threads in [2, 3, 8] {
        assert!(with(threads) == expected, "{threads} threads");
    }
    // One program and its memory for several numbers of rows.
    let program = Program::new(graph.clone(), &results).unwrap();
    let mut memory = Workspace::default();
    for count in [2000, 3, 700, 2000] {
        let data = data_of_layers(count);
        let found = run_with(&program, &mut memory, &data, 1);
        assert!(found == run(&graph, &results, &data), "{count} rows");
    }
}
