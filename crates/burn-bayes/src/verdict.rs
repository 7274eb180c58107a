//! One verdict on a fit: whether its predictions are worse than those of its mean, whether draws of the weights destroy
//! the fit to the training rows, and whether the posterior has converged.
//!
//! | question | compared | problem |
//! |---|---|---|
//! | predictions | d_i, the NLL of validation row i under the average of the draws minus that under the mean's network | d̄ > 2 s/√n, and .005 nats |
//! | predictions | the NLL of the average, and that of a constant prediction: for classes the entropy of these rows, for [`Fit`](crate::Fit) mean and variance of the training targets | the first is larger, by 2 s/√n or with a mean [surprise](crate::likelihood::MixDraws::surprises) above 100 |
//! | predictions of [`Fit`](crate::Fit) | the NLL of the average, and that of the network of the best epoch | the first is larger, by 3 s/√n and .005 nats (`verdict/earlier_epoch.rs`) |
//! | draws | N (E_q L − L*), with the loss L per training row and the least loss L* | more than ½ N (L₀ − L*), or than D, by three standard errors; a problem where no validation rows show that the average is fine |
//! | posterior | [`KlGap::nats`] with two standard errors added | more than [`KlGap::CONVERGED`] nats per weight |
//! | samples | R̂ of the predictions of their chains | a median above 1.2; above 1000 the predictions are of no use |
//! | inputs and targets of [`Fit`](crate::Fit), a problem if there is another or the predictions are not surely better than a constant, and else a remark | their means and deviations | far from 0 and 1 (`verdict/far_scale.rs`) |
//!
//! A few losses that are far larger than all others have a standard error of their own size. But under the predictions that
//! have them the expected surprise is 1, so that a mean above 100 has a probability below 1/100 (Markov's inequality).
//!
//! N (L − L*) at a draw of an exact Gaussian posterior is ½χ² with as many degrees of freedom d as weights are determined: the
//! mean of k draws has the mean d/2, at most half the limit, and the variance d/(2k). Where n of N rows are evaluated, the gradients
//! of the others add d (N/n − 1)/k. Four draws may agree by chance, so the standard error is at least that.
//!
//! E_q L − L* is the loss at draws minus that at the mean of a Gaussian, on the same rows, or what the loss of the last epochs, a
//! moving average, has risen since it was least if that is more, as in a training that diverged. L₀ is the loss of a constant prediction. At a posterior, a weight that the data determine costs half a nat of loss on average, and
//! by Akaike's criterion it is worth its place only if it gains a nat: so draws of a useful posterior lose at most half of
//! what the mean has learned, and never more than a nat per weight. Where hardly anything can be learned, those of the exact posterior
//! lose as much as the mean has learned, and only validation rows tell.

mod earlier_epoch;
mod far_scale;
mod kl_gap;

use std::fmt;

use burn_bayes_eval::Bounded;

pub(crate) use self::earlier_epoch::EarlierEpoch;
pub(crate) use self::far_scale::FarScale;
use self::kl_gap::CERTAIN;
pub use self::kl_gap::{Convergence, KlGap};
use crate::kernels::composed::to_host;
use crate::likelihood::MixDraws;
use crate::sampling::Agreement;

/// Fewer rows are not judged: their standard error is a guess.
const FEWEST_ROWS: u64 = 5;
/// A difference that does not matter, in nats per row: that of a few draws from their average is as large.
const NEGLIGIBLE: f64 = 0.005;

/// The standard errors, of few draws, beyond which a loss is no chance.
const BEYOND: f64 = 3.0;

/// The R̂ of chains of which at most one is where the posterior is.
const FAR_APART: f64 = 1000.0;

/// The mean surprise above which predictions are not what they say.
const SURPRISING: f64 = 100.0;

/// Differences of two losses of the same rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairedDifference {
    rows: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    scatter: f64,
}

