//! Gaussian priors over the weights: p(θ) = N(0, diag(α)⁻¹).
//!
//! α is one precision for all weights, or one per group of parameters (weights, biases, norms …).

use std::f64::consts::PI;

use burn::module::{ParamGroup, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes_graph::{Layout, LayoutEntry};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernels::composed::to_host;

/// The precisions that can be used in single precision, also of many copies of a prior.
const LEAST_PRECISION: f64 = 1e-30;
const MOST_PRECISION: f64 = 1e30;

/// A zero-mean Gaussian prior, independent of a model.
///
/// ```
/// use burn::module::ParamGroup;
/// use burn_bayes::Prior;
///
/// let prior = Prior::isotropic(1.0).with_group(ParamGroup::from_predicate("bias"), 1e-6);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prior {
    precision: f64,
    /// The deviation of weights times √fan-in, which replaces the precision for parameters with several dimensions.
    fan_in_deviation: Option<f64>,
    groups: Vec<(ParamGroup, f64)>,
}

impl Prior {
    /// The same precision α for every weight.
    pub fn isotropic(precision: f64) -> Self {
        Self {
            precision,
            fan_in_deviation: None,
            groups: Vec::new(),
        }
    }

    /// The deviation `deviation`/√fan-in for the weights of a layer, and 1 for its biases and other vectors: with it the
    /// functions of a network before the data do not depend on its widths.
    ///
    /// The fan-in comes from the shape of a parameter: the first dimension of a matrix, and the product of all but the first
    /// of a convolution. That is wrong for an embedding, `[vocabulary, width]`, whose vectors would shrink with the
    /// vocabulary, and for a transposed convolution, `[inputs, outputs, …]`. Give these their own precision, fan-in/deviation²,
    /// by [`with_group`](Self::with_group). The fan-in of an embedding is 1, because a token takes one vector of it:
    ///
    /// ```
    /// use burn::module::ParamGroup;
    /// use burn_bayes::Prior;
    ///
    /// const DEVIATION: f64 = 2.0;
    /// let embedding = ParamGroup::from_predicate("embedding");
    /// let prior = Prior::by_fan_in(DEVIATION).with_group(embedding, DEVIATION.powi(-2));
    /// ```
    pub fn by_fan_in(deviation: f64) -> Self {
        Self {
            fan_in_deviation: Some(deviation),
            ..Self::isotropic(1.0)
        }
    }

    /// Sets another precision for the parameters that `group` selects by path; the last group that
    /// matches a parameter applies.
    #[must_use]
    pub fn with_group(mut self, group: ParamGroup, precision: f64) -> Self {
        self.groups.push((group, precision));
        self
    }

    /// The precision of every weight of `layout`.
    ///
    /// Fails if a precision is not from 10⁻³⁰ to 10³⁰, or if a group selects none of the
    /// layout's parameters. Groups of ids select none, because ids change when a record is loaded.
    pub fn resolve(&self, layout: &Layout) -> Result<PriorPrecisions> {
        let scaled = self
            .fan_in_deviation
            .map(|deviation| 1.0 / (deviation * deviation));
        let all = std::iter::once(self.precision).chain(scaled);
        let all = all.chain(self.groups.iter().map(|group| group.1));
        let is_usable = |value: &f64| (LEAST_PRECISION..=MOST_PRECISION).contains(value);
        if let Some(precision) = all.into_iter().find(|value| !is_usable(value)) {
            return Err(Error::config(
                "prior",
                format!(
                    "a precision of {precision:e} was given; it must be from {LEAST_PRECISION:e} to {MOST_PRECISION:e}"
                ),
            ));
        }
        for (group, precision) in &self.groups {
            let mut entries = layout.entries().iter();
            if !entries.any(|entry| selects(group, &entry.path)) {
                return Err(Error::config(
                    "prior",
                    format!(
                        "the group with precision {precision}, {group:?}, selects none of the \
                         random parameters; groups match paths in the model, such as `{}`, not ids",
                        layout.path_at(0).unwrap_or_default()
                    ),
                ));
            }
        }
        let precision = |entry: &LayoutEntry| {
            let mut groups = self.groups.iter().rev();
            let group = groups.find(|(group, _)| selects(group, &entry.path));
            match (group, self.fan_in_deviation) {
                (Some(&(_, precision)), _) => precision,
                (None, Some(deviation)) if entry.shape.len() > 1 => {
                    entry.fan_in() as f64 / (deviation * deviation)
                }
                (None, _) => self.precision,
            }
        };
        let entries = layout.entries().iter();
        Ok(PriorPrecisions::of_runs(
            entries.map(|entry| (entry.len(), precision(entry))),
        ))
    }
}

