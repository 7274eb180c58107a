//! The terms of a prior over functions against dense matrices in double precision and a backward pass.

mod classification;
mod coverage;
mod divergence;
mod laplace;
mod regression;
mod start;

use burn::module::ParamGroup;
use burn::nn::{Linear, LinearConfig};
use burn::optim::SgdConfig;
use burn::tensor::Device;
use burn::train::{Interrupter, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::graph::losses;
use burn_bayes::likelihood::Likelihood;
use burn_bayes::methods::{
    DivergenceGradient, FromExamples, Rate, Slang, StepId, Update, VadamConfig,
};
use burn_bayes::train::ExampleLoss;
use burn_bayes::{BayesianConfig, FactorPosterior, Prior, SlangConfig, VifaConfig};

use super::*;

const OUTPUTS: usize = 2;

#[derive(Module, Debug)]
struct Net {
    hidden: Linear,
    output: Linear,
    #[module(skip)]
    noise_precision: f64,
}

type Batch = (Tensor<2>, Tensor<2>);

impl Net {
    fn new(device: &Device) -> Self {
        Self::with_outputs(OUTPUTS, device)
    }

    fn with_outputs(outputs: usize, device: &Device) -> Self {
        let net = Self {
            hidden: LinearConfig::new(3, 4).init(device),
            output: LinearConfig::new(4, outputs).init(device),
            noise_precision: 4.0,
        };
        let layout = layout(&net);
        let weights = Noise::new(3).normal(layout.len(), device).mul_scalar(0.7);
        layout.write_leaves(net, weights).unwrap()
    }
}

impl ModelOutputs for Net {
    type Features = Tensor<2>;

    fn features((inputs, _): Batch) -> Tensor<2> {
        inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.output.forward(self.hidden.forward(inputs).tanh())
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Gaussian {
            noise_precision: self.noise_precision,
        }
    }
}

impl ExampleLoss for Net {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        losses::gaussian(self.outputs(inputs), targets, self.noise_precision)
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        RegressionOutput::new(losses.mean(), self.outputs(inputs), targets)
    }
}

impl TrainStep for Net {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        self.mean_loss_step(batch)
    }
}

fn layout(net: &Net) -> Layout {
    Layout::new(net, &ParamGroup::all()).unwrap()
}

fn autodiff() -> Device {
    Device::default().autodiff()
}

const COUNT: usize = 5;
const RELATIVE_JITTER: f64 = 1e-2;

fn prior() -> FunctionPrior {
    let kernel: Kernel = "2*rbf(1.5) + 0.5".parse().unwrap();
    let points = MeasurementPoints::uniform(vec![-2.0; 3], vec![2.0; 3]).unwrap();
    FunctionPrior::new(kernel, points, COUNT)
        .unwrap()
        .with_jitter(RELATIVE_JITTER)
}

fn comparison(net: &Net, prior: FunctionPrior) -> Comparison<Net> {
    let layout = Arc::new(layout(net));
    Comparison {
        prior,
        gradients: OutputGradients::new(layout.clone()),
        layout,
        noise: Noise::new(7),
        has_rows: true,
    }
}

/// The weights of the net, and others.
fn proposal(net: &Net, step: u64, draws: u64) -> Proposal {
    let weights = layout(net).flatten(net).unwrap().without_autodiff();
    let draw = |index: u64| {
        let noise = Noise::new(5).row(index);
        let shift = noise.normal(weights.dims()[0], &weights.device());
        Draw {
            weights: weights.clone() + shift.mul_scalar(0.3),
            noise,
        }
    };
    Proposal::new(StepId { step, pass: 0 }, (0..draws).map(draw).collect())
}

/// Σ_c J_cᵀK⁻¹J_c and Σ_c J_cᵀK⁻¹f_c, averaged over the draws of a proposal.
fn dense(net: &Net, comparison: &Comparison<Net>, proposal: &Proposal) -> (Vec<f64>, Vec<f64>) {
    let prior = &comparison.prior;
    let noise = proposal.id.noise(comparison.noise).fold(MEASUREMENT);
    let points = prior.points.draw(COUNT, noise.fold(0)).unwrap();
    let inverse = prior
        .kernel
        .factor(&points, RELATIVE_JITTER)
        .unwrap()
        .inverse();
    let len = comparison.layout.len();
    let (mut curvature, mut gradient) = (vec![0.0; len * len], vec![0.0; len]);
    let share = 1.0 / proposal.draws.len() as f64;
    for draw in &proposal.draws {
        let weights = draw.weights.clone();
        let model = comparison.layout.write(net.valid(), weights).unwrap();
        let inputs = from_host(points.as_slice(), [COUNT, 3], &draw.weights.device());
        let outputs = model.outputs(inputs.clone());
        let values = to_host(outputs.clone());
        for output in 0..OUTPUTS {
            let rows = comparison
                .gradients
                .of_output(&model, &inputs, &outputs, output)
                .unwrap();
            let rows = to_host(rows.materialise());
            for (i, left) in rows.chunks_exact(len).enumerate() {
                for (j, right) in rows.chunks_exact(len).enumerate() {
                    let scale = share * inverse.get(i, j);
                    for (a, left) in left.iter().enumerate() {
                        for (b, right) in right.iter().enumerate() {
                            curvature[a * len + b] += scale * left * right;
                        }
                        gradient[a] += scale * left * values[j * OUTPUTS + output];
                    }
                }
            }
        }
    }
    (curvature, gradient)
}

