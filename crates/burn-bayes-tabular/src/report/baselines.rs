//! The section about plain models.

use super::section::{Section, Table};
use crate::scores::{Baseline, Scores};
use crate::text::{number, sentence};

/// The scores of the fit beside those of plain models; `None` if there are none.
pub(crate) fn section(baselines: &[Baseline], scores: &Scores) -> Option<Section> {
    if baselines.is_empty() {
        return None;
    }
    let (nll, error, name) = scores.headline();
    let shown = |value: Option<f64>| value.map_or_else(|| "–".into(), number);
    let fit = vec!["This fit".into(), shown(nll), shown(error), "–".into()];
    let rows = baselines.iter().map(|baseline| {
        let name = sentence(baseline.name);
        match (&baseline.scores, &baseline.absent) {
            (Some(scores), _) => vec![
                name,
                number(scores.nll),
                number(scores.error),
                scores.shown_difference(),
            ],
            (None, absent) => {
                let reason = absent.as_deref().unwrap_or("not compared");
                vec![name, "–".into(), "–".into(), reason.into()]
            }
        }
    });
    let text = "A fit that is not better than these is not worth its uncertainty. The difference is the \
                NLL of the fit minus that of the plain model, with its standard error over rows: below \
                zero, the fit is better.";
    let table = Table::new(
        "Held-out scores beside plain models",
        ["model", "NLL", name, "difference in NLL"],
        [fit].into_iter().chain(rows),
    );
    Some(Section::new("baselines", "Plain models", text).with_tables(vec![table]))
}
