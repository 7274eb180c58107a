//! Agreement of importance weights with ArviZ's `psislw`, on `golden/diagnostics.json` as written by
//! `xtask/golden/diagnostics.py`; never edited by hand. The inputs follow from the settings of a
//! case, by the formulas of the script.

use burn_bayes_eval::ParetoSmoothing;
use serde::Deserialize;

use crate::golden::assert_close;

#[derive(Deserialize)]
struct Golden {
    importance: Vec<Importance>,
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

/// The input is equal to rounding and the ratios are of the size of `offset`, so far more than
/// rounding would be a different formula.
#[test]
fn importance_weights_agree_with_arviz() {
    for case in golden().importance {
        let smoothing = ParetoSmoothing::new(&case.log_ratios()).unwrap();
        let tolerance = |expected: f64| 1e-9 * expected.abs().max(1.0);
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
