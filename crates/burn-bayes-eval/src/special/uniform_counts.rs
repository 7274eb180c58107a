//! Simultaneous bounds of the cumulative counts of independent uniform numbers, and the test of
//! uniformity that they give. Both are exact for discrete numbers.
//!
//! n numbers are uniform on T cells 0 … T − 1. Their counts N_k = #{i : number_i < t_k} at thresholds
//! t₁ < … < t_K are Binomial(n, t_k/T). The pointwise tail of a count r and the bounds at γ are
//!
//!   γ_k(r) = 2 min( P(N_k ≤ r), P(N_k ≥ r) ),     bounds at γ: the r with γ_k(r) > γ
//!
//! The probability that all counts are inside their bounds follows from a recursion over the
//! thresholds. The counts are those of a Poisson process with n expected points, given that it has
//! n points, so with λ_k = n (t_k − t_{k−1})/T, t₀ = 0, t_{K+1} = T:
//!
//!   a_k(r) = Σ_l a_{k−1}(l) Pois(r − l; λ_k)  for r inside the bounds,   coverage = a_{K+1}(n)/Pois(n; n)
//!
//! All terms are positive, so nothing cancels. The test's statistic is min_k γ_k(N_k), with the
//! p-value 1 − coverage of the bounds at its value.
//!
//! References: T. Säilynoja, P.-C. Bürkner and A. Vehtari, "Graphical test for discrete uniformity and
//! its applications in goodness-of-fit evaluation and multiple sample comparison" (2022), for the
//! bounds; they use the binomial distribution of N_k given N_{k−1} in the recursion. A. Moscovich and
//! B. Nadler, "Fast calculation of boundary crossing probabilities for Poisson processes" (2017).

use std::iter::once;

use crate::Bounded;
use crate::special::binomial;
use crate::special::poisson;
use crate::special::roots::bisect;

/// The counts of n uniform numbers at thresholds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UniformCounts {
    numbers: usize,
    cells: usize,
    /// Increasing, between 1 and `cells` − 1.
    thresholds: Vec<usize>,
}

/// The smallest and the largest count inside; none is inside if the first is above the second.
pub(crate) type Bounds = (usize, usize);

impl UniformCounts {
    /// With a threshold between any two cells, or with `MOST_THRESHOLDS` evenly spaced ones.
    pub(crate) fn new(numbers: usize, cells: usize) -> Self {
        let thresholds = (cells - 1).min(MOST_THRESHOLDS);
        Self {
            numbers,
            cells,
            thresholds: (1..=thresholds)
                .map(|index| index * cells / (thresholds + 1))
                .collect(),
        }
    }

    pub(crate) fn thresholds(&self) -> &[usize] {
        &self.thresholds
    }

    /// Bounds whose coverage is at least `level`: those at the largest such γ, to 0.2 %.
    pub(crate) fn bounds_at_level(&self, level: f64) -> Vec<Bounds> {
        // Bonferroni: 1 − coverage is at most Kγ.
        let safe = ((1.0 - level) / self.thresholds.len() as f64).ln();
        let resolution = 1e-3;
        let log_tail = bisect(safe, 0.0, resolution, |log_tail| {
            self.coverage(&self.bounds_at_tail(log_tail.exp())) >= level
        });
        self.bounds_at_tail((log_tail - resolution).exp())
    }

    /// The p-value of the hypothesis that counts at the thresholds come from uniform numbers.
    pub(crate) fn p_value(&self, counts: &[usize]) -> f64 {
        let tails = self
            .thresholds
            .iter()
            .zip(counts)
            .map(|(&threshold, &count)| {
                let lower = self.lower_tail(threshold, count);
                2.0 * lower.at_most(self.upper_tail(threshold, count))
            });
        let smallest = tails.fold(2.0, f64::at_most);
        // Equal tails at mirrored thresholds may differ by rounding.
        let bounds = self.bounds_at_tail(smallest * (1.0 + 1e-9));
        // The observed tail itself, and Bonferroni; they keep tiny p-values above rounding.
        let most = (self.thresholds.len() as f64 * smallest).at_most(1.0);
        (1.0 - self.coverage(&bounds)).clamp(0.5 * smallest, most)
    }

