//! Initial weights of a network that is trained with a prior over functions.
//!
//! The divergence from a Gaussian process is stiff: it penalises a network that differs from every likely function a
//! thousand times more than one that is zero. From ordinary initial weights, whose hidden units change near the origin,
//! an optimiser therefore first takes the outputs to zero where there are no data, and hardly leaves them. A first layer
//! and a last one give a start from which it need not:
//!
//! * [`first_layer`](FunctionPrior::first_layer) has units that change at places all over the measurement points,
//!   over the shortest length scale ℓ of the kernel:
//!   unit u is a function of vᵤᵀ(x − xᵤ), with vᵤ = s e/ℓ for a random direction e and s uniform in [½, 3/2].
//! * [`sine_layer`](FunctionPrior::sine_layer), for units that are sines, has random frequencies of the kernel, with
//!   random phases. With a periodic kernel, all frequencies are multiples of 2π/p, so the network is periodic whatever
//!   its other layers are.
//! * [`solved`](FunctionPrior::solved) replaces a group of weights μ, such as those of the last layer, by
//!   μ − P⁻¹(N g + α⊙μ + E JᵀK⁻¹f), P = N H + diag α + E JᵀK⁻¹J: a step of Gauss and Newton, which gives the optimum
//!   if the outputs and the likelihood are linear and Gaussian in these weights.

use std::f64::consts::TAU;

use burn::module::{Module, Param, ParamGroup};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use burn_bayes::algebra::{Cholesky, dot};
use burn_bayes::eval::Bounded;
use burn_bayes::graph::ExampleBatch;
use burn_bayes::kernels::{from_host, to_host};
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::prior::Prior;
use burn_bayes::{Error, Noise, Result};

use super::FunctionPrior;
use super::curvature::{CurvatureRows, dense_layout};
use crate::functional::Points;

/// The number of points, per unit, from which the places of units are chosen.
const CANDIDATES: usize = 8;

impl FunctionPrior {
    /// A first layer whose units lie over the measurement points. The places of the units are far from one another.
    ///
    /// # Errors
    ///
    /// Without units, or if the source of the points fails.
    pub fn first_layer(&self, units: usize, noise: Noise, device: &Device) -> Result<Linear> {
        check_units(units)?;
        let width = self.points.width();
        let draws = (CANDIDATES * units).div_ceil(self.count) as u64;
        let mut values = Vec::new();
        for draw in 0..draws {
            let points = self.points.draw(self.count, noise.fold(1).fold(draw))?;
            values.extend_from_slice(points.as_slice());
        }
        let points = Points::new(width, values)?;
        let lengths = self.lengths(&points, units);
        let mut weights = vec![0.0; width * units];
        let mut biases = Vec::with_capacity(units);
        for (unit, place) in far_apart(&points, &lengths, units).into_iter().enumerate() {
            let noise = noise.fold(2).fold(unit as u64);
            let direction = noise.latent(width).into_iter().map(f64::from);
            let direction: Vec<f64> = direction.collect();
            let norm = dot(&direction, &direction).sqrt();
            let scale = (0.5 + noise.uniform()) / norm;
            let slopes = direction.iter().zip(&lengths);
            let slopes: Vec<f64> = slopes
                .map(|(entry, length)| scale * entry / length)
                .collect();
            biases.push(-dot(&slopes, points.row(place)));
            for (d, slope) in slopes.into_iter().enumerate() {
                weights[d * units + unit] = slope;
            }
        }
        Ok(linear(&weights, &biases, device))
    }

    /// A first layer for units that are sines, with random frequencies of the kernel: a wide network with no other hidden
    /// layer is then a function of the kernel.
    ///
    /// # Errors
    ///
    /// Without units, or if the kernel has a part that is not a function of x − y, such as `linear`.
    pub fn sine_layer(&self, units: usize, noise: Noise, device: &Device) -> Result<Linear> {
        check_units(units)?;
        let width = self.points.width();
        let mut weights = vec![0.0; width * units];
        let mut phases = Vec::with_capacity(units);
        for unit in 0..units {
            let noise = noise.fold(unit as u64);
            let frequency = self.kernel.frequency(width, noise.fold(0))?;
            phases.push(TAU * noise.fold(1).uniform());
            for (d, frequency) in frequency.into_iter().enumerate() {
                weights[d * units + unit] = frequency;
            }
        }
        Ok(linear(&weights, &phases, device))
    }

