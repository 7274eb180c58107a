//! Importance ratios of draws of a Gaussian fit q: how far it is from the true posterior, and weights that correct
//! its predictions.
//!
//!   ln r_s = −Σ_n ℓ_n(θ_s) + ln p(θ_s) − ln q(θ_s),   θ_s ~ q independent, s = 1…S
//!
//! with the loss ℓ_n = −ln p(y_n | x_n, θ) of example n. If q were the posterior, all ratios would be the evidence.
//! Their tail, and the weights of the draws, are those of [`ParetoSmoothing`].
//!
//! Losses are summed in double precision. All draws are in memory, S·D numbers, and batches are read once.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_eval::ParetoSmoothing;
use burn_bayes_graph::{CapturedForward, ExampleBatch};

use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::methods::checks::counts;
use crate::noise::Noise;
use crate::posterior::FactorPosterior;
use crate::prior::Prior;
use crate::train::ExampleLoss;

/// Tests by importance ratios whether a fit is close to the true posterior, in one pass over the training data.
///
/// Where [`ConvergenceTest`](super::ConvergenceTest) compares a fit with the best Gaussian of its family, this test compares it with
/// the posterior itself. It needs hundreds of draws, and for more than some thousands of weights it rejects every
/// approximation that is not nearly exact.
///
/// ```
/// use burn::module::Module;
/// use burn_bayes::diagnostics::ImportanceTest;
/// use burn_bayes::{ExampleBatch, ExampleLoss, FactorPosterior, Noise, Predictor};
///
/// /// Corrects predictions, if importance weights can.
/// fn predictor<M, B>(
///     model: M,
///     posterior: FactorPosterior,
///     train_len: usize,
///     batches: Vec<B>,
/// ) -> burn_bayes::Result<Predictor<M>>
/// where
///     M: Module + ExampleLoss<Input = B> + 'static,
///     B: ExampleBatch,
/// {
///     let test = ImportanceTest::new(train_len);
///     let smoothing = test.measure(&model, &posterior, batches)?;
///     println!("Pareto k̂ is {:.2}", smoothing.pareto_k());
///     let predictor = Predictor::new(model, posterior, Noise::new(0))?;
///     match smoothing.is_reliable() {
///         true => predictor.with_weighted_draws(test.noise(), &smoothing.weights()),
///         false => Ok(predictor),
///     }
/// }
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct ImportanceTest {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// The prior over the weights, with which the posterior was fitted.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// S, the number of draws; fewer than about 100 say little.
    #[config(default = 1000)]
    pub draws: usize,
    /// Seed of the draws.
    #[config(default = 0)]
    pub seed: u64,
}

impl ImportanceTest {
    /// The noise of the draws: θ_s is the draw of the posterior with `noise.row(s)`.
    pub fn noise(&self) -> Noise {
        Noise::new(self.seed).for_importance()
    }

    /// The smoothed weights of S independent draws of `posterior`, and k̂. The batches have all training data, without
    /// autodiff, and the model is evaluated in inference mode; its weights outside the posterior must be those of the fit.
    ///
    /// # Errors
    ///
    /// If there are no draws, the batches do not have N examples, a ratio is not finite, or the draws do not differ from
    /// the mean in some weight: then ratios do not depend on it, and those of a posterior without deviations would be
    /// all equal, as if it were exact.
    pub fn measure<M, B>(
        &self,
        model: &M,
        posterior: &FactorPosterior,
        batches: impl IntoIterator<Item = B>,
    ) -> Result<ParetoSmoothing>
    where
        M: Module + ExampleLoss<Input = B> + 'static,
        B: ExampleBatch,
    {
        let ratios = self.log_ratios(model, posterior, batches)?;
        ParetoSmoothing::new(&ratios).map_err(|error| Error::numerical(error.to_string()))
    }

