//! Models with the likelihoods that have no loss in Burn, trained and averaged over draws.

use std::sync::Arc;

use burn::module::ParamGroup;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Int, Tensor};
use burn::train::TrainStep;
use burn::train::metric::Adaptor;
use burn_bayes::eval::{
    CountMixture, TargetedCounts, TargetedMixture, joint_log_densities, log_probabilities,
};
use burn_bayes::graph::{CapturedModel, ExampleLosses, Layout, losses};
use burn_bayes::likelihood::{Likelihood, LikelihoodOutput, MixDraws, Prediction, RegressionDraws};
use burn_bayes::methods::Rate;
use burn_bayes::train::{Batches, RateSchedule, Trainer};
use burn_bayes::{
    BayesianConfig, ExampleLoss, Noise, Predictor, SlangConfig, Supervised, VifaConfig,
};

use crate::support::{autodiff, device, filled, normals, values};

/// A linear model with any likelihood.
fn line<Y>(layer: Linear, likelihood: Likelihood) -> Supervised<Linear, Tensor<2>, Y> {
    Supervised::new(
        layer,
        |layer: &Linear, inputs| layer.forward(inputs),
        likelihood,
    )
}

/// y = 2x + e^x ε.
struct Rows;

const ROWS: usize = 512;
const BATCH: usize = 64;

impl Batches for Rows {
    type Batch = (Tensor<2>, Tensor<2>);

    fn per_epoch(&self) -> usize {
        ROWS / BATCH
    }

    fn epoch(&self, _: usize, first: usize) -> impl Iterator<Item = Self::Batch> {
        let inputs = normals(1, ROWS);
        let noise = normals(2, ROWS);
        let target = |(&x, &noise): (&f32, &f32)| 2.0 * x + x.exp() * noise;
        let targets: Vec<f32> = inputs.iter().zip(&noise).map(target).collect();
        (first..ROWS / BATCH).map(move |batch| {
            let column = |values: &[f32]| {
                let values = &values[batch * BATCH..(batch + 1) * BATCH];
                Tensor::<1>::from_floats(values, &autodiff()).unsqueeze_dim(1)
            };
            (column(&inputs), column(&targets))
        })
    }
}

#[test]
fn noise_that_depends_on_the_input_is_learned() {
    // A mean and the logarithm of the variance around it.
    let layer = LinearConfig::new(1, 2).init(&autodiff());
    let model = line(filled(layer, 1, 0.3), Likelihood::HeteroscedasticGaussian);
    let model = BayesianConfig::new(ROWS, VifaConfig::new().with_rank(1)).init(model);
    let rates = RateSchedule::new(Rate::Constant(0.03)).unwrap();
    let trainer = Trainer::new(model, AdamConfig::new().init(), rates).with_epochs(60);
    let trained = trainer.run(&Rows, &mut ()).unwrap();
    let trained = trained.trainer.into_model();

    let template = trained.template().clone();
    let predictor = Predictor::new(template, trained.posterior(), Noise::new(3)).unwrap();
    let column = |values: [f32; 3]| Tensor::<2>::from_data(values.map(|value| [value]), &device());
    let inputs = [-1.0, 0.0, 1.0];
    let mixture = predictor
        .predict((column(inputs), column([0.0; 3])), 50)
        .unwrap();
    let means = values(&mixture.prediction.mean().reshape([-1]));
    let variances = values(&mixture.prediction.aleatoric_variance().reshape([-1]));
    for ((&x, mean), variance) in inputs.iter().zip(means).zip(variances) {
        let deviation = f64::from(x).exp();
        // With the noise of 512 rows, the standard error of a line is less than a tenth of it.
        assert!(
            (mean - 2.0 * f64::from(x)).abs() < 0.4 * deviation,
            "{x}: {mean}"
        );
        let ratio = variance.sqrt() / deviation;
        assert!((0.8..1.25).contains(&ratio), "{x}: {ratio}");
    }
}

#[test]
fn labels_of_classes_have_the_losses_of_their_one_hot_encoding() {
    let layer = filled(LinearConfig::new(1, 3).init(&autodiff()), 1, 0.5);
    let model = line(layer, Likelihood::Categorical);
    let inputs = Tensor::<2>::from_data([[0.5], [-1.0], [2.0]], &autodiff());
    let labels = Tensor::<1, Int>::from_data([2, 0, 1], &autodiff());
    let batch = (inputs.clone(), labels.clone());
    let found = values(&model.example_losses(batch.clone()));
    let expected = losses::cross_entropy(model.forward(inputs), labels);
    for (found, expected) in found.iter().zip(values(&expected)) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
    // A method that needs per-example gradients records these losses and compares them with the step.
    let bayesian = BayesianConfig::new(3, SlangConfig::new()).init(model);
    TrainStep::step(&bayesian, batch);
}