    /// The length over which a unit changes in every coordinate: the shortest length scale of the kernel, but not less
    /// than so many units can resolve.
    fn lengths(&self, points: &Points, units: usize) -> Vec<f64> {
        let length = |d: usize| {
            let values = || points.rows().map(|row| row[d]);
            let range =
                values().fold(f64::MIN, f64::at_least) - values().fold(f64::MAX, f64::at_most);
            let own = self.kernel.shortest_length(d).unwrap_or(0.5 * range);
            let length = own.at_least(range / units as f64);
            // All points agree in this coordinate.
            if length > 0.0 { length } else { 1.0 }
        };
        (0..points.width()).map(length).collect()
    }

    /// The model after one Gauss–Newton step of the weights in `group`, at most
    /// [`Laplace::FULL_LIMIT`](burn_bayes::laplace::Laplace::FULL_LIMIT): the maximum of the posterior given the other weights, if the outputs are linear in them and the likelihood is Gaussian, as for the
    /// last layer of a regression network.
    ///
    /// # Errors
    ///
    /// Those of [`laplace`](Self::laplace).
    pub fn solved<M>(
        &self,
        model: M,
        group: &ParamGroup,
        train_len: usize,
        weights: &Prior,
        batches: impl IntoIterator<Item = M::Input>,
    ) -> Result<M>
    where
        M: Module + ModelOutputs<Features = Tensor<2>, Input: ExampleBatch> + 'static,
    {
        let layout = dense_layout("group", &model, group)?;
        let len = layout.len();
        let rows = CurvatureRows::new(self, layout.clone(), &model, train_len, batches)?;
        let mut gradient = rows.loss_gradient()?;
        let precision = rows.precision(weights, |scale, rows, errors| {
            for (row, error) in rows.chunks_exact(len).zip(errors) {
                let entries = gradient.iter_mut().zip(row);
                entries.for_each(|(sum, entry)| *sum += scale * error * entry);
            }
        })?;
        let mut mean = to_host(rows.mean().clone());
        let alpha = rows.prior_precisions(weights)?;
        let entries = gradient.iter_mut().zip(&alpha).zip(&mean);
        entries.for_each(|((gradient, alpha), mean)| *gradient += alpha * mean);
        Cholesky::new(&precision)
            .map_err(|error| {
                Error::numerical(format!(
                    "the precision of {len} weights cannot be factorised ({error}); raise the precision of the prior over \
                     the weights"
                ))
            })?
            .solve(&mut gradient)?;
        let steps = mean.iter_mut().zip(&gradient);
        steps.for_each(|(weight, step)| *weight -= step);
        let mean = from_host(mean, [len], &rows.mean().device());
        Ok(layout.write(model, mean)?)
    }
}

fn check_units(units: usize) -> Result<()> {
    match units {
        0 => Err(Error::config("units", "are 0; there must be at least 1")),
        _ => Ok(()),
    }
}

/// A layer with these weights, one column for each unit.
fn linear(weights: &[f64], biases: &[f64], device: &Device) -> Linear {
    let units = biases.len();
    let biases = from_host(biases, [1, units], device).squeeze_dim(0);
    Linear {
        weight: Param::from_tensor(from_host(weights, [weights.len() / units, units], device)),
        bias: Some(Param::from_tensor(biases)),
    }
}

/// The indices of `count` points, each the furthest from those before, in units of these lengths; the first is random, as
/// the points are.
fn far_apart(points: &Points, lengths: &[f64], count: usize) -> Vec<usize> {
    let mut nearest = vec![f64::INFINITY; points.len()];
    let mut chosen = vec![0];
    while chosen.len() < count {
        let last = points.row(chosen[chosen.len() - 1]);
        let mut furthest = 0;
        for (at, row) in points.rows().enumerate() {
            let parts = row.iter().zip(last).zip(lengths);
            let distance: f64 = parts
                .map(|((x, y), length)| ((x - y) / length).powi(2))
                .sum();
            nearest[at] = nearest[at].at_most(distance);
            if nearest[at] > nearest[furthest] {
                furthest = at;
            }
        }
        chosen.push(furthest);
    }
    chosen
}
