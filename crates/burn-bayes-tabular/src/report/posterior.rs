//! The spectrum of a posterior's factors, and the standard deviations of the weights by parameter.

use burn::tensor::Tensor;
use burn_bayes::FactorPosterior;
use burn_bayes::algebra::{AlgebraError, SquareMatrix, SymmetricEigen};
use burn_bayes::posterior::FormKind;
use plotters::prelude::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor};

use super::chart::{
    Axis, Drawn, Figure, Plane, SIZE, guide, letters, line, plane, range_from_zero, range_of,
    rows_plane,
};
use super::palette::{BLUE, INK};
use super::section::{Section, Table};
use crate::error::{Result, TabularError};
use crate::order::quantile;
use crate::text::{number, percent, plain, rounded_percent, shortened, tick, whole};
use burn_bayes::eval::Bounded;

/// Summary statistics of a posterior.
#[derive(Clone, Debug, PartialEq)]
pub struct PosteriorSummary {
    kind: FormKind,
    weights: usize,
    /// Singular values of the factors, largest first.
    spectrum: Vec<f64>,
    /// Sum of the marginal variances of all weights.
    total_variance: f64,
    parameters: Vec<ParameterDeviations>,
}

/// The marginal standard deviations of one parameter's weights.
#[derive(Clone, Debug, PartialEq)]
struct ParameterDeviations {
    path: String,
    weights: usize,
    /// At the levels of [`SHARES`].
    quantiles: [f64; 5],
}

/// The levels of the quantiles shown.
const SHARES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
/// Maximum number of parameters in the chart.
const MOST_ROWS: usize = 40;

impl PosteriorSummary {
    /// Summarises a posterior.
    pub fn of(posterior: &FactorPosterior) -> Result<Self> {
        let variances = host(posterior.variance().map_err(of_core)?);
        let entries = posterior.layout().entries().iter();
        let parameters = entries.filter(|entry| !entry.is_empty()).map(|entry| {
            let variances = &variances[entry.offset..entry.offset + entry.len()];
            let mut deviations: Vec<f64> = variances.iter().map(|v| v.sqrt()).collect();
            deviations.sort_by(f64::total_cmp);
            ParameterDeviations {
                path: entry.path.clone(),
                weights: entry.len(),
                quantiles: SHARES.map(|share| quantile(&deviations, share)),
            }
        });
        Ok(Self {
            kind: posterior.kind(),
            weights: posterior.len(),
            spectrum: spectrum(posterior)?,
            total_variance: variances.iter().sum(),
            parameters: parameters.collect(),
        })
    }

    /// The section of a report.
    pub(crate) fn section(&self) -> Result<Section> {
        let mut figures = Vec::new();
        if !self.spectrum.is_empty() {
            figures.push(self.spectrum_figure()?);
        }
        if !self.parameters.is_empty() {
            figures.push(self.deviation_figure()?);
        }
        Ok(Section::new("posterior", "Posterior", self.description())
            .with_figures(figures)
            .with_tables(vec![self.deviation_table()]))
    }

    fn description(&self) -> String {
        let (form, rank) = (self.kind.name(), self.spectrum.len());
        let start = format!("Gaussian over {} weights in {form} form", self.weights);
        let squares: f64 = self.spectrum.iter().map(|value| value * value).sum();
        match self.kind {
            _ if rank == 0 => format!("{start}, without factors: the weights are independent."),
            FormKind::Covariance => format!(
                "{start}, with {rank} factors, which account for {} of the total variance; the diagonal accounts for the rest.",
                rounded_percent(squares / self.total_variance),
            ),
            FormKind::Precision => format!("{start}, with {rank} factors and a diagonal."),
        }
    }

    fn spectrum_figure(&self) -> Result<Figure> {
        let reading = match self.kind {
            FormKind::Covariance => {
                "Each value is the standard deviation of the weights along one direction. If the last values are near zero, a smaller rank is enough."
            }
            FormKind::Precision => {
                "The square of each value is the precision added by the data along one direction. If the last values are near zero, a smaller rank is enough."
            }
        };
        Figure::draw(
            "spectrum",
            "Spectrum of the factors",
            reading,
            SIZE,
            |area| {
                let count = self.spectrum.len() as f64;
                let mut plane = plane(
                    area,
                    &Axis::new("factor, by size", (0.0, count + 1.0), whole),
                    &Axis::new(
                        "singular value",
                        range_from_zero(self.spectrum.clone()),
                        tick,
                    ),
                )?;
                for (index, &value) in self.spectrum.iter().enumerate() {
                    let x = index as f64 + 1.0;
                    let stem = PathElement::new([(x, 0.0), (x, value)], line(BLUE));
                    plane.draw_series([stem])?;
                    plane.draw_series([Circle::new((x, value), 5, BLUE.filled())])?;
                }
                Ok(())
            },
        )
    }

