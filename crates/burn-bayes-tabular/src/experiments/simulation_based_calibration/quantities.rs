//! Scalar functions of the weights, which depend on the data and not on the order of hidden units.
//!
//! They are the log-likelihood of the data, the output of the network at a few rows and, of a linear model, some
//! weights. The rows are some of the data, and some whose values come from different rows: these are outside the
//! data if columns are correlated. With classes, the output is the difference of the first two logits, because
//! the data determine only differences.

use burn::tensor::Tensor;
use burn_bayes::{ExampleLoss, Noise};

use super::Design;
use crate::error::Result;
use crate::network::{Batch, Network};
use crate::rows::{Target, TrainingSet};
use crate::settings::FitSettings;

/// The random stream of the mixed rows.
const MIXED: u64 = 0x6d69_7865;
/// Rows of the data, and mixed rows.
const ROWS: usize = 2;
/// The largest number of weights.
const MOST_WEIGHTS: usize = 4;

/// The quantities of a design and a network.
#[derive(Debug)]
pub(super) struct Quantities {
    names: Vec<String>,
    /// The rows at which outputs are taken, `[rows, features]` row-major.
    rows: Vec<f32>,
    /// Number of features.
    width: usize,
    /// Number of outputs of the network.
    outputs: usize,
    /// Number of weights; 0 with hidden layers.
    weights: usize,
}

impl Quantities {
    pub(super) fn new(design: &Design, settings: &FitSettings) -> Self {
        let examples: Vec<&[f32]> = design.rows.examples().map(|(row, _)| row).collect();
        let width = design.features();
        let noise = Noise::new(settings.seed).fold(MIXED);
        let mixed = (0..(ROWS * width) as u64).map(|index| {
            let row = noise.row(index).uniform() * examples.len() as f64;
            examples[row as usize][index as usize % width]
        });
        let data = examples.iter().take(ROWS);
        let rows: Vec<f32> = data.copied().flatten().copied().chain(mixed).collect();
        let output = match design.rows.target() {
            Target::Real(_) | Target::Several(_) => "mean",
            Target::Counts { .. } => "log rate",
            Target::Classes(_) => "log odds",
        };
        let of_row = |kind: &str, count: usize| {
            let name = |row| format!("{output} at {kind} {row}");
            (1..=count).map(name).collect::<Vec<_>>()
        };
        let weights = match settings.is_linear() {
            true => &design.columns[..design.columns.len().min(MOST_WEIGHTS)],
            false => &[],
        };
        let names = ["log-likelihood".to_string()].into_iter();
        let names = names.chain(of_row("row", examples.len().min(ROWS)));
        let names = names.chain(of_row("mixed row", ROWS));
        let of_weights = weights.iter().map(|column| format!("weight of {column}"));
        Self {
            names: names.chain(of_weights).collect(),
            rows,
            width,
            outputs: design.rows.target().columns(),
            weights: weights.len(),
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// A function that computes the values of a network, on these data.
    pub(super) fn on<'a>(
        &'a self,
        data: &TrainingSet,
        settings: &FitSettings,
    ) -> Result<impl Fn(&Network) -> Vec<f64> + use<'a>> {
        let device = settings.device.device()?;
        let all: Vec<usize> = (0..data.rows()).collect();
        let data: Batch = data.batch(&all, &device);
        let rows = Tensor::<1>::from_floats(self.rows.as_slice(), &device);
        let rows: Tensor<2> = rows.reshape([self.rows.len() / self.width, self.width]);
        Ok(move |network: &Network| {
            let losses = host(network.example_losses(data.clone()));
            let outputs = host(network.forward(rows.clone()));
            let weights = network.linear_weights().unwrap_or_default();
            let scalars = outputs.chunks(self.outputs);
            let weights = weights.chunks(self.outputs).take(self.weights);
            let log_likelihood = -losses.iter().sum::<f64>();
            let scalars = scalars.chain(weights).map(identified);
            [log_likelihood].into_iter().chain(scalars).collect()
        })
    }
}

/// The part of all outputs, or of the weights of an input, that the data determine.
fn identified(outputs: &[f64]) -> f64 {
    match outputs {
        [first, second, ..] => second - first,
        _ => outputs[0],
    }
}

fn host<const R: usize>(tensor: Tensor<R>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::prior_draw;
    use crate::experiments::simulation_based_calibration::NormalDesign;
    use crate::settings::NoisePrecision;

    fn values(features: usize, classes: Option<usize>, model: &str) -> (Vec<String>, Vec<f64>) {
        let normal = NormalDesign {
            rows: 10,
            features,
            classes,
        };
        let design = normal.design(3).unwrap();
        let settings = FitSettings {
            model: Some(model.parse().unwrap()),
            no_intercept: true,
            noise_precision: NoisePrecision::Given(1.0),
            ..FitSettings::default()
        };
        let quantities = Quantities::new(&design, &settings);
        let network = prior_draw(&design.rows, &settings, Noise::new(1)).unwrap();
        let values = quantities.on(&design.rows, &settings).unwrap()(&network);
        assert_eq!(values.len(), quantities.names().len());
        (quantities.names().to_vec(), values)
    }

    #[test]
    fn every_quantity_has_a_name() {
        let (names, _) = values(6, None, "mlp:4");
        let expected = [
            "log-likelihood",
            "mean at row 1",
            "mean at row 2",
            "mean at mixed row 1",
            "mean at mixed row 2",
        ];
        assert_eq!(names, expected);
        let (names, _) = values(6, Some(3), "linear");
        assert_eq!(names[4], "log odds at mixed row 2");
        assert_eq!(
            names[5..],
            ["x1", "x2", "x3", "x4"].map(|x| format!("weight of {x}"))
        );
    }

    #[test]
    fn outputs_are_products_of_the_rows_with_the_identified_weights() {
        for classes in [None, Some(2), Some(3)] {
            let (_, values) = values(2, classes, "linear");
            let source = NormalDesign {
                rows: 10,
                features: 2,
                classes,
            };
            let design = source.design(3).unwrap();
            let weights = &values[5..];
            for (output, (row, _)) in values[1..3].iter().zip(design.rows.examples()) {
                let product = f64::from(row[0]) * weights[0] + f64::from(row[1]) * weights[1];
                assert!((output - product).abs() < 1e-5, "{output} {product}");
            }
        }
    }
}
