//! Tails of the binomial distribution, and confidence limits of its probability.
//!
//!   P(X ≤ k) = I_{1−p}(n − k, k + 1)   for k of n trials with probability p
//!
//! The Clopper–Pearson limits at a tail δ are the p with P(X ≤ k) = δ (upper) and P(X ≥ k) = δ
//! (lower): each is on the wrong side of the true p with probability at most δ, for every p.
//!
//! If the probability is itself that of a conformal threshold, the r-th smallest of c exchangeable scores, it has the
//! distribution Beta(r, c + 1 − r), and the events are beta-binomial:
//!
//!   P(X = k) = C(r + k − 1, k) C(c − r + n − k, n − k) / C(c + n, n)
//!
//! References: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated
//! in the case of the binomial" (1934); V. Vovk, "Conditional validity of inductive conformal predictors" (2012).

use crate::Bounded;
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

/// P(X ≤ events) for the number of trials below the `rank`-th smallest of `calibration` scores, all exchangeable.
pub(crate) fn conformal_lower_tail(
    events: usize,
    trials: usize,
    rank: usize,
    calibration: usize,
) -> f64 {
    if events >= trials {
        return 1.0;
    }
    let ln_choose = |n: usize, k: usize| {
        let [n, k, others] = [n, k, n - k].map(|count| libm::lgamma(count as f64 + 1.0));
        n - k - others
    };
    let all = ln_choose(calibration + trials, trials);
    let probability = |k: usize| {
        let below = ln_choose(rank + k - 1, k);
        let above = ln_choose(calibration - rank + trials - k, trials - k);
        (below + above - all).exp()
    };
    (0..=events).map(probability).sum::<f64>().at_most(1.0)
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
    fn of_exchangeable_scores_every_order_is_equally_likely() {
        // Of the ten orders of three calibration scores and two others, 1, 3 and 6 have none, one and both of the others
        // below the third calibration score.
        for (events, expected) in [(0, 0.1), (1, 0.4), (2, 1.0)] {
            let found = conformal_lower_tail(events, 2, 3, 3);
            assert!((found - expected).abs() < 64.0 * f64::EPSILON, "{found}");
        }
        // With many calibration scores the threshold is known: the difference is of the order of 20/10⁷.
        let found = conformal_lower_tail(15, 20, 9_000_000, 9_999_999);
        assert!((found - lower_tail(15, 20, 0.9)).abs() < 1e-5, "{found}");
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