    fn bounds_at_tail(&self, tail: f64) -> Vec<Bounds> {
        // Both bounds increase with the threshold.
        let mut count = 0;
        let lower = self.thresholds.iter().map(|&threshold| {
            while 2.0 * self.lower_tail(threshold, count) <= tail {
                count += 1;
            }
            count
        });
        let lower: Vec<usize> = lower.collect();
        let mut count = self.numbers;
        let upper = self.thresholds.iter().rev().map(|&threshold| {
            while 2.0 * self.upper_tail(threshold, count) <= tail {
                count -= 1;
            }
            count
        });
        let upper: Vec<usize> = upper.collect();
        lower.into_iter().zip(upper.into_iter().rev()).collect()
    }

    /// P(N ≤ count) below a threshold.
    fn lower_tail(&self, threshold: usize, count: usize) -> f64 {
        let probability = threshold as f64 / self.cells as f64;
        binomial::lower_tail(count, self.numbers, probability)
    }

    /// P(N ≥ count) below a threshold.
    fn upper_tail(&self, threshold: usize, count: usize) -> f64 {
        self.lower_tail(self.cells - threshold, self.numbers - count)
    }

    /// The probability that all counts are inside their bounds.
    pub(crate) fn coverage(&self, bounds: &[Bounds]) -> f64 {
        let numbers = self.numbers as f64;
        let steps = self.thresholds.iter().copied().zip(bounds.iter().copied());
        let end = (self.cells, (self.numbers, self.numbers));
        let mut increments = Increments::new(0.0);
        let (mut threshold, mut step) = (0, 0);
        // Of the counts from `least` on.
        let (mut inside, mut least) = (vec![1.0], 0);
        for (next, (lower, upper)) in steps.chain(once(end)) {
            if next - threshold != step {
                step = next - threshold;
                increments = Increments::new(numbers * step as f64 / self.cells as f64);
            }
            inside = (lower..=upper)
                .map(|count| increments.probability(count, &inside, least))
                .collect();
            (threshold, least) = (next, lower);
        }
        (inside[0] / poisson(self.numbers, numbers)).at_most(1.0)
    }
}

/// More thresholds add cost and hardly any power.
const MOST_THRESHOLDS: usize = 1000;

/// The probabilities of the increments of a Poisson process in one step.
#[derive(Debug)]
struct Increments {
    smallest: usize,
    probabilities: Vec<f64>,
}

impl Increments {
    /// Without increments whose total probability is below 10⁻³⁰ (Bernstein's inequality).
    fn new(expected: f64) -> Self {
        let width = 12.0 * expected.sqrt();
        let smallest = (expected - width).max(0.0) as usize;
        let largest = (expected + width + 40.0) as usize;
        Self {
            smallest,
            probabilities: (smallest..=largest)
                .map(|increment| poisson(increment, expected))
                .collect(),
        }
    }

    /// The probability of `count` given the counts from `least` on, with these
    /// probabilities.
    fn probability(&self, count: usize, from: &[f64], least: usize) -> f64 {
        let largest = self.smallest + self.probabilities.len() - 1;
        let first = least.max(count.saturating_sub(largest));
        let end = (least + from.len()).min((count + 1).saturating_sub(self.smallest));
        let terms = (first..end)
            .map(|start| from[start - least] * self.probabilities[count - start - self.smallest]);
        terms.sum()
    }
}

