//! Which classes are confused: precision and recall of each class, and the curve of rare ones.

use burn_bayes::eval::{
    BinaryScores, LabelledProbabilities, PrecisionRecall, average_precision, precision_recall,
};
use plotters::prelude::PathElement;
use plotters::style::Color;

use super::confusion::heat_map;
use crate::error::Result;
use crate::order::spread;
use crate::report::chart::{Axis, Figure, Key, SIZE, Sign, keys, line, plane};
use crate::report::palette::SERIES;
use crate::report::section::{Section, Table};
use crate::scores::{ClassScores, ClassificationScores};
use crate::text::{number, optional, rounded_percent, shortened, tick};

/// A class with a smaller fraction of the rows is rare.
const RARE: f64 = 0.1;
/// Maximum number of points of a curve.
const MOST_POINTS: usize = 300;
/// Maximum number of classes in the confusion matrix.
const MOST_COLUMNS: usize = 12;
/// Maximum number of classes in the table of precision and recall.
const MOST_LINES: usize = 40;
const NAME_LENGTH: usize = 24;

/// The section of the classes.
pub(super) fn section(
    scores: &ClassificationScores,
    labelled: &LabelledProbabilities<'_>,
) -> Result<Section> {
    let mut figures = Vec::new();
    figures.extend(heat_map(scores)?);
    figures.extend(rare_classes(scores, labelled)?);
    let mut tables = vec![scores.class_table()];
    tables.extend(confusion_table(scores));
    let text = "Which classes are confused with each other, and how reliable is the prediction of each \
                class?";
    Ok(Section::new("classes", "Classes", text)
        .with_figures(figures)
        .with_tables(tables))
}

impl ClassificationScores {
    /// Precision, recall and F1 as a table of the classes; of many classes, those with the lowest recall.
    #[must_use]
    pub fn class_table(&self) -> Table {
        let mut shown: Vec<&ClassScores> = self.by_class.iter().collect();
        let mut caption = "Precision and recall of each class".to_string();
        if shown.len() > MOST_LINES {
            caption += &format!(
                ", for the {MOST_LINES} classes of {} with the lowest recall",
                shown.len()
            );
            let recall = |scores: &ClassScores| scores.recall.unwrap_or(2.0);
            shown.sort_by(|one, other| recall(one).total_cmp(&recall(other)));
            shown.truncate(MOST_LINES);
        }
        let row = |scores: &ClassScores| {
            vec![
                shortened(&scores.class, NAME_LENGTH),
                scores.rows.to_string(),
                scores.predicted.to_string(),
                optional(scores.precision),
                optional(scores.recall),
                optional(scores.f1),
            ]
        };
        let header = ["class", "rows", "predicted", "precision", "recall", "F1"];
        Table::new(caption, header, shown.into_iter().map(row))
    }
}

/// The confusion matrix, whose numbers the chart has as well; `None` if there are too many classes.
fn confusion_table(scores: &ClassificationScores) -> Option<Table> {
    let names = || {
        scores
            .classes
            .iter()
            .map(|class| shortened(class, NAME_LENGTH))
    };
    let row = |(name, counts): (String, &Vec<usize>)| {
        let counts = counts.iter().map(ToString::to_string);
        [name].into_iter().chain(counts).collect()
    };
    (scores.classes.len() <= MOST_COLUMNS).then(|| {
        Table::new(
            "Confusion matrix: rows of each true class, by predicted class",
            ["true class".to_string()].into_iter().chain(names()),
            names().zip(&scores.confusion).map(row),
        )
        .with_terms(0..1)
        .folded()
    })
}

