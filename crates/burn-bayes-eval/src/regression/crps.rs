//! The continuous ranked probability score, in closed form.
//!
//!   CRPS(F, y) = ∫ (F(x) − [x ≥ y])² dx = E|Y − y| − ½ E|Y − Y′|,   Y, Y′ ~ F independent.
//!
//! For a Gaussian N(m, σ²) with z = (y − m)/σ:
//!
//!   CRPS = σ ( z (2Φ(z) − 1) + 2φ(z) − 1/√π ).
//!
//! For a mixture of N(m_s, σ_s²), s = 1…S, here equally weighted (with weights, 1/S is w_s):
//!
//!   CRPS = (1/S) Σ_s A(y − m_s, σ_s) − (1/2S²) Σ_s Σ_t A(m_s − m_t, √(σ_s² + σ_t²)),
//!   A(m, σ) = E|N(m, σ²)| = m (2Φ(m/σ) − 1) + 2σ φ(m/σ).
//!
//! The first formula is the second with S = 1 and is computed in this way.
//!
//! For positive targets with mixtures of log-normal distributions, with E_s = exp(m_s + σ_s²/2), z = (ln y − m)/σ and
//! σ_st = √(σ_s² + σ_t²),
//!
//!   E|Y_s − y| = y (2Φ(z) − 1) − E_s (2Φ(z − σ_s) − 1),
//!   E|Y_s − Y_t| = E_s (2Φ((m_s − m_t + σ_s²)/σ_st) − 1) + E_t (2Φ((m_t − m_s + σ_t²)/σ_st) − 1).
//!
//! The CRPS has the unit of the target; for a point prediction it is the absolute error. The double
//! sum costs S² per row. For many draws it is computed as
//!
//!   ½ E|Y − Y′| = ∫ F(x) (1 − F(x)) dx
//!
//! by the trapezoid rule with steps of half the smallest σ_s. The integrand is a convolution with a
//! Gaussian, so the error of the rule is below rounding.
//!
//! References: T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and
//! estimation" (2007); E. P. Grimit et al., "The continuous ranked probability score for circular
//! variables and its application to mesoscale forecast ensemble verification" (2006), for mixtures.

use std::f64::consts::PI;

use crate::Bounded;
use crate::order::mean;
use crate::special::normal;
use crate::views::mixture::{Component, TargetedMixture, average};

/// Mean CRPS of the targets under the mixtures, in the unit of the target; lower is better.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetedMixture, crps};
///
/// // One Gaussian at its own mean: σ (√2 − 1)/√π.
/// let one = GaussianMixture::new(&[3.0], 1, 1, NoisePrecision::Shared(0.25))?;
/// let score = crps(&TargetedMixture::new(&one, &[3.0])?);
/// let expected = 2.0 * (2f64.sqrt() - 1.0) / std::f64::consts::PI.sqrt();
/// assert!((score - expected).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn crps(targeted: &TargetedMixture<'_>) -> f64 {
    mean(&crps_losses(targeted))
}

/// The terms of [`crps`], one per row. Never negative; rounding errors below zero are clipped.
pub fn crps_losses(targeted: &TargetedMixture<'_>) -> Vec<f64> {
    let mixture = targeted.mixture();
    let rows = targeted.targets().iter().enumerate();
    rows.map(|(row, &target)| {
        let components: Vec<Component> = mixture.components(row).collect();
        match mixture.is_of_logarithms() {
            true => log_normal_loss(&components, target),
            false => loss(&components, target),
        }
    })
    .collect()
}

fn loss(components: &[Component], target: f64) -> f64 {
    let all = components.iter().copied();
    let distance = average(all, |c| absolute_moment(target - c.mean, c.deviation));
    (distance - half_distance(components)).at_least(0.0)
}

/// The same of log-normal distributions.
///
/// The means E_s cancel in the difference of E|Y − y| and ½ E|Y − Y′|. For wide distributions they exceed it by far, and are left
/// out: 2Φ(u) − 1 is 2Φ(u) in the first, and −2Φ(−u) in the second.
fn log_normal_loss(components: &[Component], target: f64) -> f64 {
    let is_wide = components.iter().any(|c| c.deviation > 1.0);
    let of_target = |u: f64| match is_wide {
        true => 2.0 * normal::cumulative(u),
        false => normal::central(u),
    };
    let of_pair = |u: f64| match is_wide {
        true => -2.0 * normal::cumulative(-u),
        false => normal::central(u),
    };
    let means = components.iter().map(|c| c.mean_of_exponential());
    let means: Vec<f64> = means.collect();
    let distance = |(c, mean): (&Component, &f64)| {
        c.weight
            * match target > 0.0 {
                true => {
                    let z = c.standardised(target.ln());
                    target * normal::central(z) - mean * of_target(z - c.deviation)
                }
                false => -mean * of_target(f64::NEG_INFINITY) - target,
            }
    };
    let distance: f64 = components.iter().zip(&means).map(distance).sum();
    let mut half = 0.0;
    for (index, first) in components.iter().enumerate() {
        let itself = of_pair(std::f64::consts::FRAC_1_SQRT_2 * first.deviation);
        half += first.weight * first.weight * means[index] * itself;
        for (second, other) in components[..index].iter().zip(&means) {
            let deviation = first.deviation.hypot(second.deviation);
            let part = |mean: f64, from: &Component, to: &Component| {
                let offset = from.mean - to.mean + from.deviation * from.deviation;
                mean * of_pair(offset / deviation)
            };
            let both = part(means[index], first, second) + part(*other, second, first);
            half += first.weight * second.weight * both;
        }
    }
    let draws = total(components);
    (distance / draws - half / (draws * draws)).at_least(0.0)
}

