//! Simulation-based calibration: is an inference method right on average over its own prior?
//!
//! For each of n simulations draw a parameter θ̃ from the prior and data from the model at θ̃, run the
//! method on the data, and draw θ₁ … θ_L from its posterior. For any scalar quantity f the rank
//!
//!   r = #{l : f(θ_l) < f(θ̃)}
//!
//! is uniform on 0, 1, …, L if the posteriors are exact and their draws are independent. Deviations
//! from uniformity say what is wrong:
//!
//! | Histogram of the ranks | The posteriors are |
//! |---|---|
//! | ∪ | too narrow |
//! | ∩ | too wide |
//! | falling | too high: true values are below most draws |
//! | rising | too low: true values are above most draws |
//!
//! The fraction F̂(z) of ranks below z(L + 1) is compared with z, by simultaneous bounds and by the
//! test that belongs to them (`uniform_counts.rs`). Location and spread of the ranks are the scores
//!
//!   Σ c_i / √(n(T² − 1)/12),   Σ (c_i² − (T² − 1)/12) / √(n(T² − 1)(T² − 4)/180),   c = r − L/2, T = L + 1
//!
//! with mean 0 and variance 1 under uniformity, asymptotically normal and uncorrelated.
//!
//! Uniform ranks are necessary and not sufficient: a method that returns the prior passes. Choose
//! quantities that depend on the data, for example the log-likelihood. With k quantities, test each
//! at level 1 − (1 − level)/k.
//!
//! Departure: Säilynoja et al. evaluate F̂ at up to n points and optimise for a coverage near the
//! level; here all L points between ranks are used (1000 if there are more) and the coverage is at
//! least the level.
//!
//! References: S. Talts, M. Betancourt, D. Simpson, A. Vehtari and A. Gelman, "Validating Bayesian
//! inference algorithms with simulation-based calibration" (2018); T. Säilynoja, P.-C. Bürkner and A.
//! Vehtari, "Graphical test for discrete uniformity and its applications in goodness-of-fit evaluation
//! and multiple sample comparison" (2022).

use std::fmt;

use crate::Bounded;
use crate::check;
use crate::error::{EvalError, Place};
use crate::special::normal;
use crate::special::uniform_counts::UniformCounts;

/// The ranks of true values among posterior draws, for one scalar quantity.
///
/// ```
/// use burn_bayes_eval::{RankDeviation, SimulationBasedCalibration, posterior_rank, uniforms};
///
/// // The truth is uniform on (0, 1); the posteriors cover only the middle half.
/// let mut ranks = Vec::new();
/// for (seed, truth) in uniforms(200, 1).into_iter().enumerate() {
///     let draws: Vec<f64> =
///         uniforms(99, 1000 + seed as u64).iter().map(|u| 0.25 + 0.5 * u).collect();
///     ranks.push(posterior_rank(truth, &draws)?);
/// }
/// let calibration = SimulationBasedCalibration::new(&ranks, 99)?;
/// assert!(calibration.p_value() < 1e-6);
/// assert_eq!(calibration.deviation(0.95)?, Some(RankDeviation::TooNarrow));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationBasedCalibration {
    simulations: usize,
    /// Number of simulations with each rank 0 … L.
    rank_counts: Vec<usize>,
}

/// One bar of a histogram of ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankBin {
    /// Number of simulations with a rank in this bin.
    pub count: usize,
    /// The expected number if ranks are uniform.
    pub expected: f64,
}

/// The cumulative distribution of the ranks minus that of uniform ranks, with simultaneous bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct RankEcdf {
    points: Vec<RankEcdfPoint>,
    coverage: f64,
}

/// One point of a [`RankEcdf`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankEcdfPoint {
    /// z, the probability of a smaller rank if ranks are uniform.
    pub probability: f64,
    /// F̂(z) − z.
    pub difference: f64,
    /// Lower bound of the difference.
    pub lower: f64,
    /// Upper bound of the difference.
    pub upper: f64,
}

