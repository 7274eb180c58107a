//! Samples of targets that are numbers or counts: one for every row and weight draw, with the observation noise.
//!
//! A sample is a function of the seed, the row's number in its file, the target's place and the draw, not of the other rows.

use std::io::{self, Write};

use burn_bayes::Noise;
use burn_bayes::eval::{Bounded, CountMixture};
use rand::RngExt;

use super::{CountPredictions, Kind, Predictions, RealPredictions, mismatched};
use crate::error::Result;
use crate::files::io_error;
use crate::random::generator;

/// The key of the stream of samples.
const STREAM: u64 = u64::from_be_bytes(*b"samples.");

/// Samples, with a line for each row, or for each row and target if there are several, and a column for each draw.
#[derive(Clone, Debug)]
pub struct SampleTable {
    draws: usize,
    is_of_several: bool,
    lines: Vec<SampleLine>,
}

#[derive(Clone, Debug)]
struct SampleLine {
    /// The index of the row in its file.
    row: usize,
    target: Option<String>,
    samples: Vec<f64>,
}

impl SampleTable {
    /// The samples of predictions of the rows with these indices in their file.
    ///
    /// # Errors
    /// If classes are predicted, or a prediction is not finite.
    pub(crate) fn of(predictions: &Predictions, rows: &[usize], seed: u64) -> Result<Self> {
        let mut lines = Vec::new();
        for (place, (target, predictions)) in (0..).zip(predictions.of_targets()) {
            let noise = Noise::new(seed).fold(STREAM).fold(place);
            let samples = match predictions {
                Predictions::Reals(all) => of_numbers(all, rows, noise),
                Predictions::Counts(all) => of_counts(all, rows, noise)?,
                Predictions::Classes(_) | Predictions::Several(_) => {
                    return Err(mismatched(predictions));
                }
            };
            let of_rows = rows.iter().zip(samples);
            lines.extend(of_rows.map(|(&row, samples)| SampleLine {
                row,
                target: target.map(String::from),
                samples,
            }));
        }
        // The targets of a row stay in their order.
        lines.sort_by_key(|line| line.row);
        Ok(Self {
            draws: predictions.draws(),
            is_of_several: matches!(predictions, Predictions::Several(_)),
            lines,
        })
    }

    /// Writes the names of the columns, if they are wanted, and the rows.
    pub fn write_csv(&self, has_header: bool, out: &mut impl Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        if has_header {
            let target = self.is_of_several.then(|| "target".to_string());
            let draws = (1..=self.draws).map(|draw| format!("draw_{draw}"));
            let names = ["row".to_string()].into_iter().chain(target).chain(draws);
            writer.write_record(names).map_err(io_error)?;
        }
        for line in &self.lines {
            let row = (line.row + 1).to_string();
            let samples = line.samples.iter().map(f64::to_string);
            let record = [row].into_iter().chain(line.target.clone()).chain(samples);
            writer.write_record(record).map_err(io_error)?;
        }
        writer.flush()
    }
}

/// The samples of numbers, of each row one for every draw.
fn of_numbers(all: &RealPredictions, rows: &[usize], noise: Noise) -> Vec<Vec<f64>> {
    let deviations = all.noise_of_predictions();
    let (count, width) = (all.rows(), all.kind.width());
    let of_row = |(place, &row): (usize, &usize)| {
        let noise = noise.fold(row as u64);
        let mut generator = generator(noise);
        let sample = |(draw, normal): (usize, f32)| {
            let first = (draw * count + place) * width;
            let chosen = all.kind.mixture.as_ref().map_or(0, |mixture| {
                chosen(&mixture.weights[first..][..width], generator.random())
            });
            let location =
                all.values[first + chosen] + deviations[first + chosen] * f64::from(normal);
            match all.kind.is_of_logarithms {
                true => location.exp(),
                false => location,
            }
        };
        let normals = noise.latent(all.draws).into_iter();
        normals.enumerate().map(sample).collect()
    };
    rows.iter().enumerate().map(of_row).collect()
}

/// The index that a number in [0, 1) chooses in proportion to the weights, whose sum is 1 within rounding.
fn chosen(weights: &[f64], mut chance: f64) -> usize {
    let found = weights.iter().position(|weight| {
        chance -= weight;
        chance < 0.0
    });
    found.unwrap_or(weights.len() - 1)
}

