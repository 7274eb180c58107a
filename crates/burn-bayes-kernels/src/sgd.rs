//! One step of gradient descent on one tensor, in one pass, with Burn's conventions:
//!
//! ```text
//! g ← g + λ p,   v ← (1 − dampening) g + μ v   (v = g at the first step)
//! p ← p − η v,   or with Nesterov's momentum   p ← p − η (μ v + g)
//! ```
//!
//! Sutskever, Martens, Dahl, Hinton (2013), "On the importance of initialization and momentum in
//! deep learning", ICML.

use crate::parallel::{for_each_block, vectorise};

/// The constants of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdStep {
    /// η.
    pub learning_rate: f64,
    /// λ, the L2 penalty; 0 for none.
    pub weight_decay: f32,
}

/// The momentum settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Momentum {
    /// μ.
    pub momentum: f32,
    /// Fraction of the gradient that is not added to the velocity; not applied at the first step.
    pub dampening: f64,
    /// Whether to use Nesterov momentum.
    pub nesterov: bool,
}

/// The velocity of one tensor.
#[derive(Debug)]
pub enum Velocity<'a> {
    /// The first step; previous contents are ignored.
    Start(&'a mut [f32]),
    /// A later step; the contents are updated.
    Continue(&'a mut [f32]),
}

/// Reads `parameter` and the gradient, and writes the new parameter over the gradient.
///
/// # Panics
///
/// If the lengths do not match.
pub fn sgd_step(step: &SgdStep, parameter: &[f32], gradient_then_parameter: &mut [f32]) {
    let length = parameter.len();
    assert_eq!(
        gradient_then_parameter.len(),
        length,
        "the gradient has another length"
    );
    let rate = step.learning_rate as f32;
    let decay = step.weight_decay;
    let task = (parameter, gradient_then_parameter);
    for_each_block(task, length, 2 * length, &|_, (parameter, gradient)| {
        vectorise(
            #[inline(always)]
            || {
                for (parameter, gradient) in parameter.iter().zip(gradient.iter_mut()) {
                    *gradient = parameter - (parameter * decay + *gradient) * rate;
                }
            },
        );
    });
}

/// [`sgd_step`] with momentum.
///
/// # Panics
///
/// If the lengths do not match.
pub fn sgd_momentum_step(
    step: &SgdStep,
    momentum: &Momentum,
    parameter: &[f32],
    gradient_then_parameter: &mut [f32],
    velocity: Velocity<'_>,
) {
    let length = parameter.len();
    let (Velocity::Start(found) | Velocity::Continue(found)) = &velocity;
    assert_eq!(found.len(), length, "the velocity has another length");
    assert_eq!(
        gradient_then_parameter.len(),
        length,
        "the gradient has another length"
    );
    // At the first step the velocity is the gradient; the contents of the buffer are ignored.
    let (velocity, keep, take) = match velocity {
        Velocity::Start(velocity) => {
            velocity.fill(0.0);
            (velocity, 0.0, 1.0)
        }
        Velocity::Continue(velocity) => (
            velocity,
            momentum.momentum,
            (1.0 - momentum.dampening) as f32,
        ),
    };
    let rate = step.learning_rate as f32;
    let decay = step.weight_decay;
    let task = (parameter, gradient_then_parameter, velocity);
    for_each_block(task, length, 3 * length, &|_,
                                               (
        parameter,
        gradient,
        velocity,
    )| {
        vectorise(
            #[inline(always)]
            || {
                let length = parameter.len();
                let (gradient, velocity) = (&mut gradient[..length], &mut velocity[..length]);
                for i in 0..length {
                    let decayed = parameter[i] * decay + gradient[i];
                    velocity[i] = decayed * take + velocity[i] * keep;
                    gradient[i] = if momentum.nesterov {
                        parameter[i] - (velocity[i] * momentum.momentum + decayed) * rate
                    } else {
                        parameter[i] - velocity[i] * rate
                    };
                }
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{LENGTHS, numbers, on_any_thread_count};

    const STEP: SgdStep = SgdStep {
        learning_rate: 0.1,
        weight_decay: 0.01,
    };

    #[test]
    fn plain_steps_are_a_loop() {
        for length in LENGTHS {
            let (parameter, gradient) = (numbers(1, length), numbers(2, length));
            let result = on_any_thread_count(|| {
                let mut out = gradient.clone();
                sgd_step(&STEP, &parameter, &mut out);
                out
            });
            for i in 0..length {
                assert_eq!(
                    result[i],
                    parameter[i] - 0.1 * (gradient[i] + 0.01 * parameter[i])
                );
            }
        }
    }

    #[test]
    fn momentum_steps_are_a_loop() {
        for length in LENGTHS {
            for nesterov in [false, true] {
                let momentum = Momentum {
                    momentum: 0.9,
                    dampening: 0.1,
                    nesterov,
                };
                let result = on_any_thread_count(|| {
                    let mut parameter = numbers(1, length);
                    let mut velocity = vec![f32::NAN; length];
                    for time in 0..4 {
                        let mut gradient = numbers(5 + time, length);
                        let velocity = if time == 0 {
                            Velocity::Start(&mut velocity)
                        } else {
                            Velocity::Continue(&mut velocity)
                        };
                        sgd_momentum_step(&STEP, &momentum, &parameter, &mut gradient, velocity);
                        parameter = gradient;
                    }
                    parameter
                });
                let mut expected: Vec<f64> =
                    numbers(1, length).into_iter().map(f64::from).collect();
                let mut velocity = vec![0.0; length];
                for time in 0..4 {
                    for (i, gradient) in numbers(5 + time, length).into_iter().enumerate() {
                        let gradient = f64::from(gradient) + 0.01 * expected[i];
                        velocity[i] = if time == 0 {
                            gradient
                        } else {
                            0.9 * gradient + 0.9 * velocity[i]
                        };
                        let update = if nesterov {
                            0.9 * velocity[i] + gradient
                        } else {
                            velocity[i]
                        };
                        expected[i] -= 0.1 * update;
                    }
                }
                for (result, expected) in result.iter().zip(expected) {
                    // Four steps of values below 5, each rounded a few times.
                    assert!((f64::from(*result) - expected).abs() < 20.0 * 2.0 * 6e-8);
                }
            }
        }
    }
}
