//! Local minima of smooth functions of a few hundred numbers, by L-BFGS with a backtracking line search.
//!
//! Reference: Nocedal and Wright, *Numerical Optimization*, 2nd ed., algorithm 7.4.

use std::collections::VecDeque;

use burn_bayes_eval::Bounded;

use super::dot;
use super::matrix::add_scaled;

/// Pairs of steps and changes of the gradient that make the approximate Hessian.
const MEMORY: usize = 12;
/// Decrease at which a step counts, relative to that of the tangent (Armijo's condition).
const ARMIJO: f64 = 1e-4;

/// The settings of a search.
#[derive(Clone, Copy, Debug)]
pub struct Lbfgs {
    /// Steps after which a minimum is taken as it is; the value is then an upper bound.
    pub most_steps: usize,
    /// The norm of the gradient at convergence.
    pub flat: f64,
    /// The factor of the gradient in the first step.
    pub first_scale: f64,
    /// The largest change of an argument in one step.
    pub longest: f64,
}

impl Lbfgs {
    /// A local minimum. `function` returns the value and the gradient; a value that is not finite is never accepted. If
    /// the value or the gradient at the start is not finite, or the gradient is zero, the start is returned.
    pub fn minimum<E>(
        self,
        start: Vec<f64>,
        mut function: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>), E>,
    ) -> Result<Vec<f64>, E> {
        let mut point = start;
        let (mut value, mut gradient) = function(&point)?;
        let mut history: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
        for _ in 0..self.most_steps {
            if dot(&gradient, &gradient) < self.flat * self.flat {
                break;
            }
            let mut direction = self.direction(&gradient, &history);
            let mut slope = dot(&direction, &gradient);
            if slope.is_nan() || slope >= 0.0 {
                history.clear();
                direction = gradient.iter().map(|entry| -entry).collect();
                slope = dot(&direction, &gradient);
            }
            let largest = direction
                .iter()
                .fold(0.0f64, |most, entry| most.at_least(entry.abs()));
            let mut step = (self.longest / largest).at_most(1.0);
            let (next, next_value, next_gradient) = loop {
                let moved = point.iter().zip(&direction);
                let next: Vec<f64> = moved.map(|(from, along)| from + step * along).collect();
                let (next_value, next_gradient) = function(&next)?;
                if next_value.is_finite() && next_value <= value + ARMIJO * step * slope {
                    break (next, next_value, next_gradient);
                }
                step *= 0.5;
                // Rounding hides what is left to gain.
                if step.is_nan() || step * largest < 1e-12 {
                    return Ok(point);
                }
            };
            let steps: Vec<f64> = next
                .iter()
                .zip(&point)
                .map(|(new, old)| new - old)
                .collect();
            let pairs = next_gradient.iter().zip(&gradient);
            let changes: Vec<f64> = pairs.map(|(new, old)| new - old).collect();
            if dot(&steps, &changes) > 0.0 {
                history.truncate(MEMORY - 1);
                history.push_front((steps, changes));
            }
            (point, value, gradient) = (next, next_value, next_gradient);
        }
        Ok(point)
    }

    /// −B⁻¹ times the gradient, by the two loops over the latest steps first.
    fn direction(self, gradient: &[f64], history: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
        let mut direction: Vec<f64> = gradient.iter().map(|entry| -entry).collect();
        let mut shares = Vec::with_capacity(history.len());
        for (step, change) in history {
            let share = dot(step, &direction) / dot(step, change);
            add_scaled(&mut direction, -share, change);
            shares.push(share);
        }
        let scale = history.front().map_or(self.first_scale, |(step, change)| {
            dot(step, change) / dot(change, change)
        });
        direction.iter_mut().for_each(|entry| *entry *= scale);
        for ((step, change), share) in history.iter().zip(shares).rev() {
            let other = dot(change, &direction) / dot(step, change);
            add_scaled(&mut direction, share - other, step);
        }
        direction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Lbfgs = Lbfgs {
        most_steps: 200,
        flat: 1e-9,
        first_scale: 1.0,
        longest: 2.0,
    };

    /// Rosenbrock's function, whose minimum is at (1, 1) in a curved valley.
    #[test]
    fn the_minimum_of_a_curved_valley_is_found() {
        let function = |at: &[f64]| -> Result<_, ()> {
            let (x, y) = (at[0], at[1]);
            let (first, second) = (1.0 - x, y - x * x);
            let gradient = vec![-2.0 * first - 400.0 * x * second, 200.0 * second];
            Ok((first * first + 100.0 * second * second, gradient))
        };
        let found = SEARCH.minimum(vec![-1.2, 1.0], function).unwrap();
        assert!(found.iter().all(|x| (x - 1.0).abs() < 1e-8), "{found:?}");
    }

    #[test]
    fn a_start_without_a_gradient_is_returned() {
        for (value, slope) in [
            (f64::NAN, f64::NAN),
            (1.0, f64::NAN),
            (f64::INFINITY, 0.0),
            (1.0, 0.0),
        ] {
            let function = |_: &[f64]| -> Result<_, ()> { Ok((value, vec![slope])) };
            assert_eq!(SEARCH.minimum(vec![4.0], function).unwrap(), [4.0]);
        }
    }

    /// −log x + x has its minimum at 1 and no value below 0.
    #[test]
    fn values_that_are_not_finite_are_avoided() {
        let function = |at: &[f64]| -> Result<_, ()> {
            let x = at[0];
            match x > 0.0 {
                true => Ok((x - x.ln(), vec![1.0 - 1.0 / x])),
                false => Ok((f64::INFINITY, vec![0.0])),
            }
        };
        let found = SEARCH.minimum(vec![4.0], function).unwrap();
        assert!((found[0] - 1.0).abs() < 1e-8, "{found:?}");
    }
}
