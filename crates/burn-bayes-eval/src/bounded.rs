//! Bounds of numbers that keep NaN.

/// Bounds that keep NaN. `max` and `min` of floating-point numbers drop it, so that what was not computed looks like a
/// number.
///
/// ```
/// use burn_bayes_eval::Bounded;
///
/// assert_eq!(0.5.at_least(1.0), 1.0);
/// assert!(f64::NAN.at_most(1.0).is_nan());
/// ```
pub trait Bounded {
    /// The larger number; NaN if either is NaN.
    #[must_use]
    fn at_least(self, least: Self) -> Self;

    /// The smaller number; NaN if either is NaN.
    #[must_use]
    fn at_most(self, most: Self) -> Self;
}

macro_rules! bounded {
    ($($float:ty)+) => {$(
        impl Bounded for $float {
            fn at_least(self, least: Self) -> Self {
                if self < least || least.is_nan() {
                    least
                } else {
                    self
                }
            }

            fn at_most(self, most: Self) -> Self {
                if self > most || most.is_nan() {
                    most
                } else {
                    self
                }
            }
        }
    )+};
}

bounded! { f32 f64 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_keep_what_is_not_a_number() {
        assert_eq!((2.0.at_least(1.0), 0.5.at_least(1.0)), (2.0, 1.0));
        assert_eq!((2.0.at_most(1.0), 0.5.at_most(1.0)), (1.0, 0.5));
        for [a, b] in [[f64::NAN, 1.0], [1.0, f64::NAN], [-f64::NAN, 0.0]] {
            assert!(a.at_least(b).is_nan() && a.at_most(b).is_nan());
        }
    }
}
