//! Recalibration of each class's probability by itself, followed by normalisation.
//!
//!   q_c = g_c(p_c) / Σ_k g_k(p_k),     and 1/C if every g_k(p_k) is zero
//!
//! | Method | g | Better when |
//! |---|---|---|
//! | [`IsotonicCalibration`] | the non-decreasing function with the smallest squared error | the order of the probabilities is right, and there are at least a thousand rows |
//! | [`HistogramBinning`] | the frequency of the class in bins of equally many rows | the error is not monotone, and bins have at least 50 rows |
//! | [`BayesianBinning`] | the posterior mean over histograms with different numbers of bins | as histogram binning, without a choice of bins |
//!
//! Isotonic regression interpolates linearly between the held-out probabilities and is constant
//! outside. It and histogram binning may return 0 for a class that then occurs, for an infinite
//! NLL; Bayesian binning does not.
//!
//! **Bayesian binning.** n rows in B bins, n_b of them in bin b with m_b of the class, have under
//! the prior θ_b ~ Beta(α_b, β_b), α_b = π_b·2/B, β_b = (1 − π_b)·2/B, with π_b the middle of the
//! bin, the marginal likelihood
//!
//!   Π_b B(m_b + α_b, n_b − m_b + β_b) / B(α_b, β_b)
//!
//! and the posterior mean (m_b + α_b)/(n_b + 2/B). The means are averaged with these weights over
//! B from n^{1/3}/10 to 10 n^{1/3}, with at most one bin per row.
//!
//! **Ties** are never split: rows with equal probabilities are in the lower of two bins.
//!
//! References: B. Zadrozny and C. Elkan, "Obtaining calibrated probability estimates from decision
//! trees and naive Bayesian classifiers" (2001) and "Transforming classifier scores into accurate
//! multiclass probability estimates" (2002), for binning, isotonic regression and normalisation; M.
//! P. Naeini et al., "Obtaining well calibrated probabilities using Bayesian binning" (2015).

use crate::check;
use crate::error::{EvalError, Place};
use crate::order::{ascending, tie_groups};
use crate::recalibration::held_out::HeldOut;
use crate::recalibration::linear_map::{check_classes, check_same_classes};
use crate::views::{ClassProbabilities, LabelledProbabilities};

/// One non-decreasing function per class.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, HeldOut, IsotonicCalibration, LabelledProbabilities};
///
/// let table = ClassProbabilities::binary(&[0.2, 0.4, 0.6, 0.8])?;
/// let labelled = LabelledProbabilities::new(&table, &[0, 1, 0, 1])?;
/// let held_out = HeldOut::new(labelled, &[0, 1, 2, 3], &[4])?;
/// let calibration = IsotonicCalibration::fit(&held_out)?;
/// let new = calibration.apply(&ClassProbabilities::binary(&[0.5, 0.3])?)?;
/// assert!((new.row(0)[1] - 0.5).abs() < 1e-12); // 0.4 and 0.6 are pooled
/// assert!((new.row(1)[1] - 0.25).abs() < 1e-12); // halfway from 0 to one half
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct IsotonicCalibration {
    functions: Vec<Interpolated>,
}

/// One histogram per class, with bins of equally many rows.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, HeldOut, HistogramBinning, LabelledProbabilities};
///
/// let table = ClassProbabilities::binary(&[0.2, 0.4, 0.6, 0.8])?;
/// let labelled = LabelledProbabilities::new(&table, &[0, 1, 1, 1])?;
/// let held_out = HeldOut::new(labelled, &[0, 1, 2, 3], &[4])?;
/// let binning = HistogramBinning::fit(&held_out, 2)?;
/// assert_eq!(binning.apply(&ClassProbabilities::binary(&[0.1])?)?.row(0), [0.5, 0.5]);
/// assert!(HistogramBinning::fit(&held_out, 5).is_err()); // fewer rows than bins
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramBinning {
    functions: Vec<Steps>,
}

/// Averages of histograms with different numbers of bins, one per class (BBQ).
///
/// ```
/// use burn_bayes_eval::{BayesianBinning, ClassProbabilities, HeldOut, LabelledProbabilities};
///
/// let table = ClassProbabilities::binary(&[0.2, 0.4, 0.6, 0.8])?;
/// let labelled = LabelledProbabilities::new(&table, &[0, 1, 1, 1])?;
/// let binning = BayesianBinning::fit(&HeldOut::new(labelled, &[0, 1, 2, 3], &[4])?)?;
/// let new = binning.apply(&ClassProbabilities::binary(&[0.1, 0.9])?)?;
/// assert!(0.0 < new.row(0)[1] && new.row(0)[1] < new.row(1)[1]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BayesianBinning {
    functions: Vec<Steps>,
}

