//! Where functions are compared with a prior: points that are drawn afresh in every step.

use std::fmt;
use std::sync::Arc;

use burn_bayes::methods::checks::counts;
use burn_bayes::{Error, Noise, Result};

use super::points::{Points, index_below, subset};

/// A source of points at which a network's outputs are compared with a prior over functions.
///
/// The prior acts at these points and, through the smoothness of the kernel and of the network, near them: they should
/// cover the inputs for which predictions are wanted.
///
/// ```
/// use burn_bayes::Noise;
/// use burn_bayes_contrib::functional::{MeasurementPoints, Points};
///
/// let inputs = Points::new(1, vec![-1.0, -0.5, 0.5, 1.0])?;
/// let source = MeasurementPoints::mixture(vec![
///     (1.0, MeasurementPoints::training(inputs)),
///     (3.0, MeasurementPoints::uniform(vec![-3.0], vec![3.0])?),
/// ])?;
/// assert_eq!(source.draw(8, Noise::new(1))?.len(), 8);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MeasurementPoints {
    width: usize,
    source: Source,
}

#[derive(Clone)]
enum Source {
    /// Some of these points, each at most once.
    Given(Points),
    Uniform {
        lower: Vec<f64>,
        upper: Vec<f64>,
    },
    /// Points between two of these.
    Between(Points),
    Sampler(Arc<Sampler>),
    /// Shares that add up to 1.
    Mixture(Vec<(f64, MeasurementPoints)>),
}

type Sampler = dyn Fn(usize, Noise) -> Vec<f64> + Send + Sync;

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(points) => write!(f, "{} given points", points.len()),
            Self::Uniform { lower, upper } => write!(f, "the box from {lower:?} to {upper:?}"),
            Self::Between(points) => write!(f, "between {} points", points.len()),
            Self::Sampler(_) => f.write_str("a sampler"),
            Self::Mixture(parts) => f.debug_list().entries(parts).finish(),
        }
    }
}

impl MeasurementPoints {
    /// Random training inputs, each at most once in a draw.
    pub fn training(inputs: Points) -> Self {
        Self {
            width: inputs.width(),
            source: Source::Given(inputs),
        }
    }

    /// Random points of a regular grid, each at most once in a draw. Coordinate d has `counts[d]` values, from `lower[d]`
    /// to `upper[d]`.
    ///
    /// # Errors
    ///
    /// If the bounds are not finite and in order, a count is 0, or the grid has more than 10⁷ values.
    pub fn grid(lower: &[f64], upper: &[f64], counts: &[usize]) -> Result<Self> {
        const MOST_VALUES: usize = 10_000_000;
        check_bounds(lower, upper)?;
        let width = lower.len();
        if counts.len() != width || counts.contains(&0) {
            let problem = format!(
                "are {counts:?}; give one count above zero for each of {width} coordinates"
            );
            return Err(Error::config("counts", problem));
        }
        let count = counts
            .iter()
            .try_fold(width, |all, count| all.checked_mul(*count));
        let Some(values) = count.filter(|count| *count <= MOST_VALUES) else {
            let problem = format!(
                "make a grid of more than {MOST_VALUES} values; use fewer in each coordinate, or a `uniform` box"
            );
            return Err(Error::config("counts", problem));
        };
        let coordinate = |d: usize, index: usize| match counts[d] {
            1 => 0.5 * (lower[d] + upper[d]),
            count => lower[d] + (upper[d] - lower[d]) * index as f64 / (count - 1) as f64,
        };
        let point = |mut index: usize| {
            (0..width).map(move |d| {
                let place = index % counts[d];
                index /= counts[d];
                coordinate(d, place)
            })
        };
        let values = (0..values / width).flat_map(point).collect();
        Ok(Self::training(Points::new(width, values)?))
    }

    /// Points that are uniformly distributed in a box.
    ///
    /// # Errors
    ///
    /// If the bounds are not finite and in order.
    pub fn uniform(lower: Vec<f64>, upper: Vec<f64>) -> Result<Self> {
        check_bounds(&lower, &upper)?;
        Ok(Self {
            width: lower.len(),
            source: Source::Uniform { lower, upper },
        })
    }

    /// Convex combinations u x + (1 − u) x' of two random training inputs, with u uniform in [0, 1]: points between the
    /// data, for inputs such as images of which a box contains hardly any that make sense.
    pub fn convex_combinations(inputs: Points) -> Self {
        Self {
            width: inputs.width(),
            source: Source::Between(inputs),
        }
    }

    /// Points of width `width` from a function, which returns the coordinates of as many points as it is asked for. It
    /// should take all its randomness from the noise.
    ///
    /// # Errors
    ///
    /// If the width is 0.
    pub fn sampler(
        width: usize,
        sampler: impl Fn(usize, Noise) -> Vec<f64> + Send + Sync + 'static,
    ) -> Result<Self> {
        counts([("width", width)])?;
        Ok(Self {
            width,
            source: Source::Sampler(Arc::new(sampler)),
        })
    }

