//! Steps of VIFA and SLANG with and without a prior over functions at 64 measurement points, in turns.
//!
//! ```text
//! cargo run --profile bench --bin function_prior_step
//! ```
#![allow(clippy::print_stdout, reason = "a program's report")]

use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::TrainStep;
use burn_bayes::methods::Algorithm;
use burn_bayes::train::Bayesian;
use burn_bayes::{BayesianConfig, Error, SlangConfig, VifaConfig};
use burn_bayes_benches::{Holder, Labelled, MlpClassifier, Training, classification_batch, ratios};
use burn_bayes_contrib::function_prior::{FunctionPrior, WithFunctionPrior};
use burn_bayes_contrib::functional::{Kernel, MeasurementPoints};

const WIDTHS: [usize; 4] = [784, 400, 400, 10];
const TRAIN_LEN: usize = 60_000;
const POINTS: usize = 64;
const ROUNDS: usize = 9;
const STEPS: usize = 5;

fn main() -> Result<(), Error> {
    let device = Device::default();
    device.seed(0);
    for rows in [64, 128] {
        let batch = classification_batch(rows, WIDTHS[0], WIDTHS[3], &device);
        let model = || MlpClassifier::new(&WIDTHS, &device.clone().autodiff());
        let vifa = || BayesianConfig::new(TRAIN_LEN, VifaConfig::new()).init(model());
        let title = format!("VIFA, 784-400-400-10, M = {rows}, K = 1, five steps");
        compare(&title, &batch, vifa, [None])?;
        let slang =
            || BayesianConfig::new(TRAIN_LEN, SlangConfig::new().with_rank(8)).init(model());
        let title = format!("SLANG, 784-400-400-10, M = {rows}, L = 8, five steps");
        compare(&title, &batch, slang, [None, Some(POINTS), Some(8)])?;
    }
    Ok(())
}

/// Times steps without a prior over functions and with one, whose curvature has all rows or so many random ones.
fn compare<A, const COUNT: usize>(
    title: &str,
    batch: &Labelled,
    plain: impl Fn() -> Bayesian<MlpClassifier, A>,
    sketches: [Option<usize>; COUNT],
) -> Result<(), Error>
where
    A: Algorithm,
    Bayesian<MlpClassifier, A>: TrainStep<Input = Labelled>,
{
    let training = |model| Training::new(model, AdamConfig::new().init(), Holder::Learner);
    let mut names = vec!["without".to_string()];
    let mut trainings = vec![training(plain())];
    for sketch in sketches {
        trainings.push(training(plain().with_function_prior(prior(sketch)?)?));
        names.push(match sketch {
            None => format!("{POINTS} points"),
            Some(rows) => format!("{POINTS} points, {rows} random rows"),
        });
    }
    let mut works: Vec<_> = trainings
        .iter_mut()
        .map(|training| || (0..STEPS).for_each(|_| training.step(batch.clone())))
        .collect();
    let works = works.iter_mut().map(|work| work as &mut dyn FnMut());
    let mut works: Vec<_> = names.iter().map(String::as_str).zip(works).collect();
    ratios::in_turns(title, ROUNDS, &mut works);
    Ok(())
}

/// A Gaussian process over images.
fn prior(sketch: Option<usize>) -> Result<FunctionPrior, Error> {
    let width = WIDTHS[0];
    let points = MeasurementPoints::uniform(vec![-1.0; width], vec![1.0; width])?;
    let prior = FunctionPrior::new(Kernel::rbf([10.0]), points, POINTS)?;
    Ok(match sketch {
        None => prior,
        Some(rows) => prior.with_sketch(rows),
    })
}
