//! The likelihoods: the law of a target y, given the outputs f of a model.
//!
//! Λ = E_y ∂²ℓ/∂f² is the curvature of the loss ℓ = −log p(y | f), as the generalised Gauss–Newton matrix JᵀΛJ needs
//! it, and Λ = Σ_r s_r s_rᵀ.
//!
//! | likelihood | outputs f | Λ | roots s_r |
//! |---|---|---|---|
//! | Gaussian, noise precision β | T means | β I | √β e_r |
//! | Gaussian targets, noise precisions β_r | T means | diag β | √β_r e_r |
//! | heteroscedastic Gaussian, v = exp(log-variance) | T means, then T log-variances | diag(1/v, ½) | v_r^−½ e_r, ½^½ e_r |
//! | mixture of K Gaussians | K T means, then K T log-variances, then (K − 1) T logits | no closed form | – |
//! | categorical, p = softmax(f) | C logits | diag p − p pᵀ | √p_r (e_r − p) |
//! | ordinal, p(y > k given y ≥ k) = σ(f_k) | C − 1 logits | diag p(y ≥ k) σ(f_k) σ(−f_k) | its square root, e_k |
//! | Bernoulli, p = σ(f) | C logits | diag p (1 − p) | √(p_r (1 − p_r)) e_r |
//! | Poisson, λ = exp f | C log rates | diag λ | √λ_r e_r |
//! | negative binomial, α = exp(log-dispersion) | C log rates, then C log-dispersions | no closed form | – |
//!
//! The ordinal likelihood is the continuation-ratio model (A. Agresti, *Analysis of Ordinal Categorical Data*, 2010,
//! section 4.2): climbing from class to class, each step is a decision. Any outputs give valid probabilities, and no
//! thresholds need to be ordered.

use burn::tensor::Tensor;
use burn::tensor::activation::{log_softmax, sigmoid, softmax};
use burn_bayes_graph::losses;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::methods::checks::positive;

/// The law of a row's targets, given the outputs of a model. Several targets of a row are independent given the
/// outputs.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes::likelihood::Likelihood;
///
/// let device = Device::default();
/// let counts = Tensor::from_data([[3.0], [0.0]], &device);
/// let log_rates = Tensor::from_data([[1.0], [-1.0]], &device);
/// let losses = Likelihood::Poisson.losses(log_rates, counts);
/// assert_eq!(losses.dims(), [2]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Likelihood {
    /// Numbers with Gaussian noise of a known precision; the outputs are their means.
    Gaussian {
        /// β, 1/variance of the noise.
        noise_precision: f64,
    },
    /// T numbers, each with Gaussian noise of its own known precision; the outputs are their means.
    GaussianTargets {
        /// β of each target, 1/variance of its noise.
        noise_precisions: Vec<f64>,
    },
    /// Numbers with Gaussian noise that depends on the input; the outputs are their means, then the logarithms of
    /// their variances.
    HeteroscedasticGaussian,
    /// Numbers with a mixture of Gaussians that depends on the input, for noise of any shape: heavy tails, several
    /// clusters, or values that come often. The outputs are the means of all targets, one component after the other, then
    /// the logarithms of their variances, then the logits of the weights of all components but the last, whose logit is 0.
    GaussianMixture {
        /// The number of components K, at least 1.
        components: usize,
    },
    /// One of C classes; the outputs are logits.
    Categorical,
    /// One of C ordered classes; output k of C − 1 is the logit of a class above k for those that are not below k.
    Ordinal,
    /// C labels, 0 or 1 each; the outputs are their logits.
    Bernoulli,
    /// C counts; the outputs are the logarithms of their rates.
    Poisson,
    /// C counts whose variance μ + α μ² exceeds their mean μ; the outputs are the logarithms of their means, then those of
    /// their dispersions α. With α = 0 it would be Poisson.
    NegativeBinomial,
}