/// ½ E|Y − Y′|.
fn half_distance(components: &[Component]) -> f64 {
    let ends = components.iter().map(|c| {
        let reach = REACH * c.deviation;
        [c.mean - reach, c.mean + reach]
    });
    let [low, high] = ends.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], end| {
        [low.at_most(end[0]), high.at_least(end[1])]
    });
    let deviations = components.iter().map(|c| c.deviation);
    let step = 0.5 * deviations.fold(f64::INFINITY, f64::at_most);
    let steps = ((high - low) / step).ceil();
    // A step evaluates Φ twice per component, a pair Φ and φ once.
    match 2.0 * steps < 0.5 * components.len() as f64 {
        true => {
            step * (0..=steps as usize)
                .map(|at| overlap(components, low + at as f64 * step))
                .sum::<f64>()
        }
        false => pairs(components),
    }
}

/// Number of standard deviations beyond which F(1 − F) is negligible in its integral.
const REACH: f64 = 9.0;

/// F(x) (1 − F(x)).
fn overlap(components: &[Component], x: f64) -> f64 {
    let all = components.iter().copied();
    let below = average(all.clone(), |c| normal::cumulative(c.standardised(x)));
    below * average(all, |c| normal::cumulative(-c.standardised(x)))
}

/// Half the double sum: the diagonal terms are ½A(0, √2 σ) = σ/√π, and every other pair occurs
/// twice.
fn pairs(components: &[Component]) -> f64 {
    let mut sum = 0.0;
    for (index, first) in components.iter().enumerate() {
        sum += first.weight * first.weight * first.deviation / PI.sqrt();
        for second in &components[..index] {
            let deviation = first.deviation.hypot(second.deviation);
            let distance = absolute_moment(first.mean - second.mean, deviation);
            sum += first.weight * second.weight * distance;
        }
    }
    let draws = total(components);
    sum / (draws * draws)
}

/// The sum of the weights.
fn total(components: &[Component]) -> f64 {
    components.iter().map(|c| c.weight).sum()
}

