//! A glossary at the end of a page, and links to it from the words.
//!
//! The finished page is searched for the terms, so that no text needs marks. Each term is linked once in each
//! section. Charts, settings, cells of tables and other links stay as they are, and the glossary has only terms that
//! occur.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Where a template has the glossary.
const GLOSSARY_MARK: &str = "<!-- glossary -->";
/// Where a template has the link to the glossary.
const LINK_MARK: &str = "<!-- link to the glossary -->";

/// Elements whose text may have links.
const LINKED: [&str; 6] = ["p", "li", "span", "th", "h3", "figcaption"];
/// Elements whose text has no links.
const UNLINKED: [&str; 10] = [
    "title", "style", "svg", "a", "nav", "h1", "h2", "td", "pre", "code",
];

/// The start of a cell with an explanation, whose text has links.
const EXPLANATION: &str = "td class=\"words\"";

/// A technical term.
#[derive(Debug)]
struct Term {
    /// The anchor, without its prefix.
    id: &'static str,
    name: &'static str,
    /// The words to link. A word in lower case may have a capital first letter; one that starts with `=` must be the whole text.
    words: &'static [&'static str],
    /// One sentence; it must not need escapes.
    meaning: &'static str,
}

const fn term(
    id: &'static str,
    name: &'static str,
    words: &'static [&'static str],
    meaning: &'static str,
) -> Term {
    Term {
        id,
        name,
        words,
        meaning,
    }
}

