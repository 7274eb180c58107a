//! Bayesian logistic regression with a dense Gaussian over at most 2000 weights, in f64 on the host.
//!
//! For a row x with class t = ±1 and θ ~ N(m, S), the margin z = t xᵀθ is Gaussian with the mean t xᵀm and the variance
//! xᵀSx. Every expectation over the weights is therefore one over a number, which quadrature computes. With the prior
//! N(0, α⁻¹I), N rows and P = S⁻¹:
//!
//! ```text
//! −ELBO   Σ E log(1 + exp(−z)) + KL(q‖p)
//! NLL     −(1/N) Σ log E σ(z)
//! step    P⁺ = (1−ρ)P + ρ(Σ E[h] x xᵀ + αI),  m⁺ = m − ρ (P⁺)⁻¹ (−Σ t E[σ(−z)] x + αm)
//! h       σ(z)σ(−z), the Hessian;  or σ(−z)², the empirical Fisher information
//! ```
//!
//! With the Hessian the step is Newton's method on the ELBO, damped by ρ = ½, and its fixed point is the best Gaussian of
//! the family: natural-gradient variational inference (VON) without the noise of draws and mini-batches. With the
//! empirical Fisher information it is the limit of VOGN, which is not the best Gaussian. For a Gaussian without
//! correlations, the expectations are under the diagonal of the precision.
//!
//! | symbol | here |
//! |---|---|
//! | x, t | `inputs`, `classes` |
//! | α | `prior_precision` |
//! | h, S | [`LogisticPosterior`] |

use burn_bayes::algebra::{Cholesky, SquareMatrix, dot};
use burn_bayes::eval::Bounded;
use burn_bayes::posterior::DenseGaussian;
use burn_bayes::{Error, Result};

/// The largest number of weights, whose covariance is a dense matrix.
const MOST_WEIGHTS: usize = 2000;
/// Steps after which a fit that still moves fails.
const MOST_STEPS: usize = 2000;
/// The change at which the iteration has converged: of the weights, relative to the largest or in deviations, and of the
/// precision, relative to its diagonal.
const CHANGE: f64 = 1e-9;
/// How far the trapezoidal rule goes on either side, and the distance of its nodes, in deviations. For a Gaussian, the rule gains
/// digits as fast as its tails fall.
const REACH: f64 = 8.0;
const SPACING: f64 = 0.25;
/// The largest distance of nodes in units of the margin, in which the functions bend, and of a margin for which there are enough.
const MARGIN_SPACING: f64 = 0.75;
const MOST_NODES: f64 = 4000.0;

/// The Gaussian posterior of a logistic regression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogisticPosterior {
    /// The best Gaussian by the ELBO.
    Full,
    /// The best Gaussian without correlations.
    Diagonal,
    /// The limit of full-matrix VOGN, whose curvature is the empirical Fisher information.
    EmpiricalFisher,
}

/// The rows of a logistic regression without intercept, and the prior precision of its weights.
///
/// For an intercept, add a feature that is 1 in every row.
///
/// ```
/// use burn_bayes_contrib::methods::{LogisticPosterior, LogisticRegression};
///
/// let (inputs, classes) = ([-2.0, -1.0, 0.5, 1.5], [false, false, true, true]);
/// let rows = LogisticRegression::new(&inputs, &classes, 1.0)?;
/// let posterior = rows.posterior(LogisticPosterior::Full)?;
/// assert!(posterior.mean()[0] > 0.0);
/// assert!(rows.nll(&posterior)? < 2f64.ln());
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogisticRegression<'a> {
    inputs: &'a [f64],
    classes: &'a [bool],
    width: usize,
    prior_precision: f64,
}

