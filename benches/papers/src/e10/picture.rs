//! Figures 3.1 and 3.2: draws of functions.

use std::fmt::Write;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor};
use burn_bayes::Noise;
use burn_bayes::algebra::{Cholesky, SquareMatrix};
use burn_bayes::laplace::{Linearized, ModelOutputs};
use burn_bayes_contrib::functional::Points;
use burn_bayes_tabular::error::{Result, TabularError};

use super::fit::{CASES, Case, INSIDE, LIMIT, Method, Rows, column, grid};
use super::network::Network;
use super::seasonal::{self, AHEAD, KNOWN, PriorOf, season};

const SEED: u64 = 0;
const STEPS: usize = 600;
/// Draws in a panel.
const DRAWS: usize = 6;
/// The share of the variance that is added to a covariance without noise.
const JITTER: f64 = 1e-6;

const WIDTH: f64 = 860.0;
const PANEL: [f64; 2] = [156.0, 120.0];
/// The largest value of a function.
const LARGEST: f64 = 3.6;
const PROCESS: &str = "#3b7a57";
const TRAINED: &str = "#c9541c";
const UNTRAINED: &str = "#3a6ea5";

/// Both figures and the seasonal series, as the content of SVG files.
pub(crate) fn draw() -> Result<[String; 3]> {
    let (first, second) = CASES.split_at(2);
    Ok([figure(first)?, figure(second)?, series()?])
}

/// The beginning of a picture.
fn opened(height: f64, title: &str, description: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-labelledby=\"t d\" font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#26323a\">\n\
         <title id=\"t\">{title}</title>\n<desc id=\"d\">{description}</desc>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#fbfbf9\"/>\n"
    )
}

/// The seasonal series with both priors.
fn series() -> Result<String> {
    let mut svg = opened(
        266.0,
        "A seasonal series and its extrapolation",
        "With a periodic prior over functions the network continues the season; with a prior over its weights it does not.",
    );
    let targets = seasonal::targets(SEED);
    let places = seasonal::places();
    for (at, prior) in PriorOf::ALL.into_iter().enumerate() {
        let panel = Panel {
            corner: [14.0 + 422.0 * at as f64, 34.0],
            size: [410.0, 180.0],
            inputs: [0.0, (KNOWN + AHEAD) as f64],
            values: [-2.0, 22.0],
        };
        let [means, deviations] = seasonal::predicted(prior, SEED)?;
        let edge = |side: f64| -> Vec<[f64; 2]> {
            let values = places.iter().zip(means.iter().zip(&deviations));
            values
                .map(|(x, (mean, deviation))| panel.point(*x, mean + side * deviation))
                .collect()
        };
        let (mut outline, upper) = (edge(-2.0), edge(2.0));
        outline.extend(upper.into_iter().rev());
        let truth: Vec<_> = places.iter().map(|x| panel.point(*x, season(*x))).collect();
        let [line, _] = panel.point(KNOWN as f64, 0.0);
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"24\" text-anchor=\"middle\">{}</text>\n\
             <polygon points=\"{}\" fill=\"{TRAINED}\" fill-opacity=\".25\"/>\n\
             <polyline points=\"{}\" fill=\"none\" stroke=\"#6b7780\" stroke-dasharray=\"4 3\"/>\n\
             <polyline points=\"{}\" fill=\"none\" stroke=\"{TRAINED}\" stroke-width=\"1.6\"/>\n\
             <line x1=\"{line:.1}\" x2=\"{line:.1}\" y1=\"34\" y2=\"214\" stroke=\"#aab4bb\"/>",
            panel.corner[0] + 0.5 * panel.size[0],
            prior.name(),
            listed(&outline),
            listed(&truth),
            listed(&edge(0.0)),
        );
        let months = (0..KNOWN).map(|month| month as f64);
        panel.write_dots(&mut svg, months.zip(targets.iter().copied()));
        panel.write_frame(&mut svg);
    }
    let _ = write!(
        svg,
        "<text x=\"14\" y=\"236\" fill=\"{TRAINED}\">orange: mean of the fit ± 2 epistemic deviations</text>\n\
         <text x=\"14\" y=\"254\" fill=\"#6b7780\">dashed: mean of the series; dots: the {KNOWN} months of the fit; right of the \
         line: {AHEAD} further months</text>\n</svg>\n"
    );
    Ok(svg)
}

