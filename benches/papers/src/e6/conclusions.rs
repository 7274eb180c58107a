//! What E6 is to show, judged by its results.

use crate::experiment::Effort;
use crate::findings::{Finding, least_of};
use crate::results::Results;
use burn_bayes_tabular::scores::DIVERGED;

use super::mixtures::MIXTURES;
use super::protocols::{
    CONSTANT, MEAN_FIELD, PLAIN, SLANG, SLANG_UNTUNED, VIFA, VIFA_DEFAULTS, label,
};
use super::sets::{SETS, Set};
use super::{NLL, RMSE};

/// Ours that compete with the best published ones.
const BAYESIAN: [&str; 5] = [MEAN_FIELD, VIFA_DEFAULTS, VIFA, SLANG_UNTUNED, SLANG];

/// The least published NLL of each set that we know.
const LEAST_PUBLISHED: [(&str, f64); 8] = [
    ("boston", 2.40),
    ("concrete", 2.89),
    ("energy", 0.61),
    ("yacht", 0.73),
    ("kin8nm", -1.28),
    ("naval", -4.76),
    ("power", 2.58),
    ("wine", 0.928),
];

pub(super) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let groups = results.groups();
    let has = |set: &Set, names: &[&str], effort| {
        let labels: Vec<_> = names.iter().map(|name| label(name, effort)).collect();
        groups
            .iter()
            .any(|(case, method)| *case == set.name && labels.iter().any(|label| label == method))
    };
    let mut findings = Vec::new();
    for set in &SETS {
        if has(set, &BAYESIAN, Effort::Full) {
            findings.extend(beside_the_papers(set, results));
        }
    }
    for (case, least) in LEAST_PUBLISHED {
        let ours = MIXTURES.map(|method| results.mean(case, method, NLL));
        if let Some(ours) = least_of(ours.into_iter().flatten()) {
            findings.push(Finding::at_most(
                format!("{case}: a mixture has an NLL of at most the least published one"),
                &[(Some(ours), least)],
            ));
        }
    }
    for effort in [Effort::Full, Effort::Quick] {
        let sets = SETS.iter().filter(|set| has(set, &[VIFA_DEFAULTS], effort));
        let sets: Vec<&Set> = sets.collect();
        findings.extend(
            sets.iter()
                .map(|set| something_learnt(set, results, effort)),
        );
        if !sets.is_empty() {
            findings.extend(worth_having(&sets, results, effort));
        }
        for name in BAYESIAN {
            let label = label(name, effort);
            if groups.iter().any(|(_, method)| *method == label) {
                findings.push(none_diverged(&label, results));
            }
        }
    }
    findings
}

fn beside_the_papers(set: &Set, results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let case = set.name;
    let ours = |method: &str, measure| results.mean(case, method, measure);
    let published = |method, measure| Some(results.published.figure(case, method, measure)?.value);
    if let Some((rmse, nll)) = published(VIFA, RMSE).zip(published(VIFA, NLL)) {
        findings.push(Finding::at_most(
            format!("{case}: VIFA is better than the paper's VIFA in RMSE and NLL"),
            &[(ours(VIFA, RMSE), rmse), (ours(VIFA, NLL), nll)],
        ));
    }
    for measure in [RMSE, NLL] {
        if let Some(theirs) = published(SLANG, measure) {
            let means = BAYESIAN.iter().filter_map(|method| {
                let mean = ours(method, measure)?;
                Some((*method, mean))
            });
            let best =
                means.min_by(|(_, a), (_, b)| b.is_nan().cmp(&a.is_nan()).then(a.total_cmp(b)));
            let name = best.map_or("ours", |(method, _)| method);
            findings.push(Finding::at_most(
                format!("{case}: the best of ours in {measure} ({name}) reaches the SLANG paper's"),
                &[(best.map(|(_, mean)| mean), theirs)],
            ));
        }
    }
    if let Some(wanted) = set.untuned_rmse {
        findings.push(Finding::at_most(
            format!("{case}: SLANG without a search has an RMSE of at most {wanted}"),
            &[(ours(SLANG_UNTUNED, RMSE), wanted)],
        ));
    }
    findings
}

fn something_learnt(set: &Set, results: &Results<'_>, effort: Effort) -> Finding {
    let case = set.name;
    let nll = |name: &str| results.mean(case, &label(name, effort), NLL);
    Finding::falling(
        format!("{case}: VIFA's defaults have a lower NLL than the constant"),
        &[nll(CONSTANT), nll(VIFA_DEFAULTS)],
    )
}

fn worth_having(sets: &[&Set], results: &Results<'_>, effort: Effort) -> [Finding; 2] {
    let mean = |name: &str, measure: &str, of: fn(f64) -> f64| {
        let label = label(name, effort);
        let values = sets
            .iter()
            .map(|set| results.mean(set.name, &label, measure));
        let values = values.collect::<Option<Vec<f64>>>()?;
        Some(values.into_iter().map(of).sum::<f64>() / sets.len() as f64)
    };
    // Errors are in different units.
    let rmse = |name| Some(mean(name, RMSE, f64::ln)?.exp());
    let nll = |name| mean(name, NLL, |nll| nll);
    [
        Finding::falling(
            "over all sets the geometric mean RMSE falls from the plain network to VIFA's defaults",
            &[rmse(PLAIN), rmse(VIFA_DEFAULTS)],
        ),
        Finding::falling(
            "over all sets the mean NLL falls from the plain network to SLANG without a search",
            &[nll(PLAIN), nll(SLANG_UNTUNED)],
        ),
    ]
}

fn none_diverged(method: &str, results: &Results<'_>) -> Finding {
    let cases = SETS
        .iter()
        .filter_map(|set| results.summary(set.name, method, DIVERGED));
    let (diverged, runs) = cases.fold((0.0, 0), |(diverged, runs), summary| {
        (
            diverged + summary.mean * summary.runs as f64,
            runs + summary.runs,
        )
    });
    Finding {
        claim: format!("{method}: no run diverged"),
        measured: format!("{diverged:.0} of {runs}"),
        verdict: (diverged.round() == 0.0).into(),
    }
}