impl IsotonicCalibration {
    /// The functions with the smallest squared error on the held-out rows.
    ///
    /// # Errors
    /// A data error if there is only one class or a class has no held-out row.
    pub fn fit(held_out: &HeldOut<LabelledProbabilities<'_>>) -> Result<Self, EvalError> {
        check_classes(held_out.view())?;
        let functions = sorted_by_class(held_out.view()).map(|s| Interpolated::monotone(&s));
        Ok(Self {
            functions: functions.collect(),
        })
    }

    /// The recalibrated probabilities of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the held-out rows.
    pub fn apply(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<ClassProbabilities<'static>, EvalError> {
        recalibrated(probabilities, &self.functions, Interpolated::at)
    }
}

impl HistogramBinning {
    /// The frequencies of the held-out rows in `bins` bins per class.
    ///
    /// # Errors
    /// A config error if `bins` is zero; a data error if there are fewer rows than bins, only one
    /// class, or a class without a held-out row.
    pub fn fit(
        held_out: &HeldOut<LabelledProbabilities<'_>>,
        bins: usize,
    ) -> Result<Self, EvalError> {
        check::at_least_one("bins", bins)?;
        check_classes(held_out.view())?;
        let rows = held_out.view().labels().len();
        if rows < bins {
            return Err(EvalError::data(
                "held-out rows",
                Place::WHOLE,
                format!("{rows} rows for {bins} bins"),
                "at least one row per bin",
                "too many bins: use fewer, or BayesianBinning, which needs no choice",
            ));
        }
        let functions = sorted_by_class(held_out.view()).map(|sorted| {
            let bins = sorted.bins(bins);
            let values = bins.iter().map(|bin| bin.hits / bin.rows).collect();
            Steps {
                edges: bins[1..].iter().map(|bin| bin.lower).collect(),
                values,
            }
        });
        Ok(Self {
            functions: functions.collect(),
        })
    }

    /// The recalibrated probabilities of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the held-out rows.
    pub fn apply(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<ClassProbabilities<'static>, EvalError> {
        recalibrated(probabilities, &self.functions, Steps::at)
    }
}

impl BayesianBinning {
    /// The posterior mean over histograms, given the held-out rows.
    ///
    /// # Errors
    /// A data error if there is only one class or a class has no held-out row.
    pub fn fit(held_out: &HeldOut<LabelledProbabilities<'_>>) -> Result<Self, EvalError> {
        check_classes(held_out.view())?;
        let functions = sorted_by_class(held_out.view()).map(|sorted| averaged(&sorted));
        Ok(Self {
            functions: functions.collect(),
        })
    }

    /// The recalibrated probabilities of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the held-out rows.
    pub fn apply(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<ClassProbabilities<'static>, EvalError> {
        recalibrated(probabilities, &self.functions, Steps::at)
    }
}

/// The probabilities of new rows under one function per class, normalised.
fn recalibrated<F>(
    probabilities: &ClassProbabilities<'_>,
    functions: &[F],
    at: impl Fn(&F, f64) -> f64,
) -> Result<ClassProbabilities<'static>, EvalError> {
    check_same_classes(probabilities.classes(), functions.len())?;
    Ok(normalised(probabilities, |class, p| {
        at(&functions[class], p)
    }))
}

fn normalised(
    probabilities: &ClassProbabilities<'_>,
    function: impl Fn(usize, f64) -> f64,
) -> ClassProbabilities<'static> {
    let classes = probabilities.classes();
    let row = |row: &[f64]| {
        let mapped = row.iter().enumerate().map(|(class, p)| function(class, *p));
        let mut mapped: Vec<f64> = mapped.collect();
        let sum: f64 = mapped.iter().sum();
        mapped.iter_mut().for_each(|q| {
            *q = if sum > 0.0 {
                *q / sum
            } else {
                1.0 / classes as f64
            }
        });
        mapped
    };
    let values = probabilities.iter().flat_map(row).collect();
    ClassProbabilities::of_checked(values, probabilities.rows(), classes)
}

/// The rows of one class against the rest, by increasing probability of the class.
struct Sorted {
    probabilities: Vec<f64>,
    /// The number of rows of the class among the first rows; one more than there are rows.
    hits_before: Vec<f64>,
}

/// A bin of rows, open below.
struct Bin {
    lower: f64,
    rows: f64,
    hits: f64,
}

