//! What a paper concludes from its figures, judged by ours.

use serde::Serialize;

use burn_bayes_tabular::scores::Summary;

/// A conclusion and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    pub(crate) claim: String,
    pub(crate) measured: String,
    pub(crate) verdict: Verdict,
}

/// The least number: NaN if one of them is, so that what was not computed is not left out.
pub(crate) fn least_of(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    numbers.into_iter().reduce(|one, other| {
        if one < other || one.is_nan() {
            one
        } else {
            other
        }
    })
}

/// Whether a conclusion holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Holds,
    Fails,
    /// Not all that it is about was computed.
    Open,
}

impl Verdict {
    /// As people read it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "does not hold",
            Self::Open => "not measured",
        }
    }
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }
}

impl Finding {
    /// Every value is below the one before.
    pub(crate) fn falling(claim: impl Into<String>, values: &[Option<f64>]) -> Self {
        let claim = claim.into();
        let Some(values) = values.iter().copied().collect::<Option<Vec<f64>>>() else {
            return Self::open(claim);
        };
        let shown: Vec<String> = values.iter().copied().map(significant).collect();
        Self {
            claim,
            measured: shown.join(", "),
            verdict: values.is_sorted_by(|before, after| before > after).into(),
        }
    }

    /// No mean is below the one before by more than its standard error, and the last is above the first.
    pub(crate) fn rising(claim: impl Into<String>, means: &[Option<Summary>]) -> Self {
        let claim = claim.into();
        let Some(means) = means.iter().copied().collect::<Option<Vec<_>>>() else {
            return Self::open(claim);
        };
        let shown = means.iter().map(|summary| significant(summary.mean));
        let rises = means.windows(2).all(|pair| {
            let allowed = pair[1].standard_error.unwrap_or(0.0);
            pair[1].mean >= pair[0].mean - allowed
        });
        let ends = means.first().zip(means.last());
        let ends_above = ends.is_some_and(|(first, last)| last.mean > first.mean);
        Self {
            claim,
            measured: shown.collect::<Vec<_>>().join(", "),
            verdict: (rises && ends_above).into(),
        }
    }

    /// In every pair (ours, bound) ours is at or below the bound.
    pub(crate) fn at_most(claim: impl Into<String>, pairs: &[(Option<f64>, f64)]) -> Self {
        let claim = claim.into();
        let measured = pairs.iter().map(|&(ours, bound)| Some((ours?, bound)));
        let Some(measured) = measured.collect::<Option<Vec<_>>>() else {
            return Self::open(claim);
        };
        let shown: Vec<String> = measured
            .iter()
            .map(|&(ours, bound)| format!("{} against {}", significant(ours), significant(bound)))
            .collect();
        Self {
            claim,
            measured: shown.join(", "),
            verdict: measured.iter().all(|(ours, bound)| ours <= bound).into(),
        }
    }

    /// At least `wanted` of the pairs (ours, theirs) have ours at or below theirs; a pair that was not
    /// measured is left out.
    pub(crate) fn mostly_at_most(
        claim: impl Into<String>,
        wanted: f64,
        pairs: &[Option<(f64, f64)>],
    ) -> Self {
        let claim = claim.into();
        let measured: Vec<_> = pairs.iter().copied().flatten().collect();
        if measured.is_empty() {
            return Self::open(claim);
        }
        let below = measured.iter().filter(|(ours, theirs)| ours <= theirs);
        let (below, all) = (below.count(), measured.len());
        Self {
            claim,
            measured: format!("{below} of {all}"),
            verdict: (below as f64 >= wanted * all as f64).into(),
        }
    }

    fn open(claim: String) -> Self {
        Self {
            claim,
            measured: String::new(),
            verdict: Verdict::Open,
        }
    }
}

/// Four significant digits, without an exponent where numbers are of a readable size.
pub(crate) fn significant(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.1e}");
    }
    let whole = size.log10().floor() as i32 + 1;
    // Distances are published to four decimals.
    let decimals = (4 - whole).clamp(0, 4) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_fails_or_is_open() {
        let verdict = |values: &[Option<f64>]| Finding::falling("order", values).verdict;
        assert_eq!(verdict(&[Some(3.0), Some(2.0), Some(1.0)]), Verdict::Holds);
        assert_eq!(verdict(&[Some(3.0), Some(1.0), Some(1.0)]), Verdict::Fails);
        assert_eq!(verdict(&[Some(3.0), None]), Verdict::Open);
    }

    #[test]
    fn a_rise_may_pause_within_an_error() {
        let verdict = |means: &[(f64, f64)]| {
            let means = means.iter().map(|&(mean, error)| {
                Some(Summary {
                    mean,
                    standard_error: Some(error),
                    runs: 3,
                })
            });
            Finding::rising("rise", &means.collect::<Vec<_>>()).verdict
        };
        assert_eq!(
            verdict(&[(1.0, 0.1), (0.95, 0.1), (2.0, 0.1)]),
            Verdict::Holds
        );
        assert_eq!(
            verdict(&[(1.0, 0.1), (0.85, 0.1), (2.0, 0.1)]),
            Verdict::Fails
        );
        assert_eq!(verdict(&[(1.0, 0.1), (1.0, 0.1)]), Verdict::Fails);
        assert_eq!(Finding::rising("rise", &[None]).verdict, Verdict::Open);
    }

    #[test]
    fn a_share_counts_what_was_measured() {
        let finding = |wanted, pairs: &[_]| Finding::mostly_at_most("share", wanted, pairs);
        let pairs = [Some((1.0, 1.0)), Some((0.5, 1.0)), Some((2.0, 1.0)), None];
        assert_eq!(finding(0.6, &pairs).verdict, Verdict::Holds);
        assert_eq!(finding(0.9, &pairs).verdict, Verdict::Fails);
        assert_eq!(finding(0.9, &pairs).measured, "2 of 3");
        assert_eq!(finding(0.9, &[None]).verdict, Verdict::Open);
    }

    #[test]
    fn every_bound_is_kept_or_the_finding_fails() {
        let finding = |pairs: &[_]| Finding::at_most("bounds", pairs);
        let kept = finding(&[(Some(1.0), 1.0), (Some(-2.5), -2.0)]);
        assert_eq!(kept.verdict, Verdict::Holds);
        assert_eq!(kept.measured, "1.000 against 1.000, -2.500 against -2.000");
        assert_eq!(
            finding(&[(Some(1.0), 2.0), (Some(2.0), 1.0)]).verdict,
            Verdict::Fails
        );
        assert_eq!(
            finding(&[(Some(1.0), 2.0), (None, 1.0)]).verdict,
            Verdict::Open
        );
    }

    #[test]
    fn numbers_have_the_digits_of_the_papers() {
        let shown = [0.00314, 0.5744, 17.25, 332.04, 1946.4, 22_000.0, 0.0, 3e-6].map(significant);
        let expected = [
            "0.0031", "0.5744", "17.25", "332.0", "1946", "22000", "0", "3.0e-6",
        ];
        assert_eq!(shown, expected);
    }
}