/// In alphabetical order of names.
const TERMS: [Term; 46] = [
    term(
        "aleatoric",
        "aleatoric uncertainty",
        &["aleatoric", "observation noise"],
        "The noise in the targets themselves, which remains with any number of training rows.",
    ),
    term(
        "augrc",
        "AUGRC",
        &["AUGRC"],
        "Area under the generalised risk–coverage curve: the fraction of all rows that are kept and wrong, averaged over \
         all fractions of rows kept; lower is better.",
    ),
    term(
        "aurc",
        "AURC",
        &["AURC"],
        "Area under the risk–coverage curve: the error of the kept rows, averaged over all fractions of rows kept; lower is better.",
    ),
    term(
        "auroc",
        "AUROC",
        &["AUROC"],
        "Area under the receiver operating characteristic: the probability that a row of the class gets a higher probability \
         of it than a row of another class; 0.5 is guessing and 1 is perfect.",
    ),
    term(
        "ause",
        "AUSE",
        &["AUSE"],
        "Area under the sparsification error curve: how far keeping the rows with the smallest predicted deviation is from keeping \
         those with the smallest errors; 0 is the best order, and about 1 a random one.",
    ),
    term(
        "average-precision",
        "average precision",
        &["average precision"],
        "Area under the precision–recall curve; guessing reaches the fraction of rows of the class, and 1 is perfect.",
    ),
    term(
        "balanced-accuracy",
        "balanced accuracy",
        &["balanced accuracy"],
        "The fraction of rows classified correctly within each true class, averaged over classes, so that rare classes count as much as common ones.",
    ),
    term(
        "bonferroni",
        "Bonferroni correction",
        &["Bonferroni-corrected", "Bonferroni"],
        "P-values are multiplied by the number of tests, because among many tests some look significant by chance.",
    ),
    term(
        "bootstrap",
        "bootstrap",
        &["bootstrap confidence intervals", "bootstrap"],
        "The uncertainty of a score, from recomputing it on rows drawn at random with replacement.",
    ),
    term(
        "brier",
        "Brier score",
        &["Brier score", "Brier"],
        "The mean squared error of the class probabilities; lower is better.",
    ),
    term(
        "calibration",
        "calibration",
        &["calibrated", "calibration"],
        "Stated probabilities agree with observed frequencies: of the cases predicted with 80 %, 80 % happen.",
    ),
    term(
        "confidence",
        "confidence",
        &["confidence"],
        "The probability of the predicted class.",
    ),
    term(
        "confidence-interval",
        "confidence interval",
        &["confidence intervals", "confidence interval"],
        "A range for a quantity that is estimated from few rows; with 95 %, nineteen of twenty such ranges contain the true value.",
    ),
    term(
        "conformal",
        "conformal prediction",
        &[
            "conformal prediction",
            "conformal sets",
            "conformal intervals",
            "conformal",
        ],
        "Sets of classes, or intervals, that contain the true target with a guaranteed probability, calibrated on held-out rows.",
    ),
    term(
        "coverage",
        "coverage",
        &["coverage"],
        "Of intervals, the fraction of targets inside them; of referral, the fraction of rows kept.",
    ),
    term(
        "cross-validation",
        "cross-validation",
        &["cross-validation", "folds"],
        "The rows are divided into folds, and each fold is predicted by a fit to the others, so that every row is scored by a fit that has not seen it.",
    ),
    term(
        "crps",
        "CRPS",
        &["CRPS"],
        "Continuous ranked probability score: the distance between the predicted distribution and the observed value, in \
         the unit of the target; lower is better.",
    ),
    term(
        "disagreement",
        "disagreement",
        &["disagreement"],
        "How much the predictions of different draws of the weights differ; a sign of epistemic uncertainty.",
    ),
    term(
        "draws",
        "draws",
        &["draws of the weights", "weight draws", "draws"],
        "Sets of weights drawn at random from the posterior; each gives a prediction, and the average is the prediction of the model.",
    ),
    term(
        "e-aurc",
        "E-AURC",
        &["E-AURC"],
        "AURC minus the smallest AURC that any ranking of the rows could reach; lower is better.",
    ),
    term(
        "ece",
        "ECE",
        &["ECE", "expected calibration error"],
        "Expected calibration error: the mean distance between confidence and accuracy; lower is better.",
    ),
    term(
        "ensemble",
        "ensemble",
        &["ensemble", "members"],
        "Several fits from different random starts, whose predictions are averaged.",
    ),
    term(
        "entropy",
        "entropy",
        &["predictive entropy", "entropy"],
        "How undecided the class probabilities are, in nats: 0 for certainty, and the most if all classes are equally probable.",
    ),
    term(
        "epistemic",
        "epistemic uncertainty",
        &["epistemic"],
        "The uncertainty about the model itself, which more training rows reduce; it appears as disagreement between draws.",
    ),
    term(
        "epoch",
        "epoch",
        &["epochs", "epoch"],
        "One pass of the training over all training rows.",
    ),
    term(
        "f1",
        "F1",
        &["F1"],
        "The harmonic mean of precision and recall; higher is better.",
    ),
    term(
        "factors",
        "factors",
        &["factors"],
        "Directions in the space of weights along which a low-rank posterior lets many weights vary together; their number is the rank.",
    ),
    term(
        "held-out",
        "held-out rows",
        &["held-out", "validation rows"],
        "Rows that the training did not use, so that their scores show the quality for new rows.",
    ),
    term(
        "least-confidence",
        "least confidence",
        &["least confidence"],
        "One minus the probability of the predicted class.",
    ),
    term(
        "mce",
        "MCE",
        &["MCE"],
        "Maximum calibration error: the largest distance between confidence and accuracy; lower is better.",
    ),
    term(
        "mixture",
        "mixture",
        &["mixtures", "mixture"],
        "The average of several predicted distributions.",
    ),
    term(
        "mutual-information",
        "mutual information",
        &["mutual information"],
        "The part of the entropy that comes from the disagreement between draws, and that more training rows would reduce.",
    ),
    term(
        "nats",
        "nats",
        &["nats"],
        "The unit of information with natural logarithms; 0.69 nats are one bit, the surprise of a fair coin.",
    ),
    term(
        "nll",
        "NLL",
        &["NLL", "negative log-likelihood", "negative log-probability"],
        "Negative log-likelihood: minus the logarithm of the probability that was predicted for what then happened; lower is better, \
         and confident errors cost most.",
    ),
    term(
        "p-value",
        "p-value",
        &["p-values", "p-value"],
        "The probability of a difference at least as large as the observed one if there is no true difference; small values are evidence of a difference.",
    ),
    term(
        "pareto",
        "Pareto k̂",
        &["Pareto k̂"],
        "How far the fitted posterior is from the true one, from importance ratios of its draws; below 0.7 it is close enough to correct by weighting the draws.",
    ),
    term(
        "point-estimate",
        "point estimate",
        &["point estimate"],
        "A fit with one value for each weight and no posterior.",
    ),
    term(
        "posterior",
        "posterior",
        &["posteriors", "posterior"],
        "The distribution of the weights given the training rows: which weights are compatible with them.",
    ),
    term(
        "precision-recall",
        "precision and recall",
        &[
            "precision and recall",
            "precision–recall",
            "=precision",
            "=recall",
        ],
        "Precision is the fraction of the rows predicted as a class that are of it; recall is the fraction of the rows of a class that are predicted as it.",
    ),
    term(
        "prior",
        "prior",
        &["prior"],
        "The distribution of the weights before any training rows.",
    ),
    term(
        "pit",
        "probability integral transform",
        &["probability integral transform"],
        "The predicted probability of a value below the observed one; it is uniform for correct predictions.",
    ),
    term(
        "referral",
        "referral",
        &["referral", "referred"],
        "Passing the most uncertain rows to an expert instead of predicting them.",
    ),
    term(
        "rmse",
        "RMSE",
        &["RMSE"],
        "Root mean squared error, in the unit of the target; lower is better.",
    ),
    term(
        "r-hat",
        "R̂",
        &["R̂"],
        "The spread between repeated runs divided by the spread within a run; near 1, the runs have arrived at the same distribution.",
    ),
    term(
        "standard-error",
        "standard error",
        &["standard errors", "standard error"],
        "The standard deviation of an estimate: how far chance alone moves it.",
    ),
    term(
        "winkler",
        "Winkler score",
        &["Winkler score", "Winkler scores"],
        "The width of an interval plus a penalty for a target outside; a proper score in the unit of the target, lower is better.",
    ),
];