    /// Points of several sources, in proportion to their weights.
    ///
    /// # Errors
    ///
    /// Without a source, if a weight is not finite and above zero, or if widths differ.
    pub fn mixture(parts: Vec<(f64, Self)>) -> Result<Self> {
        let width = parts.first().map_or(0, |part| part.1.width);
        if let Some((_, other)) = parts.iter().find(|part| part.1.width != width) {
            let problem = format!("have the widths {width} and {}", other.width);
            return Err(Error::config("parts", problem));
        }
        let is_usable = |weight: f64| weight.is_finite() && weight > 0.0;
        if parts.is_empty() || parts.iter().any(|part| !is_usable(part.0)) {
            let problem = "must be at least one, with weights that are finite and above zero";
            return Err(Error::config("parts", problem));
        }
        let total: f64 = parts.iter().map(|part| part.0).sum();
        let parts = parts.into_iter();
        let parts = parts.map(|(weight, part)| (weight / total, part)).collect();
        Ok(Self {
            width,
            source: Source::Mixture(parts),
        })
    }

    /// The number of coordinates of a point.
    pub fn width(&self) -> usize {
        self.width
    }

    /// `count` points, a function of the noise.
    ///
    /// # Errors
    ///
    /// Without points, if there are not enough different ones, or if a sampler returns values that are not finite or
    /// another number of them.
    pub fn draw(&self, count: usize, noise: Noise) -> Result<Points> {
        counts([("count", count)])?;
        let values = self.values(count, noise)?;
        Points::new(self.width, values)
    }

    fn values(&self, count: usize, noise: Noise) -> Result<Vec<f64>> {
        match &self.source {
            Source::Given(points) if count > points.len() => {
                let problem = format!(
                    "is {count}, but there are only {} different points; use fewer, or a mixture with another source",
                    points.len()
                );
                Err(Error::config("count", problem))
            }
            Source::Given(points) => {
                let indices = subset(noise, count, points.len());
                Ok(points.select(&indices).as_slice().to_vec())
            }
            Source::Uniform { lower, upper } => {
                let point = |index: usize| {
                    let noise = noise.fold(index as u64);
                    let bounds = lower.iter().zip(upper).enumerate();
                    bounds.map(move |(d, (lower, upper))| {
                        lower + (upper - lower) * noise.fold(d as u64).uniform()
                    })
                };
                Ok((0..count).flat_map(point).collect())
            }
            Source::Between(points) => {
                let point = |index: usize| {
                    let noise = noise.fold(index as u64);
                    let [x, y] =
                        [1, 2].map(|key| points.row(index_below(noise.fold(key), points.len())));
                    let share = noise.fold(0).uniform();
                    let pairs = x.iter().zip(y);
                    pairs.map(move |(x, y)| share * x + (1.0 - share) * y)
                };
                Ok((0..count).flat_map(point).collect())
            }
            Source::Sampler(sampler) => {
                let values = sampler(count, noise);
                if values.len() == count * self.width {
                    return Ok(values);
                }
                let problem = format!(
                    "returned {} values for {count} points of width {}",
                    values.len(),
                    self.width
                );
                Err(Error::config("sampler", problem))
            }
            Source::Mixture(parts) => {
                let mut values = Vec::with_capacity(count * self.width);
                let (mut share, mut done) = (0.0, 0);
                for (index, (weight, part)) in parts.iter().enumerate() {
                    share += weight;
                    // Cumulated shares, so that the counts add up.
                    let until = match index + 1 == parts.len() {
                        true => count,
                        false => ((share * count as f64).round() as usize).min(count),
                    };
                    if until > done {
                        values.extend(part.values(until - done, noise.fold(index as u64))?);
                    }
                    done = until;
                }
                Ok(values)
            }
        }
    }
}