/// The samples of counts, of each row one for every draw: quantiles at random levels.
fn of_counts(all: &CountPredictions, rows: &[usize], noise: Noise) -> Result<Vec<Vec<f64>>> {
    let count = all.rows();
    let of_row = |(place, &row): (usize, &usize)| {
        let mut generator = generator(noise.fold(row as u64));
        let sample = |draw: usize| {
            let at = draw * count + place;
            let distribution = CountMixture::new(&all.values[at..=at], 1, 1)?;
            let distribution = match all.kind.0.get(at..=at) {
                Some(dispersion) => distribution.with_dispersions(dispersion)?,
                None => distribution,
            };
            let level: f64 = generator.random();
            Ok(distribution.quantiles(level.at_least(f64::MIN_POSITIVE))?[0])
        };
        (0..all.draws).map(sample).collect()
    };
    rows.iter().enumerate().map(of_row).collect()
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::ColumnScale;

    use super::*;
    use crate::predict::{
        Dispersions, MixtureWeights, NoiseDeviations, NumberNoise, TargetPredictions,
    };

    const DRAWS: usize = 20_000;

    /// Mean and variance of the samples of one row, whose draws are all the same.
    fn moments(predictions: &Predictions) -> [f64; 2] {
        let table = SampleTable::of(predictions, &[6], 3).unwrap();
        let [line] = &table.lines[..] else {
            panic!("{} lines", table.lines.len());
        };
        let mean = line.samples.iter().sum::<f64>() / DRAWS as f64;
        let squares = line.samples.iter().map(|sample| (sample - mean).powi(2));
        [mean, squares.sum::<f64>() / DRAWS as f64]
    }

    fn expect_moments(predictions: &Predictions) {
        let expected = predictions.moments().unwrap().unwrap();
        let (mean, variance) = (expected.mean[0], expected.variance[0]);
        let found = moments(predictions);
        let error = (variance / DRAWS as f64).sqrt();
        assert!((found[0] - mean).abs() < 5.0 * error, "{found:?} {mean}");
        // The fourth moments of these distributions are below 20 squares of the variance.
        let error = variance * (20.0 / DRAWS as f64).sqrt();
        assert!(
            (found[1] - variance).abs() < 5.0 * error,
            "{found:?} {variance}"
        );
    }

    #[test]
    fn samples_have_the_moments_of_the_predictions() {
        let numbers = RealPredictions::new(2.0, DRAWS, vec![-3.0; DRAWS]);
        expect_moments(&Predictions::Reals(numbers));
        let logarithms = RealPredictions::new(0.3, DRAWS, vec![1.0; DRAWS]);
        expect_moments(&Predictions::Reals(logarithms.of_logarithms()));
        let noise = NumberNoise {
            mixture: Some(MixtureWeights {
                gaussians: 2,
                weights: [0.8, 0.2].repeat(DRAWS),
            }),
            ..NoiseDeviations::PerPrediction([0.5, 1.5].repeat(DRAWS)).into()
        };
        let mixture = RealPredictions::new(noise, DRAWS, [-2.0, 4.0].repeat(DRAWS));
        expect_moments(&Predictions::Reals(mixture));
        for dispersions in [vec![], vec![0.4; DRAWS]] {
            let counts = CountPredictions::new(Dispersions(dispersions), DRAWS, vec![3.5; DRAWS]);
            expect_moments(&Predictions::Counts(counts));
        }
    }

    #[test]
    fn a_sample_does_not_depend_on_other_rows() {
        let reals =
            |rows: usize| Predictions::Reals(RealPredictions::new(1.0, 2, vec![0.0; 2 * rows]));
        let both = SampleTable::of(&reals(2), &[4, 7], 1).unwrap();
        let one = SampleTable::of(&reals(1), &[7], 1).unwrap();
        assert_eq!(both.lines[1].samples, one.lines[0].samples);
        assert_ne!(both.lines[0].samples, both.lines[1].samples);
        let other_seed = SampleTable::of(&reals(1), &[7], 2).unwrap();
        assert_ne!(other_seed.lines[0].samples, one.lines[0].samples);
    }

    #[test]
    fn several_targets_have_a_line_each() {
        let target = |name: &str| TargetPredictions {
            name: name.into(),
            unit: ColumnScale::KEPT.spread,
            predictions: Predictions::Reals(RealPredictions::new(1.0, 1, vec![0.0; 2])),
        };
        let predictions = Predictions::Several(vec![target("a"), target("b")]);
        let table = SampleTable::of(&predictions, &[0, 2], 1).unwrap();
        let mut bytes = Vec::new();
        table.write_csv(true, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let heads = text.lines().map(|line| &line[..line.rfind(',').unwrap()]);
        assert!(
            heads.eq(["row,target", "1,a", "1,b", "3,a", "3,b"]),
            "{text}"
        );
    }
}
