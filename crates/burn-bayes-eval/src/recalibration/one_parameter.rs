//! The minimum of the mean NLL of mixtures over one parameter u, the logarithm of a scale.
//!
//!   NLL(u)  = −mean_r ln (1/S) Σ_s exp ℓ_sr(u)
//!   NLL′(u) = −mean_r Σ_s w_sr ℓ′_sr,     w_sr ∝ exp ℓ_sr the responsibility of draw s for row r
//!   NLL″(u) = −mean_r [ Σ_s w_sr (ℓ″_sr + ℓ′_sr²) − (Σ_s w_sr ℓ′_sr)² ]
//!
//! The NLL of one draw has a single minimum, but that of a mixture may have several. The search evaluates a grid over
//! the whole interval, which contains u = 0 (no change), and Newton's method finds the minimum beside the best point.

use crate::Bounded;
use crate::special::roots::newton;

/// A value with its first two derivatives by u.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Derivatives {
    pub(super) value: f64,
    pub(super) first: f64,
    pub(super) second: f64,
}

/// Number of points of the grid on each side of 0.
const POINTS: i32 = 8;

/// The u in [−limit, limit] with the lowest NLL, the mean of the costs of the rows.
pub(super) fn lowest(limit: f64, rows: usize, cost: impl Fn(usize, f64) -> Derivatives) -> f64 {
    let nll = |u: f64| mean((0..rows).map(|row| cost(row, u)));
    let step = limit / f64::from(POINTS);
    let grid = (-POINTS..=POINTS).map(|index| {
        let u = f64::from(index) * step;
        (u, nll(u))
    });
    // Of equal values, that with the smallest change.
    let better = |a: &(f64, Derivatives), b: &(f64, Derivatives)| {
        let by_value = a.1.value.total_cmp(&b.1.value);
        by_value.then(a.0.abs().total_cmp(&b.0.abs()))
    };
    let Some((best, at_best)) = grid.min_by(better) else {
        return 0.0;
    };
    let leaves_low = best == -limit && at_best.first >= 0.0;
    let leaves_high = best == limit && at_best.first <= 0.0;
    if leaves_low || leaves_high {
        return best;
    }
    let (low, high) = ((best - step).at_least(-limit), (best + step).at_most(limit));
    let slope = |u: f64| {
        let found = nll(u);
        (found.first, found.second)
    };
    let found = newton(low, high, best, 1.0, slope);
    // Newton's method returns NaN if the NLL is infinite, and may find another minimum.
    match found.is_finite() && nll(found).value <= at_best.value {
        true => found,
        false => best,
    }
}

/// The cost of a row, −ln (1/S) Σ_s exp ℓ_s, from ℓ_s of the draws that give its target a density above zero, out of
/// `draws`.
pub(super) fn cost_of_row(
    draws: usize,
    log_densities: impl Iterator<Item = Derivatives>,
) -> Derivatives {
    // All sums are of ratios to the largest density so far.
    let (mut largest, mut sum, mut first, mut second) = (f64::NEG_INFINITY, 0.0, 0.0, 0.0);
    for found in log_densities.filter(|found| found.value > f64::NEG_INFINITY) {
        if found.value > largest {
            let ratio = (largest - found.value).exp();
            (sum, first, second) = (ratio * sum, ratio * first, ratio * second);
            largest = found.value;
        }
        let weight = (found.value - largest).exp();
        sum += weight;
        first += weight * found.first;
        second += weight * (found.second + found.first * found.first);
    }
    let slope = first / sum;
    Derivatives {
        value: (draws as f64).ln() - largest - sum.ln(),
        first: -slope,
        second: slope * slope - second / sum,
    }
}

fn mean(costs: impl ExactSizeIterator<Item = Derivatives>) -> Derivatives {
    let rows = costs.len() as f64;
    let (mut value, mut first, mut second) = (0.0, 0.0, 0.0);
    for cost in costs {
        value += cost.value / rows;
        first += cost.first / rows;
        second += cost.second / rows;
    }
    Derivatives {
        value,
        first,
        second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of a row of which draw s has the log-density −(u − c_s)²/(2 v).
    fn bumps(centres: &[f64], variance: f64, u: f64) -> Derivatives {
        let density = |centre: &f64| Derivatives {
            value: -(u - centre).powi(2) / (2.0 * variance),
            first: -(u - centre) / variance,
            second: -1.0 / variance,
        };
        cost_of_row(centres.len(), centres.iter().map(density))
    }

    #[test]
    fn derivatives_are_those_of_finite_differences() {
        let cost = |u| bumps(&[-0.7, 0.4, 1.3], 0.3, u);
        let step = 1e-4;
        for u in [-1.0, 0.1, 0.45, 2.0] {
            let (below, at, above) = (cost(u - step), cost(u), cost(u + step));
            // The error of central differences is of second order in the step.
            let first = (above.value - below.value) / (2.0 * step);
            let second = (above.first - below.first) / (2.0 * step);
            assert!((first - at.first).abs() < 1e3 * step * step, "{u}: {at:?}");
            assert!(
                (second - at.second).abs() < 1e4 * step * step,
                "{u}: {at:?}"
            );
        }
    }

    #[test]
    fn of_several_minima_the_lowest_is_found() {
        // Two draws at 2.2 outweigh one at −1.1: the local minimum nearer to 0 is not the lowest.
        let cost = |_, u| bumps(&[-1.1, 2.2, 2.2], 0.05, u);
        let found = lowest(4.6, 1, cost);
        assert!((found - 2.2).abs() < 1e-6, "{found}");
    }

    #[test]
    fn without_an_optimum_the_limits_are_returned() {
        let line = |slope: f64| {
            move |_: usize, u: f64| Derivatives {
                value: slope * u,
                first: slope,
                second: 0.0,
            }
        };
        assert_eq!(lowest(3.0, 2, line(1.0)), -3.0);
        assert_eq!(lowest(3.0, 2, line(-1.0)), 3.0);
        assert_eq!(lowest(3.0, 2, line(0.0)), 0.0);
        let nowhere = |_, _| cost_of_row(2, std::iter::empty());
        assert_eq!(lowest(3.0, 2, nowhere), 0.0);
    }
}