#[test]
fn every_likelihood_is_recorded_with_the_gradients_of_single_examples() {
    let one_hot = |classes: [usize; 4]| {
        let row = |class| [0, 1, 2].map(|other| if class == other { 1.0 } else { 0.0 });
        Tensor::<2>::from_data(classes.map(row), &device())
    };
    let column = |values: [f32; 4]| Tensor::<2>::from_data(values.map(|value| [value]), &device());
    for (likelihood, targets) in [
        (
            Likelihood::HeteroscedasticGaussian,
            column([0.3, -1.0, 2.0, 0.1]),
        ),
        (
            Likelihood::GaussianTargets {
                noise_precisions: vec![0.5, 4.0, 2.0],
            },
            one_hot([0, 2, 1, 2]),
        ),
        (
            Likelihood::GaussianMixture { components: 3 },
            column([0.3, -1.0, 2.0, 0.1]),
        ),
        (Likelihood::Ordinal, one_hot([0, 2, 1, 2])),
        (Likelihood::Categorical, one_hot([1, 0, 2, 2])),
        (Likelihood::Bernoulli, one_hot([1, 0, 2, 2])),
        (Likelihood::Poisson, column([0.0, 3.0, 1.0, 7.0])),
        (Likelihood::NegativeBinomial, column([0.0, 3.0, 1.0, 7.0])),
    ] {
        let outputs = likelihood.outputs(targets.dims()[1]);
        let layer = filled(LinearConfig::new(2, outputs).init(&autodiff()), 4, 0.5);
        let head: Supervised<_> = line(layer, likelihood.clone());
        let layout = Arc::new(Layout::new(&head, &ParamGroup::all()).unwrap());
        let inputs = Tensor::<1>::from_floats(&*normals(5, 8), &device()).reshape([4, 2]);
        let batch = (inputs, targets);
        let captured = CapturedModel::new(layout, |head: &Supervised<_>, batch| {
            head.example_losses(batch)
        });
        assert!(
            captured.looped_paths(&head, &batch).unwrap().is_empty(),
            "{likelihood:?}"
        );
        let rows = |losses: ExampleLosses| values(&losses.gradients.materialise().reshape([-1]));
        let found = rows(captured.example_gradients(&head, &batch).unwrap());
        let expected = rows(captured.looped(&head, &batch).unwrap());
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 1e-5,
                "{likelihood:?}: {found} {expected}"
            );
        }
    }
}

/// Against sums of densities in double precision, for two targets of a row, two components and one draw.
#[test]
fn a_mixture_of_gaussians_is_the_sum_of_its_components() {
    // Means, log-variances and the logit of the first of two components, of both targets each.
    let (means, log_variances, logits) = (
        [[0.5, -2.0], [1.5, 2.0]],
        [[0.2, -1.0], [-0.7, 0.4]],
        [0.8, -1.3],
    );
    let outputs = [means.concat(), log_variances.concat(), logits.to_vec()].concat();
    let outputs: Vec<f32> = outputs.into_iter().map(|value: f64| value as f32).collect();
    let outputs = Tensor::<1>::from_floats(&*outputs, &device()).unsqueeze::<2>();
    let targets = [0.9, -1.0];
    let column = |targets: [f64; 2]| Tensor::<2>::from_data([targets], &device());
    let weight = |target: usize| 1.0 / (1.0 + f64::exp(-logits[target]));
    let component = |k: usize, target: usize| {
        let share = [weight(target), 1.0 - weight(target)][k];
        (share, means[k][target], log_variances[k][target].exp())
    };
    let of_target = |target: usize| [component(0, target), component(1, target)];
    let density = |target: usize| {
        let terms = of_target(target).map(|(share, mean, variance)| {
            let square = (targets[target] - mean).powi(2) / variance;
            share * (-0.5 * square).exp() / (std::f64::consts::TAU * variance).sqrt()
        });
        terms.iter().sum::<f64>()
    };
    let likelihood = Likelihood::GaussianMixture { components: 2 };
    assert_eq!(likelihood.outputs(2), 10);
    let loss = values(&likelihood.losses(outputs.clone(), column(targets)))[0];
    let expected = -(density(0) * density(1)).ln();
    assert!((loss - expected).abs() < 1e-5, "{loss} {expected}");
    let means_found = values(&likelihood.mean(outputs.clone()).reshape([-1]));
    let variances_found = values(&likelihood.variance(outputs.clone()).reshape([-1]));
    for (target, (found, variance_found)) in means_found.iter().zip(variances_found).enumerate() {
        let all = of_target(target);
        let mean: f64 = all.iter().map(|(share, mean, _)| share * mean).sum();
        let square = all.map(|(share, own, variance)| share * (variance + (own - mean).powi(2)));
        let variance: f64 = square.iter().sum();
        assert!((found - mean).abs() < 1e-5);
        assert!((variance_found - variance).abs() < 1e-5);
    }
    let prediction = Prediction::new(likelihood.clone(), outputs.clone().unsqueeze());
    let below = values(&prediction.quantiles(0.3).unwrap().reshape([-1]));
    for (target, below) in below.iter().enumerate() {
        let masses = of_target(target).map(|(share, mean, variance)| {
            share * normal_cumulative((below - mean) / variance.sqrt())
        });
        assert!((masses.iter().sum::<f64>() - 0.3).abs() < 1e-4, "{below}");
    }
    // Metrics see the components, not a Gaussian of their mean and variance.
    let output = LikelihoodOutput::new(likelihood.clone(), outputs.clone(), column(targets));
    let draws: RegressionDraws = LikelihoodOutput::mix(vec![output]).adapt();
    let read = draws.read().unwrap();
    let mixture = read.mixture(1.0).unwrap();
    let targeted = TargetedMixture::new(&mixture, read.targets()).unwrap();
    let joint = joint_log_densities(&targeted, 2).unwrap()[0];
    assert!((joint + expected).abs() < 1e-5, "{joint} {expected}");
    let message = likelihood.curvature_roots(&outputs).unwrap_err();
    assert!(message.to_string().contains("HeteroscedasticGaussian"));
}