/// What is wrong with posteriors whose ranks are not uniform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankDeviation {
    /// The histogram of the ranks is ∪-shaped.
    TooNarrow,
    /// The histogram of the ranks is ∩-shaped.
    TooWide,
    /// The ranks are too large.
    TooLow,
    /// The ranks are too small.
    TooHigh,
    /// Neither the mean nor the spread of the ranks explains the deviation.
    Other,
}

impl RankDeviation {
    /// What the posteriors are, in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooNarrow => "too narrow",
            Self::TooWide => "too wide",
            Self::TooLow => "biased low",
            Self::TooHigh => "biased high",
            Self::Other => "misshapen",
        }
    }
}

impl fmt::Display for RankDeviation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the posteriors are {}", self.name())
    }
}

/// The rank of the true value: the number of draws below it.
///
/// Draws must be independent: thin those of a Markov chain. For quantities with ties, add a tiny
/// random number to all values.
///
/// # Errors
/// A data error if there are no draws, or the truth or a draw is NaN.
pub fn posterior_rank(truth: f64, draws: &[f64]) -> Result<usize, EvalError> {
    check::not_empty("draws", draws.len())?;
    check::comparable("truth", &[truth])?;
    if let Some(draw) = draws.iter().position(|value| value.is_nan()) {
        return Err(check::not_finite("draws", Place::draw(draw), f64::NAN));
    }
    Ok(draws.iter().filter(|draw| **draw < truth).count())
}

impl SimulationBasedCalibration {
    /// Collects one rank per simulation, each among `draws` draws.
    ///
    /// # Errors
    /// A data error if there are no ranks or one is above `draws`; it names the simulation as row. A
    /// config error if `draws` is zero or above a million.
    pub fn new(ranks: &[usize], draws: usize) -> Result<Self, EvalError> {
        check::count("draws", draws, 1..=check::MOST_BINS)?;
        check::not_empty("ranks", ranks.len())?;
        let mut rank_counts = vec![0; draws + 1];
        for (simulation, &rank) in ranks.iter().enumerate() {
            let Some(count) = rank_counts.get_mut(rank) else {
                return Err(EvalError::data(
                    "ranks",
                    Place::row(simulation),
                    rank,
                    format!("at most {draws}, the number of draws"),
                    "ranks of another number of draws, or counted from 1",
                ));
            };
            *count += 1;
        }
        Ok(Self {
            simulations: ranks.len(),
            rank_counts,
        })
    }

    /// n, the number of simulations.
    pub fn simulations(&self) -> usize {
        self.simulations
    }

    /// L, the number of draws per simulation.
    pub fn draws(&self) -> usize {
        self.rank_counts.len() - 1
    }

    /// The histogram of the ranks. The bins are equal if `bins` divides L + 1.
    ///
    /// # Errors
    /// A config error if `bins` is zero or above L + 1.
    pub fn histogram(&self, bins: usize) -> Result<Vec<RankBin>, EvalError> {
        let ranks = self.rank_counts.len();
        check::count("bins", bins, 1..=ranks)?;
        let bin = |index: usize| {
            let counts = &self.rank_counts[index * ranks / bins..(index + 1) * ranks / bins];
            RankBin {
                count: counts.iter().sum(),
                expected: self.simulations as f64 * counts.len() as f64 / ranks as f64,
            }
        };
        Ok((0..bins).map(bin).collect())
    }

    /// The p-value of the hypothesis that the ranks are uniform: the probability under it that
    /// F̂ comes as close to the border of its bounds, or leaves them as far.
    pub fn p_value(&self) -> f64 {
        let uniform = self.uniform();
        uniform.p_value(&self.cumulative_counts(&uniform))
    }