/// The page with links and glossary. A page has opening and closing tags in order, and no stray `<`.
pub(crate) fn with_glossary(page: &str) -> String {
    let mut linker = Linker::default();
    let mut linked = linker.page(page);
    let entry = match linker.used.is_empty() {
        true => "",
        false => "<a href=\"#glossary\">Glossary</a>",
    };
    linked = linked.replace(LINK_MARK, entry);
    linked.replace(GLOSSARY_MARK, &section(&linker.used))
}

/// The glossary of these terms; empty without terms.
fn section(used: &BTreeSet<usize>) -> String {
    if used.is_empty() {
        return String::new();
    }
    let mut text = "<section id=\"glossary\">\n<h2>Glossary</h2>\n<dl>\n".to_string();
    for &index in used {
        let Term {
            id, name, meaning, ..
        } = &TERMS[index];
        // Writing to a string cannot fail.
        let _ = writeln!(text, "<dt id=\"term-{id}\">{name}</dt><dd>{meaning}</dd>");
    }
    text + "</dl>\n</section>"
}

/// Links the words of a page.
#[derive(Debug, Default)]
struct Linker {
    /// The terms linked in this section.
    in_section: BTreeSet<usize>,
    /// The terms linked on the page.
    used: BTreeSet<usize>,
}

impl Linker {
    fn page(&mut self, page: &str) -> String {
        let mut linked = String::with_capacity(page.len() + page.len() / 8);
        let mut open: Vec<&str> = Vec::new();
        let mut rest = page;
        while let Some((text, tail)) = rest.split_once('<') {
            self.push(&mut linked, text, &open);
            let (tag, after) = tail.split_once('>').unwrap_or((tail, ""));
            linked.push('<');
            linked.push_str(tag);
            linked.push('>');
            rest = after;
            if tag.starts_with('/') {
                open.pop();
            } else if !tag.starts_with('!') && !tag.ends_with('/') {
                let name = match tag.starts_with(EXPLANATION) {
                    true => "p",
                    false => tag.split([' ', '\n']).next().unwrap_or(tag),
                };
                if name == "section" {
                    self.in_section.clear();
                }
                open.push(name);
            }
        }
        linked.push_str(rest);
        linked
    }

