//! Predictions of counts by several draws: one mixture of Poisson distributions per row.
//!
//!   p(y | row r) = (1/S) Σ_s e^{−λ_sr} λ_sr^y / y!
//!   mean_r = (1/S) Σ_s λ_sr,   variance_r = mean_r + (1/S) Σ_s (λ_sr − mean_r)²
//!
//! The quantile at p is the smallest count k with F(k) ≥ p, F(k) = (1/S) Σ_s P(Y_s ≤ k). For small rates, the terms of
//! F are summed from 0 by their recursion; for larger ones, k is found by bisection.

use std::borrow::Cow;

use crate::Bounded;
use crate::PredictionIntervals;
use crate::check;
use crate::error::{EvalError, Place};
use crate::order::mean;
use crate::special::poisson;

/// The largest rate: counts up to a few times as many are exact in double precision.
const LARGEST: f64 = 1e15;
/// Up to this rate, e^{−λ} does not underflow, and sums from 0 are short.
const SUMMED: f64 = 500.0;

/// Mixtures of Poisson distributions, one per row, with one component per draw.
///
/// ```
/// use burn_bayes_eval::PoissonMixture;
///
/// // Two draws of the rate of one row.
/// let mixture = PoissonMixture::new(&[1.0, 3.0], 2, 1)?;
/// assert_eq!(mixture.mean(), [2.0]);
/// assert_eq!(mixture.variance(), [3.0]); // 2 of the counts and 1 between the draws
/// assert_eq!(mixture.quantiles(0.5)?, [2.0]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PoissonMixture<'a> {
    rates: Cow<'a, [f64]>,
    draws: usize,
    rows: usize,
}

impl<'a> PoissonMixture<'a> {
    /// Checks `rates` (borrowed or owned) as `draws` predictions of `rows` rows, `[draws × rows]`, row-major.
    ///
    /// # Errors
    /// A data error if the length does not fit, or a rate is NaN, negative or above 10¹⁵.
    pub fn new(
        rates: impl Into<Cow<'a, [f64]>>,
        draws: usize,
        rows: usize,
    ) -> Result<Self, EvalError> {
        let rates = rates.into();
        check::shape("rates", rates.len(), &[("draws", draws), ("rows", rows)])?;
        if let Some(index) = rates
            .iter()
            .position(|rate| !(0.0..=LARGEST).contains(rate))
        {
            return Err(EvalError::data(
                "rates",
                Place::draw(index / rows).at_row(index % rows),
                rates[index],
                format!("a number from 0 to {LARGEST:e}"),
                "log rates instead of rates, or a diverged model",
            ));
        }
        Ok(Self { rates, draws, rows })
    }

    /// The number of draws.
    pub fn draws(&self) -> usize {
        self.draws
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The mean of each row's mixture.
    pub fn mean(&self) -> Vec<f64> {
        self.map(mean)
    }

    /// The variance of each row's mixture: the mean plus the variance between draws.
    pub fn variance(&self) -> Vec<f64> {
        self.map(|rates| mean(rates) + variance(rates))
    }

    /// The population variance of the draws' rates.
    pub fn variance_between_draws(&self) -> Vec<f64> {
        self.map(variance)
    }

    /// The quantile of each row's mixture at one probability: a whole number.
    ///
    /// # Errors
    /// A config error if the probability is not strictly between 0 and 1.
    pub fn quantiles(&self, probability: f64) -> Result<Vec<f64>, EvalError> {
        check::open_unit("probability", probability)?;
        Ok(self.map(|rates| quantile(rates, probability)))
    }

    /// The intervals between the quantiles at (1 − ℓ)/2 and (1 + ℓ)/2, including both. Counts are whole, so the
    /// probability of an interval is at least ℓ; [`interval_probabilities`](Self::interval_probabilities) has it.
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1.
    pub fn central_intervals(&self, level: f64) -> Result<PredictionIntervals<'static>, EvalError> {
        check::open_unit("level", level)?;
        let lower = self.quantiles(0.5 * (1.0 - level))?;
        let upper = self.quantiles(0.5 * (1.0 + level))?;
        PredictionIntervals::new(lower, upper)
    }

