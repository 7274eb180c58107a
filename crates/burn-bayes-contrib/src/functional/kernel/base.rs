//! The values and derivatives of single kernels.
//!
//! A kernel has at most one shape parameter, and one length scale ℓ or one per coordinate. With δ = x − y:
//!
//! | kernel | k(x, y) | shape |
//! |---|---|---|
//! | constant | v | v |
//! | linear | Σ x_d y_d/ℓ_d² | |
//! | RBF | exp(−r²/2), r² = Σ δ_d²/ℓ_d² | |
//! | Matérn ½ | exp(−r) | |
//! | Matérn 3/2 | (1 + √3 r) exp(−√3 r) | |
//! | Matérn 5/2 | (1 + √5 r + 5r²/3) exp(−√5 r) | |
//! | rational quadratic | (1 + r²/2a)^−a | a |
//! | periodic | exp(−2 Σ sin²(π δ_d/p)/ℓ_d²) | p |
//! | arc-cosine 0 | 1 − θ/π | |
//! | arc-cosine 1 | (sin θ + (π − θ) cos θ) ‖u‖‖v‖/π | |
//!
//! In the arc-cosine kernels θ is the angle between u = (1, x/ℓ) and v = (1, y/ℓ): they are the covariances of wide
//! networks with one hidden layer of steps and of rectifiers.
//!
//! References: Rasmussen and Williams (2006), *Gaussian Processes for Machine Learning*, chapter 4; Cho and Saul (2009),
//! "Kernel methods for deep learning".

use std::f64::consts::PI;

use burn_bayes::algebra::summed;
use burn_bayes::eval::Bounded;

/// The form of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Constant,
    Linear,
    Rbf,
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    Periodic,
    ArcCosine0,
    ArcCosine1,
}

impl Family {
    pub(super) const ALL: [Self; 10] = [
        Self::Constant,
        Self::Linear,
        Self::Rbf,
        Self::Matern12,
        Self::Matern32,
        Self::Matern52,
        Self::RationalQuadratic,
        Self::Periodic,
        Self::ArcCosine0,
        Self::ArcCosine1,
    ];

    /// The name in expressions.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Rbf => "rbf",
            Self::Matern12 => "matern12",
            Self::Matern32 => "matern32",
            Self::Matern52 => "matern52",
            Self::RationalQuadratic => "rational_quadratic",
            Self::Periodic => "periodic",
            Self::ArcCosine0 => "arc_cosine0",
            Self::ArcCosine1 => "arc_cosine1",
        }
    }

    /// The name of the shape parameter.
    pub(super) fn shape_name(self) -> Option<&'static str> {
        match self {
            Self::Constant => Some("variance"),
            Self::RationalQuadratic => Some("mixture"),
            Self::Periodic => Some("period"),
            _ => None,
        }
    }

    pub(super) fn has_length_scales(self) -> bool {
        self != Self::Constant
    }
}

/// One kernel with its parameters: the shape, if the family has one, then the length scales.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BaseKernel {
    pub(super) family: Family,
    pub(super) parameters: Vec<f64>,
}

/// The value of a kernel and its derivatives, from which those by the logarithms of the length scales follow.
struct Slopes {
    value: f64,
    /// −∂k/∂log ℓ_d divided by the coordinate's part of the squared distance, or of the inner product.
    parts: f64,
    /// ∂k/∂log of the shape parameter.
    shape: f64,
}

impl BaseKernel {
    fn shape_count(&self) -> usize {
        usize::from(self.family.shape_name().is_some())
    }

    pub(super) fn shape(&self) -> f64 {
        self.parameters.first().copied().unwrap_or(1.0)
    }

    pub(super) fn length_scales(&self) -> &[f64] {
        &self.parameters[self.shape_count()..]
    }

    /// The index of the length scale of a coordinate.
    fn scale_index(&self, coordinate: usize) -> usize {
        match self.parameters.len() - self.shape_count() {
            1 => 0,
            _ => coordinate,
        }
    }

    pub(super) fn scale(&self, coordinate: usize) -> f64 {
        self.length_scales()[self.scale_index(coordinate)]
    }

    /// The distance in a coordinate over which functions change; `None` if that depends on their place.
    pub(super) fn change_length(&self, coordinate: usize) -> Option<f64> {
        match self.family {
            Family::Constant | Family::Linear | Family::ArcCosine0 | Family::ArcCosine1 => None,
            // For short length scales, the kernel is about exp(−(2πδ/pℓ)²/2), for long ones a wave.
            Family::Periodic => {
                Some(self.shape() / (2.0 * PI) * self.scale(coordinate).at_most(1.0))
            }
            _ => Some(self.scale(coordinate)),
        }
    }