    /// F̂(z) − z and bounds that hold at all z with probability `level` or slightly more.
    ///
    /// # Errors
    /// A config error if `level` is not strictly between 0 and 1.
    pub fn ecdf(&self, level: f64) -> Result<RankEcdf, EvalError> {
        check::open_unit("level", level)?;
        let uniform = self.uniform();
        let bounds = uniform.bounds_at_level(level);
        let coverage = uniform.coverage(&bounds);
        let counts = self.cumulative_counts(&uniform);
        let points = uniform.thresholds().iter().zip(counts).zip(bounds);
        let point = |((&threshold, count), (lower, upper))| {
            let probability = threshold as f64 / self.rank_counts.len() as f64;
            let difference = |count: usize| count as f64 / self.simulations as f64 - probability;
            RankEcdfPoint {
                probability,
                difference: difference(count),
                lower: difference(lower),
                upper: difference(upper),
            }
        };
        Ok(RankEcdf {
            points: points.map(point).collect(),
            coverage,
        })
    }

    /// Standardised mean of the ranks: above zero, the posteriors are too low.
    pub fn location_score(&self) -> f64 {
        let (sum, _) = self.centred_moments();
        sum / (self.simulations as f64 * self.rank_variance()).sqrt()
    }

    /// Standardised spread of the ranks: above zero, the posteriors are too narrow. It is 0 for a
    /// single draw, which says nothing about spread.
    pub fn spread_score(&self) -> f64 {
        let simulations = self.simulations as f64;
        let (_, squares) = self.centred_moments();
        let variance = self.rank_variance();
        // (T² − 1)(T² − 4)/180
        let variance_of_squares = variance * (12.0 * variance - 3.0) / 15.0;
        if variance_of_squares == 0.0 {
            return 0.0;
        }
        (squares - simulations * variance) / (simulations * variance_of_squares).sqrt()
    }

    /// What is wrong with the posteriors, if the test rejects uniform ranks at 1 − `level`; `None` if
    /// it does not. The larger of the two scores decides, if it is significant itself.
    ///
    /// # Errors
    /// A config error if `level` is not strictly between 0 and 1.
    pub fn deviation(&self, level: f64) -> Result<Option<RankDeviation>, EvalError> {
        check::open_unit("level", level)?;
        if self.p_value() > 1.0 - level {
            return Ok(None);
        }
        let (location, spread) = (self.location_score(), self.spread_score());
        let significant = normal::quantile(0.5 * (1.0 + level));
        let deviation = if location.abs().at_least(spread.abs()) < significant {
            RankDeviation::Other
        } else if spread.abs() >= location.abs() {
            if spread > 0.0 {
                RankDeviation::TooNarrow
            } else {
                RankDeviation::TooWide
            }
        } else if location > 0.0 {
            RankDeviation::TooLow
        } else {
            RankDeviation::TooHigh
        };
        Ok(Some(deviation))
    }

    fn uniform(&self) -> UniformCounts {
        UniformCounts::new(self.simulations, self.rank_counts.len())
    }

    /// Number of ranks below each threshold.
    fn cumulative_counts(&self, uniform: &UniformCounts) -> Vec<usize> {
        let (mut from, mut count) = (0, 0);
        let below = |&threshold: &usize| {
            count += self.rank_counts[from..threshold].iter().sum::<usize>();
            from = threshold;
            count
        };
        uniform.thresholds().iter().map(below).collect()
    }

    /// (T² − 1)/12, the variance of uniform ranks.
    fn rank_variance(&self) -> f64 {
        let ranks = self.rank_counts.len() as f64;
        (ranks * ranks - 1.0) / 12.0
    }

    /// Σ c and Σ c².
    fn centred_moments(&self) -> (f64, f64) {
        let centre = 0.5 * self.draws() as f64;
        let (mut sum, mut squares) = (0.0, 0.0);
        for (rank, &count) in self.rank_counts.iter().enumerate() {
            let (centred, count) = (rank as f64 - centre, count as f64);
            sum += count * centred;
            squares += count * centred * centred;
        }
        (sum, squares)
    }
}

