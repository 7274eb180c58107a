//! Leading eigenpairs of a Gram matrix as SLANG needs them: our Lanczos method, faer's partial
//! decomposition, and the whole decomposition, in turns. faer's has no code for matrices of up to 64 rows.
//!
//! ```text
//! cargo run --profile bench --bin eigen_ratios
//! ```
#![allow(clippy::print_stdout, reason = "a program's report")]

use std::hint::black_box;

use burn_bayes::algebra::{SquareMatrix, SymmetricEigen};
use burn_bayes_benches::ratios;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::matrix_free::eigen::{
    PartialEigenParams, partial_self_adjoint_eigen, partial_self_adjoint_eigen_scratch,
};
use faer::{Col, Mat, MatRef, Par};

/// The largest matrix that faer's partial decomposition refuses.
const FAER_LIMIT: usize = 64;
const ROUNDS: usize = 25;

fn main() {
    for (rows, count) in [(40, 1), (40, 2), (200, 1), (200, 5), (200, 10)] {
        let matrix = gram(rows);
        let leading = || SymmetricEigen::leading(&matrix, count);
        let expected = leading().expect("the matrix is finite");
        let repeats = 20_000 / rows;
        let mut ours = || {
            (0..repeats).for_each(|_| drop(black_box(leading())));
        };
        let mut all = || {
            (0..repeats).for_each(|_| drop(black_box(SymmetricEigen::new(&matrix))));
        };
        let title = format!("{count} of {rows} eigenpairs, {repeats} times");
        if rows <= FAER_LIMIT {
            ratios::in_turns(
                &title,
                ROUNDS,
                &mut [("ours", &mut ours), ("all", &mut all)],
            );
            continue;
        }
        for (found, pair) in partial(&matrix, rows, count).into_iter().zip(&expected) {
            let error = (found - pair.value).abs();
            assert!(error < 1e-8 * expected[0].value, "{found} {}", pair.value);
        }
        let mut faer = || {
            (0..repeats).for_each(|_| drop(black_box(partial(&matrix, rows, count))));
        };
        ratios::in_turns(
            &title,
            ROUNDS,
            &mut [
                ("ours", &mut ours),
                ("faer, partial", &mut faer),
                ("all", &mut all),
            ],
        );
    }
}

/// X Xᵀ of correlated rows, as the gradients of a mini-batch are: a few large eigenvalues, and a tail.
fn gram(rows: usize) -> SquareMatrix {
    const WIDTH: usize = 751;
    // A fixed sequence that fills the interval evenly.
    let unit = |index: usize| (index as f64 * 0.618_033_988_749_894_9).fract() - 0.5;
    let entry = |row: usize, column: usize| {
        let own = unit(1 + row * WIDTH + column);
        let shared = (0..4).map(|k| unit(7 * row + k) * unit(13 * column + 5 * k) / (1 + k) as f64);
        own + 4.0 * shared.sum::<f64>()
    };
    let values: Vec<f64> = (0..rows * WIDTH)
        .map(|index| entry(index / WIDTH, index % WIDTH))
        .collect();
    let row = |row: usize| &values[row * WIDTH..][..WIDTH];
    SquareMatrix::from_fn(rows, |i, j| {
        let products = row(i).iter().zip(row(j)).map(|(a, b)| a * b);
        products.sum()
    })
}

/// The largest eigenvalues by faer, with its vectors.
fn partial(matrix: &SquareMatrix, rows: usize, count: usize) -> Vec<f64> {
    let matrix = MatRef::from_row_major_slice(matrix.as_slice(), rows, rows);
    let params = PartialEigenParams::default();
    let scratch = partial_self_adjoint_eigen_scratch(&matrix, count, Par::Seq, params);
    let mut memory = MemBuffer::new(scratch);
    let mut vectors = Mat::<f64>::zeros(rows, count);
    let mut values = vec![0.0; count];
    let start = Col::<f64>::from_fn(rows, |row| 1.0 + row as f64 / rows as f64);
    partial_self_adjoint_eigen(
        vectors.as_mut(),
        &mut values,
        &matrix,
        start.as_ref(),
        1e-11,
        Par::Seq,
        MemStack::new(&mut memory),
        params,
    );
    values
}
