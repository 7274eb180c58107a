//! Scores of real-valued predictions from chunks of rows, without keeping them.
//!
//! A row is an example, or a pixel of a depth map. Rows may come in chunks of any size; each adds to sums, so memory
//! does not grow with the rows:
//!
//!   RMSE, MAE, NLL   means over rows, of the mean of each mixture and of its density
//!   intervals        coverage, mean width and mean Winkler score of central intervals at fixed levels
//!   calibration      a histogram of the transforms F_r(y_r), which are uniform for correct predictions
//!
//! The scores are those of all rows at once, up to rounding. RMSE, MAE, widths and Winkler scores have the unit of the
//! target, the NLL is in nats; lower is better. Better than scores of a sample of the pixels, whose rare regions have
//! few rows. Sums of several threads are joined by [`RegressionTotals::merge`]. Leave out pixels without a target, such
//! as those beyond the range of a sensor, before they are added.

use crate::calibration::pit_values;
use crate::check;
use crate::error::{EvalError, Place};
use crate::regression::{PredictionIntervals, log_densities, winkler_scores};
use crate::views::TargetedMixture;

/// Sums over rows.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, RegressionTotals, TargetedMixture};
///
/// let mut totals = RegressionTotals::new(&[0.9], 10)?;
/// for chunk in [[0.0, 0.5], [1.0, -4.0]] {
///     let mixture = GaussianMixture::new(&[0.0, 0.0], 1, 2, NoisePrecision::Shared(1.0))?;
///     totals.add(&TargetedMixture::new(&mixture, &chunk)?)?;
/// }
/// let scores = totals.scores()?;
/// assert_eq!((scores.rows, scores.mean_absolute_error), (4, 1.375));
/// assert_eq!(scores.intervals[0].coverage, 0.75);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RegressionTotals {
    rows: usize,
    squares: f64,
    magnitudes: f64,
    nll: f64,
    intervals: Vec<IntervalSums>,
    pit_counts: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct IntervalSums {
    level: f64,
    covered: usize,
    width: f64,
    winkler: f64,
}

/// The scores of all rows of [`RegressionTotals`].
#[derive(Debug, Clone, PartialEq)]
pub struct RegressionScores {
    /// Number of rows.
    pub rows: usize,
    /// Root mean squared error of the mean.
    pub rmse: f64,
    /// Mean absolute error of the mean.
    pub mean_absolute_error: f64,
    /// Mean negative log-likelihood of the mixture, in nats.
    pub nll: f64,
    /// Central intervals, one for each level.
    pub intervals: Vec<IntervalScores>,
    /// Rows by their transform F(y), in cells of equal width: equal counts mean calibration.
    pub pit_counts: Vec<usize>,
}

/// The central intervals at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalScores {
    /// Nominal probability.
    pub level: f64,
    /// Fraction of targets in their interval.
    pub coverage: f64,
    /// Mean width.
    pub mean_width: f64,
    /// Mean Winkler score.
    pub winkler: f64,
}

impl RegressionScores {
    /// Mean absolute difference between nominal and observed frequencies at the inner limits of the cells of
    /// `pit_counts`; 0 with a single cell.
    pub fn quantile_calibration_error(&self) -> f64 {
        let cells = self.pit_counts.len();
        let mut below = 0;
        let gaps = self.pit_counts[..cells - 1]
            .iter()
            .enumerate()
            .map(|(cell, count)| {
                below += count;
                (below as f64 / self.rows as f64 - (cell + 1) as f64 / cells as f64).abs()
            });
        gaps.sum::<f64>() / (cells - 1).max(1) as f64
    }
}

impl RegressionTotals {
    /// No rows yet: central intervals at these levels, and `cells` of the histogram of transforms.
    ///
    /// # Errors
    /// A config error if a level is not strictly between 0 and 1, or `cells` is zero or above a million.
    pub fn new(levels: &[f64], cells: usize) -> Result<Self, EvalError> {
        check::count("cells", cells, 1..=check::MOST_BINS)?;
        let of_level = |&level: &f64| {
            check::open_unit("level", level)?;
            Ok(IntervalSums {
                level,
                covered: 0,
                width: 0.0,
                winkler: 0.0,
            })
        };
        Ok(Self {
            rows: 0,
            squares: 0.0,
            magnitudes: 0.0,
            nll: 0.0,
            intervals: levels
                .iter()
                .map(of_level)
                .collect::<Result<_, EvalError>>()?,
            pit_counts: vec![0; cells],
        })
    }

    /// Adds a chunk of rows. After an error nothing of the chunk is added.
    ///
    /// # Errors
    /// A data error if a limit of an interval leaves the range of numbers.
    pub fn add(&mut self, chunk: &TargetedMixture<'_>) -> Result<(), EvalError> {
        let (mixture, targets) = (chunk.mixture(), chunk.targets());
        let mut sums = self.intervals.clone();
        for sums in &mut sums {
            let central = PredictionIntervals::central(mixture, sums.level)?;
            sums.covered += central
                .covered(targets)?
                .into_iter()
                .filter(|&held| held)
                .count();
            sums.width += central.widths().iter().sum::<f64>();
            sums.winkler += winkler_scores(&central, targets, sums.level)?
                .iter()
                .sum::<f64>();
        }
        self.intervals = sums;
        self.rows += targets.len();
        for (mean, target) in mixture.mean().iter().zip(targets) {
            self.squares += (target - mean).powi(2);
            self.magnitudes += (target - mean).abs();
        }
        self.nll -= log_densities(chunk).iter().sum::<f64>();
        let cells = self.pit_counts.len();
        for transform in pit_values(chunk) {
            self.pit_counts[((transform * cells as f64) as usize).min(cells - 1)] += 1;
        }
        Ok(())
    }

