//! Detects losses that are no mean negative log-likelihood of the outputs and targets that a step returns.
//!
//! For classes, the loss ℓ is compared with the mean cross entropy h of the outputs and targets, and with its mean u over
//! all classes: label smoothing by ε gives h + ε (u − h). For numbers with Gaussian noise of unknown precision β and T
//! targets per row, with the mean q of the rows' squared errors, it is ½ β q + ½ T ln(2π/β). One loss shows only whether
//! it is q/T (`MseLoss`) or a sum of squares. The losses of three steps show whether they are on a line, and from its slope
//! k and intercept b,
//!
//! | loss | β | intercept |
//! |---|---|---|
//! | mean over rows | 2k | ½ T ln(2π/β) |
//! | sum over R rows | 2k/R | ½ R T ln(2π/β) |
//! | mean over rows and T columns | 2kT | ½ ln(2π/β) |

use std::any::Any;
use std::f64::consts::TAU;

use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;
use burn::train::{ClassificationOutput, RegressionOutput};

use crate::kernels::composed::to_host;
use crate::likelihood::LikelihoodOutput;

/// The relative difference above which two losses are different, and the same as an absolute one, in nats.
const TOLERANCE: f64 = 1e-2;
const NATS: f64 = 1e-3;
/// The relative spread of squared errors from which a line is drawn through their losses.
const SPREAD: f64 = 0.1;
/// The number of losses on a line.
const POINTS: usize = 3;

/// What the loss of a step is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossTerms {
    loss: f64,
    rows: f64,
    compared: Compared,
}

#[derive(Clone, Copy, Debug)]
enum Compared {
    /// h and u.
    Classes { entropy: f64, uniform: f64 },
    /// The mean negative log-likelihood.
    Likelihood(f64),
    /// q and T.
    Numbers { squares: f64, columns: f64 },
}

impl LossTerms {
    /// The terms of an output of a known type.
    pub(crate) fn of(output: &dyn Any) -> Option<Self> {
        let mean = |values: Tensor<1>| values.without_autodiff().mean().into_scalar::<f64>();
        let (loss, rows, compared) =
            if let Some(output) = output.downcast_ref::<ClassificationOutput>() {
                let [rows, classes] = output.output.dims();
                // Labels of padding have no class.
                let labels: Vec<i64> = output.targets.clone().into_data().iter().collect();
                if !labels
                    .iter()
                    .all(|&label| (0..classes as i64).contains(&label))
                {
                    return None;
                }
                let logs = log_softmax(output.output.clone().without_autodiff(), 1);
                let targets = output.targets.clone().without_autodiff().unsqueeze_dim(1);
                let compared = Compared::Classes {
                    entropy: -mean(logs.clone().gather(1, targets).squeeze_dim(1)),
                    uniform: -mean(logs.mean_dim(1).squeeze_dim(1)),
                };
                (&output.loss, rows, compared)
            } else if let Some(output) = output.downcast_ref::<RegressionOutput>() {
                let [rows, columns] = output.output.dims();
                let targets = output.targets.clone().without_autodiff();
                let errors = (output.output.clone().without_autodiff() - targets).square();
                let compared = Compared::Numbers {
                    squares: mean(errors.sum_dim(1).squeeze_dim(1)),
                    columns: columns as f64,
                };
                (&output.loss, rows, compared)
            } else {
                let output = output.downcast_ref::<LikelihoodOutput>()?;
                let outputs = output.outputs.clone().without_autodiff();
                let targets = output.targets.clone().without_autodiff();
                let losses = output.likelihood.losses(outputs, targets);
                let rows = output.targets.dims()[0];
                (&output.loss, rows, Compared::Likelihood(mean(losses)))
            };
        let [loss] = to_host(loss.clone().without_autodiff())[..] else {
            return None;
        };
        let rows = rows as f64;
        let is_finite = loss.is_finite() && compared.is_finite();
        is_finite.then_some(Self {
            loss,
            rows,
            compared,
        })
    }