    fn push(&mut self, linked: &mut String, mut text: &str, open: &[&str]) {
        let is_in = |names: &[&str]| open.iter().any(|name| names.contains(name));
        if !is_in(&UNLINKED) && is_in(&LINKED) {
            while let Some((index, start, end)) = self.next_word(text) {
                let Term { id, meaning, .. } = &TERMS[index];
                let word = &text[start..end];
                linked.push_str(&text[..start]);
                // Writing to a string cannot fail.
                let _ = write!(
                    linked,
                    "<a class=\"term\" href=\"#term-{id}\" title=\"{meaning}\">{word}</a>"
                );
                self.in_section.insert(index);
                self.used.insert(index);
                text = &text[end..];
            }
        }
        linked.push_str(text);
    }

    /// The first term that is not yet linked, with the place of its word; of two at the same place, the longer one.
    fn next_word(&self, text: &str) -> Option<(usize, usize, usize)> {
        let terms = TERMS.iter().enumerate();
        let unlinked = terms.filter(|(index, _)| !self.in_section.contains(index));
        let words =
            unlinked.flat_map(|(index, term)| term.words.iter().map(move |word| (index, *word)));
        words
            .filter_map(|(index, word)| {
                let (start, end) = find(text, word)?;
                Some((index, start, end))
            })
            .min_by_key(|&(_, start, end)| (start, usize::MAX - end))
    }
}

/// The first place of a word.
fn find(text: &str, word: &str) -> Option<(usize, usize)> {
    if let Some(whole) = word.strip_prefix('=') {
        return (text == whole).then_some((0, text.len()));
    }
    let found = |word: &str| {
        let places = text.match_indices(word);
        places
            .map(|(start, _)| (start, start + word.len()))
            .find(|&(start, end)| {
                let is_part = |letter: char| letter.is_alphanumeric() || "-–&".contains(letter);
                !text[..start].ends_with(is_part) && !text[end..].starts_with(is_part)
            })
    };
    let capital = crate::text::sentence(word);
    [found(word), found(&capital)].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_in_order_and_need_no_escapes() {
        let name = |term: &Term| term.name.to_lowercase();
        assert!(TERMS.is_sorted_by(|one, other| name(one) < name(other)));
        let ids: BTreeSet<&str> = TERMS.iter().map(|term| term.id).collect();
        assert_eq!(ids.len(), TERMS.len());
        for term in &TERMS {
            let forbidden = ['<', '>', '&', '"'];
            assert!(!term.meaning.contains(forbidden), "{}", term.id);
            assert_eq!(term.meaning.matches(". ").count(), 0, "{}", term.id);
            assert!(term.meaning.ends_with('.'), "{}", term.id);
        }
    }

    #[test]
    fn words_are_linked_once_in_each_section() {
        let page = "<nav><!-- link to the glossary --></nav><section><h2>NLL</h2><p>NLL and NLL, E-AURC</p><td>nats</td>\
                    <td class=\"words\">in entropy</td></section><section><p>The <b>NLL</b></p></section><!-- glossary -->";
        let linked = with_glossary(page);
        assert_eq!(linked.matches("href=\"#term-nll\"").count(), 2, "{linked}");
        assert_eq!(linked.matches("href=\"#term-e-aurc\"").count(), 1);
        assert_eq!(linked.matches("href=\"#term-aurc\"").count(), 0);
        assert!(linked.contains("<h2>NLL</h2>") && linked.contains("<td>nats</td>"));
        assert!(linked.contains("</a> and NLL, "), "{linked}");
        assert!(linked.contains("<nav><a href=\"#glossary\">Glossary</a></nav>"));
        assert_eq!(linked.matches("href=\"#term-entropy\"").count(), 1);
        assert_eq!(linked.matches("<dt id=").count(), 3);
        assert_eq!(
            with_glossary("<p>words</p><!-- glossary -->"),
            "<p>words</p>"
        );
    }

    #[test]
    fn only_whole_words_are_terms() {
        assert_eq!(find("prior", "prior"), Some((0, 5)));
        assert_eq!(find("Prior: a", "prior"), Some((0, 5)));
        assert_eq!(find("priority, a prior", "prior"), Some((12, 17)));
        assert_eq!(find("precision", "=precision"), Some((0, 9)));
        assert_eq!(find("noise precision", "=precision"), None);
        assert_eq!(find("nLL", "NLL"), None);
    }
}
