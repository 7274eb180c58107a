//! Per-example negative log-likelihoods: from predictions `[M, …]` to losses `[M]` in nats.
//!
//! The losses of an example's outputs (positions, several targets) are summed, because their likelihoods
//! multiply. Burn's own losses average over the batch and therefore mix examples.

use std::f64::consts::TAU;

use burn::tensor::activation::{log_sigmoid, log_softmax};
use burn::tensor::{Int, Tensor};

/// −log N(y; f, 1/β), with β = `noise_precision`.
///
/// # Panics
///
/// If the precision is not positive and finite.
pub fn gaussian<const R: usize>(
    predictions: Tensor<R>,
    targets: Tensor<R>,
    noise_precision: f64,
) -> Tensor<1> {
    assert!(
        noise_precision > 0.0 && noise_precision.is_finite(),
        "the noise precision is {noise_precision}; it must be positive and finite"
    );
    let width: usize = predictions.dims()[1..].iter().product();
    let constant = 0.5 * (TAU / noise_precision).ln();
    summed((targets - predictions).square())
        .mul_scalar(0.5 * noise_precision)
        .add_scalar(width as f64 * constant)
}

/// −log Π_t N(y_t; f_t, 1/β_t), for `[M, T]` predictions and targets, with β = `noise_precisions`, one for each target.
///
/// # Panics
///
/// If there is not one precision for each target, or one is not positive and finite.
pub fn gaussian_targets(
    predictions: Tensor<2>,
    targets: Tensor<2>,
    noise_precisions: &[f64],
) -> Tensor<1> {
    let [_, width] = predictions.dims();
    assert_eq!(
        noise_precisions.len(),
        width,
        "there must be one noise precision for each target"
    );
    let columns = noise_precisions.iter().enumerate();
    let losses = columns.map(|(column, &precision)| {
        let of_column = |values: &Tensor<2>| values.clone().narrow(1, column, 1);
        gaussian(of_column(&predictions), of_column(&targets), precision)
    });
    losses
        .reduce(|sum, loss| sum + loss)
        .expect("a network has an output")
}

/// −log softmax(logits)_y, for `[M, classes]` logits and labels from 0.
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let picked = log_softmax(logits, 1).gather(1, labels.unsqueeze_dim(1));
    summed(picked.neg())
}

/// −y log σ(z) − (1 − y) log(1 − σ(z)), for targets that are 0 or 1.
pub fn binary_cross_entropy<const R: usize>(logits: Tensor<R>, targets: Tensor<R>) -> Tensor<1> {
    // log(1 − σ(z)) = log σ(z) − z
    summed(logits.clone() * (targets.neg() + 1.0) - log_sigmoid(logits))
}

/// −log Poisson(y; exp z), for counts y and log rates z. The term log y! is omitted, because it does not
/// depend on the weights.
pub fn poisson<const R: usize>(log_rates: Tensor<R>, counts: Tensor<R>) -> Tensor<1> {
    summed(log_rates.clone().exp() - counts * log_rates)
}

/// −log p(y) of counts with mean μ = exp z and variance μ + α μ², for log rates z and log dispersions ln α: a Poisson
/// distribution whose rate has a gamma distribution of mean μ and shape 1/α. The term log y! is omitted, as in [`poisson`].
///
/// ```text
/// ln p(y) = ln Γ(y + 1/α) − ln Γ(1/α) + y ln(αμ) − (y + 1/α) ln(1 + αμ) − ln y!
/// ```
///
/// With r = 1/α + 3, Γ(z) = Γ(z + 3)/(z (z + 1) (z + 2)) and Stirling's series ln Γ(z) = (z − ½) ln z − z + ½ ln 2π + S(z),
/// the terms that grow with 1/α cancel before they are computed, so that small dispersions lose no digits:
///
/// ```text
/// ln Γ(y + 1/α) − ln Γ(1/α) + y ln α
///   = (y + r − ½) ln(1 + y/r) − y + y ln(1 + 3α) + S(y + r) − S(r) − Σ_{j<3} ln(1 + αy/(1 + jα))
/// ```
pub fn negative_binomial<const R: usize>(
    log_rates: Tensor<R>,
    log_dispersions: Tensor<R>,
    counts: Tensor<R>,
) -> Tensor<1> {
    let dispersions = log_dispersions.exp();
    // 1 + jα, 1/α + j and y/(1/α + j).
    let ends = |j: f64| dispersions.clone() * j + 1.0;
    let ratios = |j: f64| counts.clone() * dispersions.clone() / ends(j);
    let shapes = ends(SHIFT) / dispersions.clone();
    let tops = shapes.clone() + counts.clone();
    let [at_tops, at_shapes] = [tops.clone(), shapes].map(stirling);
    let gammas = (tops - 0.5) * log_one_plus(ratios(SHIFT)) - counts.clone()
        + counts.clone() * ends(SHIFT).log()
        + at_tops
        - at_shapes
        - (log_one_plus(ratios(0.0)) + log_one_plus(ratios(1.0)) + log_one_plus(ratios(2.0)));
    let scaled = log_one_plus(dispersions.clone() * log_rates.clone().exp());
    let totals = counts.clone() + dispersions.recip();
    summed(totals * scaled - counts * log_rates - gammas)
}

/// ln(1 + x) for x ≥ 0, also where 1 + x rounds to 1. Kernels of GPUs compute `log1p` as the logarithm of the sum; what the
/// sum lost is added here.
fn log_one_plus<const R: usize>(values: Tensor<R>) -> Tensor<R> {
    let sums = values.clone() + 1.0;
    let lost = values - (sums.clone() - 1.0);
    sums.clone().log() + lost / sums
}