fn assert_close(found: &[f64], expected: &[f64], relative: f64) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (found, expected) in found.iter().zip(expected) {
        let bound = relative * scale;
        assert!((found - expected).abs() <= bound, "{found} {expected}");
    }
}

/// RᵀR.
fn product(rows: &Tensor<2>) -> Vec<f64> {
    to_host(rows.clone().transpose().matmul(rows.clone()))
}

/// K has a condition number of a few hundred, whose square root multiplies the rounding of L⁻¹J.
const TOLERANCE: f64 = 2e-5;

#[test]
fn terms_are_those_of_dense_matrices() {
    let net = Net::new(&autodiff());
    let comparison = comparison(&net, prior());
    for draws in [1, 3] {
        let proposal = proposal(&net, 4, draws);
        let terms = comparison.terms(&net, &|inputs| inputs, &proposal).unwrap();
        let (curvature, gradient) = dense(&net, &comparison, &proposal);
        let found = terms.mean_gradient().unwrap();
        assert_close(&to_host(found), &gradient, TOLERANCE);
        let rows = terms.rows.unwrap();
        assert_eq!(rows.dims()[0], draws as usize * COUNT * OUTPUTS);
        assert_close(&product(&rows), &curvature, TOLERANCE);
    }
}

/// The gradient is that of ½ Σ_c f_cᵀK⁻¹f_c by autodiff.
#[test]
fn the_gradient_is_one_backward_pass() {
    let net = Net::new(&autodiff());
    let comparison = comparison(&net, prior());
    let proposal = proposal(&net, 2, 1);
    let noise = proposal.id.noise(comparison.noise).fold(MEASUREMENT);
    let points = comparison.prior.points.draw(COUNT, noise.fold(0)).unwrap();
    let factor = comparison
        .prior
        .kernel
        .factor(&points, RELATIVE_JITTER)
        .unwrap();
    let device = autodiff();
    let inverse = factor.inverse();
    let inverse = from_host(inverse.as_slice(), [COUNT, COUNT], &device);
    let at_draw = comparison
        .layout
        .write_leaves(net.clone(), proposal.draws[0].weights.clone())
        .unwrap();
    let outputs = at_draw.outputs(from_host(points.as_slice(), [COUNT, 3], &device));
    let energy = (outputs.clone() * inverse.matmul(outputs)).sum() * 0.5;
    let mut gradients = burn::optim::GradientsParams::from_grads(energy.backward(), &at_draw);
    let pieces = comparison
        .layout
        .gradient_parts(&at_draw, &mut gradients)
        .unwrap();
    let expected = to_host(Tensor::cat(pieces, 0));
    let sketched = self::comparison(&net, prior().with_sketch(2));
    let without_rows = Comparison {
        has_rows: false,
        ..self::comparison(&net, prior())
    };
    for comparison in [comparison, sketched, without_rows] {
        let terms = comparison.terms(&net, &|inputs| inputs, &proposal).unwrap();
        assert_eq!(terms.rows.is_some(), comparison.has_rows);
        let found = terms.mean_gradient().unwrap();
        assert_close(&to_host(found), &expected, TOLERANCE);
    }
}

