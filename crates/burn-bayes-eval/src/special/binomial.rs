//! Tails of the binomial distribution, and confidence limits of its probability.
//!
//!   P(X ≤ k) = I_{1−p}(n − k, k + 1)   for k of n trials with probability p
//!
//! The Clopper–Pearson limits at a tail δ are the p with P(X ≤ k) = δ (upper) and P(X ≥ k) = δ
//! (lower): each is on the wrong side of the true p with probability at most δ, for every p.
//!
//! Reference: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated
//! in the case of the binomial" (1934).

use crate::special::beta;
use crate::special::roots::bisect;

/// P(X ≤ events).
pub(crate) fn lower_tail(events: usize, trials: usize, probability: f64) -> f64 {
    if events >= trials {
        return 1.0;
    }
    beta::regularised(
        (trials - events) as f64,
        events as f64 + 1.0,
        1.0 - probability,
    )
}

/// The upper Clopper–Pearson limit of the probability.
pub(crate) fn upper_limit(events: usize, trials: usize, tail: f64) -> f64 {
    if events >= trials {
        return 1.0;
    }
    let observed = events as f64 / trials as f64;
    bisect(observed, 1.0, 0.0, |p| lower_tail(events, trials, p) > tail)
}

/// The lower Clopper–Pearson limit: one minus the upper limit of the complementary event.
pub(crate) fn lower_limit(events: usize, trials: usize, tail: f64) -> f64 {
    1.0 - upper_limit(trials - events, trials, tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_sums() {
        // Four fair trials: 1, 4, 6, 4, 1 of 16.
        for (events, expected) in [(0, 1.0), (1, 5.0), (2, 11.0), (3, 15.0), (4, 16.0)] {
            let found = lower_tail(events, 4, 0.5);
            assert!((found - expected / 16.0).abs() < 32.0 * f64::EPSILON);
        }
    }

    #[test]
    fn without_events_the_limits_have_a_closed_form() {
        // (1 − p)ⁿ = δ.
        let expected = 1.0 - 0.05_f64.powf(0.1);
        assert!((upper_limit(0, 10, 0.05) - expected).abs() < 32.0 * f64::EPSILON);
        assert!((lower_limit(10, 10, 0.05) - (1.0 - expected)).abs() < 32.0 * f64::EPSILON);
        assert_eq!(
            (lower_limit(0, 10, 0.05), upper_limit(10, 10, 0.05)),
            (0.0, 1.0)
        );
        assert_eq!(
            (lower_limit(0, 0, 0.05), upper_limit(0, 0, 0.05)),
            (0.0, 1.0)
        );
    }
}
