//! One-dimensional regression with a gap in the data, and a plot of the predictive uncertainty.
//!
//! ```text
//! cargo run --example regression_1d
//! cargo run --example regression_1d -- --seed 1 --out target/pictures
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::ops::RangeInclusive;
use std::path::Path;

use burn::module::Module;
use burn::optim::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use burn_bayes::graph::CapturedModel;
use burn_bayes::prelude::*;
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
use burn_bayes_examples::{Activation, Arguments, Regressor, ToBatch, is_smoke};
use plotters::prelude::*;

const NOISE_DEVIATION: f64 = 0.1;
const DATA: [RangeInclusive<f64>; 2] = [-2.0..=-1.0, 1.0..=2.0];
const GAP: RangeInclusive<f64> = -0.8..=0.8;
const SHOWN: RangeInclusive<f64> = -3.0..=3.0;
const DRAWS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "steps", "out"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let steps: usize = arguments.get("steps", if is_smoke() { 50 } else { 8000 })?;
    let folder = arguments.output_folder("regression-1d")?;

    let points = points(seed, 60);
    let curve = Curve::new(&train(&points, seed, steps)?)?;
    let has_data = |x: f64| DATA.iter().any(|range| range.contains(&x));
    let inside = curve.mean_of(&curve.deviation, |x| GAP.contains(&x));
    let among = curve.mean_of(&curve.deviation, has_data);
    let linearised = curve.mean_of(&curve.linearised, has_data);
    println!("{} points, none between -1 and 1", points.len());
    println!("epistemic standard deviation in the gap        {inside:.3}");
    println!("epistemic standard deviation among the points  {among:.3}");
    println!(
        "ratio                                          {:.1}",
        inside / among
    );
    println!("the same among the points, linearised          {linearised:.3}");
    let file = folder.join("regression_1d.svg");
    draw(&file, &points, &curve)?;
    println!("\nThe picture is in {}", file.display());
    Ok(())
}

/// The true curve.
fn truth(x: f64) -> f64 {
    (1.6 * x).sin() + 0.3 * x
}

fn points(seed: u64, count: usize) -> Vec<(f64, f64)> {
    let noise = Noise::new(seed);
    let scatter = noise.fold(1).latent(count);
    (0..count)
        .map(|index| {
            let range = &DATA[index % DATA.len()];
            let uniform = noise.fold(2).row(index as u64).uniform();
            let x = range.start() + (range.end() - range.start()) * uniform;
            (x, truth(x) + NOISE_DEVIATION * f64::from(scatter[index]))
        })
        .collect()
}

fn train(points: &[(f64, f64)], seed: u64, steps: usize) -> Result<Trained, Box<dyn Error>> {
    let device = Device::default();
    device.seed(seed);
    let training_device = device.autodiff();
    let model = Regressor::new(
        1,
        &[20],
        Activation::Tanh,
        NOISE_DEVIATION.powi(-2),
        &training_device,
    );
    let mut bayesian = BayesianConfig::new(points.len(), VifaConfig::new().with_rank(10))
        .with_prior(Prior::isotropic(0.3))
        .with_draws(4)
        .with_antithetic(true)
        .with_seed(seed)
        .init(model);
    let inputs: Vec<f32> = points.iter().map(|point| point.0 as f32).collect();
    let targets: Vec<f32> = points.iter().map(|point| point.1 as f32).collect();
    let batch = ToBatch {
        inputs: &inputs,
        targets: &targets,
    }
    .all(&training_device);
    let mut optimizer = FusedAdamConfig::new().init();
    let mut scheduler = CosineAnnealingLrSchedulerConfig::new(3e-2, steps).init()?;
    for _ in 0..steps {
        let gradients = TrainStep::step(&bayesian, batch.clone()).grads;
        bayesian = bayesian.optimize(&mut optimizer, scheduler.step(), gradients);
    }
    Ok(bayesian.valid())
}

type Trained = Bayesian<Regressor, burn_bayes::methods::Vifa>;

/// Predictions on a uniform grid.
struct Curve {
    x: Vec<f64>,
    mean: Vec<f64>,
    /// Standard deviation between draws of the weights.
    deviation: Vec<f64>,
    /// Standard deviation of the model linearised at the mean of the weights.
    linearised: Vec<f64>,
}