/// The precision–recall curves of rare classes, the rarest first; `None` if no class is rare.
fn rare_classes(
    scores: &ClassificationScores,
    labelled: &LabelledProbabilities<'_>,
) -> Result<Option<Figure>> {
    let rows = |class: usize| scores.by_class[class].rows;
    let share = |class: usize| rows(class) as f64 / scores.rows as f64;
    let mut rare: Vec<usize> = (0..scores.by_class.len())
        .filter(|&class| rows(class) > 0 && share(class) < RARE)
        .collect();
    rare.sort_by_key(|&class| rows(class));
    rare.truncate(SERIES.len());
    if rare.is_empty() {
        return Ok(None);
    }
    let table = labelled.probabilities();
    let mut curves = Vec::new();
    let mut areas = Vec::new();
    for &class in &rare {
        let probabilities: Vec<f64> = (0..table.rows()).map(|row| table.row(row)[class]).collect();
        let positive: Vec<bool> = labelled.labels().iter().map(|&of| of == class).collect();
        let ranked = BinaryScores::new(&probabilities, &positive)?;
        let points = precision_recall(&ranked);
        curves.push((shortened(&scores.classes[class], 20), stairs(&points)));
        areas.push(format!(
            "{} ({} of the rows): {}",
            shortened(&scores.classes[class], NAME_LENGTH),
            rounded_percent(share(class)),
            number(average_precision(&ranked))
        ));
    }
    let reading = format!(
        "Classes with less than 10 % of the rows, each against all others, as the threshold of its probability decreases from \
         left to right. Accuracy and AUROC look good for a rare class even if most alarms are false; this curve does not. \
         Higher is better; the thin lines are the fraction of rows of the class, which guessing reaches. Average precision: {}.",
        areas.join("; ")
    );
    Figure::draw(
        "precision-recall",
        "Precision and recall of rare classes",
        reading,
        (SIZE.0, SIZE.1 + 60),
        |area| {
            let signs: Vec<Key<'_>> = curves
                .iter()
                .zip(SERIES)
                .map(|((label, _), colour)| Key::new(label, colour, Sign::Line))
                .collect();
            let area = keys(area, &signs)?;
            let percents = |title| Axis::new(title, (0.0, 100.0), tick);
            let mut plane = plane(
                &area,
                &percents("recall: rows found, %"),
                &percents("precision, %"),
            )?;
            for (&class, colour) in rare.iter().zip(SERIES) {
                let guess = [0.0, 100.0].map(|recall| (recall, 100.0 * share(class)));
                let style = colour.mix(0.6).stroke_width(1);
                plane.draw_series([PathElement::new(guess, style)])?;
            }
            for ((_, points), colour) in curves.iter().zip(SERIES).rev() {
                plane.draw_series([PathElement::new(points.clone(), line(colour))])?;
            }
            Ok(())
        },
    )
    .map(Some)
}

/// A curve in percent that is level between two recalls, at the precision of the higher one: the area below it is the
/// average precision.
fn stairs(points: &[PrecisionRecall]) -> Vec<(f64, f64)> {
    let mut found: Vec<PrecisionRecall> = Vec::new();
    for point in points {
        // Of the thresholds with the same recall, the first is the most precise.
        if point.recall > found.last().map_or(0.0, |last| last.recall) {
            found.push(*point);
        }
    }
    let mut curve = Vec::new();
    let mut recall = 0.0;
    for index in spread(found.len(), MOST_POINTS) {
        let point = found[index];
        curve.push((recall, 100.0 * point.precision));
        recall = 100.0 * point.recall;
        curve.push((recall, 100.0 * point.precision));
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_below_the_stairs_is_the_average_precision() {
        let scores: Vec<f64> = (0..40).map(|row| f64::from(row * 23 % 37)).collect();
        let positive: Vec<bool> = (0..40).map(|row| row % 6 == 1).collect();
        let ranked = BinaryScores::new(&scores, &positive).unwrap();
        let curve = stairs(&precision_recall(&ranked));
        assert_eq!((curve[0].0, curve[curve.len() - 1].0), (0.0, 100.0));
        let area: f64 = curve
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0) * pair[1].1)
            .sum();
        assert!((area / 1e4 - average_precision(&ranked)).abs() < 1e-12);
    }
}