impl PairedDifference {
    /// Adds the differences of more rows.
    pub fn add(&mut self, differences: impl IntoIterator<Item = f64>) {
        for difference in differences {
            self.rows += 1;
            let before = difference - self.mean;
            self.mean += before / self.rows as f64;
            self.scatter += before * (difference - self.mean);
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The mean difference per row, in nats; NaN if a difference is not finite.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard error of the mean; infinite for fewer than five rows.
    pub fn standard_error(&self) -> f64 {
        let rows = self.rows as f64;
        match self.rows < FEWEST_ROWS {
            true => f64::INFINITY,
            false => (self.scatter / (rows - 1.0) / rows).sqrt(),
        }
    }

    /// Whether the first loss is larger by more than this number of standard errors and .005 nats, or not finite.
    pub(crate) fn is_above(&self, standard_errors: f64) -> bool {
        let limit = (standard_errors * self.standard_error()).at_least(NEGLIGIBLE);
        let mean = self.mean;
        // NaN is never small enough.
        let is_small = mean <= limit;
        self.rows >= FEWEST_ROWS && !is_small
    }

    /// Whether the first loss is larger by more than two standard errors and .005 nats, or not finite. Fewer than five rows are not
    /// judged.
    pub fn is_worse(&self) -> bool {
        self.is_above(CERTAIN)
    }
}

/// What the average over draws of the weights is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The network with the posterior's mean as its weights.
    Mean,
    /// The first draw, where the mean of the weights is no network, as that of an ensemble.
    FirstDraw,
}

/// The average over draws beside simpler predictions, on validation rows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidationComparison {
    /// The optimiser steps of the posterior.
    pub step: u64,
    /// What the average is compared with.
    pub reference: Reference,
    /// The negative log-likelihood under the average of the draws minus that under the reference.
    pub difference: PairedDifference,
    /// That under the average of the draws.
    loss: PairedDifference,
    /// The surprises of the rows under the average of the draws.
    surprise: PairedDifference,
    /// The number of rows of each class.
    classes: Vec<u64>,
    /// The mean negative log-likelihood under a constant with the mean and variance of the training targets, if it is known.
    constant: Option<f64>,
}

impl ValidationComparison {
    pub(crate) fn new(step: u64, reference: Reference) -> Self {
        Self {
            step,
            reference,
            difference: PairedDifference::default(),
            loss: PairedDifference::default(),
            surprise: PairedDifference::default(),
            classes: Vec::new(),
            constant: None,
        }
    }

    /// The same with the mean negative log-likelihood of the rows under a constant prediction of targets that are no classes.
    pub(crate) fn with_constant(self, constant: Option<f64>) -> Self {
        Self { constant, ..self }
    }

    /// Adds the rows of a batch, from its average over draws and the output of the reference, if these have losses of rows.
    pub(crate) fn add_outputs<O: MixDraws>(&mut self, average: &O::Mixture, alone: O) {
        let (classes, surprises) = (alone.classes(), O::surprises(average));
        let alone = O::mix(vec![alone]);
        let Some(losses) = O::row_losses([average, &alone]) else {
            return;
        };
        let [average, alone] = losses.map(|losses| to_host(losses.without_autodiff()));
        self.add(&average, &alone);
        if let Some(surprises) = surprises {
            self.surprise.add(to_host(surprises.without_autodiff()));
        }
        if let Some(classes) = classes {
            let classes = classes.into_data();
            let classes = classes.iter::<i64>();
            let classes = classes.filter_map(|class| class.try_into().ok());
            add_classes(&mut self.classes, classes);
        }
    }

    /// Adds the losses of rows under the average and under the reference.
    pub(crate) fn add(&mut self, average: &[f64], reference: &[f64]) {
        let differences = average.iter().zip(reference);
        self.difference
            .add(differences.map(|(one, other)| one - other));
        self.loss.add(average.iter().copied());
    }

    fn rows(&self) -> u64 {
        self.difference.rows()
    }

    /// The mean loss of the rows under the average of the draws; NaN if it is not finite.
    pub(crate) fn loss(&self) -> f64 {
        self.loss.mean()
    }

    /// By how much the predictions are worse than the frequencies of the classes, or the same mean and variance for all rows, in
    /// nats per row, if they are.
    fn worse_than_constant(&self) -> Option<f64> {
        let constant = entropy(&self.classes).or(self.constant)?;
        let excess = self.loss.mean() - constant;
        let errors = match self.is_far_too_certain() {
            true => 0.0,
            false => CERTAIN * self.loss.standard_error(),
        };
        let is_fine = self.loss.rows() < FEWEST_ROWS || excess <= errors.at_least(NEGLIGIBLE);
        (!is_fine).then_some(excess)
    }

    /// Whether the predictions are better than the constant by two standard errors, as far as one is known.
    fn is_better_than_constant(&self) -> bool {
        let Some(constant) = entropy(&self.classes).or(self.constant) else {
            return true;
        };
        self.loss.mean() + CERTAIN * self.loss.standard_error() < constant
    }