    /// Adds the rows of other sums.
    ///
    /// # Errors
    /// A data error if the levels or the numbers of cells differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), EvalError> {
        check::same_length("cells", other.pit_counts.len(), self.pit_counts.len())?;
        let levels = |of: &Self| {
            of.intervals
                .iter()
                .map(|sums| sums.level)
                .collect::<Vec<_>>()
        };
        if levels(other) != levels(self) {
            return Err(EvalError::data(
                "levels of the intervals",
                Place::WHOLE,
                format!("{:?}", levels(other)),
                format!("{:?}", levels(self)),
                "sums with other settings",
            ));
        }
        self.rows += other.rows;
        self.squares += other.squares;
        self.magnitudes += other.magnitudes;
        self.nll += other.nll;
        for (sums, more) in self.intervals.iter_mut().zip(&other.intervals) {
            sums.covered += more.covered;
            sums.width += more.width;
            sums.winkler += more.winkler;
        }
        for (sum, more) in self.pit_counts.iter_mut().zip(&other.pit_counts) {
            *sum += more;
        }
        Ok(())
    }

    /// The scores of the rows so far.
    ///
    /// # Errors
    /// A data error if there are none.
    pub fn scores(&self) -> Result<RegressionScores, EvalError> {
        check::not_empty("rows", self.rows)?;
        let mean = |sum: f64| sum / self.rows as f64;
        let of_level = |sums: &IntervalSums| IntervalScores {
            level: sums.level,
            coverage: mean(sums.covered as f64),
            mean_width: mean(sums.width),
            winkler: mean(sums.winkler),
        };
        Ok(RegressionScores {
            rows: self.rows,
            rmse: mean(self.squares).sqrt(),
            mean_absolute_error: mean(self.magnitudes),
            nll: mean(self.nll),
            intervals: self.intervals.iter().map(of_level).collect(),
            pit_counts: self.pit_counts.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        GaussianMixture, NoisePrecision, QuantileCalibration, mixture_nll, rmse, uniforms,
        winkler_score,
    };

    const DRAWS: usize = 3;

    fn chunk(means: &[f64], rows: usize) -> GaussianMixture<'static> {
        GaussianMixture::new(means.to_vec(), DRAWS, rows, NoisePrecision::Shared(2.0)).unwrap()
    }

    #[test]
    fn chunks_and_merged_sums_are_the_whole() {
        let rows = 40;
        let means: Vec<f64> = uniforms(DRAWS * rows, 1).iter().map(|u| 4.0 * u).collect();
        let targets: Vec<f64> = uniforms(rows, 2).iter().map(|u| 5.0 * u - 0.5).collect();
        let mut parts = [(); 2].map(|()| RegressionTotals::new(&[0.5, 0.9], 10).unwrap());
        for (index, start) in (0..rows).step_by(8).enumerate() {
            let of_chunk: Vec<f64> = means
                .chunks(rows)
                .flat_map(|draw| draw[start..start + 8].to_vec())
                .collect();
            let mixture = chunk(&of_chunk, 8);
            let targeted = TargetedMixture::new(&mixture, &targets[start..start + 8]).unwrap();
            parts[index % 2].add(&targeted).unwrap();
        }
        let [mut sum, other] = parts;
        sum.merge(&other).unwrap();
        let found = sum.scores().unwrap();

        let mixture = chunk(&means, rows);
        let targeted = TargetedMixture::new(&mixture, &targets).unwrap();
        let central = PredictionIntervals::central(&mixture, 0.9).unwrap();
        let pit = pit_values(&targeted);
        let quantiles = QuantileCalibration::new(&pit, 9).unwrap();
        for (found, expected) in [
            (found.rmse, rmse(&mixture.mean(), &targets).unwrap()),
            (found.nll, mixture_nll(&targeted)),
            (
                found.intervals[1].coverage,
                central.coverage(&targets).unwrap(),
            ),
            (found.intervals[1].mean_width, central.mean_width()),
            (
                found.intervals[1].winkler,
                winkler_score(&central, &targets, 0.9).unwrap(),
            ),
            // No transform is a limit of a cell.
            (
                found.quantile_calibration_error(),
                quantiles.mean_absolute_error(),
            ),
        ] {
            assert!((found - expected).abs() < 1e-13, "{found} {expected}");
        }
        assert_eq!(found.pit_counts.iter().sum::<usize>(), rows);
    }

    #[test]
    fn unequal_settings_are_refused_and_no_rows_have_no_scores() {
        let mut totals = RegressionTotals::new(&[0.9], 10).unwrap();
        assert!(totals.scores().unwrap_err().is_data());
        for other in [
            RegressionTotals::new(&[0.8], 10),
            RegressionTotals::new(&[0.9], 5),
        ] {
            assert!(totals.merge(&other.unwrap()).unwrap_err().is_data());
        }
        assert!(RegressionTotals::new(&[1.0], 10).unwrap_err().is_config());
        assert!(RegressionTotals::new(&[], 0).unwrap_err().is_config());
        // One cell has no inner limit.
        let mut totals = RegressionTotals::new(&[], 1).unwrap();
        let mixture = chunk(&[0.0; DRAWS], 1);
        totals
            .add(&TargetedMixture::new(&mixture, &[0.0]).unwrap())
            .unwrap();
        assert_eq!(totals.scores().unwrap().quantile_calibration_error(), 0.0);
    }
}