/// The mean of random products is the exact one, within six standard errors of every entry.
#[test]
fn sketches_are_right_on_average() {
    let net = Net::new(&autodiff());
    let comparison = comparison(&net, prior().with_sketch(3));
    let proposal = proposal(&net, 0, 1);
    let (curvature, _) = dense(&net, &comparison, &proposal);
    let noise = proposal.id.noise(comparison.noise).fold(MEASUREMENT);
    let points = comparison.prior.points.draw(COUNT, noise.fold(0)).unwrap();
    let factor = comparison
        .prior
        .kernel
        .factor(&points, RELATIVE_JITTER)
        .unwrap();
    let draw = &proposal.draws[0];
    let places = Places {
        features: from_host(points.as_slice(), [COUNT, 3], &draw.weights.device()),
        factor,
        points,
    };
    let at_draw = At::new(&comparison, &net, draw.weights.clone(), &places).unwrap();
    let trials = 300;
    let (mut sum, mut squares) = (vec![0.0; curvature.len()], vec![0.0; curvature.len()]);
    for trial in 0..trials {
        let rows = at_draw.sketch(3, Noise::new(1).fold(trial)).unwrap();
        assert_eq!(rows.dims()[0], 3);
        for ((sum, square), entry) in sum.iter_mut().zip(&mut squares).zip(product(&rows)) {
            *sum += entry;
            *square += entry * entry;
        }
    }
    let trials = trials as f64;
    let scale = curvature.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for ((sum, squares), expected) in sum.iter().zip(&squares).zip(&curvature) {
        let mean = sum / trials;
        let error = ((squares / trials - mean * mean).max(0.0) / trials).sqrt();
        let bound = 6.0 * error + TOLERANCE * scale;
        assert!(
            (mean - expected).abs() <= bound,
            "{mean} {expected} {bound}"
        );
    }
}

#[test]
fn points_are_fresh_in_every_step() {
    let net = Net::new(&autodiff());
    let comparison = comparison(&net, prior());
    let rows = |step| {
        let proposal = proposal(&net, step, 1);
        let terms = comparison.terms(&net, &|inputs| inputs, &proposal).unwrap();
        to_host(terms.rows.unwrap())
    };
    assert_eq!(rows(1), rows(1));
    assert_ne!(rows(1), rows(2));
}

#[test]
fn unusable_priors_are_refused() {
    let net = || Net::new(&autodiff());
    let weights = Prior::isotropic(1.0);
    let slang = || {
        BayesianConfig::new(10, SlangConfig::new())
            .with_prior(weights.clone())
            .init(net())
    };
    let error = BayesianConfig::new(10, VadamConfig::new())
        .init(net())
        .with_function_prior(prior());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("does not support; use SLANG"), "{error}");
    let points = || MeasurementPoints::uniform(vec![-2.0; 3], vec![2.0; 3]).unwrap();
    for prior in [
        FunctionPrior::new(Kernel::rbf([1.0]), points(), 0),
        FunctionPrior::new(Kernel::rbf([1.0]), points(), MOST_POINTS + 1),
        FunctionPrior::new(Kernel::rbf([1.0, 2.0]), points(), 3),
    ] {
        assert!(prior.unwrap_err().is_config());
    }
    for prior in [prior().with_jitter(-1.0), prior().with_sketch(0)] {
        assert!(slang().with_function_prior(prior).unwrap_err().is_config());
    }
    assert!(slang().with_function_prior(prior()).is_ok());
    let linearized = || prior().with_divergence(FunctionDivergence::Linearized);
    let error = slang()
        .with_function_prior(linearized())
        .unwrap_err()
        .to_string();
    assert!(error.contains("only VIFA minimises"), "{error}");
    let vifa = || BayesianConfig::new(10, VifaConfig::new()).init(net());
    let error = vifa().with_function_prior(linearized().with_jitter(0.0));
    assert!(error.unwrap_err().to_string().starts_with("jitter"));
    assert!(vifa().with_function_prior(linearized()).is_ok());
    // Points of another width than the model's inputs.
    let narrow = MeasurementPoints::uniform(vec![-2.0; 2], vec![2.0; 2]).unwrap();
    let narrow = FunctionPrior::new(Kernel::rbf([1.0]), narrow, 3).unwrap();
    let error = slang().with_function_prior(narrow).unwrap_err().to_string();
    assert!(error.contains("have 2 coordinates"), "{error}");
    // Features with another number of examples.
    let comparison = comparison(&net(), prior());
    let half = |inputs: Tensor<2>| inputs.narrow(0, 0, 2);
    let error = comparison.terms(&net(), &half, &proposal(&net(), 0, 1));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("make 2 outputs of 5 points"), "{error}");
}

/// A prior over functions counts once, so λ is N: by default, although there are more weights, and if it is set to N.
#[test]
fn another_effective_sample_size_is_refused() {
    const TRAIN_LEN: usize = 10;
    let config = || BayesianConfig::new(TRAIN_LEN, SlangConfig::new());
    let with_prior = |config: BayesianConfig<SlangConfig>| {
        let net = Net::new(&autodiff());
        config.init(net).with_function_prior(prior())
    };
    for config in [config(), config().with_ess(TRAIN_LEN as f64)] {
        let bayesian = with_prior(config).unwrap();
        assert_eq!(bayesian.algorithm().setup().ess, TRAIN_LEN as f64);
        assert!(bayesian.with_function_prior(prior()).is_ok());
    }
    for ess in [5.0, 26.0] {
        let error = with_prior(config().with_ess(ess)).unwrap_err();
        let message = error.to_string();
        assert!(error.is_config(), "{message}");
        assert!(
            message.starts_with("ess: is") && message.contains("10"),
            "{message}"
        );
    }
}