fn sorted_by_class<'a>(
    labelled: &'a LabelledProbabilities<'_>,
) -> impl Iterator<Item = Sorted> + 'a {
    (0..labelled.probabilities().classes()).map(move |class| {
        let of_class: Vec<f64> = labelled.iter().map(|(row, _)| row[class]).collect();
        let order = ascending(&of_class);
        let mut hits_before = vec![0.0];
        let mut hits = 0.0;
        for &row in &order {
            hits += if labelled.labels()[row] == class {
                1.0
            } else {
                0.0
            };
            hits_before.push(hits);
        }
        let probabilities = order.iter().map(|&row| of_class[row]).collect();
        Sorted {
            probabilities,
            hits_before,
        }
    })
}

impl Sorted {
    /// At most `count` bins of equally many rows, to within one and ties.
    fn bins(&self, count: usize) -> Vec<Bin> {
        let rows = self.probabilities.len();
        let mut bins: Vec<Bin> = Vec::with_capacity(count);
        let (mut start, mut lower) = (0, 0.0);
        for index in 1..=count {
            let wanted = (index * rows / count).max(1);
            let last = self.probabilities[wanted - 1];
            let end = self.probabilities.partition_point(|&p| p <= last);
            if end == start {
                continue;
            }
            let hits = self.hits_before[end] - self.hits_before[start];
            bins.push(Bin {
                lower,
                rows: (end - start) as f64,
                hits,
            });
            lower = match self.probabilities.get(end) {
                Some(next) => 0.5 * (last + next),
                None => 1.0,
            };
            start = end;
        }
        bins
    }
}

/// A function that is constant between edges; at an edge it has the value below.
#[derive(Debug, Clone, PartialEq)]
struct Steps {
    edges: Vec<f64>,
    values: Vec<f64>,
}

impl Steps {
    fn at(&self, x: f64) -> f64 {
        self.values[self.edges.partition_point(|&edge| edge < x)]
    }
}

fn averaged(sorted: &Sorted) -> Steps {
    let rows = sorted.probabilities.len();
    let root = (rows as f64).cbrt();
    let fewest = ((root / 10.0) as usize).max(1);
    let most = ((10.0 * root).ceil() as usize).min(rows);
    let models: Vec<(f64, Vec<f64>, Vec<f64>)> = (fewest..=most)
        .map(|count| posterior(&sorted.bins(count)))
        .collect();
    let largest = models
        .iter()
        .map(|model| model.0)
        .fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = models.iter().map(|model| (model.0 - largest).exp()).sum();
    // All models as one step function: a start, and a rise at every edge of a model.
    let (mut start, mut rises) = (0.0, Vec::new());
    for (evidence, edges, means) in &models {
        let weight = (evidence - largest).exp() / total;
        start += weight * means[0];
        let steps = means.windows(2).map(|pair| weight * (pair[1] - pair[0]));
        rises.extend(edges.iter().copied().zip(steps));
    }
    rises.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut edges, mut values, mut value) = (Vec::new(), vec![start], start);
    for group in rises.chunk_by(|a, b| a.0 == b.0) {
        value += group.iter().map(|rise| rise.1).sum::<f64>();
        edges.push(group[0].0);
        values.push(value.clamp(0.0, 1.0));
    }
    Steps { edges, values }
}

/// The log marginal likelihood of a histogram, its inner edges, and its posterior means.
fn posterior(bins: &[Bin]) -> (f64, Vec<f64>, Vec<f64>) {
    let strength = 2.0 / bins.len() as f64;
    let edges: Vec<f64> = bins[1..].iter().map(|bin| bin.lower).collect();
    let uppers = edges.iter().copied().chain([1.0]);
    let mut evidence = 0.0;
    let mut means = Vec::with_capacity(bins.len());
    for (bin, upper) in bins.iter().zip(uppers) {
        let middle = 0.5 * (bin.lower + upper);
        // A bin of width zero at the end has no room for the other outcome in its prior.
        let middle = middle.clamp(1e-6, 1.0 - 1e-6);
        let (a, b) = (middle * strength, (1.0 - middle) * strength);
        evidence += log_beta(bin.hits + a, bin.rows - bin.hits + b) - log_beta(a, b);
        means.push((bin.hits + a) / (bin.rows + strength));
    }
    (evidence, edges, means)
}

fn log_beta(a: f64, b: f64) -> f64 {
    libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b)
}

/// A function that is linear between knots and constant outside.
#[derive(Debug, Clone, PartialEq)]
struct Interpolated {
    at: Vec<f64>,
    values: Vec<f64>,
}