    /// What is wrong with this loss alone.
    fn problem(&self) -> Option<String> {
        let Self {
            loss,
            rows,
            compared,
        } = *self;
        let differs = |expected: f64, what: &str, cause: String| {
            (!is_equal(loss, expected)).then(|| {
                let cause = match rows > 1.0 && is_equal(loss, rows * expected) {
                    true => format!(
                        "it is the sum over the {rows} rows: return their mean, or the data count {rows} times"
                    ),
                    false => cause,
                };
                format!(
                    "the loss of `step` is {loss:.4}, but the mean {what} of its outputs and targets is {expected:.4} \
                     nats, so the posterior is not that of this likelihood: {cause}"
                )
            })
        };
        let other = "return the mean over rows, without weights of rows and without a penalty, which belongs to the prior";
        match compared {
            Compared::Classes { entropy, uniform } => {
                let share = (loss - entropy) / (uniform - entropy);
                let smoothing = match (0.0..0.5).contains(&share) {
                    true => format!("label smoothing, which {share:.2} would explain, "),
                    false => "label smoothing, ".into(),
                };
                let cause = format!(
                    "{smoothing}class weights, a penalty or outputs that are no logits change it; {other}, and the \
                     cross entropy of logits and classes as they are"
                );
                differs(entropy, "cross entropy", cause)
            }
            Compared::Likelihood(expected) => {
                differs(expected, "negative log-likelihood", other.into())
            }
            Compared::Numbers { squares, columns } => {
                let is_near = |expected: f64| (loss - expected).abs() <= ROUNDING * expected;
                let found = match squares > 0.0 {
                    true if is_near(squares / columns) => format!(
                        "the mean squared error, which as a negative log-likelihood assumes noise of variance {}",
                        0.5 * columns
                    ),
                    true if rows > 1.0 && is_near(squares * rows) => format!(
                        "the sum of squared errors of {rows} rows, which counts the data {rows} times, with noise of \
                         variance 0.5"
                    ),
                    _ => return None,
                };
                Some(format!(
                    "the loss of `step` is {found}, whatever the noise of the targets is: use `GaussianNll` with its \
                     precision"
                ))
            }
        }
    }
}

/// The relative rounding of sums in single precision.
const ROUNDING: f64 = 1e-4;

impl Compared {
    fn is_finite(&self) -> bool {
        match *self {
            Self::Classes { entropy, uniform } => entropy.is_finite() && uniform.is_finite(),
            Self::Likelihood(loss) => loss.is_finite(),
            Self::Numbers { squares, .. } => squares.is_finite(),
        }
    }
}

fn is_equal(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= NATS + TOLERANCE * expected.abs()
}

/// What is wrong with the last of these losses, or with all of them.
pub(crate) fn problem(losses: &[LossTerms]) -> Option<String> {
    losses.last()?.problem().or_else(|| problem_of_line(losses))
}

/// What is wrong with Gaussian losses on a line.
fn problem_of_line(losses: &[LossTerms]) -> Option<String> {
    let points = losses.iter().filter_map(|terms| match terms.compared {
        Compared::Numbers { squares, columns } => Some((squares, terms.loss, terms.rows, columns)),
        _ => None,
    });
    let points: Vec<_> = points.collect();
    let &(_, _, rows, columns) = points.first()?;
    let is_same = points
        .iter()
        .all(|point| (point.2, point.3) == (rows, columns));
    let count = points.len() as f64;
    if points.len() < POINTS || !is_same {
        return None;
    }
    let square = points.iter().map(|point| point.0).sum::<f64>() / count;
    let loss = points.iter().map(|point| point.1).sum::<f64>() / count;
    let (mut spread, mut product) = (0.0, 0.0);
    for point in &points {
        spread += (point.0 - square).powi(2);
        product += (point.0 - square) * (point.1 - loss);
    }
    let slope = product / spread;
    let residual = |point: &(f64, f64, f64, f64)| point.1 - loss - slope * (point.0 - square);
    let is_line = points
        .iter()
        .all(|point| residual(point).abs() <= ROUNDING * (slope * square + loss.abs()));
    if !((spread / count).sqrt() > SPREAD * square && is_line && slope > 0.0) {
        return None;
    }
    let intercept = loss - slope * square;
    let has_form = |scale: f64, terms: f64| {
        let precision = 2.0 * slope / scale;
        let expected = 0.5 * terms * (TAU / precision).ln();
        let allowed = TOLERANCE * (expected.abs() + 0.5 * terms);
        (intercept - expected).abs() <= allowed
    };
    let cause = match has_form(1.0, columns) {
        true => return None,
        false if rows > 1.0 && has_form(rows, rows * columns) => format!(
            "the sum over the {rows} rows: return their mean, or the data count {rows} times"
        ),
        false if columns > 1.0 && has_form(1.0 / columns, 1.0) => format!(
            "the mean over rows and the {columns} targets of a row, so that the data count too little: return the sum \
             over targets"
        ),
        false => return None,
    };
    Some(format!(
        "the loss of `step` is no mean negative log-likelihood of a row: it is {cause}"
    ))
}

#[cfg(test)]
mod tests {
    use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
    use burn::tensor::{Device, Int};

    use super::*;
    use crate::likelihood::{GaussianNll, Likelihood};

    const ROWS: usize = 6;

    fn matrix<const C: usize>(scale: f32, shift: usize) -> Tensor<2> {
        let at = |index: usize| scale * (((index + shift) * 37 % 11) as f32 / 5.0 - 1.0);
        let values: Vec<f32> = (0..ROWS * C).map(at).collect();
        Tensor::<1>::from_data(values.as_slice(), &Device::default()).reshape([ROWS, C])
    }