/// Whether a group selects the parameter with this path. Groups of ids select none.
pub(crate) fn selects(group: &ParamGroup, path: &str) -> bool {
    group.matches(&ParamId::new(), Some(path))
}

/// A prior precision for every weight of a layout, as runs of equal values.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorPrecisions {
    segments: Vec<(usize, f64)>,
}

impl PriorPrecisions {
    /// From runs of weights, each with its precision, which must be finite and above zero.
    #[cfg(feature = "train")]
    pub(crate) fn from_segments(segments: Vec<(usize, f64)>) -> Self {
        Self { segments }
    }

    /// From runs of weights, of which equal neighbours are joined.
    pub(crate) fn of_runs(runs: impl Iterator<Item = (usize, f64)>) -> Self {
        let mut segments: Vec<(usize, f64)> = Vec::new();
        for (run, precision) in runs {
            match segments.last_mut() {
                Some((len, before)) if *before == precision => *len += run,
                _ => segments.push((run, precision)),
            }
        }
        Self { segments }
    }

    /// All precisions multiplied by a factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let segments = self.segments.iter();
        let segments = segments.map(|&(len, precision)| (len, factor * precision));
        Self {
            segments: segments.collect(),
        }
    }

    /// The precision of a weight.
    pub(crate) fn at(&self, weight: usize) -> f64 {
        let mut end = 0;
        let found = self.segments.iter().find(|(len, _)| {
            end += len;
            weight < end
        });
        found.map_or(f64::NAN, |segment| segment.1)
    }

    /// The runs, each the number of weights and their precision.
    pub fn segments(&self) -> &[(usize, f64)] {
        &self.segments
    }

    /// The number of weights.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.0).sum()
    }

    /// Whether there are no weights.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Σ log α.
    pub fn log_sum(&self) -> f64 {
        self.segments
            .iter()
            .map(|&(len, precision)| len as f64 * precision.ln())
            .sum()
    }

    /// log p(θ) for every row of `weights`, `[S, D]`, in nats.
    ///
    /// # Errors
    ///
    /// If the rows have another length than the prior.
    pub fn log_densities(&self, weights: &Tensor<2>) -> Result<Vec<f64>> {
        let [_, len] = weights.dims();
        if len != self.len() {
            return Err(Error::layout(format!(
                "rows of {len} weights were given, but the prior is over {}",
                self.len()
            )));
        }
        let constant = self.log_sum() - len as f64 * (2.0 * PI).ln();
        let values = to_host(weights.clone());
        let log_density = |mut row: &[f64]| {
            let mut weighted = 0.0;
            for &(len, precision) in &self.segments {
                let (segment, rest) = row.split_at(len);
                weighted += precision * segment.iter().map(|value| value * value).sum::<f64>();
                row = rest;
            }
            0.5 * (constant - weighted)
        };
        Ok(values.chunks_exact(len.max(1)).map(log_density).collect())
    }

    /// α of every weight, `[D]`.
    pub fn expanded(&self, device: &Device) -> Tensor<1> {
        let runs = self.segments.iter();
        let runs = runs.map(|&(len, precision)| Tensor::full([len], precision as f32, device));
        Tensor::cat(runs.collect(), 0)
    }

    /// α as a tensor, broadcastable to `[D]`: one element if all are equal.
    pub fn tensor(&self, device: &Device) -> Tensor<1> {
        match self.segments.as_slice() {
            [(_, precision)] => Tensor::from_data(TensorData::from([*precision as f32]), device),
            _ => self.expanded(device),
        }
    }
}