impl Curve {
    fn new(model: &Trained) -> Result<Self, Box<dyn Error>> {
        let count = 241;
        let step = (SHOWN.end() - SHOWN.start()) / (count - 1) as f64;
        let x: Vec<f64> = (0..count)
            .map(|index| SHOWN.start() + step * index as f64)
            .collect();
        let inputs: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let grid = ToBatch {
            inputs: &inputs,
            targets: &vec![0.0; count],
        };
        let grid = grid.all(&Device::default());
        let linearised = linearised(model, grid.inputs.clone())?;
        let draws = model.predict(grid, DRAWS)?.draw_outputs;
        let values: Vec<f64> = draws.into_data().iter::<f64>().collect();
        let moment = |column: usize, power: i32, centre: f64| {
            let column = values.iter().skip(column).step_by(count);
            column
                .map(|value| (value - centre).powi(power))
                .sum::<f64>()
                / DRAWS as f64
        };
        let mean: Vec<f64> = (0..count).map(|column| moment(column, 1, 0.0)).collect();
        let deviation = (0..count)
            .map(|column| moment(column, 2, mean[column]).sqrt())
            .collect();
        Ok(Self {
            x,
            mean,
            deviation,
            linearised,
        })
    }

    fn mean_of(&self, values: &[f64], keep: impl Fn(f64) -> bool) -> f64 {
        let kept: Vec<f64> = (self.x.iter().zip(values))
            .filter(|(x, _)| keep(**x))
            .map(|(_, value)| *value)
            .collect();
        kept.iter().sum::<f64>() / kept.len().max(1) as f64
    }

    /// The outline of mean ± 2 standard deviations, including `noise`.
    fn band(&self, noise: f64) -> Vec<(f64, f64)> {
        let edge = |sign: f64| {
            (0..self.x.len()).map(move |index| {
                let deviation = self.deviation[index].hypot(noise);
                (self.x[index], self.mean[index] + sign * 2.0 * deviation)
            })
        };
        edge(1.0).chain(edge(-1.0).rev()).collect()
    }
}

/// The standard deviations of a model's linearised outputs.
fn linearised(model: &Trained, inputs: Tensor<2>) -> Result<Vec<f64>, Box<dyn Error>> {
    // ANCHOR: linearised
    let posterior = model.try_posterior()?;
    let outputs = |model: &Regressor, inputs: Tensor<2>| model.forward(inputs).squeeze_dim(1);
    let captured = CapturedModel::new(posterior.layout().clone(), outputs);
    let at_mean = captured.example_gradients(&model.mean_model()?, &inputs)?;
    let variances = posterior.linear_variance(&at_mean.gradients.materialise())?;
    // ANCHOR_END: linearised
    Ok(variances.sqrt().into_data().iter::<f64>().collect())
}

fn draw(file: &Path, points: &[(f64, f64)], curve: &Curve) -> Result<(), Box<dyn Error>> {
    const TOTAL: RGBColor = RGBColor(214, 228, 244);
    const EPISTEMIC: RGBColor = RGBColor(140, 180, 222);
    const MEAN: RGBColor = RGBColor(23, 78, 140);
    const TRUTH: RGBColor = RGBColor(90, 90, 90);
    const POINT: RGBColor = RGBColor(205, 84, 32);

    let area = SVGBackend::new(file, (900, 540)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(18)
        .x_label_area_size(44)
        .y_label_area_size(54)
        .build_cartesian_2d(*SHOWN.start()..*SHOWN.end(), -3.2..3.2)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(236, 236, 236))
        .axis_style(RGBColor(120, 120, 120))
        .x_labels(9)
        .y_labels(7)
        .x_label_formatter(&|x| format!("{x:.1}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_desc("x")
        .y_desc("y")
        .axis_desc_style(("sans-serif", 17))
        .label_style(("sans-serif", 14))
        .draw()?;
    let bands = [
        (NOISE_DEVIATION, TOTAL, "± 2 std, noise included"),
        (0.0, EPISTEMIC, "± 2 std between draws"),
    ];
    for (noise, colour, name) in bands {
        chart
            .draw_series(std::iter::once(Polygon::new(
                curve.band(noise),
                colour.filled(),
            )))?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 22, y + 6)], colour.filled()));
    }
    let true_curve = curve.x.iter().map(|&x| (x, truth(x)));
    chart
        .draw_series(DashedLineSeries::new(
            true_curve,
            5,
            5,
            TRUTH.stroke_width(1),
        ))?
        .label("true curve")
        .legend(|at| {
            let dash = |from| PathElement::new([(from, 0), (from + 8, 0)], TRUTH.stroke_width(1));
            EmptyElement::at(at) + dash(0) + dash(14)
        });
    let mean = curve.x.iter().copied().zip(curve.mean.iter().copied());
    chart
        .draw_series(LineSeries::new(mean, MEAN.stroke_width(2)))?
        .label("mean prediction")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 22, y)], MEAN.stroke_width(2)));
    chart
        .draw_series(
            points
                .iter()
                .map(|&point| Circle::new(point, 3, POINT.filled())),
        )?
        .label("training points")
        .legend(|(x, y)| Circle::new((x + 11, y), 3, POINT.filled()));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.9))
        .border_style(RGBColor(210, 210, 210))
        .label_font(("sans-serif", 15))
        .draw()?;
    area.present()?;
    Ok(())
}