impl<'a> LogisticRegression<'a> {
    /// Takes `inputs`, N×D row by row, and the class of each of the N rows.
    ///
    /// # Errors
    ///
    /// Lengths that do not match, numbers that are not finite, a prior precision that is not above zero, or more than
    /// 2000 weights.
    pub fn new(inputs: &'a [f64], classes: &'a [bool], prior_precision: f64) -> Result<Self> {
        let width = inputs.len().checked_div(classes.len()).unwrap_or(0);
        if width == 0 || width * classes.len() != inputs.len() {
            let problem = format!(
                "have {} numbers for {} rows; every row needs as many, at least one",
                inputs.len(),
                classes.len()
            );
            return Err(Error::config("inputs", problem));
        }
        if width > MOST_WEIGHTS {
            let problem = format!(
                "have {width} features; a dense Gaussian is for at most {MOST_WEIGHTS}: use `Slang` or `Vifa`"
            );
            return Err(Error::config("inputs", problem));
        }
        if let Some(at) = inputs.iter().position(|value| !value.is_finite()) {
            let problem = format!(
                "are {} in row {}, column {}",
                inputs[at],
                at / width,
                at % width
            );
            return Err(Error::config("inputs", problem));
        }
        if !(prior_precision.is_finite() && prior_precision > 0.0) {
            let problem = format!("is {prior_precision}; it must be finite and above zero");
            return Err(Error::config("prior_precision", problem));
        }
        Ok(Self {
            inputs,
            classes,
            width,
            prior_precision,
        })
    }

    /// The Gaussian of this kind.
    ///
    /// # Errors
    ///
    /// If the iteration does not converge, or a margin is so wide that its expectations are not known.
    pub fn posterior(&self, kind: LogisticPosterior) -> Result<DenseGaussian> {
        let width = self.width;
        let mut von = Iterate::first(width);
        let count = self.classes.len() as f64;
        let rate = match kind {
            // With a half, it can end in a cycle.
            LogisticPosterior::EmpiricalFisher => 0.2,
            _ => 0.5,
        };
        for _ in 0..MOST_STEPS {
            let gaussian = match kind {
                LogisticPosterior::Diagonal => {
                    let variances: Vec<f64> = von.precision.diagonal().map(f64::recip).collect();
                    DenseGaussian::from_variances(von.mean.clone(), &variances)?
                }
                LogisticPosterior::Full | LogisticPosterior::EmpiricalFisher => von.gaussian()?,
            };
            let mut gradient = vec![0.0; width];
            let mut curvature = vec![0.0; width * width];
            for ((x, sign), margin) in self.rows().zip(self.margins(&gaussian)) {
                let slope = -sign * margin.expectation(|z| sigmoid(-z)) / count;
                let bend = match kind {
                    LogisticPosterior::EmpiricalFisher => {
                        margin.expectation(|z| sigmoid(-z).powi(2))
                    }
                    _ => margin.expectation(|z| sigmoid(z) * sigmoid(-z)),
                };
                for (row, &value) in x.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                    gradient[row] += slope * value;
                    let products = curvature[row * width..][..width].iter_mut().zip(x);
                    products.for_each(|(sum, x)| *sum += bend / count * value * x);
                }
            }
            let next = self.stepped(&von, &gradient, &curvature, rate)?;
            if is_settled(&von, &next) {
                self.narrow_margins(&gaussian)?;
                return Ok(gaussian);
            }
            von = next;
        }
        Err(Error::numerical(format!(
            "the Gaussian of a logistic regression still moves after {MOST_STEPS} steps; likely cause: features of \
             very different scales; standardise them"
        )))
    }

    /// The Gaussian after one step, from the gradient of the mean negative log-likelihood and its curvature.
    fn stepped(
        &self,
        before: &Iterate,
        gradient: &[f64],
        curvature: &[f64],
        rate: f64,
    ) -> Result<Iterate> {
        let (count, alpha) = (self.classes.len() as f64, self.prior_precision);
        let precision = SquareMatrix::from_fn(self.width, |row, column| {
            let prior = if row == column { alpha } else { 0.0 };
            let target = count * curvature[row * self.width + column] + prior;
            (1.0 - rate) * before.precision.get(row, column) + rate * target
        });
        let terms = gradient.iter().zip(&before.mean);
        let mut direction: Vec<f64> = terms
            .map(|(gradient, mean)| count * gradient + alpha * mean)
            .collect();
        Cholesky::new(&precision)?.solve(&mut direction)?;
        let moved = before.mean.iter().zip(&direction);
        Ok(Iterate {
            mean: moved.map(|(mean, step)| mean - rate * step).collect(),
            precision,
        })
    }

    /// −ELBO of all rows, in nats: at least the negative log marginal likelihood.
    ///
    /// # Errors
    ///
    /// If the Gaussian has another number of weights, or is too wide.
    pub fn negative_bound(&self, gaussian: &DenseGaussian) -> Result<f64> {
        self.expect_width(gaussian)?;
        let variances = vec![self.prior_precision.recip(); self.width];
        let prior = DenseGaussian::from_variances(vec![0.0; self.width], &variances)?;
        let margins = self.narrow_margins(gaussian)?.into_iter();
        let losses = margins.map(|margin| margin.expectation(|z| softplus(-z)));
        Ok(losses.sum::<f64>() + gaussian.kl_divergence(&prior)?)
    }

    /// The mean negative log-likelihood of these rows under the predictive distribution, in nats.
    ///
    /// # Errors
    ///
    /// If the Gaussian has another number of weights, or is too wide.
    pub fn nll(&self, gaussian: &DenseGaussian) -> Result<f64> {
        self.expect_width(gaussian)?;
        let margins = self.narrow_margins(gaussian)?.into_iter();
        let losses = margins.map(|margin| -margin.expectation(sigmoid).ln());
        Ok(losses.sum::<f64>() / self.classes.len() as f64)
    }

    /// The margins of all rows.
    ///
    /// # Errors
    ///
    /// If one is too wide for expectations.
    fn narrow_margins(&self, gaussian: &DenseGaussian) -> Result<Vec<Margin>> {
        let margins: Vec<_> = self.margins(gaussian).collect();
        match margins.iter().position(|margin| margin.is_wide()) {
            None => Ok(margins),
            Some(row) => Err(Error::numerical(format!(
                "the margin of row {row} (from 0) has the deviation {:.0}, too much for its expectations; standardise the \
                 inputs, or give the prior a larger precision",
                margins[row].deviation
            ))),
        }
    }

    fn expect_width(&self, gaussian: &DenseGaussian) -> Result<()> {
        match gaussian.dimension() {
            width if width == self.width => Ok(()),
            width => Err(Error::config(
                "gaussian",
                format!("is over {width} weights, but the rows have {}", self.width),
            )),
        }
    }

    /// Every row with its t.
    fn rows(&self) -> impl Iterator<Item = (&[f64], f64)> {
        let signs = self
            .classes
            .iter()
            .map(|&class| if class { 1.0 } else { -1.0 });
        self.inputs.chunks_exact(self.width).zip(signs)
    }

    /// The distribution of every row's margin.
    fn margins(&self, gaussian: &DenseGaussian) -> impl Iterator<Item = Margin> {
        let covariance = gaussian.covariance();
        self.rows().map(move |(x, sign)| {
            // Features of indicators are mostly zeros.
            let entries = x.iter().enumerate().filter(|(_, value)| **value != 0.0);
            let variance = entries.map(|(row, value)| value * dot(covariance.row(row), x));
            Margin {
                mean: sign * dot(gaussian.mean(), x),
                deviation: variance.sum::<f64>().sqrt(),
            }
        })
    }
}

