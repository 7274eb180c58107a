//! One step of Adam on one tensor, in one pass:
//!
//! ```text
//! g ← g + λ p,   m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²
//! p ← p − η · c m / (√v + ε √(1 − β₂ᵗ)),   c = √(1 − β₂ᵗ) / (1 − β₁ᵗ)
//! ```
//!
//! which is Adam (Kingma and Ba) with both bias corrections in scalars, as in Burn. The operations
//! and their order are also Burn's, so that results are bit-identical. With AMSGrad, v is replaced
//! by its running maximum.
//!
//! Kingma, Ba (2015), "Adam: a method for stochastic optimization". Reddi, Kale, Kumar (2018), "On
//! the convergence of Adam and beyond".

use crate::parallel::{for_each_block, vectorise};

/// The constants of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamStep {
    learning_rate: f32,
    beta_1: f32,
    beta_2: f32,
    /// λ.
    weight_decay: f32,
    /// c.
    momentum_scale: f32,
    /// ε √(1 − β₂ᵗ).
    offset: f32,
}

impl AdamStep {
    /// Step number `time` (from 1) with an optional L2 penalty `weight_decay` (λ).
    ///
    /// # Panics
    ///
    /// If `time` is 0, at which the bias corrections are not defined.
    pub fn new(
        learning_rate: f64,
        beta_1: f32,
        beta_2: f32,
        epsilon: f32,
        weight_decay: Option<f32>,
        time: usize,
    ) -> Self {
        assert!(time > 0, "steps are counted from 1");
        let time = i32::try_from(time).unwrap_or(i32::MAX);
        let correction = (1.0 - beta_2.powi(time)).sqrt();
        Self {
            learning_rate: learning_rate as f32,
            beta_1,
            beta_2,
            weight_decay: weight_decay.unwrap_or(0.0),
            momentum_scale: correction / (1.0 - beta_1.powi(time)),
            offset: epsilon * correction,
        }
    }
}

/// The moments of one tensor; zero before the first step.
#[derive(Debug)]
pub struct AdamMoments<'a> {
    /// m.
    pub first: &'a mut [f32],
    /// v.
    pub second: &'a mut [f32],
    /// With AMSGrad, the running maximum of v.
    pub largest_second: Option<&'a mut [f32]>,
}

/// Reads `parameter` and the gradient, and writes the new parameter over the gradient.
///
/// # Panics
///
/// If the lengths do not match.
pub fn adam_step(
    step: &AdamStep,
    parameter: &[f32],
    gradient_then_parameter: &mut [f32],
    moments: AdamMoments<'_>,
) {
    let length = parameter.len();
    let task = (parameter, gradient_then_parameter, moments.check(length));
    assert_eq!(
        task.1.len(),
        length,
        "the gradient has another length than the parameter"
    );
    for_each_block(task, length, 4 * length, &|_,
                                               (
        parameter,
        gradient,
        moments,
    )| {
        vectorise(
            #[inline(always)]
            || step_leaf(step, parameter, gradient, moments),
        );
    });
}

/// The moments as splittable work: m, v and the maximum of v.
type Moments<'a> = (&'a mut [f32], &'a mut [f32], Option<&'a mut [f32]>);

impl<'a> AdamMoments<'a> {
    fn check(self, length: usize) -> Moments<'a> {
        let Self {
            first,
            second,
            largest_second,
        } = self;
        assert_eq!(first.len(), length, "the first moment has another length");
        assert_eq!(second.len(), length, "the second moment has another length");
        if let Some(largest) = &largest_second {
            assert_eq!(
                largest.len(),
                length,
                "the largest second moment has another length"
            );
        }
        (first, second, largest_second)
    }
}

#[inline(always)]
fn step_leaf(
    step: &AdamStep,
    parameter: &[f32],
    gradient: &mut [f32],
    (first, second, largest): Moments<'_>,
) {
    let length = parameter.len();
    let gradient = &mut gradient[..length];
    let (first, second) = (&mut first[..length], &mut second[..length]);
    if let Some(largest) = largest {
        let largest = &mut largest[..length];
        for i in 0..length {
            let moment = moments(
                step,
                parameter[i],
                gradient[i],
                &mut first[i],
                &mut second[i],
            );
            largest[i] = larger(largest[i], second[i]);
            gradient[i] = moved(step, parameter[i], moment, largest[i]);
        }
    } else {
        for i in 0..length {
            let moment = moments(
                step,
                parameter[i],
                gradient[i],
                &mut first[i],
                &mut second[i],
            );
            gradient[i] = moved(step, parameter[i], moment, second[i]);
        }
    }
}