    fn deviation_figure(&self) -> Result<Figure> {
        const ROW: u32 = 40;
        const NAMES: u32 = 246;
        let shown = &self.parameters[..self.parameters.len().min(MOST_ROWS)];
        let size = (SIZE.0, 90 + ROW * shown.len().max(2) as u32);
        let reading = "For the weights of each parameter, boxes show the central 50 %, whiskers the central 90 %, and the line the median. A wide posterior means that the data say little about these weights.";
        let title = "Standard deviation of the weights, by parameter";
        Figure::draw("deviations", title, reading, size, |area| {
            let (names, chart) = area.split_horizontally(NAMES);
            let logarithms = shown.iter().flat_map(|p| p.quantiles.map(logarithm));
            let rows = shown.len() as f64;
            let mut plane = rows_plane(
                &chart,
                &Axis::logarithmic("standard deviation", range_of(logarithms)),
                rows,
            )?;
            for (row, parameter) in shown.iter().enumerate() {
                let y = rows - row as f64 - 0.5;
                draw_box(&mut plane, y, parameter.quantiles.map(logarithm), BLUE)?;
                let place = (
                    NAMES as i32 - 8,
                    plane.plotting_area().map_coordinate(&(0.0, y)).1,
                );
                let style = letters(INK).pos(Pos::new(HPos::Right, VPos::Center));
                names.draw(&Text::new(shortened(&parameter.path, 20), place, style))?;
            }
            Ok(())
        })
    }

    fn deviation_table(&self) -> Table {
        let header = ["parameter", "weights"].map(String::from).into_iter();
        let row = |parameter: &ParameterDeviations| {
            let start = [plain(&parameter.path), parameter.weights.to_string()];
            start
                .into_iter()
                .chain(parameter.quantiles.map(number))
                .collect()
        };
        Table::new(
            "Quantiles of the standard deviations of each parameter's weights",
            header.chain(SHARES.map(percent)),
            self.parameters.iter().map(row),
        )
    }
}

fn draw_box(
    plane: &mut Plane<'_, '_>,
    y: f64,
    [lowest, low, middle, high, highest]: [f64; 5],
    colour: RGBColor,
) -> Drawn {
    const HALF: f64 = 0.28;
    plane.draw_series([PathElement::new([(lowest, y), (highest, y)], guide())])?;
    let corners = [(low, y - HALF), (high, y + HALF)];
    plane.draw_series([Rectangle::new(corners, colour.mix(0.45).filled())])?;
    let median = [(middle, y - HALF), (middle, y + HALF)];
    plane.draw_series([PathElement::new(median, line(colour))])?;
    Ok(())
}

/// σₖ(F) = √λₖ(F Fᵀ), largest first.
fn spectrum(posterior: &FactorPosterior) -> Result<Vec<f64>> {
    let Some(factors) = posterior.factors() else {
        return Ok(Vec::new());
    };
    let [rank, _] = factors.dims();
    let gram = SquareMatrix::gram(rank, &host(factors)).map_err(of_algebra)?;
    let eigen = SymmetricEigen::new(&gram).map_err(of_algebra)?;
    // Rounding may leave an eigenvalue of zero below zero.
    Ok(eigen
        .values()
        .iter()
        .map(|value| value.at_least(0.0).sqrt())
        .collect())
}

fn host<const R: usize>(tensor: Tensor<R>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The logarithm, bounded below because a standard deviation may be 0.
fn logarithm(deviation: f64) -> f64 {
    deviation.at_least(1e-12).log10()
}

fn of_core(error: burn_bayes::Error) -> TabularError {
    TabularError::Numerical(format!("the posterior cannot be summarised: {error}"))
}

fn of_algebra(error: AlgebraError) -> TabularError {
    TabularError::Numerical(format!(
        "the factors of the posterior cannot be summarised: {error}"
    ))
}
