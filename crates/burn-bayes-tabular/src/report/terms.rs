//! Definitions of technical terms, which the templates show at headers and names of rows.

use crate::scores::ScoreSpec;

/// Names and meanings of what is no score of its own.
const TERMS: [(&str, &str); 18] = [
    (
        "AUGRC",
        "Area under the generalised risk–coverage curve: the fraction of all rows that are kept and wrong, averaged over \
         all fractions of rows kept; lower is better.",
    ),
    (
        "AURC",
        "Area under the risk–coverage curve: the error of the kept rows, averaged over all fractions of rows kept; lower is better.",
    ),
    (
        "bootstrap",
        "The uncertainty of a score, from recomputing it on rows drawn at random with replacement.",
    ),
    (
        "coverage",
        "The fraction of targets inside their sets or intervals.",
    ),
    (
        "difference in NLL",
        "The negative log-likelihood of the fit minus that of the other model; below zero, the fit is better.",
    ),
    (
        "disagreement",
        "How much the predictions of different draws of the weights differ; a sign of epistemic uncertainty.",
    ),
    (
        "E-AURC",
        "AURC minus the smallest AURC that any ranking of the rows could reach; lower is better.",
    ),
    (
        "entropy",
        "How undecided the class probabilities are, in nats: 0 for certainty, and the most if all classes are equally probable.",
    ),
    (
        "epistemic part",
        "The uncertainty about the model itself, which more training rows reduce: the standard deviation of the means over draws of the weights.",
    ),
    (
        "F1",
        "The harmonic mean of precision and recall; higher is better.",
    ),
    (
        "least confidence",
        "One minus the probability of the predicted class.",
    ),
    (
        "mutual information",
        "The part of the entropy that comes from the disagreement between draws, and that more training rows would reduce.",
    ),
    (
        "NLL",
        "Negative log-likelihood: minus the logarithm of the probability that was predicted for what then happened; lower is better, \
         and confident errors cost most.",
    ),
    (
        "p-value",
        "The probability of a difference at least as large as the observed one if there is no true difference; small values are evidence of a difference.",
    ),
    (
        "precision",
        "The fraction of the rows predicted as the class that are of it.",
    ),
    (
        "recall",
        "The fraction of the rows of the class that are predicted as it.",
    ),
    (
        "standard error",
        "The standard deviation of an estimate: how far chance alone moves it.",
    ),
    (
        "surprise, nats",
        "The negative log-likelihood of the row; 0.69 nats are the surprise of a fair coin.",
    ),
];

/// The meaning of a name, which may be the title of a score; `None` if it needs none.
pub(super) fn meaning(name: &str) -> Option<&'static str> {
    let term = TERMS.iter().find(|(term, _)| *term == name);
    let of_score = || {
        let mut scores = ScoreSpec::all().into_iter();
        scores.find(|spec| spec.title.eq_ignore_ascii_case(name))
    };
    term.map(|term| term.1)
        .or_else(|| of_score().map(|spec| spec.meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_in_order_and_have_one_sentence() {
        assert!(TERMS.is_sorted_by(|one, other| one.0.to_lowercase() < other.0.to_lowercase()));
        for (term, meaning) in TERMS {
            assert_eq!(meaning.matches(". ").count(), 0, "{term}");
            assert!(meaning.ends_with('.'), "{term}");
        }
        assert_eq!(meaning("rows"), None);
    }
}