/// N(m, P⁻¹).
#[derive(Clone, Debug)]
struct Iterate {
    mean: Vec<f64>,
    precision: SquareMatrix,
}

impl Iterate {
    fn first(len: usize) -> Self {
        Self {
            mean: vec![0.0; len],
            precision: SquareMatrix::identity(len),
        }
    }

    fn gaussian(&self) -> Result<DenseGaussian> {
        let precision = self.precision.as_slice().to_vec();
        DenseGaussian::from_precision(self.mean.clone(), precision)
    }
}

/// Whether a step has changed neither the mean nor the precision. An unchanged mean alone is not enough: by symmetry, the
/// first gradient may be zero.
fn is_settled(before: &Iterate, after: &Iterate) -> bool {
    let scales: Vec<f64> = after.precision.diagonal().map(f64::sqrt).collect();
    let size = after.mean.len();
    let largest = after
        .mean
        .iter()
        .fold(0.0, |most: f64, w| most.at_least(w.abs()));
    let mean_is_settled = (0..size).all(|row| {
        let change = (after.mean[row] - before.mean[row]).abs();
        change <= CHANGE * largest || change * scales[row] <= CHANGE
    });
    // Both are symmetric.
    mean_is_settled
        && (0..size).all(|row| {
            (0..=row).all(|column| {
                let change = after.precision.get(row, column) - before.precision.get(row, column);
                change.abs() <= CHANGE * scales[row] * scales[column]
            })
        })
}

