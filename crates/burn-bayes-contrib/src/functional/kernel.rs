//! Kernels: the covariances of Gaussian processes, with sums, products and derivatives.

mod base;
mod expression;
mod spectrum;

use std::ops::{Add, Mul};

use base::{BaseKernel, Family};
use burn_bayes::algebra::SquareMatrix;
use burn_bayes::eval::Bounded;
use burn_bayes::{Error, Result};

use super::points::Points;

/// A kernel: the covariance k(x, y) of a function's values at two points.
///
/// Single kernels have variance 1, except [`constant`](Self::constant) and [`linear`](Self::linear); multiply by a
/// constant for another variance. Length scales are one for all coordinates, or one per coordinate. Sums and products of
/// kernels are kernels. As text, a kernel is an expression:
///
/// ```
/// use burn_bayes_contrib::functional::Kernel;
///
/// let seasonal = Kernel::constant(4.0) * Kernel::periodic(12.0, [1.0]) * Kernel::rbf([60.0]);
/// let kernel = seasonal + Kernel::linear([30.0]);
/// assert_eq!(kernel.to_string(), "4*periodic(12,1)*rbf(60) + linear(30)");
/// assert_eq!(kernel, "4*periodic(12, 1)*rbf(60) + linear(30)".parse::<Kernel>()?);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    node: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Base(BaseKernel),
    Sum(Vec<Node>),
    Product(Vec<Node>),
}

impl Kernel {
    /// k = v.
    pub fn constant(variance: f64) -> Self {
        Self::base(Family::Constant, vec![variance])
    }

    /// k = Σ x_d y_d/ℓ_d², a linear function through the origin whose slopes have the deviations 1/ℓ.
    pub fn linear(length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(Family::Linear, length_scales.into())
    }

    /// The squared exponential kernel exp(−r²/2), r² = Σ (x_d − y_d)²/ℓ_d²: very smooth functions.
    pub fn rbf(length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(Family::Rbf, length_scales.into())
    }

    /// The Matérn kernel with smoothness ½, exp(−r): continuous, rough functions.
    pub fn matern12(length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(Family::Matern12, length_scales.into())
    }

    /// The Matérn kernel with smoothness 3/2: functions with one derivative.
    pub fn matern32(length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(Family::Matern32, length_scales.into())
    }

    /// The Matérn kernel with smoothness 5/2: functions with two derivatives.
    pub fn matern52(length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(Family::Matern52, length_scales.into())
    }

    /// The rational quadratic kernel (1 + r²/2a)^−a: RBF kernels of many length scales. A small `mixture` a mixes
    /// more of them.
    pub fn rational_quadratic(mixture: f64, length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(
            Family::RationalQuadratic,
            shaped(mixture, length_scales.into()),
        )
    }

    /// exp(−2 Σ sin²(π(x_d − y_d)/p)/ℓ_d²): functions with period p in every coordinate.
    pub fn periodic(period: f64, length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(Family::Periodic, shaped(period, length_scales.into()))
    }

    /// The arc-cosine kernel of order 0: a wide network with one hidden layer of steps.
    pub fn arc_cosine0(length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(Family::ArcCosine0, length_scales.into())
    }

    /// The arc-cosine kernel of order 1: a wide network with one hidden layer of rectifiers.
    pub fn arc_cosine1(length_scales: impl Into<Vec<f64>>) -> Self {
        Self::base(Family::ArcCosine1, length_scales.into())
    }

    fn base(family: Family, parameters: Vec<f64>) -> Self {
        let node = Node::Base(BaseKernel { family, parameters });
        Self { node }
    }

    /// The variances, shapes and length scales, all above zero, in the order of the expression.
    pub fn parameters(&self) -> Vec<f64> {
        let parameters = self.node.bases().into_iter();
        parameters
            .flat_map(|base| base.parameters.iter().copied())
            .collect()
    }

