//! Laplace approximations, compared with dense formulas in double precision and with laplace-torch.

mod closed_form;
mod dense;
mod peers;

use burn::module::{Module, ParamGroup};
use burn::nn::{Linear, LinearConfig};
use burn::optim::SgdConfig;
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::graph::losses;
use burn_bayes::laplace::{
    Laplace, LaplaceFit, Linearized, ModelOutputs, PriorChoice, PriorSharing, Structure,
};
use burn_bayes::likelihood::Likelihood;
use burn_bayes::posterior::{DenseGaussian, linear_regression_posterior};
use burn_bayes::train::PostHoc;
use burn_bayes::{ExampleLoss, Noise, Posterior, Predictor, Prior};

use crate::support::{
    EPSILON, assert_close, assert_near, autodiff, bits, filled, matrix, normals, values,
};
use dense::Dense;

/// tanh(x W + b) V + c, or x V + c without a hidden layer, or a sigmoid of it.
#[derive(Module, Debug)]
struct Net {
    hidden: Option<Linear>,
    output: Linear,
    #[module(skip)]
    is_squashed: bool,
    #[module(skip)]
    likelihood: Likelihood,
}

type Batch = (Tensor<2>, Tensor<2>);

impl Net {
    fn new(hidden: Option<usize>, outputs: usize, likelihood: Likelihood) -> Self {
        let device = autodiff();
        let net = Self {
            hidden: hidden.map(|width| LinearConfig::new(FEATURES, width).init(&device)),
            output: LinearConfig::new(hidden.unwrap_or(FEATURES), outputs).init(&device),
            is_squashed: false,
            likelihood,
        };
        filled(net, 3, 0.6)
    }
}

impl ModelOutputs for Net {
    type Features = Tensor<2>;

    fn features((inputs, _): Batch) -> Tensor<2> {
        inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        let outputs = self.output.forward(match &self.hidden {
            Some(hidden) => tanh(hidden.forward(inputs)),
            None => inputs,
        });
        match self.is_squashed {
            true => sigmoid(outputs),
            false => outputs,
        }
    }

    fn likelihood(&self) -> Likelihood {
        self.likelihood.clone()
    }
}

impl ExampleLoss for Net {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        let outputs = self.outputs(inputs);
        match &self.likelihood {
            Likelihood::Gaussian { noise_precision } => {
                losses::gaussian(outputs, targets, *noise_precision)
            }
            Likelihood::Categorical => losses::cross_entropy(outputs, targets.int().squeeze_dim(1)),
            likelihood => likelihood.losses(outputs, targets),
        }
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        RegressionOutput::new(
            losses.mean(),
            self.clone().no_grad().outputs(inputs),
            targets,
        )
    }
}

impl TrainStep for Net {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        self.mean_loss_step(batch)
    }
}

const FEATURES: usize = 2;
const ROWS: usize = 9;
const ALPHA: f64 = 0.3;
const BETA: f64 = 2.5;
const GAUSSIAN: Likelihood = Likelihood::Gaussian {
    noise_precision: BETA,
};

/// Rows `first..end`, with targets of `width` columns that are valid for the likelihood.
fn batch(likelihood: &Likelihood, width: usize, first: usize, end: usize) -> Batch {
    let inputs = normals(1, FEATURES * ROWS);
    let targets: Vec<f32> = match likelihood {
        Likelihood::Gaussian { .. }
        | Likelihood::GaussianTargets { .. }
        | Likelihood::HeteroscedasticGaussian => normals(2, width * ROWS),
        Likelihood::Ordinal => (0..width * ROWS)
            .map(|at| {
                if at % width == (at / width) % width {
                    1.0
                } else {
                    0.0
                }
            })
            .collect(),
        _ => (0..width * ROWS)
            .map(|at| (at * at % 5 % 2) as f32)
            .collect(),
    };
    let width = targets.len() / ROWS;
    (
        matrix(
            end - first,
            FEATURES,
            &inputs[FEATURES * first..FEATURES * end],
        ),
        matrix(end - first, width, &targets[width * first..width * end]),
    )
}