/// A record has only a hash of the prior: a training that resumes from it needs the prior again.
#[test]
fn a_resumed_training_demands_its_prior() {
    let device = autodiff();
    let batch = || {
        let values = |count: usize| Noise::new(4).latent(count).into_iter().map(f64::from);
        let [inputs, targets] = [3, OUTPUTS].map(|width| {
            let values: Vec<f64> = values(6 * width).collect();
            from_host(&values, [6, width], &device)
        });
        (inputs, targets)
    };
    let slang = || {
        BayesianConfig::new(10, SlangConfig::new())
            .with_prior(Prior::isotropic(1.0))
            .init(Net::new(&device))
    };
    let step = |bayesian: Bayesian<Net, Slang>| {
        let mut optimizer = SgdConfig::new().init();
        let gradients = TrainStep::step(&bayesian, batch()).grads;
        bayesian.optimize(&mut optimizer, 0.1.into(), gradients)
    };
    let with_prior = || slang().with_function_prior(prior()).unwrap();
    let record = || step(with_prior()).into_record();
    let resumed = step(with_prior().load_record(record()));
    assert!(resumed.fault().is_none() && resumed.steps() == 2);
    let changed = prior().with_jitter(0.5);
    let changed = slang().with_function_prior(changed).unwrap();
    for (bayesian, part) in [(slang(), "set it again"), (changed, "another than that")] {
        let stopped = step(
            bayesian
                .with_interrupter(Interrupter::new())
                .load_record(record()),
        );
        let fault = stopped.fault().unwrap().to_string();
        assert!(fault.contains(part), "{fault}");
    }
}

/// The law of SLANG's diagonal, diag P⁺ = (1−β) diag P + β (diag Ĝ + α + diag RᵀR), for every rank.
#[test]
fn a_step_of_slang_contains_the_prior() {
    const TRAIN_LEN: usize = 10;
    const RATE: f64 = 0.3;
    const ALPHA: f64 = 0.5;
    let net = Net::new(&autodiff());
    let comparison = comparison(&net, prior());
    let len = comparison.layout.len();
    let noise = Noise::new(8);
    let rows: Tensor<2> = noise.normal(4 * len, &Device::default()).reshape([4, len]);
    let squares = to_host((rows.clone() * rows.clone()).sum_dim(0));
    for rank in [0, 1, 3] {
        let config = BayesianConfig::paper(
            TRAIN_LEN,
            SlangConfig::paper()
                .with_rank(rank)
                .with_covariance_rate(Rate::Constant(RATE)),
        )
        .with_prior(Prior::isotropic(ALPHA));
        let mut slang = config.build(&net).unwrap();
        for step in 0..2 {
            let before = precision_diagonal(&slang.posterior(step).unwrap());
            let proposal = slang.propose(StepId { step, pass: 0 }).unwrap();
            let terms = comparison.terms(&net, &|inputs| inputs, &proposal).unwrap();
            let function = product(terms.rows.as_ref().unwrap());
            let gradients = ExampleGradients::from_rows(rows.clone());
            let proposal = proposal.with_function_terms(terms);
            let Update::ClosedForm(update) = slang.step(proposal, gradients).unwrap() else {
                panic!("the step is in closed form");
            };
            slang = slang.apply_step(update, 0.1);
            let after = precision_diagonal(&slang.posterior(step + 1).unwrap());
            let expected: Vec<f64> = (0..len)
                .map(|at| {
                    let data = TRAIN_LEN as f64 / 4.0 * squares[at];
                    let new = data + ALPHA + function[at * (len + 1)];
                    (1.0 - RATE) * before[at] + RATE * new
                })
                .collect();
            assert_close(&after, &expected, TOLERANCE);
        }
    }
}

/// diag (UᵀU + diag d).
fn precision_diagonal(posterior: &FactorPosterior) -> Vec<f64> {
    let mut diagonal = to_host(posterior.diagonal());
    if let Some(factors) = posterior.factors() {
        let squares = to_host((factors.clone() * factors).sum_dim(0));
        let entries = diagonal.iter_mut().zip(squares);
        entries.for_each(|(entry, square)| *entry += square);
    }
    diagonal
}