/// A Gaussian number.
#[derive(Clone, Copy, Debug)]
struct Margin {
    mean: f64,
    deviation: f64,
}

impl Margin {
    /// E f(z).
    fn expectation(self, of: impl Fn(f64) -> f64) -> f64 {
        let nodes = (REACH / self.spacing()).ceil().at_most(MOST_NODES);
        let spacing = REACH / nodes;
        let normaliser = spacing / std::f64::consts::TAU.sqrt();
        let nodes = nodes as i32;
        let terms = (-nodes..=nodes).map(|node| {
            let z = spacing * f64::from(node);
            normaliser * (-0.5 * z * z).exp() * of(self.mean + self.deviation * z)
        });
        terms.sum()
    }

    /// The distance of nodes that determine an expectation, in deviations.
    fn spacing(self) -> f64 {
        SPACING.at_most(MARGIN_SPACING / self.deviation)
    }

    /// Whether it is too wide for the rule.
    fn is_wide(self) -> bool {
        REACH / self.spacing() > MOST_NODES
    }
}

fn sigmoid(z: f64) -> f64 {
    (1.0 + (-z).exp()).recip()
}

fn softplus(z: f64) -> f64 {
    z.at_least(0.0) + (-z.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use burn_bayes::Noise;

    use super::*;

    #[test]
    fn expectations_of_wide_margins_are_those_of_many_nodes() {
        for deviation in [0.3, 3.0, 10.0, 40.0, 300.0] {
            for mean in [0.0, 2.0, -1.5 * deviation] {
                let margin = Margin { mean, deviation };
                let exact = |of: &dyn Fn(f64) -> f64| {
                    let spacing = 1e-3 / deviation.at_least(1.0);
                    let nodes = (9.0 / spacing) as i32;
                    let terms = (-nodes..=nodes).map(|node| {
                        let z = spacing * f64::from(node);
                        (-0.5 * z * z).exp() * of(mean + deviation * z)
                    });
                    spacing * terms.sum::<f64>() / std::f64::consts::TAU.sqrt()
                };
                let bend = |z: f64| sigmoid(z) * sigmoid(-z);
                for of in [&bend as &dyn Fn(f64) -> f64, &sigmoid, &softplus] {
                    let (found, exact) = (margin.expectation(of), exact(of));
                    assert!(
                        (found / exact - 1.0).abs() < 1e-8,
                        "{deviation} {mean}: {found}, {exact}"
                    );
                }
            }
        }
        let wide = DenseGaussian::from_variances(vec![0.0; 2], &[1e8; 2]).unwrap();
        let rows = rows();
        assert!(
            rows.nll(&wide)
                .unwrap_err()
                .to_string()
                .contains("the deviation")
        );
    }

    const INPUTS: [f64; 10] = [1.0, 0.5, 1.0, -1.0, 1.0, 2.0, 1.0, -0.2, 1.0, 0.9];
    const CLASSES: [bool; 5] = [true, false, true, false, false];
    const PRIOR: f64 = 0.5;

    fn rows() -> LogisticRegression<'static> {
        LogisticRegression::new(&INPUTS, &CLASSES, PRIOR).unwrap()
    }

    #[test]
    fn expectations_are_exact_for_polynomials() {
        let margin = |mean, variance: f64| Margin {
            mean,
            deviation: variance.sqrt(),
        };
        // E z⁴ = m⁴ + 6 m² v + 3 v² for m = 1, v = 4.
        let found = margin(1.0, 4.0).expectation(|z| z.powi(4));
        assert!((found - 73.0).abs() < 1e-10, "{found}");
        assert!((margin(0.3, 2.0).expectation(|_| 1.0) - 1.0).abs() < 1e-13);
    }

    #[test]
    fn rows_whose_first_gradient_is_zero_have_their_curvature() {
        // Equal rows of both classes: the mean is that of the prior, exactly or up to rounding.
        for inputs in [vec![1.0, 1.0], vec![0.1, 0.2, 0.3, 0.1, 0.2, 0.3]] {
            let balanced: Vec<f64> = inputs.iter().flat_map(|&x| [x, x]).collect();
            let classes: Vec<bool> = inputs.iter().flat_map(|_| [true, false]).collect();
            let rows = LogisticRegression::new(&balanced, &classes, 100.0).unwrap();
            for kind in [
                LogisticPosterior::Full,
                LogisticPosterior::Diagonal,
                LogisticPosterior::EmpiricalFisher,
            ] {
                let found = rows.posterior(kind).unwrap();
                // z ~ N(0, x²/P), and P = Σ x² E[h] + α.
                let precision = found.variances()[0].recip();
                let curvature = balanced.iter().map(|x| {
                    let margin = Margin {
                        mean: 0.0,
                        deviation: x / precision.sqrt(),
                    };
                    let bend = match kind {
                        LogisticPosterior::EmpiricalFisher => {
                            margin.expectation(|z| sigmoid(-z).powi(2))
                        }
                        _ => margin.expectation(|z| sigmoid(z) * sigmoid(-z)),
                    };
                    bend * x * x
                });
                let expected = 100.0 + curvature.sum::<f64>();
                assert!(
                    (precision / expected - 1.0).abs() < 1e-8,
                    "{precision} {expected}"
                );
                assert!(found.mean()[0].abs() < 1e-12);
            }
        }
        let rows = LogisticRegression::new(&[1.0, 1.0], &[true, false], 100.0).unwrap();
        let posterior = rows.posterior(LogisticPosterior::Full).unwrap();
        assert!((posterior.variances()[0] - 0.00995).abs() < 1e-5);
    }

    #[test]
    fn no_nearby_gaussian_has_a_better_bound() {
        let rows = rows();
        for kind in [LogisticPosterior::Full, LogisticPosterior::Diagonal] {
            let best = rows.posterior(kind).unwrap();
            let least = rows.negative_bound(&best).unwrap();
            for step in [-1e-2, 1e-2] {
                for at in 0..2 {
                    let mut mean = best.mean().to_vec();
                    mean[at] += step;
                    let covariance = best.covariance().as_slice().to_vec();
                    let other = DenseGaussian::new(mean, covariance.clone()).unwrap();
                    assert!(rows.negative_bound(&other).unwrap() > least);
                    let mut covariance = covariance;
                    covariance[3 * at] *= 1.0 + step;
                    let other = DenseGaussian::new(best.mean().to_vec(), covariance).unwrap();
                    assert!(rows.negative_bound(&other).unwrap() > least);
                }
            }
            let correlation = best.covariance().get(0, 1);
            assert_eq!(correlation == 0.0, kind == LogisticPosterior::Diagonal);
        }
    }

    #[test]
    fn the_empirical_fisher_posterior_is_a_fixed_point_of_vogn() {
        let rows = rows();
        let found = rows.posterior(LogisticPosterior::EmpiricalFisher).unwrap();
        // P = Σ E[g gᵀ] + αI and E ∇ = 0, by a fine sum over one coordinate of the margin.
        let mut precision = vec![PRIOR, 0.0, 0.0, PRIOR];
        let mut gradient: Vec<f64> = found.mean().iter().map(|m| PRIOR * m).collect();
        for (x, &class) in INPUTS.chunks(2).zip(&CLASSES) {
            let sign = if class { 1.0 } else { -1.0 };
            let mean = sign * dot(found.mean(), x);
            let along = found.covariance().multiply_vector(x).unwrap();
            let deviation = dot(&along, x).sqrt();
            let (mut first, mut second) = (0.0, 0.0);
            for node in -10_000..=10_000 {
                let z = 1e-3 * f64::from(node);
                let weight = 1e-3 * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
                let slope = 1.0 / (1.0 + (mean + deviation * z).exp());
                first += weight * slope;
                second += weight * slope * slope;
            }
            for i in 0..2 {
                gradient[i] -= sign * first * x[i];
                (0..2).for_each(|j| precision[2 * i + j] += second * x[i] * x[j]);
            }
        }
        for (found, expected) in found.precision().as_slice().iter().zip(&precision) {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
        assert!(
            gradient.iter().all(|entry| entry.abs() < 1e-7),
            "{gradient:?}"
        );
        let best = rows.posterior(LogisticPosterior::Full).unwrap();
        let excess = rows.negative_bound(&found).unwrap() - rows.negative_bound(&best).unwrap();
        assert!(excess > 1e-4, "{excess}");
    }

    /// Natural gradients at draws lead to the best Gaussian.
    #[test]
    fn hessians_at_draws_lead_to_the_best_gaussian() {
        const WIDTH: usize = 3;
        const ROWS: usize = 40;
        /// Antithetic pairs of draws per step.
        const PAIRS: usize = 32;
        let normals = |seed, count| -> Vec<f64> {
            let normals = Noise::new(seed).latent(count).into_iter();
            normals.map(f64::from).collect()
        };
        let inputs = normals(1, ROWS * WIDTH);
        let classes = inputs.chunks(WIDTH).zip(normals(2, ROWS));
        let classes: Vec<bool> = classes
            .map(|(x, noise)| 2.0 * x[0] - x[1] + noise > 0.0)
            .collect();
        let rows = LogisticRegression::new(&inputs, &classes, PRIOR).unwrap();
        let best = rows.posterior(LogisticPosterior::Full).unwrap();
        let divergence = |left: &DenseGaussian, right: &DenseGaussian| {
            left.kl_divergence(right).unwrap() + right.kl_divergence(left).unwrap()
        };
        let mut von = Iterate::first(WIDTH);
        for step in 0..400_usize {
            let gaussian = von.gaussian().unwrap();
            let mut gradient = vec![0.0; WIDTH];
            let mut curvature = vec![0.0; WIDTH * WIDTH];
            let share = 1.0 / (2 * PAIRS * ROWS) as f64;
            let noise = normals(100 + step as u64, PAIRS * WIDTH);
            for normals in noise.chunks(WIDTH) {
                for sign in [1.0, -1.0] {
                    let normals: Vec<f64> = normals.iter().map(|z| sign * z).collect();
                    let weights = gaussian.draw(&normals).unwrap();
                    for (x, &class) in inputs.chunks(WIDTH).zip(&classes) {
                        let logit: f64 = x.iter().zip(&weights).map(|(x, w)| x * w).sum();
                        let probability = 1.0 / (1.0 + (-logit).exp());
                        let error = probability - if class { 1.0 } else { 0.0 };
                        for i in 0..WIDTH {
                            gradient[i] += share * error * x[i];
                            for j in 0..WIDTH {
                                let bend = share * probability * (1.0 - probability);
                                curvature[i * WIDTH + j] += bend * x[i] * x[j];
                            }
                        }
                    }
                }
            }
            let rate = 2.0 / (step as f64 + 4.0);
            von = rows.stepped(&von, &gradient, &curvature, rate).unwrap();
        }
        // The average over some 10⁴ draws has errors of a hundredth of a deviation: 3·10⁻⁴ nats.
        let found = divergence(&von.gaussian().unwrap(), &best);
        assert!(found < 3e-3, "{found}");
        let fisher = rows.posterior(LogisticPosterior::EmpiricalFisher).unwrap();
        assert!(divergence(&fisher, &best) > 10.0 * found);
    }

    #[test]
    fn unusable_rows_are_refused() {
        let bad = [1.0, f64::NAN];
        let wide = vec![0.0; MOST_WEIGHTS + 1];
        for (inputs, classes, prior, word) in [
            (&INPUTS[..9], &CLASSES[..], 1.0, "inputs"),
            (&[][..], &[][..], 1.0, "inputs"),
            (&bad[..], &CLASSES[..2], 1.0, "row 1, column 0"),
            (&wide[..], &CLASSES[..1], 1.0, "at most 2000"),
            (&INPUTS[..], &CLASSES[..], 0.0, "prior_precision"),
        ] {
            let error = LogisticRegression::new(inputs, classes, prior).unwrap_err();
            assert!(
                error.is_config() && error.to_string().contains(word),
                "{error}"
            );
        }
        let other = DenseGaussian::from_variances(vec![0.0; 3], &[1.0; 3]).unwrap();
        assert!(rows().nll(&other).unwrap_err().is_config());
    }
}