/// P(Y = k) of a Poisson distribution with rate λ > 0.
fn poisson(number: usize, expected: f64) -> f64 {
    poisson::log_mass(number as f64, expected).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    /// Counts at the thresholds of numbers in cells.
    fn counts(uniform: &UniformCounts, numbers: &[usize]) -> Vec<usize> {
        let below = |threshold: &usize| numbers.iter().filter(|cell| *cell < threshold).count();
        uniform.thresholds().iter().map(below).collect()
    }

    fn is_inside(counts: &[usize], bounds: &[Bounds]) -> bool {
        let mut pairs = counts.iter().zip(bounds);
        pairs.all(|(count, (lower, upper))| lower <= count && count <= upper)
    }

    /// All outcomes of n numbers in T cells.
    fn outcomes(numbers: usize, cells: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..cells.pow(numbers as u32)).map(move |mut code| {
            let digit = |_| {
                let digit = code % cells;
                code /= cells;
                digit
            };
            (0..numbers).map(digit).collect()
        })
    }

    #[test]
    fn coverage_is_the_fraction_of_all_outcomes() {
        for (numbers, cells) in [(1, 2), (3, 5), (5, 4), (6, 3)] {
            let uniform = UniformCounts::new(numbers, cells);
            let total = cells.pow(numbers as u32) as f64;
            for level in [0.1, 0.5, 0.8, 0.95, 0.999] {
                let bounds = uniform.bounds_at_level(level);
                let inside = outcomes(numbers, cells)
                    .filter(|outcome| is_inside(&counts(&uniform, outcome), &bounds))
                    .count();
                let coverage = uniform.coverage(&bounds);
                assert!((coverage - inside as f64 / total).abs() < 1e-13);
                assert!(coverage >= level - 1e-13, "{coverage} at {level}");
            }
        }
    }

    /// The p-value of an outcome is the probability of a p-value that is at most as large.
    #[test]
    fn p_values_are_exact() {
        for (numbers, cells) in [(1, 2), (3, 5), (5, 4), (6, 3)] {
            let uniform = UniformCounts::new(numbers, cells);
            let mut p_values: Vec<f64> = outcomes(numbers, cells)
                .map(|outcome| uniform.p_value(&counts(&uniform, &outcome)))
                .collect();
            p_values.sort_by(f64::total_cmp);
            let total = p_values.len();
            for &p_value in &p_values {
                let as_small = p_values.partition_point(|other| *other <= p_value + 1e-9);
                let expected = as_small as f64 / total as f64;
                assert!((p_value - expected).abs() < 1e-12, "{p_value} {expected}");
            }
        }
    }

    #[test]
    fn coverage_agrees_with_simulation() {
        // Few wide steps, many narrow steps, and more cells than thresholds.
        for (numbers, cells) in [(2000, 4), (300, 101), (50, 2500)] {
            let uniform = UniformCounts::new(numbers, cells);
            let bounds = uniform.bounds_at_level(0.9);
            let coverage = uniform.coverage(&bounds);
            assert!((0.9..0.95).contains(&coverage), "{coverage}");
            let repetitions = 1000;
            let mut inside = 0;
            for sample in uniforms(numbers * repetitions, 4).chunks(numbers) {
                let mut cells: Vec<usize> = sample
                    .iter()
                    .map(|number| (number * cells as f64) as usize)
                    .collect();
                cells.sort_unstable();
                let below = |threshold: &usize| cells.partition_point(|cell| cell < threshold);
                let counts: Vec<usize> = uniform.thresholds().iter().map(below).collect();
                inside += usize::from(is_inside(&counts, &bounds));
            }
            let found = inside as f64 / repetitions as f64;
            // Five standard errors.
            let error = (coverage * (1.0 - coverage) / repetitions as f64).sqrt();
            assert!((found - coverage).abs() < 5.0 * error, "{found} {coverage}");
        }
    }

    #[test]
    fn tiny_p_values_are_above_zero() {
        let uniform = UniformCounts::new(100, 11);
        let p_value = uniform.p_value(&[100; 10]);
        // All in the first cell: 11⁻¹⁰⁰, and ten such tails at most.
        let single = 11f64.powi(-100);
        assert!(
            p_value >= 0.999 * single && p_value < 21.0 * single,
            "{p_value:e}"
        );
        assert_eq!(UniformCounts::new(4, 2).p_value(&[2]), 1.0);
    }
}