    /// The names of the parameters, such as `rbf length scale`.
    pub fn parameter_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for base in self.node.bases() {
            let kernel = base.family.name();
            let shape = base.family.shape_name();
            names.extend(shape.map(|shape| format!("{kernel} {shape}")));
            match base.length_scales().len() {
                1 => names.push(format!("{kernel} length scale")),
                count => names.extend((1..=count).map(|d| format!("{kernel} length scale {d}"))),
            }
        }
        names
    }

    /// The same kernel with other parameters, in the order of [`parameters`](Self::parameters).
    ///
    /// # Errors
    ///
    /// If their number differs, or one is not finite and above zero.
    pub fn with_parameters(&self, parameters: &[f64]) -> Result<Self> {
        let mut kernel = self.clone();
        let mut rest = parameters;
        let expected = self.parameters().len();
        if parameters.len() != expected {
            let problem = format!(
                "`{self}` has {expected} parameters, not {}",
                parameters.len()
            );
            return Err(Error::config("kernel", problem));
        }
        kernel.node.for_each_base(&mut |base| {
            let (own, after) = rest.split_at(base.parameters.len());
            base.parameters.copy_from_slice(own);
            rest = after;
        });
        kernel.check_parameters()?;
        Ok(kernel)
    }

    /// The same kernel with a constant factor 1 before every term of the sum that has none, so that the terms get
    /// variances of their own.
    #[must_use]
    pub fn with_term_variances(self) -> Self {
        let terms = match self.node {
            Node::Sum(terms) => terms,
            term => vec![term],
        };
        let has_variance = |term: &Node| match term {
            Node::Base(base) => base.family == Family::Constant,
            Node::Product(factors) => factors.iter().any(
                |factor| matches!(factor, Node::Base(base) if base.family == Family::Constant),
            ),
            Node::Sum(_) => false,
        };
        let terms = terms.into_iter().map(|term| match has_variance(&term) {
            true => Self { node: term },
            false => Self::constant(1.0) * Self { node: term },
        });
        terms
            .reduce(Add::add)
            .expect("a kernel has at least one term")
    }

    /// The same kernel with the length scales that the median heuristic gives for these points: in every coordinate
    /// the median distance of two points that differ there, or of two points for a single length scale. Those of
    /// periodic kernels, whose length scales have no units, stay as they are.
    pub fn with_median_length_scales(mut self, points: &Points) -> Result<Self> {
        self.check(points)?;
        self.node.for_each_base(&mut |base| {
            let count = base.length_scales().len();
            if base.family == Family::Periodic || count == 0 {
                return;
            }
            let first = base.parameters.len() - count;
            for scale in 0..count {
                let coordinates = match count {
                    1 => 0..points.width(),
                    _ => scale..scale + 1,
                };
                if let Some(median) = median_distance(points, coordinates) {
                    base.parameters[first + scale] = median;
                }
            }
        });
        Ok(self)
    }

    /// The shortest distance in a coordinate over which a part of the functions changes; `None` if no part has one.
    pub(crate) fn shortest_length(&self, coordinate: usize) -> Option<f64> {
        let bases = self.node.bases().into_iter();
        let lengths = bases.filter_map(|base| base.change_length(coordinate));
        lengths.reduce(f64::at_most)
    }

    /// k(x, y) of all pairs of points, exactly symmetric.
    ///
    /// # Errors
    ///
    /// If a parameter is not finite and above zero, the points have another width than the length scales, or there are
    /// more than [`MOST_POINTS`](super::MOST_POINTS).
    pub fn matrix(&self, points: &Points) -> Result<SquareMatrix> {
        self.check(points)?;
        points.check_count()?;
        let count = points.len();
        let mut values = vec![0.0; count * count];
        for (i, x) in points.rows().enumerate() {
            for (j, y) in points.rows().take(i + 1).enumerate() {
                let value = self.node.value(x, y);
                values[i * count + j] = value;
                values[j * count + i] = value;
            }
        }
        Ok(SquareMatrix::from_row_major(count, values)?)
    }

    /// k(x, y) of every point x of `left` and every point y of `right`, one row per x.
    ///
    /// # Errors
    ///
    /// Those of [`matrix`](Self::matrix), except for the number of points.
    pub fn between(&self, left: &Points, right: &Points) -> Result<Vec<f64>> {
        self.check(left)?;
        self.check(right)?;
        check_width(left, right)?;
        let rows = left.rows();
        let values = rows.flat_map(|x| right.rows().map(|y| self.node.value(x, y)));
        Ok(values.collect())
    }

    /// k(x, x) of every point.
    ///
    /// # Errors
    ///
    /// Those of [`between`](Self::between).
    pub fn variances(&self, points: &Points) -> Result<Vec<f64>> {
        self.check(points)?;
        Ok(points.rows().map(|x| self.node.value(x, x)).collect())
    }

    /// Σᵢⱼ Wᵢⱼ ∂k(xᵢ, xⱼ)/∂log φ for every parameter φ and symmetric weights W, without a matrix for each parameter.
    pub(super) fn weighted_gradient(&self, points: &Points, weights: &SquareMatrix) -> Vec<f64> {
        let mut gradient = vec![0.0; self.parameters().len()];
        for (i, x) in points.rows().enumerate() {
            for (j, y) in points.rows().take(i + 1).enumerate() {
                let twice = if i == j { 1.0 } else { 2.0 };
                let scale = twice * weights.get(i, j);
                self.node.add_gradient(x, y, scale, &mut gradient);
            }
        }
        gradient
    }

    /// Fails if a parameter is unusable or the kernel does not fit the points.
    pub(super) fn check(&self, points: &Points) -> Result<()> {
        self.check_parameters()?;
        for base in self.node.bases() {
            let scales = base.length_scales().len();
            if base.family.has_length_scales() && scales != 1 && scales != points.width() {
                let problem = format!(
                    "`{}` has {scales} length scales, but the points have {} coordinates; give one length scale, or one \
                     per coordinate",
                    base.family.name(),
                    points.width()
                );
                return Err(Error::config("kernel", problem));
            }
        }
        Ok(())
    }

    fn check_parameters(&self) -> Result<()> {
        for base in self.node.bases() {
            let name = base.family.name();
            let bad = base
                .parameters
                .iter()
                .find(|value| !(value.is_finite() && **value > 0.0));
            if let Some(value) = bad {
                let problem =
                    format!("a parameter of `{name}` is {value}; it must be finite and above zero");
                return Err(Error::config("kernel", problem));
            }
            if base.family.has_length_scales() && base.length_scales().is_empty() {
                let problem = format!("`{name}` has no length scale; give at least one");
                return Err(Error::config("kernel", problem));
            }
        }
        Ok(())
    }
}