fn figure(cases: &[Case]) -> Result<String> {
    let height = 62.0 + (PANEL[1] + 34.0) * cases.len() as f64;
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    let mut svg = opened(
        height,
        &format!(
            "Functions of networks with priors over functions: {}",
            names.join("; ")
        ),
        "Draws of functions: of the process, of an untrained network, of the network with the prior over functions and \
         without data, of its posterior, and of the exact posterior of the process.",
    );
    let columns = [
        "prior: process",
        "network, untrained",
        "prior: network",
        "posterior: network",
        "posterior: process",
    ];
    for (row, &case) in cases.iter().enumerate() {
        let rows = Rows::new(case, SEED)?;
        let panels = panels(case, &rows)?;
        let top = 52.0 + (PANEL[1] + 34.0) * row as f64;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"14\" y=\"{}\">{}</text>",
            top - 8.0,
            case.name
        );
        for (at, (title, (colour, curves))) in columns.iter().zip(panels).enumerate() {
            let panel = Panel {
                corner: [14.0 + (PANEL[0] + 13.0) * at as f64, top],
                size: PANEL,
                inputs: [-LIMIT, LIMIT],
                values: [-LARGEST, LARGEST],
            };
            if row == 0 {
                let middle = panel.corner[0] + 0.5 * PANEL[0];
                let _ = writeln!(
                    svg,
                    "<text x=\"{middle}\" y=\"24\" text-anchor=\"middle\">{title}</text>"
                );
            }
            panel.write_curves(&mut svg, colour, &curves);
            if at > 2 {
                let dots = rows.inputs.iter().zip(&rows.targets);
                panel.write_dots(&mut svg, dots.map(|(x, y)| (*x, *y)));
            }
            panel.write_frame(&mut svg);
        }
    }
    let _ = write!(
        svg,
        "<text x=\"14\" y=\"{}\">Six draws each; dots: rows, all with |x| ≤ {INSIDE}; x from −{LIMIT} to {LIMIT}.</text>\n</svg>\n",
        height - 14.0
    );
    Ok(svg)
}

type Curves = Vec<Vec<f64>>;