    /// k(x, y).
    pub(super) fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        match self.family {
            Family::Constant => self.shape(),
            Family::Linear => self.inner_product(x, y),
            Family::ArcCosine0 | Family::ArcCosine1 => self.angle(x, y).value(self.family),
            _ => self.of_distance(self.total_distance(x, y)).value,
        }
    }

    /// The squared distance. Points can have hundreds of coordinates, so the common case is fast.
    fn total_distance(&self, x: &[f64], y: &[f64]) -> f64 {
        match self.length_scales() {
            [scale] if self.family != Family::Periodic => {
                summed(x, y, |x, y| (x - y) * (x - y)) / (scale * scale)
            }
            _ => (0..x.len())
                .map(|d| self.squared_distance(d, x[d], y[d]))
                .sum(),
        }
    }

    /// Adds `scale` times the derivatives of k(x, y) by the logarithms of the parameters.
    pub(super) fn add_gradient(&self, x: &[f64], y: &[f64], scale: f64, gradient: &mut [f64]) {
        let shapes = self.shape_count();
        let mut add = |coordinate: usize, derivative: f64| {
            gradient[shapes + self.scale_index(coordinate)] += scale * derivative;
        };
        match self.family {
            Family::Constant => gradient[0] += scale * self.shape(),
            Family::Linear => {
                for d in 0..x.len() {
                    add(d, -2.0 * x[d] * y[d] / self.scale(d).powi(2));
                }
            }
            Family::ArcCosine0 | Family::ArcCosine1 => {
                let angle = self.angle(x, y);
                let [inner, left, right] = angle.slopes(self.family);
                for d in 0..x.len() {
                    let products = inner * x[d] * y[d] + left * x[d] * x[d] + right * y[d] * y[d];
                    add(d, -2.0 * products / self.scale(d).powi(2));
                }
            }
            _ => {
                let distance = |d: usize| self.squared_distance(d, x[d], y[d]);
                let slopes = self.of_distance(self.total_distance(x, y));
                for d in 0..x.len() {
                    add(d, slopes.parts * distance(d));
                }
                if self.family == Family::Periodic {
                    let period = self.shape();
                    for d in 0..x.len() {
                        // ∂/∂log p of sin²(πδ/p)/ℓ².
                        let phase = PI * (x[d] - y[d]) / period;
                        let rise = phase * (2.0 * phase).sin() / self.scale(d).powi(2);
                        gradient[0] += scale * 2.0 * slopes.value * rise;
                    }
                } else if shapes == 1 {
                    gradient[0] += scale * slopes.shape;
                }
            }
        }
    }

    /// The part of a coordinate in the squared distance.
    fn squared_distance(&self, coordinate: usize, x: f64, y: f64) -> f64 {
        let difference = x - y;
        let part = match self.family {
            Family::Periodic => (PI * difference / self.shape()).sin(),
            _ => difference,
        };
        (part / self.scale(coordinate)).powi(2)
    }

    /// Kernels that are functions of the squared distance.
    fn of_distance(&self, squared: f64) -> Slopes {
        let of = |value: f64, parts: f64| Slopes {
            value,
            parts,
            shape: 0.0,
        };
        match self.family {
            Family::Periodic => {
                let value = (-2.0 * squared).exp();
                of(value, 4.0 * value)
            }
            Family::Matern12 => {
                let distance = squared.sqrt();
                let value = (-distance).exp();
                // At distance 0, all parts of the distance are 0.
                of(
                    value,
                    if distance > 0.0 {
                        value / distance
                    } else {
                        0.0
                    },
                )
            }
            Family::Matern32 => {
                let distance = (3.0 * squared).sqrt();
                let decay = (-distance).exp();
                of((1.0 + distance) * decay, 3.0 * decay)
            }
            Family::Matern52 => {
                let distance = (5.0 * squared).sqrt();
                let decay = (-distance).exp();
                let slope = 5.0 / 3.0 * (1.0 + distance) * decay;
                of((1.0 + distance + 5.0 / 3.0 * squared) * decay, slope)
            }
            Family::RationalQuadratic => {
                let mixture = self.shape();
                let excess = squared / (2.0 * mixture);
                let logarithm = excess.ln_1p();
                let value = (-mixture * logarithm).exp();
                Slopes {
                    value,
                    parts: value / (1.0 + excess),
                    shape: mixture * value * (excess / (1.0 + excess) - logarithm),
                }
            }
            _ => {
                let value = (-0.5 * squared).exp();
                of(value, value)
            }
        }
    }

    fn inner_product(&self, x: &[f64], y: &[f64]) -> f64 {
        let parts = (0..x.len()).map(|d| x[d] * y[d] / self.scale(d).powi(2));
        parts.sum()
    }

    fn angle(&self, x: &[f64], y: &[f64]) -> Angle {
        let left = 1.0 + self.inner_product(x, x);
        let (mut along, mut apart) = (0.0, 0.0);
        for d in 0..x.len() {
            let squared_scale = self.scale(d).powi(2);
            along += x[d] * (y[d] - x[d]) / squared_scale;
            apart += (y[d] - x[d]).powi(2) / squared_scale;
        }
        Angle {
            inner: 1.0 + self.inner_product(x, y),
            left,
            right: 1.0 + self.inner_product(y, y),
            // ‖u‖²‖v‖² − (uᵀv)², without a difference of two large numbers for close points.
            sine: (left * apart - along * along).at_least(0.0).sqrt(),
        }
    }
}

/// The angle between u and v.
struct Angle {
    /// uᵀv.
    inner: f64,
    /// ‖u‖².
    left: f64,
    /// ‖v‖².
    right: f64,
    /// ‖u‖‖v‖ sin θ.
    sine: f64,
}

impl Angle {
    fn value(&self, family: Family) -> f64 {
        let rest = PI - self.sine.atan2(self.inner);
        match family {
            Family::ArcCosine0 => rest / PI,
            _ => (self.sine + self.inner * rest) / PI,
        }
    }

    /// The derivatives by uᵀv, ‖u‖² and ‖v‖².
    fn slopes(&self, family: Family) -> [f64; 3] {
        let Self {
            inner,
            left,
            right,
            sine,
        } = *self;
        match family {
            // For parallel vectors, which no length scale turns.
            Family::ArcCosine0 if sine == 0.0 => [0.0; 3],
            Family::ArcCosine0 => {
                let norm = |squared: f64| -inner / (2.0 * squared * sine * PI);
                [1.0 / (sine * PI), norm(left), norm(right)]
            }
            _ => {
                let rest = PI - sine.atan2(inner);
                let norm = |squared: f64| sine / (2.0 * squared * PI);
                [rest / PI, norm(left), norm(right)]
            }
        }
    }
}