    /// ln p(D, θ_s) − ln q(θ_s) at the draws, in nats.
    fn log_ratios<M, B>(
        &self,
        model: &M,
        posterior: &FactorPosterior,
        batches: impl IntoIterator<Item = B>,
    ) -> Result<Vec<f64>>
    where
        M: Module + ExampleLoss<Input = B> + 'static,
        B: ExampleBatch,
    {
        counts([("draws", self.draws)])?;
        let layout = posterior.layout();
        let draws = posterior.draws(self.noise(), self.draws)?;
        expect_deviations(posterior, &draws)?;
        let prior = self.prior.resolve(layout)?.log_densities(&draws)?;
        let density = posterior.log_densities(&draws)?;
        let mut ratios: Vec<f64> = prior.iter().zip(density).map(|(p, q)| p - q).collect();

        let losses = |model: &M, batch| model.example_losses(batch).unsqueeze_dim::<2>(1);
        let losses = CapturedForward::new(layout.clone(), losses);
        let mut examples = 0;
        for batch in batches {
            let losses = losses.outputs(model, draws.clone(), &batch)?;
            let [_, rows, _] = losses.dims();
            examples += rows;
            let losses = to_host(losses);
            for (ratio, losses) in ratios.iter_mut().zip(losses.chunks(rows.max(1))) {
                *ratio -= losses.iter().sum::<f64>();
            }
        }
        match examples == self.train_len {
            true => Ok(ratios),
            false => Err(Error::config(
                "train_len",
                format!(
                    "is {}, but the batches have {examples} examples; pass all training data once",
                    self.train_len
                ),
            )),
        }
    }
}