    /// The probability of each row's interval under its mixture: the coverage to expect of it.
    ///
    /// # Errors
    /// A data error if there is not one interval per row.
    pub fn interval_probabilities(
        &self,
        intervals: &PredictionIntervals<'_>,
    ) -> Result<Vec<f64>, EvalError> {
        check::same_length("intervals", intervals.lower().len(), self.rows)?;
        let limits = intervals.lower().iter().zip(intervals.upper());
        let inside = |(rates, (lower, upper)): (Vec<f64>, (&f64, &f64))| {
            cumulative(&rates, upper.floor()) - cumulative(&rates, lower.ceil() - 1.0)
        };
        Ok(self.rates_of_rows().zip(limits).map(inside).collect())
    }

    /// The rates of every row, in draw order.
    pub(crate) fn rates_of_rows(&self) -> impl Iterator<Item = Vec<f64>> {
        (0..self.rows).map(|row| {
            let rates = self.rates.iter().skip(row).step_by(self.rows);
            rates.copied().collect()
        })
    }

    fn map(&self, value: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        self.rates_of_rows().map(|rates| value(&rates)).collect()
    }
}

/// Mixtures together with the count of each row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetedCounts<'a> {
    mixture: &'a PoissonMixture<'a>,
    counts: &'a [f64],
}

impl<'a> TargetedCounts<'a> {
    /// Pairs mixtures with one count per row.
    ///
    /// ```
    /// use burn_bayes_eval::{PoissonMixture, TargetedCounts};
    ///
    /// let mixture = PoissonMixture::new(&[1.0, 3.0], 1, 2)?;
    /// assert!(TargetedCounts::new(&mixture, &[0.0, 4.0]).is_ok());
    /// assert_eq!(TargetedCounts::new(&mixture, &[0.0, 1.5]).unwrap_err().row(), Some(1));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if the lengths differ, or a count is not a whole number from 0 to 10¹⁵.
    pub fn new(mixture: &'a PoissonMixture<'a>, counts: &'a [f64]) -> Result<Self, EvalError> {
        check::same_length("counts", counts.len(), mixture.rows)?;
        check_counts(counts)?;
        Ok(Self { mixture, counts })
    }

    /// The mixtures.
    pub fn mixture(&self) -> &'a PoissonMixture<'a> {
        self.mixture
    }

    /// The counts.
    pub fn counts(&self) -> &'a [f64] {
        self.counts
    }
}

/// Fails if a count is not a whole number from 0 to 10¹⁵.
pub(super) fn check_counts(counts: &[f64]) -> Result<(), EvalError> {
    let is_count = |count: &f64| (0.0..=LARGEST).contains(count) && count.fract() == 0.0;
    match counts.iter().position(|count| !is_count(count)) {
        Some(row) => Err(EvalError::data(
            "counts",
            Place::row(row),
            counts[row],
            format!("a whole number from 0 to {LARGEST:e}"),
            "targets that are measured or standardised instead of counted",
        )),
        None => Ok(()),
    }
}

/// F(k) of a mixture.
pub(super) fn cumulative(rates: &[f64], count: f64) -> f64 {
    let draws = rates.iter().map(|&rate| poisson::cumulative(count, rate));
    draws.sum::<f64>() / rates.len() as f64
}

fn variance(rates: &[f64]) -> f64 {
    let centre = mean(rates);
    let squares = rates.iter().map(|rate| (rate - centre).powi(2));
    squares.sum::<f64>() / rates.len() as f64
}

fn quantile(rates: &[f64], probability: f64) -> f64 {
    let largest = rates.iter().copied().fold(0.0, f64::at_least);
    // 1 − F is a difference near 1, which the recursion rounds: its sum may end below the probability.
    match largest <= SUMMED && probability <= 1.0 - 1e-9 {
        true => summed_quantile(rates, probability),
        false => bisected_quantile(rates, largest, probability),
    }
}

/// The smallest k with F(k) ≥ p, from the sum of P(Y_s = 0), P(Y_s = 1), … over draws.
fn summed_quantile(rates: &[f64], probability: f64) -> f64 {
    let wanted = probability * rates.len() as f64;
    let mut terms: Vec<f64> = rates.iter().map(|rate| (-rate).exp()).collect();
    let (mut count, mut sum) = (0.0, terms.iter().sum::<f64>());
    while sum < wanted {
        count += 1.0;
        for (term, rate) in terms.iter_mut().zip(rates) {
            *term *= rate / count;
            sum += *term;
        }
    }
    count
}