    fn is_far_too_certain(&self) -> bool {
        self.surprise.mean() > SURPRISING
    }

    /// What is wrong, in a sentence for each part. One draw of several is no better than the others where chains agree.
    fn problems(&self, chains_agree: bool) -> Vec<String> {
        let rows = self.rows();
        let is_judged = self.reference == Reference::Mean || !chains_agree;
        let worse = (is_judged && self.difference.is_worse()).then(|| {
            let (mean, error) = (self.difference.mean(), self.difference.standard_error());
            let (reference, cure) = match self.reference {
                Reference::Mean => (
                    "the network with the mean weights",
                    "predict with the mean, or train with a larger prior precision or smaller initial deviations",
                ),
                Reference::FirstDraw => (
                    "its first member alone",
                    "members differ too much; train them longer",
                ),
            };
            format!(
                "on {rows} validation rows the average over draws is worse than {reference}, by {mean:.3} ± {error:.3} \
                 nats per row: {cure}"
            )
        });
        let constant = self.worse_than_constant().map(|excess| {
            let constant = match self.constant {
                None => "the frequencies of the classes",
                Some(_) => "a constant with the mean and the variance of the training targets",
            };
            let certain = match self.is_far_too_certain() {
                true => {
                    "; it is far too certain: use fewer epochs, a larger prior precision or more data"
                }
                false => "",
            };
            format!(
                "on {rows} validation rows the average over draws is worse than {constant}, by {excess:.3} nats per \
                 row{certain}"
            )
        });
        worse.into_iter().chain(constant).collect()
    }
}

/// Adds the classes of rows to the number of rows of each class.
pub(crate) fn add_classes(counts: &mut Vec<u64>, classes: impl IntoIterator<Item = usize>) {
    for class in classes {
        if class >= counts.len() {
            counts.resize(class + 1, 0);
        }
        counts[class] += 1;
    }
}

/// The entropy of frequencies, in nats; `None` without rows.
pub(crate) fn entropy(counts: &[u64]) -> Option<f64> {
    let total = counts.iter().sum::<u64>();
    (total > 0).then(|| {
        let shares = counts.iter().filter(|&&count| count > 0);
        let shares = shares.map(|&count| count as f64 / total as f64);
        -shares.map(|share| share * share.ln()).sum::<f64>()
    })
}

/// The loss of training rows at draws of the posterior, and the least loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossAtDraws {
    /// The mean loss of a row at the mean weights, in nats; at the last ones, where the mean of the weights is no network.
    pub at_mean: f64,
    /// By how much the mean loss of the last epochs, a moving average, is above the least of them.
    pub since_best_epoch: f64,
    /// E_q L, the mean loss of a row at draws.
    pub at_draws: f64,
    /// The number of draws.
    pub draws: usize,
    /// The number of rows that were evaluated.
    pub rows: usize,
    /// The standard error of E_q L.
    pub standard_error: f64,
    /// L₀, the mean loss of a constant prediction, if it is known.
    pub constant: Option<f64>,
    /// N, the number of training examples.
    pub train_len: usize,
    /// D, the number of random weights.
    pub weights: usize,
}

impl LossAtDraws {
    /// E_q L − L*, by how much a row is predicted worse by draws than it could be; NaN if a loss is.
    fn excess(&self) -> f64 {
        (self.at_draws - self.at_mean).at_least(self.since_best_epoch)
    }

    /// L*, the least loss; NaN if a loss is.
    pub fn least(&self) -> f64 {
        self.at_draws - self.excess()
    }

    /// N (E_q L − L*), in nats.
    fn nats(&self) -> f64 {
        self.train_len as f64 * self.excess()
    }

    /// What a useful posterior loses at most, in nats.
    pub fn limit(&self) -> f64 {
        let of_weights = self.weights as f64;
        let learned = self.constant.map(|constant| {
            let learned = self.train_len as f64 * (constant - self.least());
            0.5 * learned.at_least(0.0)
        });
        learned.map_or(of_weights, |learned| learned.at_most(of_weights))
    }