fn batches(net: &Net) -> [Batch; 2] {
    let outputs = net.output.weight.dims()[1];
    let width = match net.likelihood {
        Likelihood::Categorical => 1,
        Likelihood::HeteroscedasticGaussian => outputs / 2,
        Likelihood::Ordinal => outputs + 1,
        _ => outputs,
    };
    [(0, 4), (4, ROWS)].map(|(first, end)| batch(&net.likelihood, width, first, end))
}

fn laplace(structure: Structure) -> Laplace {
    Laplace::new(ROWS)
        .with_prior(Prior::isotropic(ALPHA))
        .with_structure(structure)
}

fn precision(fit: &LaplaceFit) -> Vec<f64> {
    let dense = fit.posterior().unwrap().to_dense().unwrap();
    dense.precision().as_slice().to_vec()
}

/// Tolerance of sums of a few dozen products in single precision.
const ROUNDING: f64 = 1e3 * EPSILON;

fn scales(expected: &[f64]) -> Vec<f64> {
    let largest = expected
        .iter()
        .fold(0.0_f64, |most, value| most.max(value.abs()));
    vec![largest; expected.len()]
}

#[track_caller]
fn assert_dense(what: &str, found: &[f64], expected: &[f64]) {
    assert_close(what, found, expected, &scales(expected), ROUNDING);
}

#[test]
fn the_curvature_of_every_likelihood_is_the_dense_one() {
    let cases = [
        (2, GAUSSIAN),
        (
            2,
            Likelihood::GaussianTargets {
                noise_precisions: vec![BETA, 0.5],
            },
        ),
        (2, Likelihood::Categorical),
        (3, Likelihood::Categorical),
        (2, Likelihood::Bernoulli),
        (1, Likelihood::Poisson),
        (4, Likelihood::HeteroscedasticGaussian),
        (3, Likelihood::Ordinal),
    ];
    for (outputs, likelihood) in cases {
        let net = Net::new(Some(3), outputs, likelihood.clone());
        let dense = Dense::of(&net);
        let expected = dense.precision(ALPHA);
        let len = dense.len();
        let what = format!("{likelihood:?} with {outputs} outputs");
        for structure in [Structure::Full, Structure::LowRank { rank: len }] {
            let fit = laplace(structure)
                .gauss_newton(&net, batches(&net))
                .unwrap();
            assert_dense(
                &format!("{what}, {structure:?}"),
                &precision(&fit),
                &expected,
            );
        }
        let diagonal: Vec<f64> = (0..len).map(|at| expected[at * len + at]).collect();
        for structure in [Structure::Diagonal, Structure::LowRank { rank: 2 }] {
            let fit = laplace(structure)
                .gauss_newton(&net, batches(&net))
                .unwrap();
            let found = precision(&fit);
            let found: Vec<f64> = (0..len).map(|at| found[at * len + at]).collect();
            assert_dense(
                &format!("{what}, diagonal of {structure:?}"),
                &found,
                &diagonal,
            );
        }
    }
}