/// The same by bisection.
fn bisected_quantile(rates: &[f64], largest: f64, probability: f64) -> f64 {
    // F(below) < p ≤ F(above): beyond 40 standard deviations, the mass of a component is zero.
    let (mut below, mut above) = (-1.0, (largest + 40.0 * largest.sqrt() + 100.0).floor());
    while above - below > 1.0 {
        let middle = (0.5 * (below + above)).floor();
        match cumulative(rates, middle) >= probability {
            true => above = middle,
            false => below = middle,
        }
    }
    above
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    #[test]
    fn both_ways_find_the_quantile_of_the_obvious_loop() {
        for (scale, draws) in [(0.5, 1), (3.0, 7), (80.0, 20), (499.0, 5)] {
            let rates: Vec<f64> = uniforms(draws, 3).iter().map(|u| scale * u).collect();
            let largest = rates.iter().copied().fold(0.0, f64::at_least);
            for probability in [1e-6, 0.025, 0.1, 0.3, 0.5, 0.77, 0.975, 1.0 - 1e-6] {
                let mut expected = 0.0;
                while cumulative(&rates, expected) < probability {
                    expected += 1.0;
                }
                assert_eq!(summed_quantile(&rates, probability), expected);
                assert_eq!(bisected_quantile(&rates, largest, probability), expected);
            }
        }
    }

    #[test]
    fn an_interval_has_at_least_its_probability() {
        let rates: Vec<f64> = uniforms(60, 1).iter().map(|u| 10.0 * u).collect();
        let mixture = PoissonMixture::new(&rates, 6, 10).unwrap();
        for level in [0.5, 0.8, 0.95] {
            let intervals = mixture.central_intervals(level).unwrap();
            let inside = mixture.interval_probabilities(&intervals).unwrap();
            assert!(inside.iter().all(|&mass| (level..=1.0).contains(&mass)));
            // The sum of the probabilities of the counts inside, in every row.
            for (row, rates) in mixture.rates_of_rows().enumerate() {
                let (lower, upper) = (intervals.lower()[row], intervals.upper()[row]);
                let counts = lower as u32..=upper as u32;
                let mass = |count: u32| {
                    let of_draw = |rate: &f64| poisson::log_mass(f64::from(count), *rate).exp();
                    rates.iter().map(of_draw).sum::<f64>() / 6.0
                };
                let expected: f64 = counts.map(mass).sum();
                assert!((inside[row] - expected).abs() < 1e-13);
            }
        }
        assert!(mixture.central_intervals(1.0).unwrap_err().is_config());
    }

    #[test]
    fn large_and_small_rates_have_quantiles() {
        let mixture = PoissonMixture::new(&[0.0, 1e-300, 1e15, 1e9], 1, 4).unwrap();
        let found = mixture.quantiles(0.5).unwrap();
        assert_eq!(found[..2], [0.0, 0.0]);
        // The median of a large Poisson distribution is its rate, within one.
        assert!((found[2] - 1e15).abs() <= 1.0 && (found[3] - 1e9).abs() <= 1.0);
        let sure = mixture.quantiles(1.0 - f64::EPSILON).unwrap();
        assert!(sure[3] > 1e9 + 7.0 * 1e9_f64.sqrt() && sure[3] < 1e9 + 9.0 * 1e9_f64.sqrt());
    }

    #[test]
    fn what_is_no_rate_or_count_is_refused() {
        for rate in [f64::NAN, -0.5, 1e16, f64::INFINITY] {
            let error = PoissonMixture::new(&[1.0, 1.0, 1.0, rate], 2, 2).unwrap_err();
            assert_eq!((error.draw(), error.row()), (Some(1), Some(1)));
        }
        assert!(PoissonMixture::new(&[1.0], 1, 2).unwrap_err().is_data());
        let mixture = PoissonMixture::new(&[1.0, 1.0], 1, 2).unwrap();
        for count in [-1.0, 0.5, f64::NAN, f64::INFINITY] {
            let error = TargetedCounts::new(&mixture, &[0.0, count]).unwrap_err();
            assert_eq!(error.row(), Some(1));
        }
        assert!(TargetedCounts::new(&mixture, &[0.0]).unwrap_err().is_data());
    }
}