/// Against the gradient in double precision: −r (y − f)/σ² in a component's mean f, where its responsibility r is less than
/// the rounding of 1.
#[test]
fn a_narrow_component_far_from_a_row_has_an_exact_gradient() {
    let (wide, narrow) = (1.0, 1e-3_f64);
    for target in [4e-3, 6e-3, 7.5e-3_f64] {
        for (index, deviations) in [(0, [narrow, wide]), (1, [wide, narrow])] {
            let [first, second] = deviations.map(|deviation| 2.0 * deviation.ln() as f32);
            let outputs = Tensor::<2>::from_data([[0.0, 0.0, first, second, 0.0]], &autodiff());
            let outputs = outputs.require_grad();
            let targets = Tensor::<2>::from_data([[target as f32]], &autodiff());
            let likelihood = Likelihood::GaussianMixture { components: 2 };
            let losses = likelihood.losses(outputs.clone(), targets);
            let gradient = outputs.grad(&losses.backward()).unwrap();
            let found = values(&gradient.reshape([-1]))[index];
            let density = |deviation: f64| (-0.5 * (target / deviation).powi(2)).exp() / deviation;
            let responsibility = density(narrow) / (density(narrow) + density(wide));
            let expected = -responsibility * target / narrow.powi(2);
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        }
    }
}

/// Φ by the midpoint rule.
fn normal_cumulative(limit: f64) -> f64 {
    let steps = 20_000;
    let width = (limit + 12.0) / f64::from(steps);
    let density = |at: f64| (-0.5 * at * at).exp() / std::f64::consts::TAU.sqrt();
    let places = (0..steps).map(|step| -12.0 + (f64::from(step) + 0.5) * width);
    places.map(density).sum::<f64>() * width
}

/// Against the probabilities of counts in double precision, which include log y!.
#[test]
fn counts_of_any_dispersion_have_the_losses_of_their_probabilities() {
    let counts = [0.0, 1.0, 2.0, 9.0, 40.0, 700.0];
    for dispersion in [1e-5, 1e-2, 0.4, 3.0, 200.0] {
        for rate in [0.05, 1.0, 12.0, 300.0] {
            let rates = vec![rate; counts.len()];
            let mixture = CountMixture::new(&rates, 1, counts.len()).unwrap();
            let mixture = mixture.with_dispersions(vec![dispersion; counts.len()]);
            let mixture = mixture.unwrap();
            let expected = log_probabilities(&TargetedCounts::new(&mixture, &counts).unwrap());
            let outputs = [rate.ln(), dispersion.ln()].map(|value| value as f32);
            let outputs = Tensor::<2>::from_data([outputs], &device());
            let targets = counts.map(|count| [count as f32]);
            let targets = Tensor::<2>::from_data(targets, &device());
            let likelihood = Likelihood::NegativeBinomial;
            let losses = likelihood.losses(outputs.clone().repeat_dim(0, counts.len()), targets);
            for ((found, expected), count) in values(&losses).iter().zip(expected).zip(counts) {
                let factorial: f64 = (1..=count as u32).map(|k| f64::from(k).ln()).sum();
                let expected = -expected - factorial;
                // The loss of 700 counts is a difference of numbers near 5000.
                let tolerance = 1e-5 * (1.0 + factorial + expected.abs());
                assert!(
                    (found - expected).abs() < tolerance,
                    "{dispersion} {rate} {count}: {found} {expected}"
                );
            }
            let variance = values(&likelihood.variance(outputs.clone()).reshape([-1]))[0];
            assert!((variance / mixture.variance()[0] - 1.0).abs() < 1e-5);
            let mean = values(&likelihood.mean(outputs).reshape([-1]))[0];
            assert!((mean / rate - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn a_likelihood_without_curvature_is_refused_by_laplace_and_has_quantiles() {
    let outputs = Tensor::<2>::from_data([[0.0, 0.0]], &device());
    let error = Likelihood::NegativeBinomial.curvature_roots(&outputs);
    let message = error.unwrap_err().to_string();
    assert!(message.contains("NegativeBinomial"), "{message}");
    let prediction = Prediction::new(Likelihood::NegativeBinomial, outputs.unsqueeze());
    // Of mean and dispersion 1, P(Y = k) = 2^−(k + 1).
    for (probability, expected) in [(0.49, 0.0), (0.7, 1.0), (0.9, 3.0)] {
        let found = prediction.quantiles(probability).unwrap();
        assert_eq!(values(&found.reshape([-1])), [expected]);
    }
}