impl Add for Kernel {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let terms = |node| match node {
            Node::Sum(terms) => terms,
            node => vec![node],
        };
        let mut sum = terms(self.node);
        sum.extend(terms(other.node));
        Self {
            node: Node::Sum(sum),
        }
    }
}

impl Mul for Kernel {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let factors = |node| match node {
            Node::Product(factors) => factors,
            node => vec![node],
        };
        let mut product = factors(self.node);
        product.extend(factors(other.node));
        Self {
            node: Node::Product(product),
        }
    }
}

impl Node {
    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        match self {
            Self::Base(base) => base.value(x, y),
            Self::Sum(terms) => terms.iter().map(|term| term.value(x, y)).sum(),
            Self::Product(factors) => factors.iter().map(|factor| factor.value(x, y)).product(),
        }
    }

    /// Adds `scale` times the derivatives by the logarithms of the parameters.
    fn add_gradient(&self, x: &[f64], y: &[f64], scale: f64, gradient: &mut [f64]) {
        match self {
            Self::Base(base) => base.add_gradient(x, y, scale, gradient),
            Self::Sum(terms) => {
                let mut first = 0;
                for term in terms {
                    let count = term.parameter_count();
                    term.add_gradient(x, y, scale, &mut gradient[first..first + count]);
                    first += count;
                }
            }
            Self::Product(factors) => {
                let mut first = 0;
                for (index, factor) in factors.iter().enumerate() {
                    let others = factors.iter().enumerate().filter(|other| other.0 != index);
                    let others: f64 = others.map(|other| other.1.value(x, y)).product();
                    let count = factor.parameter_count();
                    factor.add_gradient(x, y, scale * others, &mut gradient[first..first + count]);
                    first += count;
                }
            }
        }
    }

    fn parameter_count(&self) -> usize {
        match self {
            Self::Base(base) => base.parameters.len(),
            Self::Sum(nodes) | Self::Product(nodes) => {
                nodes.iter().map(Self::parameter_count).sum()
            }
        }
    }

    fn bases(&self) -> Vec<&BaseKernel> {
        match self {
            Self::Base(base) => vec![base],
            Self::Sum(nodes) | Self::Product(nodes) => nodes.iter().flat_map(Self::bases).collect(),
        }
    }

    fn for_each_base(&mut self, change: &mut impl FnMut(&mut BaseKernel)) {
        match self {
            Self::Base(base) => change(base),
            Self::Sum(nodes) | Self::Product(nodes) => {
                nodes.iter_mut().for_each(|node| node.for_each_base(change));
            }
        }
    }
}

fn shaped(shape: f64, length_scales: Vec<f64>) -> Vec<f64> {
    let mut parameters = vec![shape];
    parameters.extend(length_scales);
    parameters
}

/// Fails if two sets of points have different widths.
pub(super) fn check_width(left: &Points, right: &Points) -> Result<()> {
    if left.width() == right.width() {
        return Ok(());
    }
    let problem = format!(
        "have {} coordinates, but others have {}; use the same inputs, prepared in the same way",
        right.width(),
        left.width()
    );
    Err(Error::config("points", problem))
}

/// The number of points whose distances are sorted.
const MEDIAN_POINTS: usize = 500;

/// The median distance in these coordinates of two points that differ in them.
fn median_distance(points: &Points, coordinates: std::ops::Range<usize>) -> Option<f64> {
    let step = points.len().div_ceil(MEDIAN_POINTS);
    let rows: Vec<&[f64]> = points
        .rows()
        .step_by(step)
        .map(|row| &row[coordinates.clone()])
        .collect();
    let pairs = rows.iter().enumerate();
    let mut distances: Vec<f64> = pairs
        .flat_map(|(i, x)| {
            rows[..i].iter().map(move |y| {
                let parts = x.iter().zip(*y).map(|(x, y)| (x - y).powi(2));
                parts.sum::<f64>().sqrt()
            })
        })
        .filter(|distance| *distance > 0.0)
        .collect();
    let middle = distances.len() / 2;
    (!distances.is_empty()).then(|| *distances.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests;
