//! The time of a compiled loss and its gradient, on one thread, without tensors: dense networks with a squared error.
//!
//! ```text
//! cargo run --profile bench --bin programs
//! ```
#![allow(clippy::print_stdout, reason = "a program's report")]

use std::time::Instant;

use burn_bayes_program::{Axis, Expr, Given, Graph, Program, Unary, Value, Workspace};

/// Layer sizes, and the number of rows.
const CASES: [(&[usize], usize); 5] = [
    (&[13, 50, 1], 10),
    (&[13, 50, 1], 455),
    (&[5, 16, 16, 16, 16, 2], 1202),
    (&[64, 50, 10], 1437),
    (&[784, 400, 400, 10], 200),
];

fn main() {
    println!("layers, rows: median µs, GFLOP/s, instructions");
    for (sizes, rows) in CASES {
        report(sizes, rows);
    }
}

/// Numbers in [−½, ½) without a pattern.
fn numbers(seed: usize, len: usize) -> Vec<f32> {
    let number = |index: usize| {
        let mixed = (index as u64 + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(seed as u64);
        let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(number).collect()
}

/// The loss of every row and the gradients of its sum.
fn program(sizes: &[usize]) -> Program {
    let mut graph = Graph::default();
    let mut weights: Vec<Value> = Vec::new();
    for pair in sizes.windows(2) {
        weights.push(graph.shared(pair));
        weights.push(graph.shared(&pair[1..]));
    }
    let outputs = sizes[sizes.len() - 1];
    let mut hidden = graph.rows(&[Axis::rows(1), Axis::fixed(sizes[0])]);
    let targets = graph.rows(&[Axis::rows(1), Axis::fixed(outputs)]);
    let layers = sizes.len() - 1;
    for layer in 0..layers {
        let weight = weights[2 * layer].inserted(0);
        let product = graph.product(&hidden.inserted(2), &weight, &[1]);
        let product = product.expect("the sizes fit").removed(1);
        let sum = Expr::Operand(0) + Expr::Operand(1);
        let formula = match layer + 1 < layers {
            true => sum.apply(Unary::Relu),
            false => sum,
        };
        let operands = [product, weights[2 * layer + 1].clone()];
        hidden = graph.map(formula, &operands).expect("the sizes fit");
    }
    let error = Expr::Operand(0) - Expr::Operand(1);
    let squares = graph.map(error.clone() * error, &[hidden, targets]);
    let loss = graph.sum(&squares.expect("the sizes fit"), &[1]);
    let seed = graph.filled(loss.axes(), 1.0);
    let gradients = graph.gradients(&loss, &seed, &weights);
    let mut results = vec![loss];
    results.extend(gradients.into_iter().flatten());
    Program::new(graph, &results).expect("rows are independent")
}

fn report(sizes: &[usize], rows: usize) {
    let program = program(sizes);
    let weights: Vec<Vec<f32>> = sizes
        .windows(2)
        .flat_map(|pair| [numbers(1, pair[0] * pair[1]), numbers(2, pair[1])])
        .collect();
    let shared: Vec<&[f32]> = weights.iter().map(Vec::as_slice).collect();
    let inputs = numbers(3, rows * sizes[0]);
    let targets = numbers(4, rows * sizes[sizes.len() - 1]);
    let given = Given {
        shared: &shared,
        rows: &[&inputs, &targets],
        count: rows,
    };
    let mut results: Vec<Vec<f32>> = program
        .outputs()
        .iter()
        .map(|output| vec![0.0; output.len * if output.per_row { rows } else { 1 }])
        .collect();
    let mut memory = Workspace::default();
    let products = sizes.windows(2).map(|pair| pair[0] * pair[1]);
    // The input needs no gradient.
    let multiplications = 3 * products.sum::<usize>() - sizes[0] * sizes[1];
    let operations = 2.0 * (multiplications * rows) as f64;
    let repeats = (2e9 / operations).clamp(20.0, 5000.0) as usize;
    let mut times: Vec<f64> = (0..repeats)
        .map(|_| {
            let mut places: Vec<&mut [f32]> = results.iter_mut().map(Vec::as_mut_slice).collect();
            let start = Instant::now();
            program.run(given, &mut memory, &mut places);
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times[repeats / 2];
    println!(
        "{sizes:?}, {rows}: {:.2} µs, {:.1} GFLOP/s, {}",
        median * 1e6,
        operations / median / 1e9,
        program.instructions()
    );
}
