//! Agreement of importance weights and of the convergence of chains with ArviZ, on `golden/diagnostics.json` as written by
//! `xtask/golden/diagnostics.py`; never edited by hand. The inputs follow from the settings of a
//! case, by the formulas of the script.

use burn_bayes_eval::{Chains, ParetoSmoothing};
use serde::Deserialize;

use crate::golden::assert_close;

#[derive(Deserialize)]
struct Golden {
    importance: Vec<Importance>,
    convergence: Vec<Convergence>,
}

#[derive(Deserialize)]
struct Importance {
    draws: usize,
    seed: u64,
    shape: f64,
    offset: f64,
    step: f64,
    /// `None` if it is infinite.
    pareto_k: Option<f64>,
    effective_sample_size: f64,
    /// Of some draws.
    log_weights: Vec<(usize, f64)>,
}

#[derive(Deserialize)]
struct Convergence {
    number: usize,
    length: usize,
    seed: u64,
    memory: f64,
    shift: f64,
    growth: f64,
    step: f64,
    r_hat: f64,
    bulk_effective_sample_size: f64,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/diagnostics.json")).unwrap()
}

/// The states of a linear congruential generator.
fn uniforms(number: usize, seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed;
    (0..number).map(move |_| {
        state = (1_103_515_245 * state + 12_345) % (1 << 31);
        (state as f64 + 0.5) / f64::from(1u32 << 31)
    })
}

fn rounded_down(value: f64, step: f64) -> f64 {
    if step > 0.0 {
        (value / step).floor() * step
    } else {
        value
    }
}

impl Importance {
    /// Logarithms of a generalised Pareto variable of the given shape.
    fn log_ratios(&self) -> Vec<f64> {
        let ratio = |uniform: f64| {
            let (exponential, shape) = (-(-uniform).ln_1p(), self.shape);
            let log = if shape == 0.0 {
                exponential.ln()
            } else {
                let size = shape.abs();
                (shape * exponential).max(0.0) + (-(-size * exponential).exp_m1() / size).ln()
            };
            self.offset + rounded_down(log, self.step)
        };
        uniforms(self.draws, self.seed).map(ratio).collect()
    }
}

impl Convergence {
    /// Autoregressive sequences of logistic noise, of which each later one is scaled and shifted.
    fn sequences(&self) -> Vec<f64> {
        let mut value = 0.0;
        let step = |(index, uniform): (usize, f64)| {
            let sequence = (index / self.length) as f64;
            if index % self.length == 0 {
                value = 0.0;
            }
            value = self.memory * value + (uniform / (1.0 - uniform)).ln();
            let scaled = value * self.growth.powf(sequence) + sequence * self.shift;
            rounded_down(scaled, self.step)
        };
        let uniforms = uniforms(self.number * self.length, self.seed);
        uniforms.enumerate().map(step).collect()
    }
}

/// Relative. Rounding of the inputs, which both languages compute, is far below it.
const TOLERANCE: f64 = 1e-9;

#[test]
fn importance_weights_agree_with_arviz() {
    for case in golden().importance {
        let smoothing = ParetoSmoothing::new(&case.log_ratios()).unwrap();
        let tolerance = |expected: f64| TOLERANCE * expected.abs().max(1.0);
        match case.pareto_k {
            Some(expected) => {
                assert_close(smoothing.pareto_k(), expected, tolerance(expected));
            }
            None => assert_eq!(smoothing.pareto_k(), f64::INFINITY),
        }
        let expected = case.effective_sample_size;
        let found = smoothing.effective_sample_size();
        assert_close(found, expected, tolerance(expected));
        for (draw, expected) in case.log_weights {
            let found = smoothing.log_weights()[draw];
            assert_close(found, expected, tolerance(expected));
        }
    }
}

#[test]
fn convergence_agrees_with_arviz() {
    for case in golden().convergence {
        let chains = Chains::new(&case.sequences(), case.number, case.length).unwrap();
        assert_close(chains.r_hat().unwrap(), case.r_hat, TOLERANCE * case.r_hat);
        let expected = case.bulk_effective_sample_size;
        let found = chains.bulk_effective_sample_size().unwrap();
        assert_close(found, expected, TOLERANCE * expected);
    }
}
