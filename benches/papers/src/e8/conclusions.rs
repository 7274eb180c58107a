//! What E8 is to show, judged by its results.

use crate::findings::Finding;
use crate::results::Results;
use burn_bayes_tabular::predict::Uncertainty;

use super::protocols::{CLOTHING, PLAIN, SETS, VIFA};
use super::scores::{KEPT, detected, kept};

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
    findings
}