impl RankEcdf {
    /// The points, by increasing probability.
    pub fn points(&self) -> &[RankEcdfPoint] {
        &self.points
    }

    /// The exact probability that uniform ranks are inside the bounds at all points. It is at least
    /// the level, and above it because ranks are discrete.
    pub fn coverage(&self) -> f64 {
        self.coverage
    }

    /// Whether all differences are inside their bounds.
    pub fn is_inside(&self) -> bool {
        let is_inside = |point: &RankEcdfPoint| {
            point.lower <= point.difference && point.difference <= point.upper
        };
        self.points.iter().all(is_inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    /// Ranks for θ ~ N(0, 1), y ~ N(θ, 1), with draws of N(y/2 + shift, (scale²)/2).
    fn ranks(simulations: usize, draws: usize, shift: f64, scale: f64, seed: u64) -> Vec<usize> {
        let numbers = uniforms(simulations * (draws + 2), seed);
        let normals: Vec<f64> = numbers
            .iter()
            .map(|u| normal::quantile(u.max(1e-12)))
            .collect();
        let rank = |noise: &[f64]| {
            let (truth, data) = (noise[0], noise[0] + noise[1]);
            let draw = |z: &f64| 0.5 * data + shift + scale * z * 0.5f64.sqrt();
            let draws: Vec<f64> = noise[2..].iter().map(draw).collect();
            posterior_rank(truth, &draws).unwrap()
        };
        normals.chunks(draws + 2).map(rank).collect()
    }

    fn calibration(shift: f64, scale: f64, seed: u64) -> SimulationBasedCalibration {
        let ranks = ranks(200, 49, shift, scale, seed);
        SimulationBasedCalibration::new(&ranks, 49).unwrap()
    }

    #[test]
    fn exact_posteriors_have_uniform_p_values_and_normal_scores() {
        let repetitions = 400;
        let runs: Vec<_> = (0..repetitions)
            .map(|seed| calibration(0.0, 1.0, seed))
            .collect();
        let p_values: Vec<f64> = runs.iter().map(|run| run.p_value()).collect();
        for level in [0.01, 0.05, 0.2, 0.5, 0.8] {
            let rejected = p_values.iter().filter(|p| **p <= level).count();
            let found = rejected as f64 / repetitions as f64;
            // Five standard errors. The steps of the discrete p-values are below .01 here.
            let error = (level * (1.0 - level) / repetitions as f64).sqrt();
            assert!(found < level + 5.0 * error, "{found} at {level}");
            assert!(found > level - 0.01 - 5.0 * error, "{found} at {level}");
        }
        type Score = fn(&SimulationBasedCalibration) -> f64;
        let scores: [Score; 2] = [
            SimulationBasedCalibration::location_score,
            SimulationBasedCalibration::spread_score,
        ];
        for score in scores {
            let values: Vec<f64> = runs.iter().map(score).collect();
            let number = repetitions as f64;
            let centre = values.iter().sum::<f64>() / number;
            let variance = values.iter().map(|score| score * score).sum::<f64>() / number;
            assert!(centre.abs() < 5.0 / number.sqrt(), "{centre}");
            assert!(
                (variance - 1.0).abs() < 5.0 * (2.0 / number).sqrt(),
                "{variance}"
            );
        }
    }

    #[test]
    fn wrong_posteriors_are_found_and_named() {
        for (shift, scale, expected) in [
            (0.0, 0.6, RankDeviation::TooNarrow),
            (0.0, 1.6, RankDeviation::TooWide),
            (-0.3, 1.0, RankDeviation::TooLow),
            (0.3, 1.0, RankDeviation::TooHigh),
        ] {
            for seed in 0..20 {
                let calibration = calibration(shift, scale, 100 + seed);
                assert!(calibration.p_value() < 0.01);
                assert_eq!(calibration.deviation(0.99).unwrap(), Some(expected));
            }
        }
        // Two peaks with the mean and the variance of uniform ranks: L/2 ± √((T² − 1)/12).
        let ranks: Vec<usize> = (0..200).map(|i| if i % 2 == 0 { 10 } else { 38 }).collect();
        let peaks = SimulationBasedCalibration::new(&ranks, 48).unwrap();
        let other = Some(RankDeviation::Other);
        assert_eq!(peaks.deviation(0.95).unwrap(), other);
    }

    #[test]
    fn the_test_rejects_what_leaves_the_bounds() {
        let mut outside = 0;
        for seed in 0..100 {
            let calibration = calibration(0.06, 1.0, seed);
            let ecdf = calibration.ecdf(0.9).unwrap();
            assert!(ecdf.coverage() >= 0.9);
            assert_eq!(ecdf.is_inside(), calibration.p_value() > 0.1);
            assert_eq!(
                ecdf.is_inside(),
                calibration.deviation(0.9).unwrap().is_none()
            );
            outside += usize::from(!ecdf.is_inside());
        }
        assert!((10..90).contains(&outside), "{outside}");
    }

    #[test]
    fn hand_worked_ranks() {
        let calibration = SimulationBasedCalibration::new(&[0, 0, 3, 1], 3).unwrap();
        assert_eq!((calibration.simulations(), calibration.draws()), (4, 3));
        let bins = calibration.histogram(2).unwrap();
        let counts: Vec<usize> = bins.iter().map(|bin| bin.count).collect();
        assert_eq!((counts, bins[0].expected), (vec![3, 1], 2.0));
        let uneven = calibration.histogram(3).unwrap();
        let expected: Vec<f64> = uneven.iter().map(|bin| bin.expected).collect();
        assert_eq!(expected, [1.0, 1.0, 2.0]);
        let ecdf = calibration.ecdf(0.5).unwrap();
        let differences: Vec<f64> = ecdf.points().iter().map(|point| point.difference).collect();
        assert_eq!(differences, [0.25, 0.25, 0.0]);
        // c = −1.5, −1.5, 1.5, −.5; variance 15/12; variance of the squares 1.
        assert!((calibration.location_score() + 2.0 / 5f64.sqrt()).abs() < 1e-15);
        assert!((calibration.spread_score() - (7.0 - 5.0) / 2.0).abs() < 1e-15);
        let single = SimulationBasedCalibration::new(&[0, 1, 1], 1).unwrap();
        assert_eq!(single.spread_score(), 0.0);
    }

    #[test]
    fn a_rank_counts_the_draws_below() {
        assert_eq!(
            posterior_rank(0.5, &[0.1, 0.5, 0.9, f64::NEG_INFINITY]).unwrap(),
            2
        );
        assert!(posterior_rank(0.5, &[]).unwrap_err().is_data());
        assert!(posterior_rank(f64::NAN, &[0.5]).unwrap_err().is_data());
        let error = posterior_rank(0.5, &[0.5, f64::NAN]).unwrap_err();
        assert_eq!(error.draw(), Some(1));
    }

    #[test]
    fn rejects_bad_ranks_and_settings() {
        let new = SimulationBasedCalibration::new;
        assert!(new(&[], 3).unwrap_err().is_data());
        assert_eq!(new(&[3, 4], 3).unwrap_err().row(), Some(1));
        for draws in [0, usize::MAX] {
            assert!(new(&[0], draws).unwrap_err().is_config());
        }
        let calibration = new(&[0, 1], 3).unwrap();
        for bins in [0, 5] {
            assert!(calibration.histogram(bins).unwrap_err().is_config());
        }
        for level in [0.0, 1.0, f64::NAN] {
            assert!(calibration.ecdf(level).unwrap_err().is_config());
            assert!(calibration.deviation(level).unwrap_err().is_config());
        }
    }
}