impl Likelihood {
    /// The number of outputs for this number of targets or classes.
    pub fn outputs(&self, targets: usize) -> usize {
        match self {
            Self::HeteroscedasticGaussian | Self::NegativeBinomial => 2 * targets,
            Self::GaussianMixture { components } => (3 * components).saturating_sub(1) * targets,
            Self::Ordinal => targets.saturating_sub(1),
            Self::Gaussian { .. }
            | Self::GaussianTargets { .. }
            | Self::Categorical
            | Self::Bernoulli
            | Self::Poisson => targets,
        }
    }

    /// β of each target, or the one of all, if the likelihood has known noise.
    pub fn noise_precisions(&self) -> Option<&[f64]> {
        match self {
            Self::Gaussian { noise_precision } => Some(std::slice::from_ref(noise_precision)),
            Self::GaussianTargets { noise_precisions } => Some(noise_precisions),
            _ => None,
        }
    }

    /// With these instead of the [noise precisions](Self::noise_precisions) that it has, if it has as many.
    #[must_use]
    pub fn with_noise_precisions(mut self, precisions: &[f64]) -> Self {
        match (&mut self, precisions) {
            (Self::Gaussian { noise_precision }, [precision]) => *noise_precision = *precision,
            (Self::GaussianTargets { noise_precisions }, _)
                if noise_precisions.len() == precisions.len() =>
            {
                noise_precisions.copy_from_slice(precisions);
            }
            _ => {}
        }
        self
    }

    /// The number of classes of a model of this number of outputs; `None` if the targets are no classes.
    pub fn classes(&self, outputs: usize) -> Option<usize> {
        match self {
            Self::Categorical => Some(outputs),
            Self::Ordinal => Some(outputs + 1),
            _ => None,
        }
    }

    /// The loss −log p(y | f) of each row, `[M]`, in nats, without log y! of counts, which does not depend on the
    /// weights.
    ///
    /// # Shapes
    ///
    /// - outputs: `[M, outputs]`, see [`outputs`](Self::outputs)
    /// - targets: `[M, targets]`; classes are one-hot encoded ([`one_hot`](losses::one_hot)), `[M, classes]`
    ///
    /// # Panics
    ///
    /// If a noise precision is not positive and finite, or there is not one for each target.
    pub fn losses(&self, outputs: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        match self {
            Self::Gaussian { noise_precision } => {
                losses::gaussian(outputs, targets, *noise_precision)
            }
            Self::GaussianTargets { noise_precisions } => {
                losses::gaussian_targets(outputs, targets, noise_precisions)
            }
            Self::HeteroscedasticGaussian => {
                let [means, log_variances] = halves(outputs);
                losses::heteroscedastic_gaussian(means, log_variances, targets)
            }
            Self::GaussianMixture { components } => {
                losses::gaussian_mixture(outputs, targets, *components)
            }
            Self::Categorical => {
                let picked = log_softmax(outputs, 1) * targets;
                picked.sum_dim(1).squeeze_dim::<1>(1).neg()
            }
            Self::Ordinal => losses::ordinal(outputs, targets),
            Self::Bernoulli => losses::binary_cross_entropy(outputs, targets),
            Self::Poisson => losses::poisson(outputs, targets),
            Self::NegativeBinomial => {
                let [log_rates, log_dispersions] = halves(outputs);
                losses::negative_binomial(log_rates, log_dispersions, targets)
            }
        }
    }