/// The steps by which the arguments of Γ are raised.
const SHIFT: f64 = 3.0;

/// S(z), to 3·10⁻⁷ from z = 3.
fn stirling<const R: usize>(values: Tensor<R>) -> Tensor<R> {
    let inverse = values.recip();
    let square = inverse.clone().square();
    let series = square.clone() * (1.0 / 1260.0) - 1.0 / 360.0;
    inverse * (series * square + 1.0 / 12.0)
}

/// −log N(y; f, exp s), for log-variances s.
pub fn heteroscedastic_gaussian<const R: usize>(
    predictions: Tensor<R>,
    log_variances: Tensor<R>,
    targets: Tensor<R>,
) -> Tensor<1> {
    let width: usize = predictions.dims()[1..].iter().product();
    let squares = (targets - predictions).square() * log_variances.clone().neg().exp();
    summed(squares + log_variances)
        .mul_scalar(0.5)
        .add_scalar(width as f64 * 0.5 * TAU.ln())
}

/// −log Σ_k w_k N(y; f_k, exp s_k) of each of T targets, for `[M, (3K − 1) T]` outputs and `[M, T]` targets: the means f_k of all
/// targets, one of K components after the other, then as many log-variances s_k, then the logarithms of w_k/w_K of all
/// components but the last.
///
/// # Panics
///
/// If there is no component, or the widths are others.
pub fn gaussian_mixture(outputs: Tensor<2>, targets: Tensor<2>, components: usize) -> Tensor<1> {
    let ([_, width], [_, own]) = (outputs.dims(), targets.dims());
    assert!(
        components > 0 && width == (3 * components - 1) * own,
        "{width} outputs are not those of {own} targets and {components} components"
    );
    let [means, log_variances, logits] = gaussian_mixture_parts(&outputs, components);
    let log_density = |k: usize| {
        let log_variance = log_variances[k].clone();
        let square = (targets.clone() - means[k].clone()).square();
        let square = square * log_variance.clone().neg().exp();
        (square + log_variance + TAU.ln()) * -0.5
    };
    let last = log_density(components - 1);
    let none = last.zeros_like();
    let logits = logits.into_iter().enumerate();
    let sums = logits.fold((last, none), |(joint, total), (k, logit)| {
        let own = log_density(k) + logit.clone();
        (log_add(joint, own), log_add(total, logit))
    });
    summed(sums.1 - sums.0)
}

/// Means, log-variances, and logits of all components but the last, `[M, T]` each, from the outputs of
/// [`gaussian_mixture`].
#[doc(hidden)]
pub fn gaussian_mixture_parts(outputs: &Tensor<2>, components: usize) -> [Vec<Tensor<2>>; 3] {
    let targets = outputs.dims()[1] / (3 * components - 1);
    let part = |number: usize| outputs.clone().narrow(1, number * targets, targets);
    let (means, logits) = (0..components, 2 * components..3 * components - 1);
    [means, components..2 * components, logits].map(|numbers| numbers.map(part).collect())
}

/// log(exp a + exp b). The derivative for the smaller of the two, which may be far below the last digit of 1, is not a
/// difference from 1: the density of a row far from a narrow component has a large gradient of its own.
fn log_add(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    // Of two that are equal, each is one of them.
    let (larger, smaller) = (a.clone().max_pair(b.clone()), b.min_pair(a));
    larger.clone() + log_one_plus((smaller - larger).exp())
}

/// −log p(y) of ordered classes, for `[M, C − 1]` logits of p(y > k given y ≥ k) and one-hot encoded classes
/// `[M, C]` ([`one_hot`]).
pub fn ordinal(logits: Tensor<2>, classes: Tensor<2>) -> Tensor<1> {
    let [_, steps] = logits.dims();
    let device = logits.device();
    let index = |count: usize, axis: usize| -> Tensor<2> {
        let indices = Tensor::<1, Int>::arange(0..count as i64, &device).float();
        indices.unsqueeze_dim::<2>(axis).expand([steps + 1, steps])
    };
    // Whether class j (row) is above k (column).
    let above = index(steps + 1, 1).greater(index(steps, 0)).float();
    let stops = classes.clone().narrow(1, 0, steps);
    let goes_on = classes.matmul(above.cast(logits.dtype()));
    // log(1 − σ(z)) = log σ(z) − z
    let losses = stops.clone() * logits.clone() - (stops + goes_on) * log_sigmoid(logits);
    summed(losses)
}

/// One-hot encoding of labels, `[M, classes]`.
///
/// Burn's `Tensor::one_hot` reads the labels on the host, so a loss that calls it cannot be recorded. This
/// function runs on the device of the labels. A label outside the classes gives a row that is not a number, and so a loss
/// that is none.
pub fn one_hot(labels: Tensor<1, Int>, classes: usize) -> Tensor<2> {
    let options = (&labels.device(), labels.dtype());
    let columns = Tensor::<1, Int>::arange(0..classes as i64, options).unsqueeze_dim::<2>(0);
    let [examples] = labels.dims();
    let labels: Tensor<2, Int> = labels.unsqueeze_dim(1);
    let shape = [examples, classes];
    let found = labels.expand(shape).equal(columns.expand(shape)).float();
    // 0/0 where there is none.
    found.clone() / found.sum_dim(1)
}

/// The sum over all axes but the first.
fn summed<const R: usize>(values: Tensor<R>) -> Tensor<1> {
    let flat: Tensor<2> = match R {
        1 => values.unsqueeze_dim(1),
        _ => values.flatten(1, R - 1),
    };
    flat.sum_dim(1).squeeze_dim(1)
}
