//! Points in the space of inputs, in double precision on the host.

use std::collections::BTreeSet;

use burn_bayes::{Error, Noise, Result};

/// The largest number of points for which a dense covariance matrix is factorised: 32 MB in double precision.
pub const MOST_POINTS: usize = 2000;

/// Points, each with `width` coordinates.
///
/// ```
/// use burn_bayes_contrib::functional::Points;
///
/// let points = Points::new(2, vec![0.0, 1.0, 2.0, 3.0])?;
/// assert_eq!((points.len(), points.row(1)), (2, [2.0, 3.0].as_slice()));
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    width: usize,
    values: Vec<f64>,
}

impl Points {
    /// From the coordinates of one point after the other.
    ///
    /// # Errors
    ///
    /// Without a point, if the number of values is no multiple of `width`, or if one is not finite.
    pub fn new(width: usize, values: Vec<f64>) -> Result<Self> {
        if width == 0 || values.is_empty() || !values.len().is_multiple_of(width) {
            let problem = format!(
                "are {} values for points of width {width}; give at least one point, with as many values as \
                 coordinates",
                values.len()
            );
            return Err(Error::config("points", problem));
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let problem = format!(
                "coordinate {} of point {} is {}; it must be finite",
                at % width,
                at / width,
                values[at]
            );
            return Err(Error::config("points", problem));
        }
        Ok(Self { width, values })
    }

    /// The number of points.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one point")]
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// The number of coordinates of a point.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The coordinates, one point after the other.
    pub fn as_slice(&self) -> &[f64] {
        &self.values
    }

    /// One point.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`len`](Self::len).
    pub fn row(&self, index: usize) -> &[f64] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    /// The points in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> + Clone {
        self.values.chunks_exact(self.width)
    }

    /// The points with these indices; there is at least one.
    pub(super) fn select(&self, indices: &[usize]) -> Self {
        let rows = indices.iter().flat_map(|&index| self.row(index));
        Self {
            width: self.width,
            values: rows.copied().collect(),
        }
    }

    /// Fails if a dense covariance of these points is too large.
    pub(super) fn check_count(&self) -> Result<()> {
        let count = self.len();
        if count <= MOST_POINTS {
            return Ok(());
        }
        let megabytes = count * count * size_of::<f64>() / 1_000_000;
        let problem = format!(
            "are {count}; their covariance would take {megabytes} MB and its factorisation a time that grows with the \
             cube of their number; use at most {MOST_POINTS}, for example a random subset"
        );
        Err(Error::config("points", problem))
    }
}

/// `count` different indices below `len` in ascending order, or all if there are fewer; every such set is equally likely.
///
/// Reference: Bentley and Floyd (1987), "Programming pearls: a sample of brilliance".
pub(super) fn subset(noise: Noise, count: usize, len: usize) -> Vec<usize> {
    if count >= len {
        return (0..len).collect();
    }
    let mut chosen = BTreeSet::new();
    for last in len - count..len {
        let index = index_below(noise.fold(last as u64), last + 1);
        if !chosen.insert(index) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().collect()
}

/// An index below `len`, which is above 0.
pub(super) fn index_below(noise: Noise, len: usize) -> usize {
    ((noise.uniform() * len as f64) as usize).min(len - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subset_is_equally_likely() {
        let mut counts = [0; 10];
        let trials = 6000;
        for trial in 0..trials {
            let chosen = subset(Noise::new(5).fold(trial), 3, 5);
            assert!(chosen.len() == 3 && chosen.is_sorted_by(|left, right| left < right));
            let code = chosen.iter().map(|index| 1 << index).sum::<usize>();
            let codes = (0..32usize).filter(|code| code.count_ones() == 3);
            let place = codes.into_iter().position(|other| other == code);
            counts[place.unwrap()] += 1;
        }
        // Five standard errors of a binomial count with probability 1/10.
        let bound = 5.0 * (trials as f64 * 0.1 * 0.9).sqrt();
        for count in counts {
            assert!((f64::from(count) - 600.0).abs() < bound, "{counts:?}");
        }
        assert_eq!(subset(Noise::new(5), 9, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn unusable_points_are_refused() {
        for (width, values, part) in [
            (0, vec![1.0], "1 values for points of width 0"),
            (2, vec![], "0 values"),
            (2, vec![1.0, 2.0, 3.0], "3 values for points of width 2"),
            (
                2,
                vec![1.0, 2.0, 3.0, f64::NAN],
                "coordinate 1 of point 1 is NaN",
            ),
        ] {
            let error = Points::new(width, values).unwrap_err();
            assert!(
                error.is_config() && error.to_string().contains(part),
                "{error}"
            );
        }
        let many = Points::new(1, vec![0.0; MOST_POINTS + 1]).unwrap();
        let error = many.check_count().unwrap_err().to_string();
        assert!(error.contains("2001") && error.contains("32 MB"), "{error}");
    }

    #[test]
    fn points_are_selected_in_the_given_order() {
        let points = Points::new(2, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(points.select(&[2, 0]).as_slice(), [4.0, 5.0, 0.0, 1.0]);
        assert_eq!(points.rows().len(), 3);
    }
}