    /// The expectation of the targets given the outputs, `[M, targets]`: means, rates, or the probabilities of classes or labels.
    pub fn mean(&self, outputs: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Gaussian { .. } | Self::GaussianTargets { .. } => outputs,
            Self::HeteroscedasticGaussian => {
                let [means, _] = halves(outputs);
                means
            }
            Self::GaussianMixture { components } => {
                let gaussians = Gaussians::of(&outputs, *components);
                gaussians.weighted(gaussians.means.clone())
            }
            Self::Categorical => softmax(outputs, 1),
            Self::Ordinal => ordinal_probabilities(&outputs),
            Self::Bernoulli => sigmoid(outputs),
            Self::Poisson => outputs.exp(),
            Self::NegativeBinomial => {
                let [log_rates, _] = halves(outputs);
                log_rates.exp()
            }
        }
    }

    /// The variance of each target given the outputs, `[M, targets]`; for classes, those of their indicators.
    pub fn variance(&self, outputs: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Gaussian { noise_precision } => outputs.full_like(noise_precision.recip()),
            Self::GaussianTargets { noise_precisions } => {
                constant_columns(&outputs, noise_precisions, f64::recip)
            }
            Self::HeteroscedasticGaussian => {
                let [_, log_variances] = halves(outputs);
                log_variances.exp()
            }
            Self::GaussianMixture { components } => {
                let gaussians = Gaussians::of(&outputs, *components);
                let mean = gaussians.weighted(gaussians.means.clone());
                let between = (gaussians.means.clone() - mean.unsqueeze::<3>()).square();
                gaussians.weighted(gaussians.variances.clone() + between)
            }
            Self::Categorical | Self::Ordinal | Self::Bernoulli => {
                let probabilities = self.mean(outputs);
                probabilities.clone() * (probabilities.neg() + 1.0)
            }
            Self::Poisson => outputs.exp(),
            Self::NegativeBinomial => {
                let [rates, dispersions] = halves(outputs).map(Tensor::exp);
                rates.clone() + dispersions * rates.square()
            }
        }
    }

    /// Fails if a parameter is unusable.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Self::Gaussian { noise_precision } => positive("noise_precision", *noise_precision),
            Self::GaussianTargets { noise_precisions } => noise_precisions
                .iter()
                .try_for_each(|&precision| positive("noise_precisions", precision)),
            Self::GaussianMixture { components: 0 } => {
                Err(Error::config("components", "is 0; it must be at least 1"))
            }
            _ => Ok(()),
        }
    }

    /// Whether Λ is the same at all outputs.
    pub(crate) fn has_constant_curvature(&self) -> bool {
        matches!(self, Self::Gaussian { .. } | Self::GaussianTargets { .. })
    }

    /// The roots s_r of Λ at these outputs, `[M, outputs]` each.
    ///
    /// # Errors
    ///
    /// If Λ has no closed form.
    pub fn curvature_roots(&self, outputs: &Tensor<2>) -> Result<Vec<Tensor<2>>> {
        let root_of_variance = |logits: &Tensor<2>| {
            let variance = sigmoid(logits.clone()) * sigmoid(logits.clone().neg());
            variance.sqrt()
        };
        Ok(match self {
            Self::Gaussian { noise_precision } => {
                diagonal(&outputs.full_like(noise_precision.sqrt()))
            }
            Self::GaussianTargets { noise_precisions } => {
                diagonal(&constant_columns(outputs, noise_precisions, f64::sqrt))
            }
            Self::HeteroscedasticGaussian => {
                let [_, log_variances] = halves(outputs.clone());
                let of_log_variances = log_variances.full_like(0.5_f64.sqrt());
                let of_means = (log_variances * -0.5).exp();
                diagonal(&Tensor::cat(vec![of_means, of_log_variances], 1))
            }
            Self::Categorical => categorical_roots(outputs),
            Self::Ordinal => {
                let reached = columns(&ordinal_reached(outputs))[..outputs.dims()[1]].to_vec();
                let reached = Tensor::cat(reached, 1);
                diagonal(&(reached.sqrt() * root_of_variance(outputs)))
            }
            Self::Bernoulli => diagonal(&root_of_variance(outputs)),
            Self::Poisson => diagonal(&(outputs.clone() * 0.5).exp()),
            Self::GaussianMixture { .. } => {
                return Err(without_curvature(
                    "GaussianMixture",
                    "HeteroscedasticGaussian",
                ));
            }
            Self::NegativeBinomial => {
                return Err(without_curvature("NegativeBinomial", "Poisson"));
            }
        })
    }
}

fn without_curvature(name: &str, other: &str) -> Error {
    Error::config(
        "likelihood",
        format!(
            "is {name}, whose curvature has no closed form; use {other}, or a method that needs only the loss"
        ),
    )
}