    /// Whether draws of the weights destroy the fit: they lose more than the limit, by three standard errors.
    pub fn is_destroyed(&self) -> bool {
        let (rows, limit) = (self.train_len as f64, self.limit());
        let others = (rows / self.rows as f64 - 1.0).at_least(0.0);
        let of_posterior = limit * (0.5 + others) / self.draws as f64;
        let error = (rows * self.standard_error).at_least(of_posterior.sqrt());
        // NaN is never small enough.
        let is_small = self.nats() - BEYOND * error <= limit;
        !is_small
    }

    pub(crate) fn problem(&self) -> Option<String> {
        self.is_destroyed().then(|| {
            let lost = match self.constant {
                Some(constant) => format!("a constant prediction has {constant:.3}"),
                None => format!("a nat per weight is {:.0} nats", self.limit()),
            };
            let at = match self.excess() > self.at_draws - self.at_mean {
                true => "in the best epoch",
                false => "at the mean",
            };
            format!(
                "draws of the weights destroy the fit: the training loss is {:.3} {at} and {:.3} ± {:.3} at draws, {:.0} \
                 nats in all ({lost}): the deviations are too large, or the training diverged; use a larger prior \
                 precision, a smaller learning rate or smaller initial deviations, or train longer",
                self.least(),
                self.at_draws,
                self.standard_error,
                self.nats()
            )
        })
    }
}

/// What is known about a fit.
///
/// [`Bayesian::verdict`](crate::Bayesian::verdict) returns what its last validation found, and a
/// [`Trainer`](crate::train::Trainer) compares the losses at draws with that at the mean when it ends.
/// [`with_kl_gap`](Self::with_kl_gap) adds the result of a [`ConvergenceTest`](crate::diagnostics::ConvergenceTest).
///
/// ```
/// use burn_bayes::diagnostics::Verdict;
///
/// fn report(verdict: &Verdict) {
///     // Converged or not, and what is wrong with it.
///     println!("{verdict}");
///     if verdict.is_unusable() {
///         println!("do not predict with this posterior");
///     }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// Whether the training ended before the algorithm learned deviations: the posterior is its initial one around the
    /// trained mean.
    pub is_unfinished: bool,
    /// The predictions on the rows of the last validation.
    pub validation: Option<ValidationComparison>,
    /// The network of the epoch that predicted the validation rows best.
    pub(crate) earlier: Option<EarlierEpoch>,
    /// The losses at draws.
    pub draws: Option<LossAtDraws>,
    /// The KL gap to the best Gaussian of the family, and the number of weights.
    pub(crate) kl_gap: Option<(KlGap, usize)>,
    /// How well chains of samples agree.
    pub agreement: Option<Agreement>,
    /// Whether the draws are those of chains that were not compared, such as a single one.
    pub(crate) is_uncompared: bool,
    /// What is wrong with N or the optimiser, as far as it is known.
    pub(crate) of_training: Vec<String>,
    /// Inputs and targets whose scale explains problems.
    pub(crate) far_scales: Vec<FarScale>,
    /// The precision of the prior, if it was chosen.
    pub(crate) prior_precision: Option<f64>,
    /// How often rows and prior count, if it is more than once.
    pub(crate) copies: Option<f64>,
    /// Whether the method does not seek the best Gaussian of its family, as one of iterates.
    pub(crate) is_of_iterates: bool,
}

impl Verdict {
    /// The same with the result of a convergence test of a posterior of this number of weights.
    #[must_use]
    pub fn with_kl_gap(self, kl_gap: KlGap, weights: usize) -> Self {
        Self {
            kl_gap: Some((kl_gap, weights)),
            ..self
        }
    }

    /// The same with the losses at draws.
    #[must_use]
    pub fn with_draws(self, draws: LossAtDraws) -> Self {
        Self {
            draws: Some(draws),
            ..self
        }
    }

    /// Whether the posterior has converged, if it was tested; chains, at least approximately.
    pub fn convergence(&self) -> Option<Convergence> {
        let of_gap = self.kl_gap.map(|(gap, weights)| gap.convergence(weights));
        of_gap.or(self
            .agreement
            .map(|agreement| match agreement.is_approximate() {
                true => Convergence::Converged,
                false => Convergence::NotConverged,
            }))
    }

    /// Whether predictions with this posterior are worse than those of its mean, or of a constant, or it has no
    /// deviations of its own yet. A posterior that has not converged may predict well near the data.
    pub fn is_unusable(&self) -> bool {
        !self.serious().is_empty()
    }