/// Updates both moments of an element and returns the first.
#[inline(always)]
fn moments(
    step: &AdamStep,
    parameter: f32,
    gradient: f32,
    first: &mut f32,
    second: &mut f32,
) -> f32 {
    let gradient = parameter * step.weight_decay + gradient;
    *first = *first * step.beta_1 + gradient * (1.0 - step.beta_1);
    *second = *second * step.beta_2 + gradient * gradient * (1.0 - step.beta_2);
    *first
}

/// The parameter after the step.
#[inline(always)]
fn moved(step: &AdamStep, parameter: f32, first: f32, second: f32) -> f32 {
    let update = first * step.momentum_scale / (second.sqrt() + step.offset);
    parameter - update * step.learning_rate
}

/// The larger value; NaN if the new value is NaN.
#[inline(always)]
fn larger(largest: f32, new: f32) -> f32 {
    if largest >= new { largest } else { new }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{LENGTHS, numbers, on_any_thread_count};

    /// The textbook's algorithm in `f64`, on one element.
    #[derive(Clone, Copy, Default)]
    struct Textbook {
        first: f64,
        second: f64,
        largest: f64,
    }

    const LEARNING_RATE: f64 = 0.01;
    const BETA_1: f64 = 0.9;
    const BETA_2: f64 = 0.99;
    const EPSILON: f64 = 1e-5;

    impl Textbook {
        fn step(
            &mut self,
            parameter: f64,
            gradient: f64,
            decay: f64,
            amsgrad: bool,
            time: i32,
        ) -> f64 {
            let gradient = gradient + decay * parameter;
            self.first = BETA_1 * self.first + (1.0 - BETA_1) * gradient;
            self.second = BETA_2 * self.second + (1.0 - BETA_2) * gradient * gradient;
            self.largest = self.largest.max(self.second);
            let second = if amsgrad { self.largest } else { self.second };
            let first_hat = self.first / (1.0 - BETA_1.powi(time));
            let second_hat = second / (1.0 - BETA_2.powi(time));
            // Burn adds ε after the bias correction of v, as the paper does.
            parameter - LEARNING_RATE * first_hat / (second_hat.sqrt() + EPSILON)
        }
    }

    fn run(length: usize, decay: Option<f32>, amsgrad: bool) -> Vec<f32> {
        on_any_thread_count(|| {
            let mut parameter = numbers(1, length);
            let mut state = vec![0.0; 3 * length];
            let (first, rest) = state.split_at_mut(length);
            let (second, largest) = rest.split_at_mut(length);
            for time in 1..=5 {
                let step = AdamStep::new(
                    LEARNING_RATE,
                    BETA_1 as f32,
                    BETA_2 as f32,
                    EPSILON as f32,
                    decay,
                    time,
                );
                let mut gradient = numbers(10 + time as u64, length);
                let moments = AdamMoments {
                    first: &mut *first,
                    second: &mut *second,
                    largest_second: amsgrad.then_some(&mut *largest),
                };
                adam_step(&step, &parameter, &mut gradient, moments);
                parameter = gradient;
            }
            parameter
        })
    }

    #[test]
    fn steps_are_those_of_the_textbook() {
        for length in LENGTHS {
            for (decay, amsgrad) in [(None, false), (Some(0.1), false), (Some(0.1), true)] {
                let result = run(length, decay, amsgrad);
                let mut state = vec![Textbook::default(); length];
                let mut expected: Vec<f64> =
                    numbers(1, length).into_iter().map(f64::from).collect();
                for time in 1..=5 {
                    let gradient = numbers(10 + time as u64, length);
                    for i in 0..length {
                        let decay = f64::from(decay.unwrap_or(0.0));
                        expected[i] =
                            state[i].step(expected[i], gradient[i].into(), decay, amsgrad, time);
                    }
                }
                for (result, expected) in result.iter().zip(expected) {
                    // Five updates of at most η·√10 each, in f32; v̂ in f32 loses 1 − β₂ᵗ digits.
                    assert!((f64::from(*result) - expected).abs() < 1e-5 * LEARNING_RATE * 50.0);
                }
            }
        }
    }

    #[test]
    fn the_largest_second_moment_is_kept() {
        let step = AdamStep::new(0.1, 0.9, 0.5, 1e-8, None, 1);
        let mut largest = [10.0, 0.0];
        let moments = AdamMoments {
            first: &mut [0.0; 2],
            second: &mut [0.0; 2],
            largest_second: Some(&mut largest),
        };
        adam_step(&step, &[0.0; 2], &mut [2.0; 2], moments);
        assert_eq!(largest, [10.0, 2.0]);
    }
}