/// The components of a mixture, `[components, M, targets]` each.
pub(super) struct Gaussians {
    pub(super) means: Tensor<3>,
    pub(super) variances: Tensor<3>,
    /// Of sum 1 over components.
    pub(super) weights: Tensor<3>,
}

impl Gaussians {
    /// From outputs `[M, (3 components − 1) targets]`.
    pub(super) fn of(outputs: &Tensor<2>, components: usize) -> Self {
        let [means, log_variances, mut logits] =
            losses::gaussian_mixture_parts(outputs, components);
        logits.push(means[0].zeros_like());
        Self {
            means: Tensor::stack(means, 0),
            variances: Tensor::stack::<3>(log_variances, 0).exp(),
            weights: softmax(Tensor::stack::<3>(logits, 0), 0),
        }
    }

    /// The weighted sum over components, `[M, targets]`.
    fn weighted(&self, values: Tensor<3>) -> Tensor<2> {
        (values * self.weights.clone()).sum_dim(0).squeeze_dim(0)
    }
}

/// The first and the second half of the columns.
pub(super) fn halves(outputs: Tensor<2>) -> [Tensor<2>; 2] {
    let half = outputs.dims()[1] / 2;
    [
        outputs.clone().narrow(1, 0, half),
        outputs.narrow(1, half, half),
    ]
}

/// The columns, `[M, 1]` each.
fn columns(values: &Tensor<2>) -> Vec<Tensor<2>> {
    let column = |at| values.clone().narrow(1, at, 1);
    (0..values.dims()[1]).map(column).collect()
}

/// The same shape, with a function of a number for each column.
fn constant_columns(values: &Tensor<2>, numbers: &[f64], of: fn(f64) -> f64) -> Tensor<2> {
    let filled = columns(values).into_iter().zip(numbers);
    let filled = filled.map(|(column, &number)| column.full_like(of(number)));
    Tensor::cat(filled.collect(), 1)
}

/// s_r e_r for every column r of `scales`.
fn diagonal(scales: &Tensor<2>) -> Vec<Tensor<2>> {
    let [rows, _] = scales.dims();
    let column = |(r, column)| {
        let zeros = scales.zeros_like();
        zeros.slice_assign([0..rows, r..r + 1], column)
    };
    columns(scales)
        .into_iter()
        .enumerate()
        .map(column)
        .collect()
}

/// √p_r (e_r − p); for two classes, the one root √(p₀p₁) (e₀ − e₁).
fn categorical_roots(logits: &Tensor<2>) -> Vec<Tensor<2>> {
    let [rows, count] = logits.dims();
    let probabilities = softmax(logits.clone(), 1);
    let root = |r: usize| {
        let own = probabilities.clone().narrow(1, r, 1);
        let shifted = own.clone().neg() + 1.0;
        let difference = probabilities.clone().neg();
        difference.slice_assign([0..rows, r..r + 1], shifted) * own.sqrt()
    };
    match count {
        2 => {
            let scale = probabilities.prod_dim(1).sqrt();
            vec![Tensor::cat(vec![scale.clone(), scale.neg()], 1)]
        }
        _ => (0..count).map(root).collect(),
    }
}

/// p(y ≥ k), `[M, C]`.
fn ordinal_reached(logits: &Tensor<2>) -> Tensor<2> {
    let mut reached = vec![logits.clone().narrow(1, 0, 1).ones_like()];
    for step in columns(&sigmoid(logits.clone())) {
        let last = reached[reached.len() - 1].clone();
        reached.push(last * step);
    }
    Tensor::cat(reached, 1)
}