    /// What is wrong, a sentence each, without capital letters and full stops.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.serious();
        problems.extend(self.earlier.as_ref().and_then(EarlierEpoch::problem));
        problems.extend(self.kl_gap.and_then(|(gap, weights)| {
            let error = gap.standard_error;
            let error = match error.is_finite() {
                true => format!(" ± {error:.1}"),
                false => String::new(),
            };
            let of_factors = match gap.factor_gain {
                Some(gain) if gap.has_poor_factors() => {
                    format!(", of which better factors would gain {gain:.1}")
                }
                _ => String::new(),
            };
            let found = format!(
                "{:.1}{error} nats ({weights} weights){of_factors}",
                gap.nats()
            );
            match gap.convergence(weights) {
                Convergence::Converged => None,
                Convergence::NotConverged if self.is_of_iterates => Some(format!(
                    "estimated KL gap to the best Gaussian of this family, which this method does not seek: {found}; \
                     uncertainty far from the data may be underestimated"
                )),
                Convergence::NotConverged => Some(format!(
                    "not converged: estimated KL gap to the best Gaussian of this family: {found}; uncertainty far from the \
                     data may be underestimated; train longer"
                )),
                Convergence::Undetermined if !error.is_empty() => Some(format!(
                    "convergence undetermined: estimated KL gap to the best Gaussian of this family: {found}; more pairs of \
                     draws tell, by `ConvergenceTest::with_most_pairs`"
                )),
                Convergence::Undetermined => Some(format!(
                    "convergence undetermined: the deviations of {} of {weights} weights are smaller than the rounding of the \
                     weights",
                    gap.undetermined
                )),
            }
        }));
        let apart = self
            .agreement
            .filter(|agreement| !agreement.is_approximate() && agreement.median <= FAR_APART);
        problems.extend(apart.map(|agreement| agreement.to_string()));
        problems.extend(self.is_uncompared.then(|| {
            "convergence unknown: only chains that are compared with others show it; sample at least two, of predictions \
             that are finite"
                .to_owned()
        }));
        problems.extend(self.of_training.iter().cloned());
        let has_far_scale = !self.far_scales.is_empty();
        if problems.is_empty() && has_far_scale && self.is_no_better_than_constant() {
            problems.push("the predictions are not surely better than a constant".to_owned());
        }
        if !problems.is_empty() {
            let scales = self.far_scales.iter();
            problems.extend(scales.map(|scale| format!("likely cause: {scale}")));
        }
        problems
    }

    fn is_no_better_than_constant(&self) -> bool {
        let validation = self.validation.as_ref();
        validation.is_some_and(|found| !found.is_better_than_constant())
    }

    /// Whether anything was compared.
    fn is_judged(&self) -> bool {
        let validation = self.validation.as_ref();
        let has_rows = validation.is_some_and(|found| found.rows() >= FEWEST_ROWS);
        has_rows || self.draws.is_some() || self.kl_gap.is_some() || self.agreement.is_some()
    }

    /// The problems that make predictions unusable.
    fn serious(&self) -> Vec<String> {
        let unfinished = self.is_unfinished.then(|| {
            "the training ended in its first stage, in which only the mean learns: the deviations are the initial ones; \
             train longer, or set a shorter `mean_stage`"
                .to_owned()
        });
        let agreement = self.agreement;
        let chains_agree = agreement.is_some_and(|agreement| agreement.is_approximate());
        let validation = self
            .validation
            .iter()
            .flat_map(|validation| validation.problems(chains_agree));
        let validation: Vec<String> = validation.collect();
        let judged = self.validation.iter();
        let is_fine = validation.is_empty()
            && judged.map(ValidationComparison::rows).sum::<u64>() >= FEWEST_ROWS;
        let draws = self.draws.as_ref().filter(|_| !is_fine);
        let draws = draws.and_then(LossAtDraws::problem);
        let apart = agreement.filter(|agreement| agreement.median > FAR_APART);
        let apart =
            apart.map(|agreement| format!("chains are nowhere near each other: {agreement}"));
        unfinished
            .into_iter()
            .chain(validation)
            .chain(draws)
            .chain(apart)
            .collect()
    }

    /// Logs a warning for everything that makes predictions unusable.
    pub(crate) fn warn(&self) {
        for problem in self.serious() {
            log::warn!("this fit should not be used: {problem}");
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems();
        match (self.agreement, self.kl_gap) {
            _ if !problems.is_empty() => f.write_str(&problems.join("; ")),
            (Some(agreement), _) => write!(f, "{agreement}; no problem was found"),
            (None, Some((gap, _))) => {
                let deviations = match gap.factor_gain {
                    Some(_) => ", the deviations and the factors",
                    None => " and the deviations",
                };
                write!(f, "the mean{deviations} of the weights have converged, and no problem was found")
            }
            (None, None) if self.is_judged() => f.write_str("no problem was found"),
            (None, None) => f.write_str(
                "not judged: no losses of rows were compared; validate with a model whose output has them, as that of \
                 `Supervised`, or add a `ConvergenceTest`",
            ),
        }?;
        if problems.is_empty() {
            for scale in &self.far_scales {
                write!(f, "; {scale}")?;
            }
        }
        if let Some(precision) = self.prior_precision {
            write!(
                f,
                "; the precision of the prior is {precision}, because a smaller one predicts the validation rows worse"
            )?;
        }
        match self.copies {
            Some(copies) => write!(
                f,
                "; with more weights than rows, rows and prior count {copies:.1} times: uncertainty far from the data is \
                 underestimated"
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(values: &[f64]) -> PairedDifference {
        let mut difference = PairedDifference::default();
        difference.add(values.iter().copied());
        difference
    }

    #[test]
    fn a_difference_is_judged_by_two_standard_errors() {
        // The standard error of the mean of −1, 0, …, 4 is √(3.5/6).
        let shifted = |shift: f64| differences(&[-1.0, 0.0, 1.0, 2.0, 3.0, 4.0].map(|v| v + shift));
        let known = shifted(0.0);
        assert!((known.mean() - 1.5).abs() < 1e-12);
        assert!((known.standard_error() - (3.5_f64 / 6.0).sqrt()).abs() < 1e-12);
        assert!(!known.is_worse() && shifted(0.1).is_worse());
        assert!(!differences(&[1.0; 4]).is_worse() && differences(&[1.0; 5]).is_worse());
        assert!(!differences(&[0.0; 9]).is_worse() && !differences(&[-1.0; 9]).is_worse());
        for not_finite in [f64::NAN, f64::INFINITY] {
            assert!(differences(&[0.0, 0.0, 0.0, 0.0, not_finite]).is_worse());
        }
    }

    fn losses(at_mean: f64, at_draws: f64, constant: Option<f64>) -> LossAtDraws {
        LossAtDraws {
            at_mean,
            since_best_epoch: 0.0,
            at_draws,
            standard_error: 0.01,
            draws: 4,
            rows: 800,
            constant,
            train_len: 800,
            weights: 20_000,
        }
    }

    #[test]
    fn an_exact_posterior_of_few_weights_destroys_nothing() {
        // ½χ² of six degrees of freedom, on average over four draws: its mean, and four standard deviations more.
        let of_nats = |nats: f64, rows: usize| LossAtDraws {
            standard_error: 1e-4,
            rows,
            train_len: 120,
            weights: 6,
            ..losses(0.5, 0.5 + nats / 120.0, None)
        };
        assert!(!of_nats(3.0, 120).is_destroyed() && !of_nats(6.5, 120).is_destroyed());
        assert!(of_nats(9.0, 120).is_destroyed());
        // Those of a tenth of the rows are less certain.
        assert!(!of_nats(9.0, 12).is_destroyed() && of_nats(19.0, 12).is_destroyed());
    }

    #[test]
    fn draws_that_lose_what_the_mean_has_learned_destroy_the_fit() {
        let ten = Some(10_f64.ln());
        assert!(losses(0.01, 2.3, ten).is_destroyed());
        assert!(losses(0.01, 1.3, ten).is_destroyed());
        assert!(!losses(0.01, 0.2, ten).is_destroyed());
        // Nothing was learned, and nothing is lost.
        assert!(!losses(2.3, 2.31, ten).is_destroyed());
        // A nat per weight are 25 nats per row.
        assert!(
            !losses(0.01, 24.0, None).is_destroyed() && losses(0.01, 26.0, None).is_destroyed()
        );
        assert!(losses(0.01, f64::NAN, ten).is_destroyed());
        assert!(losses(0.01, f64::INFINITY, None).is_destroyed());
        assert!(losses(f64::NAN, 0.1, ten).is_destroyed());
    }

    #[test]
    fn a_training_that_diverged_is_compared_with_its_best_epoch() {
        let diverged = LossAtDraws {
            since_best_epoch: 2.25,
            ..losses(2.3, 2.3, Some(10_f64.ln()))
        };
        assert!(diverged.is_destroyed());
        let problem = diverged.problem().unwrap();
        assert!(problem.contains("0.050 in the best epoch"), "{problem}");
        let not_finite = LossAtDraws {
            since_best_epoch: f64::NAN,
            ..losses(0.1, 0.1, None)
        };
        assert!(not_finite.is_destroyed());
    }

    #[test]
    fn a_verdict_says_what_is_wrong() {
        let unknown = Verdict::default();
        assert!(!unknown.is_unusable() && unknown.problems().is_empty());
        assert!(unknown.to_string().starts_with("not judged"), "{unknown}");
        let fine = unknown.with_draws(losses(0.01, 0.02, None));
        assert_eq!(fine.to_string(), "no problem was found");

        let mut validation = ValidationComparison::new(7, Reference::Mean);
        let (average, mean) = ([2.3; 20], [0.05; 20]);
        validation.add(&average, &mean);
        add_classes(&mut validation.classes, (0..20).map(|row| row % 2));
        let unfinished = Verdict {
            is_unfinished: true,
            validation: Some(validation),
            ..Verdict::default()
        };
        let verdict = unfinished.with_draws(losses(0.01, 2.3, Some(2.3)));
        assert!(verdict.is_unusable());
        let problems = verdict.problems();
        for (problem, part) in problems.iter().zip([
            "first stage",
            "worse than the network with the mean weights, by 2.250 ± 0.000",
            "worse than the frequencies of the classes, by 1.607",
            "destroy the fit",
        ]) {
            assert!(problem.contains(part), "{problem}");
        }
        assert_eq!(problems.len(), 4);

        let gap = KlGap {
            decrement: 0.0,
            scale_gain: 900.0,
            factor_gain: None,
            standard_error: 1.0,
            undetermined: 0,
        };
        let far = Verdict {
            copies: Some(16.7),
            ..Verdict::default().with_kl_gap(gap, 1_000)
        };
        let of_iterates = Verdict {
            is_of_iterates: true,
            ..far.clone()
        };
        let [far, of_iterates] = [far, of_iterates].map(|verdict| verdict.to_string());
        assert!(
            far.contains("; train longer; with more weights than rows"),
            "{far}"
        );
        assert!(far.contains("count 16.7 times"), "{far}");
        assert!(of_iterates.contains("does not seek"), "{of_iterates}");
        assert!(!of_iterates.contains("train longer"), "{of_iterates}");

        let mut validation = ValidationComparison::new(7, Reference::FirstDraw);
        validation.add(&[1.5; 20], &[1.6; 20]);
        assert!(validation.problems(false).is_empty());
        let mut worse = ValidationComparison::new(7, Reference::FirstDraw);
        worse.add(&[1.6; 20], &[1.5; 20]);
        assert_eq!(worse.problems(false).len(), 1);
        // Chains that agree are samples, of which one may be better by chance.
        assert!(worse.problems(true).is_empty());
        assert!(
            validation
                .clone()
                .with_constant(Some(1.6))
                .problems(false)
                .is_empty()
        );
        let problems = validation.with_constant(Some(1.4)).problems(false);
        assert!(
            problems[0].contains("worse than a constant"),
            "{problems:?}"
        );
    }

    /// The tail of a few losses is as wide as their mean, but nobody who is right is that surprised.
    #[test]
    fn a_few_rows_that_were_ruled_out_are_enough() {
        let judged = |losses: &[f64]| {
            let mut found = ValidationComparison::new(7, Reference::Mean);
            found.add(losses, losses);
            found
                .surprise
                .add(losses.iter().map(|loss| 0.5 * loss.exp()));
            add_classes(&mut found.classes, (0..losses.len()).map(|row| row % 2));
            found.problems(false)
        };
        let ruled_out = |count: usize, loss: f64| {
            let mut losses = [1e-9; 40];
            losses[..count].fill(loss);
            losses
        };
        let problems = judged(&ruled_out(3, 15.0));
        assert!(problems[0].contains("by 0.432 nats"), "{problems:?}");
        assert!(problems[0].contains("too certain"), "{problems:?}");
        // Fewer are better than a constant, and rarer ones happen to those who are right.
        assert!(judged(&ruled_out(1, 15.0)).is_empty());
        assert!(judged(&ruled_out(6, 5.0)).is_empty());
    }
}
