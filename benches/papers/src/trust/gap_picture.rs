//! The picture of the book's section on gaps: fits in front of the posterior.

use std::fmt::Write;

use burn_bayes::sampling::SamplingConfig;
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::settings::Method;

use super::gap::{Fits, Known, grid, sampling};
use crate::experiment::Effort;

const SEED: u64 = 0;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 508.0;
/// Width and height of a panel.
const PANEL: (f64, f64) = (290.0, 180.0);
/// The largest target, and the largest input in tenths.
const LARGEST: (f64, f64) = (3.4, 33.0);
/// Epistemic deviations between the mean and a limit.
const DEVIATIONS: f64 = 2.0;

/// Fits, samples and draws; the result is the content of an SVG file.
pub(crate) fn draw() -> Result<String> {
    let sampling = sampling(Effort::Full, SEED);
    let known = Known::new(&sampling)?;
    let fit = |fits| known.predict(fits, SEED);
    let chains = known.chains(&SamplingConfig::new(), &sampling)?;
    let shown = [
        ("VIFA", fit(Fits::one(Method::Vifa))?),
        ("SLANG", fit(Fits::one(Method::Slang))?),
        (
            "mixture of five VIFA fits",
            fit(Fits::several(Method::Vifa))?,
        ),
        ("MCLMC, four chains", [chains.means, chains.deviations]),
    ];
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" \
         aria-labelledby=\"t d\" font-family=\"system-ui, sans-serif\" font-size=\"14\" fill=\"#26323a\">\n\
         <title id=\"t\">A curve with a gap in its examples</title>\n\
         <desc id=\"d\">Three fits and samples in front of the posterior of the same network. Among the examples they agree. In the gap \
         and beyond the ends, the fits are much narrower than the posterior, and the samples are as wide.</desc>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\" fill=\"#fbfbf9\"/>\n"
    );
    for (number, (title, [means, deviations])) in shown.into_iter().enumerate() {
        let left = 20.0 + (PANEL.0 + 20.0) * (number % 2) as f64;
        let top = 34.0 + (PANEL.1 + 40.0) * (number / 2) as f64;
        let panel = Panel { left, top };
        let posterior = &known.posterior;
        let (outline, mean) = panel.band(&posterior.means, &posterior.deviations);
        let (fit_outline, fit_mean) = panel.band(&means, &deviations);
        let middle = left + 0.5 * PANEL.0;
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{title}</text>\n\
             <polygon points=\"{outline}\" fill=\"#aab4bb\" fill-opacity=\".45\"/>\n\
             <polyline points=\"{mean}\" fill=\"none\" stroke=\"#6b7780\" stroke-width=\"1.4\"/>\n\
             <polygon points=\"{fit_outline}\" fill=\"#c9541c\" fill-opacity=\".3\"/>\n\
             <polyline points=\"{fit_mean}\" fill=\"none\" stroke=\"#c9541c\" stroke-width=\"1.8\"/>\n\
             <g fill=\"#26323a\">{}</g>\n\
             <rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#aab4bb\"/>\n",
            top - 8.0,
            panel.dots(&known.examples()),
            PANEL.0,
            PANEL.1,
        );
    }
    for (line, colour, text) in [
        (
            0.0,
            "#6b7780",
            "grey: posterior by Hamiltonian Monte Carlo, mean ± 2 epistemic deviations",
        ),
        (
            22.0,
            "#c9541c",
            "orange: fit or samples at the defaults, mean ± 2 epistemic deviations",
        ),
    ] {
        let height = HEIGHT - 34.0 + line;
        let _ = writeln!(
            svg,
            "<text x=\"20\" y=\"{height}\" fill=\"{colour}\">{text}</text>"
        );
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// A coordinate system, by its upper left corner.
struct Panel {
    left: f64,
    top: f64,
}

impl Panel {
    /// A point as SVG writes it; what is outside of the panel moves to its edge.
    fn point(&self, tenths: f64, target: f64) -> [f64; 2] {
        let right = 0.5 + 0.5 * tenths / LARGEST.1;
        let down = 0.5 - 0.5 * target.clamp(-LARGEST.0, LARGEST.0) / LARGEST.0;
        [self.left + PANEL.0 * right, self.top + PANEL.1 * down]
    }

    /// The points of the outline of a band, and of the mean in it.
    fn band(&self, means: &[f64], deviations: &[f64]) -> (String, String) {
        let limit = |side: f64| -> Vec<[f64; 2]> {
            let values = grid().zip(means.iter().zip(deviations));
            values
                .map(|(tenths, (mean, deviation))| {
                    self.point(f64::from(tenths), mean + side * deviation)
                })
                .collect()
        };
        let (mut outline, upper) = (limit(-DEVIATIONS), limit(DEVIATIONS));
        outline.extend(upper.into_iter().rev());
        (listed(&outline), listed(&limit(0.0)))
    }

    fn dots(&self, examples: &[[f64; 2]]) -> String {
        let dot = |&[input, target]: &[f64; 2]| {
            let [x, y] = self.point(10.0 * input, target);
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.6\"/>")
        };
        examples.iter().map(dot).collect()
    }
}

fn listed(points: &[[f64; 2]]) -> String {
    let points = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}"));
    points.collect::<Vec<_>>().join(" ")
}