/// The colour and the draws of every panel.
fn panels(case: Case, rows: &Rows) -> Result<[(&'static str, Curves); 5]> {
    let points = Points::new(1, grid())?;
    let noise = Noise::new(SEED).fold(7);
    let prior = case.kernel()?.draws(&points, noise, DRAWS)?;
    let untrained = (0..DRAWS as u64).map(|draw| untrained(case, draw));
    let without_data = drawn(&case.without_data(rows, SEED)?)?;
    let trained = drawn(&rows.fit(Method::Laplace, STEPS, SEED)?)?;
    let exact = rows.exact()?;
    let mean = exact.predict(&points)?.mean;
    let covariance = exact.covariance(&points)?;
    let added = JITTER * case.kernel()?.variances(&points)?[0].max(JITTER);
    let covariance = SquareMatrix::from_fn(mean.len(), |i, j| {
        covariance.get(i, j) + if i == j { added } else { 0.0 }
    });
    let factor = Cholesky::new(&covariance).map_err(|error| {
        TabularError::Numerical(format!("the covariance of a posterior: {error}"))
    })?;
    let draw = |draw: u64| -> Result<Vec<f64>> {
        let normals = noise.fold(1).row(draw).latent(mean.len());
        let normals: Vec<f64> = normals.into_iter().map(f64::from).collect();
        let changes = factor.lower().multiply_vector(&normals);
        let changes = changes.map_err(|error| TabularError::Numerical(error.to_string()))?;
        Ok(mean.iter().zip(changes).map(|(m, c)| m + c).collect())
    };
    let posterior = (0..DRAWS as u64).map(draw).collect::<Result<_>>()?;
    Ok([
        (PROCESS, prior),
        (UNTRAINED, untrained.collect::<Result<_>>()?),
        (TRAINED, without_data),
        (TRAINED, trained),
        (PROCESS, posterior),
    ])
}

/// The function of a network with normal weights, with the variance 1/fan-in.
fn untrained(case: Case, draw: u64) -> Result<Vec<f64>> {
    struct Normals(Noise);
    impl ModuleMapper for Normals {
        fn map_float<const R: usize>(&mut self, param: Param<Tensor<R>>) -> Param<Tensor<R>> {
            self.0 = self.0.fold(1);
            let noise = self.0;
            param.map(|value| {
                let inputs = if R == 2 { value.dims()[0] } else { 1 };
                let normals = noise.normal(value.shape().num_elements(), &value.device());
                normals
                    .div_scalar((inputs as f64).sqrt())
                    .reshape(value.shape())
            })
        }
    }
    let network = case.network(SEED).valid();
    let network: Network = network.map(&mut Normals(Noise::new(SEED).row(draw)));
    let outputs = network.outputs(column(&grid(), &Device::default()));
    Ok(outputs.into_data().iter::<f64>().collect())
}

fn drawn(network: &Linearized<Network>) -> Result<Curves> {
    let inputs = column(&grid(), &Device::default());
    let draws = network.draws(&inputs, Noise::new(SEED).fold(9), DRAWS)?;
    let values: Vec<f64> = draws.into_data().iter::<f64>().collect();
    Ok(values
        .chunks_exact(grid().len())
        .map(<[f64]>::to_vec)
        .collect())
}

/// A coordinate system.
struct Panel {
    /// Upper left.
    corner: [f64; 2],
    size: [f64; 2],
    /// The least and the largest.
    inputs: [f64; 2],
    values: [f64; 2],
}

impl Panel {
    /// A point as SVG writes it; a value outside of the panel moves to its edge.
    fn point(&self, input: f64, value: f64) -> [f64; 2] {
        let ([left, right], [low, high]) = (self.inputs, self.values);
        let across = (input - left) / (right - left);
        let down = (high - value.clamp(low, high)) / (high - low);
        [
            self.corner[0] + self.size[0] * across,
            self.corner[1] + self.size[1] * down,
        ]
    }

    fn write_curves(&self, svg: &mut String, colour: &str, curves: &Curves) {
        let _ = writeln!(
            svg,
            "<g fill=\"none\" stroke=\"{colour}\" stroke-opacity=\".75\">"
        );
        for curve in curves {
            let points = grid().into_iter().zip(curve);
            let is_inside = |y: f64| (self.values[0]..=self.values[1]).contains(&y);
            let points = points.filter(|(_, y)| is_inside(**y));
            let points: Vec<_> = points.map(|(x, y)| self.point(x, *y)).collect();
            let _ = writeln!(svg, "<polyline points=\"{}\"/>", listed(&points));
        }
        let _ = writeln!(svg, "</g>");
    }

    fn write_dots(&self, svg: &mut String, dots: impl Iterator<Item = (f64, f64)>) {
        for (x, y) in dots {
            let [x, y] = self.point(x, y);
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.8\"/>");
        }
    }

    fn write_frame(&self, svg: &mut String) {
        let _ = writeln!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#aab4bb\"/>",
            self.corner[0], self.corner[1], self.size[0], self.size[1]
        );
    }
}

fn listed(points: &[[f64; 2]]) -> String {
    let points = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}"));
    points.collect::<Vec<_>>().join(" ")
}