/// Fails if a weight is the same in all draws.
fn expect_deviations(posterior: &FactorPosterior, draws: &Tensor<2>) -> Result<()> {
    let deviations = draws.clone() - posterior.mean().unsqueeze::<2>();
    let largest = deviations.abs().max_dim(0).squeeze_dim::<1>(0);
    if largest.clone().greater_elem(0.0).all().into_scalar() {
        return Ok(());
    }
    let at = to_host(largest)
        .iter()
        .position(|&most| most.is_nan() || most <= 0.0);
    let path = at.and_then(|at| posterior.layout().path_at(at));
    Err(Error::numerical(format!(
        "the draws of `{}` do not differ from its mean, because its deviation is smaller than the rounding of its \
         weights; importance ratios cannot be used",
        path.unwrap_or_default()
    )))
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;
    use std::sync::Arc;

    use burn::module::ParamGroup;
    use burn::tensor::Device;
    use burn_bayes_graph::Layout;

    use super::*;
    use crate::algebra::dot;
    use crate::diagnostics::testing::{Likelihood, Model};
    use crate::kernels::from_host;
    use crate::posterior::{DenseGaussian, linear_regression_posterior};
    use crate::predict::Predictor;

    /// α.
    const PRIOR: f64 = 0.4;

    fn tensor(values: &[f64], columns: usize) -> Tensor<2> {
        let shape = [values.len() / columns, columns];
        from_host(values, shape, &Device::default())
    }

    /// A model and its data.
    struct Problem {
        model: Model,
        likelihood: Likelihood,
        layout: Arc<Layout>,
        inputs: Vec<f64>,
        targets: Vec<f64>,
    }

    impl Problem {
        fn new(likelihood: Likelihood, weights: usize, rows: usize) -> Self {
            let normals = |stream: u64, count| -> Vec<f64> {
                let values = Noise::new(11).row(stream).latent(count);
                values.into_iter().map(f64::from).collect()
            };
            let model = Model::new(weights, likelihood);
            let layout = Layout::new(&model, &ParamGroup::all()).unwrap().into();
            let targets = normals(2, rows).into_iter().map(|target| match likelihood {
                Likelihood::Gaussian(_) => target,
                Likelihood::Bernoulli => f64::from(u8::from(target > -0.8)),
            });
            Self {
                model,
                likelihood,
                layout,
                inputs: normals(1, rows * weights),
                targets: targets.collect(),
            }
        }

        fn weights(&self) -> usize {
            self.layout.len()
        }

        /// Two batches of different sizes.
        fn batches(&self) -> [(Tensor<2>, Tensor<2>); 2] {
            let weights = self.weights();
            let (inputs, rest) = self.inputs.split_at(weights);
            let (targets, others) = self.targets.split_at(1);
            [(inputs, targets), (rest, others)].map(|(x, y)| (tensor(x, weights), tensor(y, 1)))
        }

        fn log_joint(&self, weights: &[f64]) -> f64 {
            let rows = self.inputs.chunks_exact(self.weights());
            let losses = rows.zip(&self.targets).map(|(input, target)| {
                let output = dot(input, weights);
                match self.likelihood {
                    Likelihood::Gaussian(beta) => {
                        0.5 * (beta * (target - output).powi(2) + (TAU / beta).ln())
                    }
                    Likelihood::Bernoulli => output.exp().ln_1p() - output * target,
                }
            });
            let prior = 0.5 * self.weights() as f64 * (PRIOR / TAU).ln()
                - 0.5 * PRIOR * dot(weights, weights);
            prior - losses.sum::<f64>()
        }

        fn test(&self) -> ImportanceTest {
            ImportanceTest::new(self.targets.len()).with_prior(Prior::isotropic(PRIOR))
        }
    }

    fn vector(values: &[f64]) -> Tensor<1> {
        tensor(values, values.len()).squeeze_dim(0)
    }

    #[test]
    fn ratios_are_those_of_dense_arithmetic() {
        for likelihood in [Likelihood::Gaussian(1.5), Likelihood::Bernoulli] {
            let problem = Problem::new(likelihood, 3, 12);
            let mean = vector(&[1.0, -0.5, 0.4]);
            let factors = || Some(tensor(&[0.3, 0.2, -0.1, 0.0, 0.7, 0.2], 3));
            let diagonal = vector(&[0.05, 0.4, 2.0]);
            for posterior in [
                FactorPosterior::covariance(
                    problem.layout.clone(),
                    mean.clone(),
                    factors(),
                    diagonal.clone(),
                ),
                FactorPosterior::precision(
                    problem.layout.clone(),
                    mean.clone(),
                    factors(),
                    diagonal.clone(),
                ),
                FactorPosterior::precision(problem.layout.clone(), mean, None, diagonal),
            ] {
                let posterior = posterior.unwrap();
                let dense = posterior.to_dense().unwrap();
                let test = problem.test().with_draws(50).with_seed(3);
                let batches = problem.batches();
                let ratios = test
                    .log_ratios(&problem.model, &posterior, batches)
                    .unwrap();
                assert_eq!(ratios.len(), 50);
                for (row, ratio) in ratios.into_iter().enumerate() {
                    let draw = to_host(posterior.draw(test.noise().row(row as u64)).unwrap());
                    let (joint, density) =
                        (problem.log_joint(&draw), dense.log_density(&draw).unwrap());
                    // Some tens of rounded terms.
                    let size = joint.abs() + density.abs() + 10.0;
                    let allowed = 50.0 * f64::from(f32::EPSILON) * size;
                    let expected = joint - density;
                    assert!((ratio - expected).abs() < allowed, "{ratio} {expected}");
                }
            }
        }
    }

    #[test]
    fn every_ratio_of_an_exact_posterior_is_the_evidence() {
        let (beta, weights, rows) = (2.0, 4, 9);
        let problem = Problem::new(Likelihood::Gaussian(beta), weights, rows);
        let (inputs, targets) = (&problem.inputs, &problem.targets);
        let exact = linear_regression_posterior(inputs, targets, PRIOR, beta).unwrap();
        let factors: Vec<f64> = inputs.iter().map(|input| beta.sqrt() * input).collect();
        let posterior = FactorPosterior::precision(
            problem.layout.clone(),
            vector(exact.mean()),
            Some(tensor(&factors, weights)),
            vector(&vec![PRIOR; weights]),
        );
        let posterior = posterior.unwrap();
        let scaled: Vec<f64> = inputs.iter().map(|input| input / PRIOR.sqrt()).collect();
        // The factors of the covariance of the targets are the columns of the inputs.
        let columns = (0..weights).flat_map(|column| {
            let scaled = &scaled;
            (0..rows).map(move |row| scaled[row * weights + column])
        });
        let columns: Vec<f64> = columns.collect();
        let noise = vec![1.0 / beta; rows];
        let marginal =
            DenseGaussian::from_covariance_factors(vec![0.0; rows], &columns, &noise).unwrap();
        let evidence = marginal.log_density(targets).unwrap();
        let test = problem.test().with_draws(200);
        let ratios = test
            .log_ratios(&problem.model, &posterior, problem.batches())
            .unwrap();
        for ratio in ratios {
            let allowed = 100.0 * f64::from(f32::EPSILON) * evidence.abs();
            assert!((ratio - evidence).abs() < allowed, "{ratio} {evidence}");
        }
    }

    /// Sums over a grid of weights in the plane.
    fn grid(mut visit: impl FnMut(&[f64; 2])) {
        for first in -150..=250 {
            for second in -200..=200 {
                visit(&[first, second].map(|step| 0.04 * f64::from(step)));
            }
        }
    }

    #[test]
    fn weighted_predictions_are_nearer_to_the_truth() {
        // Few rows, mostly of one class: a skewed posterior.
        let problem = Problem::new(Likelihood::Bernoulli, 2, 7);
        let sigmoid = |output: f64| 1.0 / (1.0 + (-output).exp());
        let inputs = [[2.0, 1.0], [-1.5, 1.0], [0.5, -2.0], [-3.0, -1.0]];
        let probability = |input: &[f64; 2], weights: &[f64]| sigmoid(dot(input, weights));

        let (mut total, mut sums, mut squares) = (0.0, [0.0; 2], [0.0; 2]);
        let mut truth = [0.0; 4];
        grid(|weights| {
            let density = problem.log_joint(weights).exp();
            total += density;
            for (at, weight) in weights.iter().enumerate() {
                sums[at] += density * weight;
                squares[at] += density * weight * weight;
            }
            for (sum, input) in truth.iter_mut().zip(&inputs) {
                *sum += density * probability(input, weights);
            }
        });
        let mean = sums.map(|sum| sum / total);
        let variance = [0, 1].map(|at| squares[at] / total - mean[at].powi(2));

        // A mean-field posterior, not where it is best.
        let posterior = FactorPosterior::covariance(
            problem.layout.clone(),
            vector(&mean.map(|mean| mean - 0.3)),
            None,
            vector(&variance),
        );
        let posterior = posterior.unwrap();
        let test = problem.test().with_draws(4000);
        let smoothing = test
            .measure(&problem.model, &posterior, problem.batches())
            .unwrap();
        assert!(smoothing.is_reliable(), "{}", smoothing.pareto_k());

        let plain = Predictor::new(problem.model.clone(), posterior, test.noise()).unwrap();
        let weighted = plain
            .clone()
            .with_weighted_draws(test.noise(), &smoothing.weights());
        let error = |predictor: &Predictor<Model>| {
            let draws = predictor.map_draws(4000, |model| to_host(model.layer.weight.val()));
            let draws = draws.unwrap();
            let errors = inputs.iter().zip(truth).map(|(input, truth)| {
                let sum: f64 = draws.iter().map(|draw| probability(input, draw)).sum();
                (sum / 4000.0 - truth / total).abs()
            });
            errors.sum::<f64>() / 4.0
        };
        let (plain, weighted) = (error(&plain), error(&weighted.unwrap()));
        // Deviations of at most ½ over some thousand effective draws.
        assert!(plain > 0.03 && weighted < 0.01, "{plain} {weighted}");
    }

    #[test]
    fn equal_draws_are_no_exact_posterior() {
        let problem = Problem::new(Likelihood::Gaussian(1.5), 3, 12);
        let (mean, variance) = (vector(&[0.5; 3]), vector(&[0.1, 1e-38, 0.1]));
        let posterior =
            FactorPosterior::covariance(problem.layout.clone(), mean, None, variance).unwrap();
        let test = problem.test().with_draws(100);
        let error = test
            .measure(&problem.model, &posterior, problem.batches())
            .unwrap_err();
        assert!(error.is_numerical(), "{error}");
        assert!(error.to_string().contains("layer.weight"), "{error}");
    }

    #[test]
    fn wrong_settings_are_named() {
        let problem = Problem::new(Likelihood::Bernoulli, 2, 5);
        let (zeros, ones) = (vector(&[0.0; 2]), vector(&[1.0; 2]));
        let posterior =
            FactorPosterior::covariance(problem.layout.clone(), zeros, None, ones).unwrap();
        let message = |test: ImportanceTest, rows| {
            let batches = problem.batches().into_iter().take(rows);
            let error = test
                .measure(&problem.model, &posterior, batches)
                .unwrap_err();
            assert!(error.is_config());
            error.to_string()
        };
        assert!(message(problem.test().with_draws(0), 2).starts_with("draws"));
        let missing = message(problem.test(), 1);
        assert!(
            missing.contains("is 5, but the batches have 1 "),
            "{missing}"
        );
    }
}
