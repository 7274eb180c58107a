//! The minimum of a smooth convex function, by Newton's method with conjugate gradients.
//!
//! Each step solves H·d = −g by conjugate gradients with products H·v only, so no matrix is stored,
//! to a residual of min(0.1, √(‖g‖/‖g₀‖))·‖g‖, which gives quadratic convergence near the minimum.
//! A direction in which H is zero (a shift of all intercepts) is not part of g and is never taken.
//! Steps are halved until the function falls by 10⁻⁴ of its slope, or, where its changes are
//! rounding, until the gradient is halved.
//!
//! Reference: J. Nocedal and S. J. Wright, "Numerical optimization" (2006), algorithm 7.1.

use crate::Bounded;

/// A product of the second derivative with a vector.
pub(super) type Product<'a> = Box<dyn Fn(&[f64]) -> Vec<f64> + 'a>;

/// A convex function with its derivatives.
pub(super) trait Convex {
    /// The value and the gradient.
    fn value_and_gradient(&self, at: &[f64]) -> (f64, Vec<f64>);

    /// The products of the second derivative at a point with vectors.
    fn curvature<'a>(&'a self, at: &[f64]) -> Product<'a>;
}

/// The minimum from a start, or `None` if it is not reached in a hundred steps.
pub(super) fn minimise(function: &impl Convex, start: Vec<f64>) -> Option<Vec<f64>> {
    let mut at = start;
    let (mut value, mut gradient) = function.value_and_gradient(&at);
    let first = norm(&gradient).at_least(1.0);
    for _ in 0..MOST_STEPS {
        let length = norm(&gradient);
        if length <= PRECISION * first {
            return Some(at);
        }
        let curvature = function.curvature(&at);
        let accuracy = (length / first).sqrt().at_most(0.1);
        let direction = solve(&curvature, &gradient, accuracy * length);
        drop(curvature);
        let slope = dot(&direction, &gradient);
        let mut size = 1.0;
        let next = loop {
            let next: Vec<f64> = at
                .iter()
                .zip(&direction)
                .map(|(a, d)| a + size * d)
                .collect();
            let (found, slopes) = function.value_and_gradient(&next);
            // Near the minimum the value falls by less than its rounding, but its slope still does.
            let is_level = (found - value).abs() <= 64.0 * f64::EPSILON * value.abs();
            let is_lower = found <= value + 1e-4 * size * slope;
            let is_flatter = norm(&slopes) < 0.5 * length;
            if (is_level && is_flatter) || (!is_level && is_lower) {
                break Some((next, found, slopes));
            }
            size *= 0.5;
            if size < f64::EPSILON {
                break None;
            }
        };
        match next {
            Some(found) => (at, value, gradient) = found,
            // Neither falls beyond rounding.
            None => return (length <= PRECISION.sqrt() * first).then_some(at),
        }
    }
    None
}

const MOST_STEPS: usize = 100;
const PRECISION: f64 = 1e-12;

/// The solution of H·d = −g to within a residual, never against a direction of zero curvature.
fn solve(curvature: &dyn Fn(&[f64]) -> Vec<f64>, gradient: &[f64], residual: f64) -> Vec<f64> {
    let mut solution = vec![0.0; gradient.len()];
    let mut rest: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut search = rest.clone();
    let mut squares = dot(&rest, &rest);
    for step in 0..2 * gradient.len() + 10 {
        let product = curvature(&search);
        let bend = dot(&search, &product);
        if bend <= f64::EPSILON * dot(&search, &search) * 1e-3 {
            return if step == 0 { search } else { solution };
        }
        let size = squares / bend;
        for index in 0..solution.len() {
            solution[index] += size * search[index];
            rest[index] -= size * product[index];
        }
        let next = dot(&rest, &rest);
        if next.sqrt() <= residual {
            break;
        }
        for (s, r) in search.iter_mut().zip(&rest) {
            *s = r + next / squares * *s;
        }
        squares = next;
    }
    solution
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(values: &[f64]) -> f64 {
    dot(values, values).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Σ cosh(x_i − i), with a coupling of neighbours and a direction without effect.
    struct Bowl;

    impl Convex for Bowl {
        fn value_and_gradient(&self, at: &[f64]) -> (f64, Vec<f64>) {
            let (a, b) = (at[0] - 1.0, at[1] - 2.0 + at[0]);
            let gradient = vec![a.sinh() + b.sinh(), b.sinh(), 0.0];
            (a.cosh() + b.cosh(), gradient)
        }

        fn curvature<'a>(&'a self, at: &[f64]) -> Product<'a> {
            let (a, b) = ((at[0] - 1.0).cosh(), (at[1] - 2.0 + at[0]).cosh());
            Box::new(move |v| vec![(a + b) * v[0] + b * v[1], b * (v[0] + v[1]), 0.0])
        }
    }

    #[test]
    fn the_minimum_is_found_from_afar_and_free_directions_stay() {
        for start in [[0.0, 0.0, 3.0], [20.0, -30.0, 3.0]] {
            let found = minimise(&Bowl, start.to_vec()).unwrap();
            for (found, expected) in found.iter().zip([1.0, 1.0, 3.0]) {
                assert!((found - expected).abs() < 1e-6, "{found} {expected}");
            }
        }
    }
}