    fn classes() -> Tensor<1, Int> {
        Tensor::from_data([0, 1, 2, 3, 1, 0], &Device::default())
    }

    fn of_classes(loss: impl Fn(Tensor<2>, Tensor<1, Int>) -> Tensor<1>) -> Option<String> {
        let logits = matrix::<4>(1.0, 0) + classes().one_hot::<2>(4).float() * 3.0;
        let loss = loss(logits.clone(), classes());
        let output = ClassificationOutput::new(loss, logits, classes());
        problem(&[LossTerms::of(&output).unwrap()])
    }

    #[test]
    fn losses_of_classes_that_are_no_likelihood_are_named() {
        let device = Device::default();
        let config = CrossEntropyLossConfig::new;
        let plain = config().init(&device);
        assert_eq!(of_classes(|o, t| plain.forward(o, t)), None);
        let smooth = config().with_smoothing(Some(0.1)).init(&device);
        let found = of_classes(|o, t| smooth.forward(o, t)).unwrap();
        assert!(found.contains("label smoothing, which 0.10"), "{found}");
        let weights = Some(vec![1.0, 5.0, 0.2, 1.0]);
        let weighted = config().with_weights(weights).init(&device);
        let found = of_classes(|o, t| weighted.forward(o, t)).unwrap();
        assert!(found.contains("class weights"), "{found}");
        let found = of_classes(|o, t| plain.forward(o, t) * ROWS as f64).unwrap();
        assert!(found.contains("the sum over the 6 rows"), "{found}");
        let found = of_classes(|o, t| plain.forward(o, t) + 0.5).unwrap();
        assert!(found.contains("a penalty"), "{found}");
    }

    /// The problem of the losses of some steps.
    fn of_numbers<const C: usize>(
        loss: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<1>,
    ) -> Option<String> {
        let targets = matrix::<C>(1.0, 3);
        let terms = [1.5, 0.7, 0.2].map(|scale| {
            let outputs = matrix::<C>(scale, 0);
            let loss = loss(outputs.clone(), targets.clone());
            LossTerms::of(&RegressionOutput::new(loss, outputs, targets.clone())).unwrap()
        });
        (1..=terms.len()).find_map(|count| problem(&terms[..count]))
    }

    #[test]
    fn losses_of_numbers_that_are_no_likelihood_are_named() {
        let gaussian =
            |precision| move |o: Tensor<2>, t: Tensor<2>| GaussianNll::new(precision).forward(o, t);
        for precision in [0.5, 2.0, 10.0] {
            assert_eq!(of_numbers::<1>(gaussian(precision)), None);
            assert_eq!(of_numbers::<3>(gaussian(precision)), None);
            // The constant does not matter.
            let scaled = |o: Tensor<2>, t: Tensor<2>| {
                (o - t).square().sum() * (0.5 * precision / ROWS as f64)
            };
            assert!(precision == 2.0 || of_numbers::<1>(scaled).is_none());
            let sum = |o: Tensor<2>, t: Tensor<2>| gaussian(precision)(o, t) * ROWS as f64;
            let found = of_numbers::<3>(sum).unwrap();
            assert!(found.contains("the sum over the 6 rows"), "{found}");
            let mean = |o: Tensor<2>, t: Tensor<2>| gaussian(precision)(o, t) / 3.0;
            let found = of_numbers::<3>(mean).unwrap();
            assert!(
                found.contains("the mean over rows and the 3 targets"),
                "{found}"
            );
        }
        for (reduction, part) in [
            (Reduction::Mean, "noise of variance 1.5"),
            (Reduction::Sum, "sum of squared errors of 6 rows"),
        ] {
            let loss = |o, t| MseLoss::new().forward(o, t, reduction.clone());
            let found = of_numbers::<3>(loss).unwrap();
            assert!(
                found.contains(part) && found.contains("GaussianNll"),
                "{found}"
            );
        }
        // Not on a line.
        let absolute = |o: Tensor<2>, t: Tensor<2>| (o - t).abs().mean();
        assert_eq!(of_numbers::<1>(absolute), None);
    }

    #[test]
    fn a_penalty_beside_a_likelihood_is_named() {
        let outputs = matrix::<2>(1.0, 0);
        let targets = matrix::<2>(1.0, 3);
        let mut output = LikelihoodOutput::new(
            Likelihood::HeteroscedasticGaussian,
            outputs,
            targets.narrow(1, 0, 1),
        );
        assert!(problem(&[LossTerms::of(&output).unwrap()]).is_none());
        output.loss = output.loss + 1.0;
        let found = problem(&[LossTerms::of(&output).unwrap()]).unwrap();
        assert!(found.contains("a penalty"), "{found}");
    }
}
