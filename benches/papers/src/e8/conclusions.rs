//! What E8 is to show, judged by its results.

use burn_bayes_tabular::experiments::jobs::Record;
use burn_bayes_tabular::predict::Uncertainty;
use burn_bayes_tabular::scores::Summary;

use crate::findings::{Finding, least_of};
use crate::results::Results;

use super::protocols::{CLOTHING, PLAIN, SETS, VIFA};
use super::residual;
use super::scores::{KEPT, NLL, detected, kept};

pub(super) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for set in &SETS {
        for score in [Uncertainty::Entropy, Uncertainty::Disagreement] {
            let means =
                KEPT.map(|per_cent| results.summary(set.name, VIFA, &kept(score, per_cent)));
            let claim = format!(
                "{}: the accuracy on the rows kept by {} rises from 100 to 50 % kept, within a standard error \
                 at every step",
                set.name,
                score.name()
            );
            findings.push(Finding::rising(claim, &means));
        }
    }
    let area = |method| results.mean(CLOTHING, method, &detected(Uncertainty::Entropy));
    findings.push(Finding::falling(
        "clothing against digits: the AUROC of VIFA's entropy is above the plain network's, which comes second",
        &[area(VIFA), area(PLAIN)],
    ));
    findings.extend(of_residual(results));
    findings
}

/// VIFA beside the plain network, with the paper's ResNet-18.
fn of_residual(results: &Results<'_>) -> Vec<Finding> {
    let kept = kept(Uncertainty::Entropy, 50);
    // The sign of a loss, of which less is better.
    let measures = [
        (NLL, 1.0, "NLL"),
        (&kept, -1.0, "accuracy at 50 % kept by entropy"),
    ];
    let mut findings = Vec::new();
    for (measure, sign, name) in measures {
        let differences = SETS
            .each_ref()
            .map(|set| difference(results, set.name, measure, sign));
        for (set, found) in SETS.iter().zip(&differences) {
            let claim = format!(
                "{}: {name} of VIFA is no worse than the plain network's by more than a standard error of the difference",
                residual::case(set.name)
            );
            let bound = found.map_or(0.0, |found| found.standard_error.unwrap_or_default());
            findings.push(Finding::at_most(
                claim,
                &[(found.map(|found| found.mean), bound)],
            ));
        }
        let upper = |found: &Summary| found.mean + found.standard_error.unwrap_or_default();
        let best = least_of(differences.iter().flatten().map(upper));
        let claim = format!("ResNet-18: {name} of VIFA is better on one set, by a standard error");
        findings.push(Finding::at_most(claim, &[(best, 0.0)]));
    }
    findings
}

/// A measure of VIFA minus that of the plain network, times a sign, over splits.
fn difference(results: &Results<'_>, set: &str, measure: &str, sign: f64) -> Option<Summary> {
    let case = residual::case(set);
    let value = |record: &Record| record.computed.measures.get(measure).copied();
    let of_vifa = results.of(&case, residual::VIFA);
    let differences = of_vifa.filter_map(|vifa| {
        let mut plain = results.of(&case, residual::PLAIN);
        let plain = plain.find(|plain| plain.key.seed == vifa.key.seed)?;
        Some(sign * (value(vifa)? - value(plain)?))
    });
    Summary::of(&differences.collect::<Vec<_>>())
}
