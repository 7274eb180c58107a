//! Predictions of counts by several draws: one mixture of Poisson or negative binomial distributions per row.
//!
//!   mean_r = (1/S) Σ_s λ_sr,   variance_r = mean_r + (1/S) Σ_s α_sr λ_sr² + (1/S) Σ_s (λ_sr − mean_r)²
//!
//! with the rates λ and the dispersions α, 0 for Poisson distributions. The quantile at p is the smallest count k with
//! F(k) ≥ p, F(k) = (1/S) Σ_s P(Y_s ≤ k). For small rates, the terms of F are summed from 0 by their recursion
//! P(k + 1)/P(k) = (1 + kα) λ / ((1 + αλ)(k + 1)); for larger ones, k is found by bisection.

use std::borrow::Cow;

use crate::Bounded;
use crate::PredictionIntervals;
use crate::check;
use crate::error::{EvalError, Place};
use crate::order::mean;
use crate::special::negative_binomial;

/// The largest rate: counts up to a few times as many are exact in double precision.
const LARGEST: f64 = 1e15;
/// The largest dispersion: a row of counts with it is almost surely 0.
const MOST_DISPERSED: f64 = 1e9;
/// The largest quantile, beyond which the search for one ends.
const MOST_COUNTED: f64 = 1e18;
/// Up to this rate, e^{−λ} does not underflow, and sums from 0 are short.
const SUMMED: f64 = 500.0;
/// The terms after which a sum would take longer than a bisection.
const MOST_TERMS: f64 = 5000.0;

/// Mixtures of Poisson or negative binomial distributions, one per row, with one component per draw.
///
/// ```
/// use burn_bayes_eval::CountMixture;
///
/// // Two draws of the rate of one row.
/// let mixture = CountMixture::new(&[1.0, 3.0], 2, 1)?;
/// assert_eq!(mixture.mean(), [2.0]);
/// assert_eq!(mixture.variance(), [3.0]); // 2 of the counts and 1 between the draws
/// assert_eq!(mixture.quantiles(0.5)?, [2.0]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CountMixture<'a> {
    rates: Cow<'a, [f64]>,
    /// `[draws × rows]`, or none if all are 0.
    dispersions: Cow<'a, [f64]>,
    draws: usize,
    rows: usize,
}

/// One distribution of a mixture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Component {
    rate: f64,
    dispersion: f64,
}

impl Component {
    pub(super) fn log_mass(self, count: f64) -> f64 {
        negative_binomial::log_mass(count, self.rate, self.dispersion)
    }

    fn cumulative(self, count: f64) -> f64 {
        negative_binomial::cumulative(count, self.rate, self.dispersion)
    }
}

impl<'a> CountMixture<'a> {
    /// Checks `rates` (borrowed or owned) as `draws` predictions of `rows` rows, `[draws × rows]`, row-major, of Poisson
    /// distributions.
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
        Ok(Self {
            rates,
            dispersions: Cow::Borrowed(&[]),
            draws,
            rows,
        })
    }

    /// With negative binomial distributions of these dispersions α, `[draws × rows]`, row-major: the variance of a component
    /// is λ + α λ².
    ///
    /// ```
    /// use burn_bayes_eval::CountMixture;
    ///
    /// let poisson = CountMixture::new(&[2.0], 1, 1)?;
    /// let dispersed = poisson.clone().with_dispersions(&[0.5])?;
    /// assert_eq!((poisson.variance()[0], dispersed.variance()[0]), (2.0, 4.0));
    /// assert!(dispersed.quantiles(0.95)? > poisson.quantiles(0.95)?);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if there is not one for each rate, or one is NaN, negative or above 10⁹.
    pub fn with_dispersions(
        mut self,
        dispersions: impl Into<Cow<'a, [f64]>>,
    ) -> Result<Self, EvalError> {
        let dispersions = dispersions.into();
        check::same_length("dispersions", dispersions.len(), self.rates.len())?;
        let usable = |dispersion: &f64| (0.0..=MOST_DISPERSED).contains(dispersion);
        if let Some(index) = dispersions
            .iter()
            .position(|dispersion| !usable(dispersion))
        {
            return Err(EvalError::data(
                "dispersions",
                Place::draw(index / self.rows).at_row(index % self.rows),
                dispersions[index],
                format!("a number from 0 to {MOST_DISPERSED:e}"),
                "log dispersions instead of dispersions, or a diverged model",
            ));
        }
        self.dispersions = dispersions;
        Ok(self)
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

    /// The variance of each row's mixture: that of the counts plus the variance between draws.
    pub fn variance(&self) -> Vec<f64> {
        let between = self.variance_between_draws().into_iter();
        let of_counts = self.components_of_rows().map(|components| {
            let variances = components
                .iter()
                .map(|own| own.rate + own.dispersion * own.rate * own.rate);
            variances.sum::<f64>() / components.len() as f64
        });
        between
            .zip(of_counts)
            .map(|(one, other)| one + other)
            .collect()
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
        let rows = self.components_of_rows();
        Ok(rows
            .map(|components| quantile(&components, probability))
            .collect())
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
        let inside = |(components, (lower, upper)): (Vec<Component>, (&f64, &f64))| {
            cumulative(&components, upper.floor()) - cumulative(&components, lower.ceil() - 1.0)
        };
        Ok(self.components_of_rows().zip(limits).map(inside).collect())
    }

    /// The rates of every row, in draw order.
    pub(crate) fn rates_of_rows(&self) -> impl Iterator<Item = Vec<f64>> {
        (0..self.rows).map(|row| {
            let rates = self.rates.iter().skip(row).step_by(self.rows);
            rates.copied().collect()
        })
    }

    /// The components of every row, in draw order.
    pub(super) fn components_of_rows(&self) -> impl Iterator<Item = Vec<Component>> {
        (0..self.rows).map(|row| {
            let component = |draw: usize| {
                let index = draw * self.rows + row;
                Component {
                    rate: self.rates[index],
                    dispersion: self.dispersions.get(index).copied().unwrap_or(0.0),
                }
            };
            (0..self.draws).map(component).collect()
        })
    }

    fn map(&self, value: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        self.rates_of_rows().map(|rates| value(&rates)).collect()
    }
}