#[test]
fn a_low_rank_keeps_the_leading_directions() {
    let net = Net::new(Some(3), 1, GAUSSIAN);
    let expected = Dense::of(&net).precision(ALPHA);
    let distance = |structure| {
        let fit = laplace(structure)
            .gauss_newton(&net, batches(&net))
            .unwrap();
        let found = precision(&fit);
        let squares = found.iter().zip(&expected).map(|(f, e)| (f - e).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let diagonal = distance(Structure::Diagonal);
    let ranks = [1, 2, 4].map(|rank| distance(Structure::LowRank { rank }));
    assert!(ranks[0] < 0.7 * diagonal && ranks[1] < 0.7 * ranks[0] && ranks[2] < 0.7 * ranks[1]);
}

#[test]
fn the_empirical_fisher_information_has_squared_gradients() {
    let net = Net::new(None, 1, GAUSSIAN);
    let half = Laplace::new(2 * ROWS)
        .with_prior(Prior::isotropic(ALPHA))
        .with_structure(Structure::Diagonal);
    let fit = half.empirical_fisher(&net, batches(&net)).unwrap();
    let posterior = fit.posterior().unwrap();
    let weights = values(&posterior.mean());
    let (inputs, targets) = batch(&GAUSSIAN, 1, 0, ROWS);
    let mut expected = vec![ALPHA; 3];
    for (row, target) in values(&inputs).chunks(2).zip(values(&targets)) {
        let features = [row[0], row[1], 1.0];
        let output: f64 = features.iter().zip(&weights).map(|(x, w)| x * w).sum();
        for (sum, feature) in expected.iter_mut().zip(features) {
            // The batches are half of the training data.
            *sum += 2.0 * (BETA * (output - target) * feature).powi(2);
        }
    }
    let found = values(&posterior.diagonal());
    assert_close("precision", &found, &expected, &expected, 64.0 * EPSILON);
    let refused = laplace(Structure::KroneckerLastLayer).with_group(last_layer());
    let error = refused.empirical_fisher(&net, batches(&net)).unwrap_err();
    assert!(error.to_string().contains("gauss_newton"), "{error}");
}

/// The linear regression with its exact mean as weights, the inputs with a constant, and the targets.
fn exact_regression() -> (Net, DenseGaussian, Vec<f64>, Vec<f64>) {
    let (inputs, targets) = batch(&GAUSSIAN, 1, 0, ROWS);
    let rows: Vec<f64> = values(&inputs)
        .chunks(2)
        .flat_map(|row| [row[0], row[1], 1.0])
        .collect();
    let targets = values(&targets);
    let exact = linear_regression_posterior(&rows, &targets, ALPHA, BETA).unwrap();
    let net = Net::new(None, 1, GAUSSIAN);
    let mean: Vec<f32> = exact.mean().iter().map(|&value| value as f32).collect();
    let layout = burn_bayes::graph::Layout::new(&net, &ParamGroup::all()).unwrap();
    let net = layout.write(net, crate::support::vector(&mean)).unwrap();
    (net, exact, rows, targets)
}

#[test]
fn a_linear_regression_is_exact() {
    let (net, exact, rows, targets) = exact_regression();
    let batches = batches(&net);
    // ANCHOR: fit
    let laplace = Laplace::new(ROWS).with_prior(Prior::isotropic(ALPHA));
    let posterior = laplace.fit(&net, batches).unwrap();
    // ANCHOR_END: fit
    let found = posterior.to_dense().unwrap();
    let divergence = found.kl_divergence(&exact).unwrap() + exact.kl_divergence(&found).unwrap();
    assert!(divergence < ROUNDING, "{divergence}");

    // The log marginal likelihood is log N(y; 0, XXᵀ/α + I/β).
    let mut covariance = vec![0.0; ROWS * ROWS];
    for (i, left) in rows.chunks(3).enumerate() {
        for (j, right) in rows.chunks(3).enumerate() {
            let product: f64 = left.iter().zip(right).map(|(l, r)| l * r).sum();
            covariance[i * ROWS + j] = product / ALPHA + if i == j { 1.0 / BETA } else { 0.0 };
        }
    }
    let marginal = DenseGaussian::new(vec![0.0; ROWS], covariance).unwrap();
    let expected = marginal.log_density(&targets).unwrap();
    for structure in [Structure::Full, Structure::LowRank { rank: 3 }] {
        let fit = self::laplace(structure)
            .gauss_newton(&net, self::batches(&net))
            .unwrap();
        let found = fit.log_marginal_likelihood().unwrap();
        assert_near(
            "log marginal likelihood",
            found,
            expected,
            ROUNDING * expected.abs(),
        );
    }
}

#[test]
fn many_rows_leave_the_variances_that_they_should() {
    let net = Net::new(None, 1, GAUSSIAN);
    let rows: Vec<Batch> = batches(&net)
        .into_iter()
        .map(|(inputs, targets)| (inputs * 100.0, targets))
        .collect();
    for structure in [Structure::LowRank { rank: 3 }, Structure::Full] {
        // Σ x² is about 10⁹, and α is 0.3.
        let fit = Laplace::new(100_000)
            .with_prior(Prior::isotropic(ALPHA))
            .with_structure(structure)
            .gauss_newton(&net, rows.clone())
            .unwrap();
        let posterior = fit.posterior().unwrap();
        let dense = posterior.to_dense().unwrap();
        let found = values(&posterior.variance().unwrap());
        for (found, expected) in found.iter().zip(dense.variances()) {
            assert!(
                (found / expected - 1.0).abs() < 1e-5,
                "{structure:?}: {found} {expected}"
            );
        }
        let moments = dense.mean().iter().zip(dense.variances());
        let expected = 3.0 / moments.map(|(m, v)| m * m + v).sum::<f64>();
        let found = posterior.prior_precision(&ParamGroup::all()).unwrap();
        assert!(
            (found / expected - 1.0).abs() < 1e-5,
            "{structure:?}: {found} {expected}"
        );
    }
}

#[test]
fn rounding_of_large_sums_is_no_curvature() {
    // Two equal features: no row says anything about their difference, whose variance is that of the prior.
    let net = Net::new(None, 1, GAUSSIAN);
    let rows = (0..40).map(|seed| {
        let inputs: Vec<f32> = normals(seed, ROWS)
            .iter()
            .flat_map(|x| [10.0 * x; 2])
            .collect();
        (
            matrix(ROWS, FEATURES, &inputs),
            matrix(ROWS, 1, &[0.0; ROWS]),
        )
    });
    let fit = Laplace::new(100_000)
        .with_prior(Prior::isotropic(ALPHA))
        .with_structure(Structure::LowRank { rank: 3 })
        .gauss_newton(&net, rows)
        .unwrap();
    let difference = matrix(1, 3, &[1.0, -1.0, 0.0]);
    let found = values(
        &fit.posterior()
            .unwrap()
            .linear_variance(&difference)
            .unwrap(),
    )[0];
    assert!((found * ALPHA / 2.0 - 1.0).abs() < 0.01, "{found}");
}

#[test]
fn the_log_marginal_likelihood_is_the_dense_one() {
    let net = Net::new(Some(3), 3, Likelihood::Categorical);
    let dense = Dense::of(&net);
    let prior = Prior::isotropic(ALPHA).with_group(ParamGroup::from_predicate("bias"), 2.0);
    let len = dense.len();
    for structure in [Structure::Full, Structure::LowRank { rank: len }] {
        let fit = laplace(structure).with_prior(prior.clone());
        let fit = fit.gauss_newton(&net, batches(&net)).unwrap();
        let weights = values(&fit.posterior().unwrap().mean());
        let alpha = values(&fit.prior().expanded(&crate::support::device()));
        let prior: f64 = weights
            .iter()
            .zip(&alpha)
            .map(|(w, a)| 0.5 * (a.ln() - a * w * w))
            .sum();
        let gaussian = DenseGaussian::from_precision(weights, dense.precision_of(&alpha)).unwrap();
        let expected = fit.log_likelihood() + prior + 0.5 * gaussian.log_determinant();
        let found = fit.log_marginal_likelihood().unwrap();
        assert_near(
            "log marginal likelihood",
            found,
            expected,
            ROUNDING * expected.abs(),
        );
    }
}

#[test]
fn the_best_prior_is_a_maximum() {
    let net = Net::new(Some(3), 2, GAUSSIAN);
    let structures = [
        Structure::Diagonal,
        Structure::LowRank { rank: 2 },
        Structure::Full,
    ];
    for structure in structures {
        let fit = laplace(structure)
            .gauss_newton(&net, batches(&net))
            .unwrap();
        for sharing in [PriorSharing::Global, PriorSharing::PerParameter] {
            let best = fit.clone().with_optimal_prior(sharing).unwrap();
            let at = best.log_marginal_likelihood().unwrap();
            assert!(at > fit.log_marginal_likelihood().unwrap());
            let segments = best.prior().segments().to_vec();
            let groups = match sharing {
                PriorSharing::Global => vec![ParamGroup::all()],
                _ => [
                    "hidden.weight",
                    "hidden.bias",
                    "output.weight",
                    "output.bias",
                ]
                .map(ParamGroup::from_path)
                .to_vec(),
            };
            assert_eq!(segments.len(), groups.len());
            // A change of 1 % in any precision lowers it; the maximum is flat, so a millionth of that is rounding.
            for changed in 0..groups.len() {
                for factor in [0.99, 1.01] {
                    let mut prior = Prior::isotropic(1.0);
                    for (index, group) in groups.iter().enumerate() {
                        let factor = if index == changed { factor } else { 1.0 };
                        prior = prior.with_group(group.clone(), factor * segments[index].1);
                    }
                    let other = best.clone().with_prior(&prior).unwrap();
                    let other = other.log_marginal_likelihood().unwrap();
                    assert!(other < at, "{structure:?} {sharing:?} {other} {at}");
                }
            }
        }
    }
}

#[test]
fn the_best_prior_of_a_fit_gives_its_posterior() {
    let net = Net::new(Some(3), 2, GAUSSIAN);
    let batches = batches(&net);
    // ANCHOR: evidence
    let laplace = Laplace::new(ROWS).with_prior(Prior::isotropic(1.0));
    let fit = laplace.gauss_newton(&net, batches).unwrap();
    let before = fit.log_marginal_likelihood().unwrap();
    let fit = fit.with_optimal_prior(PriorSharing::Global).unwrap();
    assert!(fit.log_marginal_likelihood().unwrap() > before);
    let posterior = fit.posterior().unwrap();
    // ANCHOR_END: evidence
    let [(len, precision)] = fit.prior().segments() else {
        panic!("all weights share one precision");
    };
    assert_eq!(*len, posterior.len());
    let again = Laplace::new(ROWS).with_prior(Prior::isotropic(*precision));
    let again = again.fit(&net, self::batches(&net)).unwrap();
    assert_eq!(bits(&posterior.diagonal()), bits(&again.diagonal()));
}

#[test]
fn a_regression_has_the_prior_of_the_evidence_by_default() {
    for hidden in [None, Some(3)] {
        let net = Net::new(hidden, 2, GAUSSIAN);
        for structure in [Structure::Diagonal, Structure::Full] {
            let given = laplace(structure)
                .gauss_newton(&net, batches(&net))
                .unwrap();
            let best = given.with_optimal_prior(PriorSharing::Global).unwrap();
            let default = Laplace::new(ROWS).with_structure(structure);
            let found = default.gauss_newton(&net, batches(&net)).unwrap();
            assert_eq!(found.prior(), best.prior(), "{structure:?}");
            let posterior = default.fit(&net, batches(&net)).unwrap();
            let [found, best] = [posterior, best.posterior().unwrap()];
            let [found, best] = [found, best].map(|posterior| values(&posterior.diagonal()));
            match hidden {
                // The loss of a linear model is quadratic, so its draws are as near as the approximation says.
                None => assert_eq!(found, best),
                Some(_) => assert!(found.iter().zip(&best).all(|(near, wide)| near <= wide)),
            }
        }
    }
    let net = Net::new(None, 2, GAUSSIAN);
    let each = PriorChoice::Evidence(PriorSharing::PerParameter);
    let each = laplace(Structure::Full).with_prior_choice(each);
    let found = each.gauss_newton(&net, batches(&net)).unwrap();
    assert_eq!(found.prior().segments().len(), 2);
}

/// A classifier that fits its rows has hardly any curvature, so the evidence alone gives draws that predict nothing.
#[test]
fn a_classifier_that_fits_its_rows_has_a_prior_whose_draws_are_near() {
    let likelihood = Likelihood::Categorical;
    let inputs = normals(1, FEATURES * ROWS);
    let classes: Vec<f32> = inputs
        .chunks(FEATURES)
        .map(|row| f32::from(u8::from(row[0] > 0.0)))
        .collect();
    let on = |device: &Device| {
        let tensor = |values: &[f32], width| {
            Tensor::<2>::from_data(TensorData::new(values.to_vec(), [ROWS, width]), device)
        };
        (tensor(&inputs, FEATURES), tensor(&classes, 1))
    };
    let data = || on(&Device::default());
    let mut net = Net::new(Some(8), 2, likelihood);
    for _ in 0..400 {
        let gradients = TrainStep::step(&net, on(&autodiff())).grads;
        net = net.optimize(&mut SgdConfig::new().init(), 0.5.into(), gradients);
    }
    let loss = |model: &Net| {
        let losses = values(&model.valid().example_losses(data()));
        losses.iter().sum::<f64>() / ROWS as f64
    };
    let at_mean = loss(&net);
    let constant = 2_f64.ln();
    assert!(at_mean < 0.05, "{at_mean}");
    for structure in [
        Structure::Diagonal,
        Structure::LowRank { rank: 4 },
        Structure::Full,
    ] {
        let at_draws = |laplace: Laplace| {
            let posterior = laplace.fit(&net, [data()]).unwrap();
            let predictor = Predictor::new(net.clone(), posterior, Noise::new(3)).unwrap();
            let losses = predictor.map_draws(50, |model| loss(model)).unwrap();
            losses.iter().sum::<f64>() / 50.0
        };
        let default = Laplace::new(ROWS).with_structure(structure);
        let found = at_draws(default.clone());
        // The quadratic approximation allows half a nat for each weight that the data determine.
        assert!(found < at_mean + 0.3 * constant, "{structure:?} {found}");
        let wide = at_draws(default.with_prior(Prior::isotropic(0.01)));
        assert!(wide > constant, "{structure:?} {wide}");
    }
}

#[test]
fn weights_of_zero_have_no_best_prior() {
    let net = Net::new(None, 1, GAUSSIAN);
    let zero = filled(net, 1, 0.0);
    let fit = laplace(Structure::Full)
        .gauss_newton(&zero, batches(&zero))
        .unwrap();
    let error = fit.with_optimal_prior(PriorSharing::Global).unwrap_err();
    assert!(
        error.is_numerical() && error.to_string().contains("output.weight"),
        "{error}"
    );
}

fn last_layer() -> ParamGroup {
    ParamGroup::from_predicate("output")
}

#[test]
fn a_subnetwork_has_its_block() {
    let net = Net::new(Some(3), 2, Likelihood::Categorical);
    let dense = Dense::of(&net);
    let all = dense.precision(ALPHA);
    let (len, first) = (dense.len(), dense.len() - 8);
    let expected: Vec<f64> = (first..len)
        .flat_map(|row| all[row * len + first..(row + 1) * len].to_vec())
        .collect();
    for structure in [Structure::Full, Structure::LowRank { rank: 8 }] {
        let subnetwork = laplace(structure).with_group(last_layer());
        let fit = subnetwork.gauss_newton(&net, batches(&net)).unwrap();
        assert_dense("block", &precision(&fit), &expected);
    }
}

#[test]
fn a_kronecker_factored_last_layer_is_the_product_of_its_factors() {
    let net = Net::new(Some(3), 2, Likelihood::Categorical);
    let kronecker = laplace(Structure::KroneckerLastLayer).with_group(last_layer());
    let fit = kronecker.gauss_newton(&net, batches(&net)).unwrap();
    let mut expected = Dense::of(&net).kronecker();
    (0..8).for_each(|at| expected[at * 8 + at] += ALPHA);
    assert_dense("Kronecker", &precision(&fit), &expected);

    for group in [ParamGroup::all(), ParamGroup::from_predicate("hidden")] {
        let other = laplace(Structure::KroneckerLastLayer).with_group(group);
        let error = other.gauss_newton(&net, batches(&net)).unwrap_err();
        assert!(
            error.is_config() && error.to_string().starts_with("group"),
            "{error}"
        );
    }
}

#[test]
fn a_last_layer_before_a_nonlinearity_is_refused_for_kronecker_factors() {
    let kronecker = || laplace(Structure::KroneckerLastLayer).with_group(last_layer());
    for (has_bias, is_squashed) in [(false, false), (true, false), (false, true), (true, true)] {
        let layer = LinearConfig::new(FEATURES, 3).with_bias(has_bias);
        let net = Net {
            output: filled(layer.init(&autodiff()), 5, 0.6),
            is_squashed,
            ..Net::new(None, 3, GAUSSIAN)
        };
        let fit = kronecker().gauss_newton(&net, batches(&net));
        let message = fit.map(|_| ()).map_err(|error| error.to_string());
        match is_squashed {
            false => assert_eq!(message, Ok(())),
            true => assert!(message.unwrap_err().starts_with("group")),
        }
    }
}

#[test]
fn linearised_outputs_have_the_dense_covariance() {
    let net = Net::new(Some(3), 2, GAUSSIAN);
    let dense = Dense::of(&net);
    let (inputs, _) = batch(&GAUSSIAN, 2, 0, ROWS);
    let fit = laplace(Structure::LowRank { rank: 2 });
    let posterior = fit.fit(&net, batches(&net)).unwrap();
    let covariance = posterior.to_dense().unwrap();
    let expected = dense.output_covariances(covariance.covariance());
    // ANCHOR: predict
    let linearized = Linearized::new(net, posterior).unwrap();
    let outputs = linearized.outputs(&inputs).unwrap();
    let (means, deviations) = (outputs.mean, outputs.variance.sqrt());
    let draws = linearized.draws(&inputs, Noise::new(1), 4).unwrap();
    // ANCHOR_END: predict
    assert_dense(
        "covariance",
        &values(&linearized.covariance(&inputs).unwrap()),
        &expected,
    );
    let variances = expected.chunks(4).flat_map(|block| [block[0], block[3]]);
    let expected: Vec<f64> = variances.map(f64::sqrt).collect();
    assert_dense("deviation", &values(&deviations), &expected);
    assert_dense("mean", &values(&means), &dense.outputs());

    // f + J (θ − θ*)
    let posterior = linearized.posterior();
    let sampler = posterior.sampler().unwrap();
    for draw in 0..4 {
        let weights = sampler.draw(Noise::new(1).row(draw as u64)).unwrap();
        let shift = values(&(weights - posterior.mean()));
        let found = values(&draws.clone().narrow(0, draw, 1));
        assert_dense("draw", &found, &dense.linearised(&shift));
    }
}

#[test]
fn a_linear_model_is_its_own_linearisation() {
    let net = Net::new(None, 2, Likelihood::Bernoulli);
    let (inputs, _) = batch(&net.likelihood, 2, 0, ROWS);
    let posterior = laplace(Structure::LowRank { rank: 3 })
        .fit(&net, batches(&net))
        .unwrap();
    let predictor = Predictor::new(net.clone(), posterior.clone(), Noise::new(4)).unwrap();
    let outputs = predictor
        .map_draws(40, |net: &Net| net.outputs(inputs.clone()))
        .unwrap();
    let linearized = Linearized::new(net, posterior).unwrap();
    let draws = linearized.draws(&inputs, Noise::new(4), 40).unwrap();
    assert_dense(
        "draws",
        &values(&draws),
        &values(&Tensor::<2>::stack::<3>(outputs, 0)),
    );
    assert!(
        linearized
            .draws(&inputs, Noise::new(4), 0)
            .unwrap_err()
            .is_config()
    );
}

#[test]
fn probit_probabilities_are_those_of_many_draws() {
    for (outputs, likelihood) in [(2, Likelihood::Categorical), (2, Likelihood::Bernoulli)] {
        let net = Net::new(Some(3), outputs, likelihood.clone());
        let inputs = batch(&likelihood, 2, 0, ROWS).0;
        let posterior = laplace(Structure::Full).fit(&net, batches(&net)).unwrap();
        let linearized = Linearized::new(net, posterior).unwrap();
        let draws = linearized.draws(&inputs, Noise::new(1), 4000).unwrap();
        let probabilities = match likelihood {
            Likelihood::Bernoulli => burn::tensor::activation::sigmoid(draws),
            _ => burn::tensor::activation::softmax(draws, 2),
        };
        let expected = values(&probabilities.mean_dim(0));
        let found = values(&linearized.probit(&inputs).unwrap());
        // The probit approximation of a logistic Gaussian is off by up to 0.02, and the draws by 0.25/√4000, with
        // probabilities that vary by 0.25.
        assert_close("probit", &found, &expected, &vec![1.0; found.len()], 0.024);
    }
    let net = Net::new(Some(3), 1, GAUSSIAN);
    let inputs = batch(&GAUSSIAN, 1, 0, ROWS).0;
    let posterior = laplace(Structure::Diagonal)
        .fit(&net, batches(&net))
        .unwrap();
    let error = Linearized::new(net, posterior)
        .unwrap()
        .probit(&inputs)
        .unwrap_err();
    assert!(error.is_config(), "{error}");
}

#[test]
fn the_posterior_has_the_trained_weights_as_its_mean_and_survives_a_file() {
    let net = Net::new(Some(3), 2, Likelihood::Categorical);
    let kronecker = laplace(Structure::KroneckerLastLayer).with_group(last_layer());
    let posterior = kronecker.fit(&net, batches(&net)).unwrap();
    let layout = posterior.layout();
    assert_eq!(
        bits(&posterior.mean()),
        bits(&layout.flatten(&net).unwrap())
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    posterior.save(file.path()).unwrap();
    let device = crate::support::device();
    let loaded = burn_bayes::FactorPosterior::load(file.path(), &device).unwrap();
    let draw =
        |posterior: &burn_bayes::FactorPosterior| bits(&posterior.draw(Noise::new(2)).unwrap());
    assert_eq!(draw(&posterior), draw(&loaded));
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    let net = Net::new(None, 1, GAUSSIAN);
    let none: [Batch; 0] = [];
    let error = laplace(Structure::Diagonal)
        .gauss_newton(&net, none)
        .unwrap_err();
    assert!(
        error.is_config() && error.to_string().starts_with("batches"),
        "{error}"
    );
    let unequal = (batch(&GAUSSIAN, 1, 0, 3).0, batch(&GAUSSIAN, 1, 0, 4).1);
    let error = laplace(Structure::Diagonal)
        .gauss_newton(&net, [unequal])
        .unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("3 and of 4"),
        "{error}"
    );
    for few in [0, 2] {
        let error = Laplace::new(few).fit(&net, batches(&net)).unwrap_err();
        assert!(error.to_string().starts_with("train_len"), "{error}");
    }
    let wrong = Likelihood::Gaussian {
        noise_precision: 0.0,
    };
    let net = Net {
        likelihood: wrong,
        ..net
    };
    let error = Laplace::new(ROWS)
        .gauss_newton(&net, [batch(&GAUSSIAN, 1, 0, 2)])
        .unwrap_err();
    assert!(error.to_string().starts_with("noise_precision"), "{error}");
    let large = Net::new(Some(Laplace::FULL_LIMIT / 3), 1, GAUSSIAN);
    let error = laplace(Structure::Full)
        .gauss_newton(&large, batches(&large))
        .unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("2000 weights"),
        "{error}"
    );
    let spoilt = filled(Net::new(Some(3), 1, GAUSSIAN), 1, f32::NAN);
    let error = laplace(Structure::Diagonal)
        .gauss_newton(&spoilt, batches(&spoilt))
        .unwrap_err();
    assert!(error.is_numerical(), "{error}");
}