/// E|X| of X ~ N(mean, deviation²).
fn absolute_moment(mean: f64, deviation: f64) -> f64 {
    let z = mean / deviation;
    mean * normal::central(z) + deviation * (2.0 * normal::density(z))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GaussianMixture, NoisePrecision};

    fn of_gaussian(mean: f64, deviation: f64, target: f64) -> f64 {
        let one = Component {
            mean,
            deviation,
            weight: 1.0,
        };
        loss(&[one], target)
    }

    #[test]
    fn a_far_target_costs_its_distance_less_the_spread() {
        let score = of_gaussian(0.0, 1.0, 50.0);
        assert!((score - (50.0 - PI.sqrt().recip())).abs() < 50.0 * 4.0 * f64::EPSILON);
    }

    #[test]
    fn scales_that_differ_by_the_whole_range_overflow_nowhere() {
        // Practically a point mass, and a standard deviation near the smallest normal number.
        assert_eq!(of_gaussian(0.0, 1e-300, 1e10), 1e10);
        let noise = NoisePrecision::Shared(1e300);
        let mixture = GaussianMixture::new(&[0.0], 1, 1, noise).unwrap();
        let targets = [1e200];
        let score = crps(&TargetedMixture::new(&mixture, &targets).unwrap());
        assert_eq!(score, 1e200);
        let widest = of_gaussian(0.0, 1.5e308, 0.0);
        let expected = (2f64.sqrt() - 1.0) / PI.sqrt() * 1.5e308;
        assert!((widest / expected - 1.0).abs() < 16.0 * f64::EPSILON);
    }

    #[test]
    fn the_integral_is_the_double_sum() {
        for (spread, narrowest) in [(0.0, 1.0), (0.5, 0.3), (6.0, 0.5)] {
            let means = crate::uniforms(800, 1);
            let widths = crate::uniforms(800, 2);
            let pair = means.iter().zip(&widths);
            let components: Vec<Component> = pair
                .map(|(mean, width)| Component {
                    mean: 1e3 + spread * mean,
                    deviation: narrowest * (1.0 + width),
                    weight: 1.0,
                })
                .collect();
            let (integral, sum) = (half_distance(&components), pairs(&components));
            assert_ne!(integral, sum, "the integral was not taken");
            assert!(
                (integral / sum - 1.0).abs() < 1e-12,
                "{spread}: {integral} {sum}"
            );
        }
        let far = [0.0, 1e6].map(|mean| Component {
            mean,
            deviation: 1e-6,
            weight: 1.0,
        });
        let many: Vec<Component> = far.iter().copied().cycle().take(800).collect();
        assert_eq!(half_distance(&many), pairs(&many), "too many steps");
    }

    /// CRPS = ∫ (F(x) − [x ≥ y])² dx.
    #[test]
    fn the_score_of_log_normal_distributions_is_the_integral_of_the_definition() {
        let means = [0.1, 0.5, -0.4];
        let precisions = [9.0, 4.0, 2.0];
        let noise = NoisePrecision::PerDraw(&precisions);
        let mixture = GaussianMixture::new(&means, 3, 1, noise).unwrap();
        let mixture = mixture.exponentiated().unwrap();
        for target in [0.3, 1.2, 9.0, -0.5] {
            let targets = [target];
            let score = crps(&TargetedMixture::new(&mixture, &targets).unwrap());
            let below = |x: f64| {
                let parts = means.iter().zip(&precisions);
                let parts = parts.map(|(m, p)| normal::cumulative((x.ln() - m) * p.sqrt()));
                if x > 0.0 {
                    parts.sum::<f64>() / 3.0
                } else {
                    0.0
                }
            };
            // Simpson's rule on both sides of the jump.
            let simpson = |from: f64, to: f64, of: &dyn Fn(f64) -> f64| {
                let step = (to - from) / 20_000.0;
                let at = |place: usize| of(from + step * place as f64);
                let inner = (1..20_000).map(|place| (2 + 2 * (place % 2)) as f64 * at(place));
                step / 3.0 * (at(0) + inner.sum::<f64>() + at(20_000))
            };
            let start = target.at_least(0.0);
            let left = simpson(0.0, start, &|x| below(x).powi(2));
            let right = simpson(start, 60.0, &|x| (1.0 - below(x)).powi(2));
            let expected = left + right + (-target).at_least(0.0);
            assert!(
                (score - expected).abs() < 1e-7,
                "{target}: {score} {expected}"
            );
        }
    }

    #[test]
    fn wide_log_normal_distributions_have_the_score_of_their_formula() {
        // One log-normal distribution: y (2Φ(z) − 1) + 2E (Φ(−σ/√2) − Φ(z − σ)), and for three equal ones the same.
        for deviation in [0.5, 1.5, 6.0, 12.0, 16.0] {
            let component = Component {
                mean: 0.5,
                deviation,
                weight: 1.0,
            };
            let z = -0.5 / deviation;
            let upper = normal::cumulative(-deviation / 2f64.sqrt());
            let difference = upper - normal::cumulative(z - deviation);
            let mean = (0.5 + 0.5 * deviation * deviation).exp();
            let expected = normal::central(z) + 2.0 * mean * difference;
            for count in [1, 3] {
                let found = log_normal_loss(&vec![component; count], 1.0);
                assert!(
                    found > 0.0 && (found / expected - 1.0).abs() < 1e-11,
                    "{deviation} {count}: {found} {expected}"
                );
            }
            // Without a target above 0, it is the mean of the smaller of two draws, less the target.
            let found = log_normal_loss(&[component], -2.0);
            let expected = 2.0 * mean * upper + 2.0;
            assert!((found / expected - 1.0).abs() < 1e-11, "{deviation}");
        }
    }

    #[test]
    fn two_narrow_components_are_two_points() {
        // σ → 0: E|Y − y| − ½ E|Y − Y′| of the points 0 and 4 for y = 1: (1 + 3)/2 − ½·2.
        let precision = NoisePrecision::Shared(1e24);
        let mixture = GaussianMixture::new(&[0.0, 4.0], 2, 1, precision).unwrap();
        let score = crps(&TargetedMixture::new(&mixture, &[1.0]).unwrap());
        assert!((score - 1.0).abs() < 4.0 * 1e-12);
    }

    #[test]
    fn equal_components_are_one() {
        let noise = NoisePrecision::PerDraw(&[0.25, 0.25, 0.25]);
        let mixture = GaussianMixture::new(&[1.0; 3], 3, 1, noise).unwrap();
        let score = crps(&TargetedMixture::new(&mixture, &[2.5]).unwrap());
        let expected = of_gaussian(1.0, 2.0, 2.5);
        assert!((score - expected).abs() < 16.0 * f64::EPSILON);
    }
}