/// Mixtures together with the count of each row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetedCounts<'a> {
    mixture: &'a CountMixture<'a>,
    counts: &'a [f64],
}

impl<'a> TargetedCounts<'a> {
    /// Pairs mixtures with one count per row.
    ///
    /// ```
    /// use burn_bayes_eval::{CountMixture, TargetedCounts};
    ///
    /// let mixture = CountMixture::new(&[1.0, 3.0], 1, 2)?;
    /// assert!(TargetedCounts::new(&mixture, &[0.0, 4.0]).is_ok());
    /// assert_eq!(TargetedCounts::new(&mixture, &[0.0, 1.5]).unwrap_err().row(), Some(1));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if the lengths differ, or a count is not a whole number from 0 to 10¹⁵.
    pub fn new(mixture: &'a CountMixture<'a>, counts: &'a [f64]) -> Result<Self, EvalError> {
        check::same_length("counts", counts.len(), mixture.rows)?;
        check_counts(counts)?;
        Ok(Self { mixture, counts })
    }

    /// The mixtures.
    pub fn mixture(&self) -> &'a CountMixture<'a> {
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
pub(super) fn cumulative(components: &[Component], count: f64) -> f64 {
    let draws = components
        .iter()
        .map(|component| component.cumulative(count));
    draws.sum::<f64>() / components.len() as f64
}

fn variance(rates: &[f64]) -> f64 {
    let centre = mean(rates);
    let squares = rates.iter().map(|rate| (rate - centre).powi(2));
    squares.sum::<f64>() / rates.len() as f64
}

fn quantile(components: &[Component], probability: f64) -> f64 {
    let rates = components.iter().map(|component| component.rate);
    let largest = rates.fold(0.0, f64::at_least);
    // 1 − F is a difference near 1, which the recursion rounds: its sum may end below the probability.
    let summed = (largest <= SUMMED && probability <= 1.0 - 1e-9)
        .then(|| summed_quantile(components, probability));
    summed
        .flatten()
        .unwrap_or_else(|| bisected_quantile(components, largest, probability))
}

/// The smallest k with F(k) ≥ p, from the sum of P(Y_s = 0), P(Y_s = 1), … over draws; `None` if that takes too many terms, as
/// with large dispersions.
fn summed_quantile(components: &[Component], probability: f64) -> Option<f64> {
    let wanted = probability * components.len() as f64;
    let first = components
        .iter()
        .map(|component| component.log_mass(0.0).exp());
    let mut terms: Vec<f64> = first.collect();
    let (mut count, mut sum) = (0.0, terms.iter().sum::<f64>());
    while sum < wanted {
        if count > MOST_TERMS {
            return None;
        }
        for (term, component) in terms.iter_mut().zip(components) {
            let Component { rate, dispersion } = component;
            let spread = (1.0 + count * dispersion) / (1.0 + dispersion * rate);
            *term *= spread * rate / (count + 1.0);
            sum += *term;
        }
        count += 1.0;
    }
    Some(count)
}

/// The same by bisection.
fn bisected_quantile(components: &[Component], largest: f64, probability: f64) -> f64 {
    // F(below) < p ≤ F(above): beyond 40 standard deviations, the mass of a Poisson distribution is zero.
    let (mut below, mut above) = (-1.0, (largest + 40.0 * largest.sqrt() + 100.0).floor());
    while cumulative(components, above) < probability && above < MOST_COUNTED {
        (below, above) = (above, 2.0 * above);
    }
    while above - below > 1.0 {
        let middle = (0.5 * (below + above)).floor();
        match cumulative(components, middle) >= probability {
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
            for dispersion in [0.0, 0.3] {
                let component = |u: &f64| Component {
                    rate: scale * u,
                    dispersion,
                };
                let rates: Vec<Component> = uniforms(draws, 3).iter().map(component).collect();
                for probability in [1e-6, 0.025, 0.1, 0.3, 0.5, 0.77, 0.975, 1.0 - 1e-6] {
                    let mut expected = 0.0;
                    while cumulative(&rates, expected) < probability {
                        expected += 1.0;
                    }
                    assert_eq!(summed_quantile(&rates, probability), Some(expected));
                    assert_eq!(bisected_quantile(&rates, scale, probability), expected);
                }
            }
        }
    }

    #[test]
    fn large_dispersions_do_not_take_long() {
        let component = Component {
            rate: 5.0,
            dispersion: 1e7,
        };
        for probability in [0.5, 0.99, 1.0 - 1e-6] {
            let count = quantile(&[component], probability);
            assert!(cumulative(&[component], count) >= probability);
            assert!(count == 0.0 || cumulative(&[component], count - 1.0) < probability);
        }
    }

    #[test]
    fn an_interval_has_at_least_its_probability() {
        let rates: Vec<f64> = uniforms(60, 1).iter().map(|u| 10.0 * u).collect();
        let dispersions: Vec<f64> = (0..60).map(|at| 0.1 * f64::from(at % 4)).collect();
        let mixture = CountMixture::new(&rates, 6, 10).unwrap();
        let mixture = mixture.with_dispersions(dispersions).unwrap();
        for level in [0.5, 0.8, 0.95] {
            let intervals = mixture.central_intervals(level).unwrap();
            let inside = mixture.interval_probabilities(&intervals).unwrap();
            assert!(inside.iter().all(|&mass| (level..=1.0).contains(&mass)));
            // The sum of the probabilities of the counts inside, in every row.
            for (row, components) in mixture.components_of_rows().enumerate() {
                let (lower, upper) = (intervals.lower()[row], intervals.upper()[row]);
                let counts = lower as u32..=upper as u32;
                let mass = |count: u32| {
                    let of_draw = |own: &Component| own.log_mass(f64::from(count)).exp();
                    components.iter().map(of_draw).sum::<f64>() / 6.0
                };
                let expected: f64 = counts.map(mass).sum();
                assert!((inside[row] - expected).abs() < 1e-13);
            }
        }
        assert!(mixture.central_intervals(1.0).unwrap_err().is_config());
    }

    #[test]
    fn large_and_small_rates_have_quantiles() {
        let mixture = CountMixture::new(&[0.0, 1e-300, 1e15, 1e9], 1, 4).unwrap();
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
            let error = CountMixture::new(&[1.0, 1.0, 1.0, rate], 2, 2).unwrap_err();
            assert_eq!((error.draw(), error.row()), (Some(1), Some(1)));
        }
        assert!(CountMixture::new(&[1.0], 1, 2).unwrap_err().is_data());
        let poisson = || CountMixture::new(&[1.0, 1.0], 1, 2).unwrap();
        for dispersions in [&[0.5][..], &[0.5, -1.0], &[f64::NAN, 0.0]] {
            assert!(
                poisson()
                    .with_dispersions(dispersions)
                    .unwrap_err()
                    .is_data()
            );
        }
        let mixture = CountMixture::new(&[1.0, 1.0], 1, 2).unwrap();
        for count in [-1.0, 0.5, f64::NAN, f64::INFINITY] {
            let error = TargetedCounts::new(&mixture, &[0.0, count]).unwrap_err();
            assert_eq!(error.row(), Some(1));
        }
        assert!(TargetedCounts::new(&mixture, &[0.0]).unwrap_err().is_data());
    }
}