/// p(y = k), `[M, C]`.
fn ordinal_probabilities(logits: &Tensor<2>) -> Tensor<2> {
    let [rows, steps] = logits.dims();
    let reached = ordinal_reached(logits);
    let stays = sigmoid(logits.clone().neg());
    let last = Tensor::ones([rows, 1], (&stays.device(), stays.dtype()));
    debug_assert_eq!(reached.dims()[1], steps + 1);
    reached * Tensor::cat(vec![stays, last], 1)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::kernels::to_host;

    const CLASSES: usize = 4;

    /// Outputs of one row, and each class as the target of a copy of it.
    fn every_class(likelihood: &Likelihood) -> (Tensor<2>, Tensor<2>) {
        let device = Device::default().autodiff();
        let count = likelihood.outputs(CLASSES);
        let outputs = [0.3, -1.2, 0.8, 0.1];
        let row = Tensor::<1>::from_floats(&outputs[..count], &device);
        (
            row.unsqueeze::<2>().repeat_dim(0, CLASSES),
            Tensor::eye(CLASSES, &device),
        )
    }

    #[test]
    fn the_losses_of_all_classes_are_those_of_their_probabilities() {
        for likelihood in [Likelihood::Categorical, Likelihood::Ordinal] {
            let (outputs, classes) = every_class(&likelihood);
            let losses = to_host(likelihood.losses(outputs.clone(), classes));
            let probabilities = to_host(likelihood.mean(outputs));
            let probabilities = &probabilities[..CLASSES];
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            for (loss, probability) in losses.iter().zip(probabilities) {
                assert!((loss + probability.ln()).abs() < 1e-6, "{likelihood:?}");
            }
        }
    }

    #[test]
    fn targets_of_one_precision_are_a_gaussian_and_others_a_product() {
        let device = Device::default();
        let outputs = Tensor::<2>::from_data([[0.3, -1.2], [0.8, 0.1]], &device);
        let targets = Tensor::<2>::from_data([[1.0, -1.0], [0.5, 0.7]], &device);
        let of_targets = |precisions: [f64; 2]| Likelihood::GaussianTargets {
            noise_precisions: precisions.to_vec(),
        };
        let one = Likelihood::Gaussian {
            noise_precision: 4.0,
        };
        let (same, different) = (of_targets([4.0; 2]), of_targets([4.0, 0.25]));
        let losses =
            |likelihood: &Likelihood| to_host(likelihood.losses(outputs.clone(), targets.clone()));
        for (found, expected) in losses(&same).iter().zip(losses(&one)) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let loss = |precision: f64, off: f64| {
            0.5 * (precision * off * off + (std::f64::consts::TAU / precision).ln())
        };
        let expected = [
            loss(4.0, 0.7) + loss(0.25, 0.2),
            loss(4.0, 0.3) + loss(0.25, 0.6),
        ];
        for (found, expected) in losses(&different).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        assert_eq!(
            to_host(different.variance(outputs.clone())),
            [0.25, 4.0, 0.25, 4.0]
        );
        let roots = different.curvature_roots(&outputs.narrow(0, 0, 1)).unwrap();
        let roots: Vec<Vec<f64>> = roots.into_iter().map(to_host).collect();
        assert_eq!(roots, [[2.0, 0.0], [0.0, 0.5]]);
        assert!(of_targets([1.0, 0.0]).validate().is_err());
    }

    /// For data from the model, the mean outer product of the loss's gradients is its mean Hessian.
    #[test]
    fn the_roots_of_the_curvature_are_those_of_the_fisher_information() {
        for likelihood in [Likelihood::Categorical, Likelihood::Ordinal] {
            let (outputs, classes) = every_class(&likelihood);
            let outputs = outputs.require_grad();
            let losses = likelihood.losses(outputs.clone(), classes);
            let gradients = losses.sum().backward();
            let gradients = outputs.grad(&gradients).unwrap();
            let plain = outputs.without_autodiff();
            let weights = likelihood.mean(plain.clone()).narrow(0, 0, 1);
            let weighted = gradients.clone() * weights.transpose();
            let expected = to_host(gradients.transpose().matmul(weighted));

            let roots = likelihood.curvature_roots(&plain.narrow(0, 0, 1)).unwrap();
            let roots: Tensor<2> = Tensor::cat(roots, 0);
            let found = to_host(roots.clone().transpose().matmul(roots));
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    (found - expected).abs() < 1e-6,
                    "{likelihood:?}: {found} {expected}"
                );
            }
        }
    }
}