impl Interpolated {
    /// The isotonic regression, by pooling adjacent violators.
    fn monotone(sorted: &Sorted) -> Self {
        // Blocks of (first knot, sum, weight).
        let mut blocks: Vec<(usize, f64, f64)> = Vec::new();
        let mut at = Vec::new();
        let order: Vec<usize> = (0..sorted.probabilities.len()).collect();
        let mut end = 0;
        for group in tie_groups(&order, &sorted.probabilities) {
            let start = end;
            end += group.len();
            let sum = sorted.hits_before[end] - sorted.hits_before[start];
            blocks.push((at.len(), sum, group.len() as f64));
            at.push(sorted.probabilities[start]);
            while let [.., before, last] = blocks.as_mut_slice() {
                if before.1 * last.2 < last.1 * before.2 {
                    break;
                }
                before.1 += last.1;
                before.2 += last.2;
                blocks.pop();
            }
        }
        let ends = blocks[1..].iter().map(|block| block.0).chain([at.len()]);
        let repeated = blocks.iter().zip(ends);
        let values = repeated.flat_map(|(block, end)| vec![block.1 / block.2; end - block.0]);
        let values = values.collect();
        Self { at, values }
    }

    fn at(&self, x: f64) -> f64 {
        let above = self.at.partition_point(|&knot| knot < x);
        if above == 0 {
            return self.values[0];
        }
        let Some(&upper) = self.at.get(above) else {
            return self.values[above - 1];
        };
        let lower = self.at[above - 1];
        let share = (x - lower) / (upper - lower);
        self.values[above - 1] + share * (self.values[above] - self.values[above - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReliabilityDiagram, uniforms};

    fn held_out<'a>(
        table: &'a ClassProbabilities<'a>,
        labels: &'a [usize],
    ) -> HeldOut<LabelledProbabilities<'a>> {
        let labelled = LabelledProbabilities::new(table, labels).unwrap();
        let ids: Vec<usize> = (0..labels.len()).collect();
        HeldOut::new(labelled, &ids, &[labels.len()]).unwrap()
    }

    #[test]
    fn isotonic_regression_is_calibrated_on_its_own_rows() {
        let positive: Vec<f64> = uniforms(200, 3)
            .iter()
            .map(|u| (u * 40.0).floor() / 40.0)
            .collect();
        let labels: Vec<usize> = uniforms(200, 4)
            .iter()
            .zip(&positive)
            .map(|(u, p)| usize::from(*u < p * p))
            .collect();
        let table = ClassProbabilities::binary(&positive).unwrap();
        let fitted = IsotonicCalibration::fit(&held_out(&table, &labels)).unwrap();
        let mapped = fitted.apply(&table).unwrap();
        // Rows with one value have that frequency.
        let values: Vec<f64> = (0..200).map(|row| mapped.row(row)[1]).collect();
        for &value in &values {
            let rows = (0..200).filter(|&row| (values[row] - value).abs() < 1e-12);
            let found: Vec<f64> = rows.map(|row| labels[row] as f64).collect();
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            assert!((mean - value).abs() < 1e-12, "{mean} {value}");
        }
        let labelled = LabelledProbabilities::new(&mapped, &labels).unwrap();
        let diagram = ReliabilityDiagram::equal_width(&labelled, 1).unwrap();
        assert!(diagram.expected_calibration_error() < 0.5);
    }

    #[test]
    fn ties_share_a_bin_and_empty_bins_do_not_exist() {
        let table = ClassProbabilities::binary(&[0.5, 0.5, 0.5, 0.8]).unwrap();
        let fitted = HistogramBinning::fit(&held_out(&table, &[0, 1, 0, 1]), 4).unwrap();
        let new = ClassProbabilities::binary(&[0.0, 0.64, 0.66, 1.0]).unwrap();
        let mapped = fitted.apply(&new).unwrap();
        let third = 1.0 / 3.0;
        for (row, expected) in [third, third, 1.0, 1.0].into_iter().enumerate() {
            assert!(
                (mapped.row(row)[1] - expected).abs() < 1e-12,
                "{:?}",
                mapped.row(row)
            );
        }
    }

    #[test]
    fn rows_without_mass_become_uniform() {
        let values = [0.5, 0.3, 0.2, 0.3, 0.5, 0.2, 0.1, 0.1, 0.8];
        let table = ClassProbabilities::new(&values, 3, 3).unwrap();
        let fitted = IsotonicCalibration::fit(&held_out(&table, &[0, 1, 2])).unwrap();
        let new = ClassProbabilities::new(&[0.3, 0.3, 0.2, 0.2], 1, 4);
        assert!(fitted.apply(&new.unwrap()).unwrap_err().is_data());
        let vague = ClassProbabilities::new(&[0.3, 0.3, 0.4], 1, 3).unwrap();
        let sum: f64 = fitted.apply(&vague).unwrap().row(0).iter().sum();
        assert!((sum - 1.0).abs() < 1e-12);
        let table = ClassProbabilities::new(&[0.2, 0.3, 0.5], 1, 3).unwrap();
        let zero = normalised(&table, |_, _| 0.0);
        assert_eq!(zero.row(0), [1.0 / 3.0; 3]);
    }
}