fn check_bounds(lower: &[f64], upper: &[f64]) -> Result<()> {
    let mut pairs = lower.iter().zip(upper);
    let are_ordered = pairs.all(|(lower, upper)| (upper - lower).is_finite() && lower < upper);
    if !lower.is_empty() && lower.len() == upper.len() && are_ordered {
        return Ok(());
    }
    let problem = format!(
        "are {lower:?} and {upper:?}; give a finite lower and a larger upper bound for every coordinate"
    );
    Err(Error::config("bounds", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corners() -> Points {
        Points::new(2, vec![0.0, 0.0, 4.0, 0.0, 0.0, 4.0]).unwrap()
    }

    fn sources() -> Vec<MeasurementPoints> {
        let uniform = MeasurementPoints::uniform(vec![0.0, 0.0], vec![1.0, 2.0]).unwrap();
        let parts = vec![
            (1.0, MeasurementPoints::training(corners())),
            (2.0, uniform.clone()),
        ];
        vec![
            MeasurementPoints::training(corners()),
            MeasurementPoints::grid(&[0.0, 0.0], &[1.0, 1.0], &[3, 2]).unwrap(),
            MeasurementPoints::convex_combinations(corners()),
            MeasurementPoints::sampler(2, |count, noise| {
                noise.latent(2 * count).into_iter().map(f64::from).collect()
            })
            .unwrap(),
            MeasurementPoints::mixture(parts).unwrap(),
            uniform,
        ]
    }

    #[test]
    fn draws_are_functions_of_the_noise() {
        for source in sources() {
            let draw = |seed| source.draw(3, Noise::new(seed)).unwrap();
            let points = draw(1);
            assert_eq!((points.len(), points.width()), (3, 2), "{source:?}");
            assert_eq!(points, draw(1), "{source:?}");
            let different = (2..20).any(|seed| draw(seed) != points);
            // Three of three given points are always the same.
            let is_all = matches!(&source.source, Source::Given(points) if points.len() == 3);
            assert_ne!(different, is_all, "{source:?}");
        }
    }

    #[test]
    fn a_grid_has_every_point_once() {
        let grid = MeasurementPoints::grid(&[0.0, 5.0], &[1.0, 7.0], &[3, 1]).unwrap();
        let points = grid.draw(3, Noise::new(1)).unwrap();
        assert_eq!(points.as_slice(), [0.0, 6.0, 0.5, 6.0, 1.0, 6.0]);
        let error = grid.draw(4, Noise::new(1)).unwrap_err().to_string();
        assert!(error.contains("only 3 different points"), "{error}");
    }

    #[test]
    fn random_points_stay_inside_and_fill_their_range() {
        let count = 4000;
        for source in [&sources()[5], &sources()[2]] {
            let points = source.draw(count, Noise::new(9)).unwrap();
            let is_uniform = matches!(source.source, Source::Uniform { .. });
            for point in points.rows() {
                match is_uniform {
                    true => assert!(point[0] < 1.0 && point[1] < 2.0),
                    false => assert!(point[0] + point[1] <= 4.0 + 1e-12),
                }
                assert!(point.iter().all(|x| *x >= 0.0));
            }
            let mean = points.rows().map(|point| point[1]).sum::<f64>() / count as f64;
            // The means are 1 and 4/3; five standard errors, with deviations below 1.5.
            let expected = if is_uniform { 1.0 } else { 4.0 / 3.0 };
            let bound = 5.0 * 1.5 / (count as f64).sqrt();
            assert!((mean - expected).abs() < bound, "{mean}");
        }
    }

    #[test]
    fn a_mixture_draws_in_proportion() {
        let at =
            |value: f64| MeasurementPoints::sampler(1, move |count, _| vec![value; count]).unwrap();
        let parts = vec![(1.0, at(1.0)), (2.0, at(2.0)), (1.0, at(3.0))];
        let mixture = MeasurementPoints::mixture(parts).unwrap();
        let points = mixture.draw(8, Noise::new(1)).unwrap();
        assert_eq!(points.as_slice(), [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0]);
        assert_eq!(mixture.draw(1, Noise::new(1)).unwrap().len(), 1);
    }

    #[test]
    fn unusable_sources_are_refused() {
        let uniform = |lower: &[f64], upper: &[f64]| {
            MeasurementPoints::uniform(lower.to_vec(), upper.to_vec())
        };
        for error in [
            uniform(&[0.0], &[0.0]),
            uniform(&[], &[]),
            uniform(&[0.0], &[1.0, 2.0]),
            uniform(&[0.0], &[f64::INFINITY]),
            MeasurementPoints::grid(&[0.0], &[1.0], &[0]),
            MeasurementPoints::grid(&[0.0; 9], &[1.0; 9], &[100; 9]),
            MeasurementPoints::sampler(0, |_, _| Vec::new()),
            MeasurementPoints::mixture(Vec::new()),
            MeasurementPoints::mixture(vec![(0.0, sources().swap_remove(0))]),
            MeasurementPoints::mixture(vec![
                (1.0, sources().swap_remove(0)),
                (1.0, uniform(&[0.0], &[1.0]).unwrap()),
            ]),
        ] {
            assert!(error.unwrap_err().is_config());
        }
        for sampler in [|_| Vec::new(), |count| vec![f64::NAN; count]] {
            let source = MeasurementPoints::sampler(1, move |count, _| sampler(count)).unwrap();
            assert!(source.draw(2, Noise::new(1)).unwrap_err().is_config());
        }
        assert!(sources()[0].draw(0, Noise::new(1)).is_err());
    }
}
