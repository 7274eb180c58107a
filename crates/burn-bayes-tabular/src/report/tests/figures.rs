//! The charts and tables of classes, groups and single rows.

use burn_bayes::eval::{LabelledProbabilities, log_losses, predictive_entropy};
use burn_bayes_data::{Column, Targets};

use super::{checked, written};
use crate::predict::{ClassPredictions, Predictions, RealPredictions};
use crate::report::testing::{Sample, classification, regression};
use crate::rows::RowInputs;
use crate::scores::Scores;
use crate::text::number;

/// A hundred rows: five of the class `rare`, whose probability ranks two of them behind three others.
fn with_rare_class() -> Sample {
    let mut probabilities = Vec::new();
    let mut labels = Vec::new();
    for row in 0..100 {
        labels.push(match row {
            0..5 => 0,
            5..50 => 1,
            _ => 2,
        });
        let rare = match row {
            0..3 => 0.6,
            3..5 => 0.2,
            5..8 => 0.3,
            _ => 0.1,
        };
        let second = if row % 10 < 5 { 0.7 } else { 0.2 };
        probabilities.extend([rare, (1.0 - rare) * second, (1.0 - rare) * (1.0 - second)]);
    }
    let predictions = ClassPredictions::new(
        ["rare <one>", "b", "c"].map(String::from).to_vec(),
        1,
        probabilities,
    );
    Sample::new(
        "kind",
        Predictions::Classes(predictions),
        Targets::Classes(labels),
    )
}

/// The cells of the row of a table that starts with this header cell.
pub(super) fn cells(page: &str, caption: &str, first: &str) -> Vec<String> {
    let (_, table) = page.split_once(caption).expect(caption);
    let (table, _) = table.split_once("</table>").unwrap();
    let start = format!("<th scope=\"row\">{first}</th>");
    let (_, row) = table.split_once(&start).expect(first);
    let (row, _) = row.split_once("</tr>").unwrap();
    let cells = row.split("<td>").skip(1);
    cells.map(|cell| cell.replace("</td>", "")).collect()
}

#[test]
fn a_rare_class_has_a_curve_and_its_average_precision() {
    let sample = with_rare_class();
    let (_, drawings) = written(&sample);
    let page = checked(&sample);
    assert!(
        drawings
            .iter()
            .any(|(name, _)| name == "precision-recall.svg")
    );
    // Three positives, three negatives, then two positives among two.
    let average_precision = (3.0 + 2.0 * (5.0 / 8.0)) / 5.0;
    let area = format!("(5\u{a0}% of the rows): {}", number(average_precision));
    assert!(page.contains(&area), "{area}");
    let common = classification(&["a", "b", "c"], 300, 3);
    let (_, drawings) = written(&common);
    assert!(
        !drawings
            .iter()
            .any(|(name, _)| name == "precision-recall.svg")
    );
}

#[test]
fn the_rates_of_classes_are_those_of_the_scores() {
    let sample = with_rare_class();
    let (_, drawings) = written(&sample);
    let page = checked(&sample);
    let Scores::Classification(scores) = &sample.scores else {
        unreachable!()
    };
    let hits = scores.confusion[0][0];
    let predicted: usize = scores.confusion.iter().map(|counts| counts[0]).sum();
    assert!(hits > 0 && predicted >= hits);
    let found = cells(
        &page,
        "Precision and recall of each class",
        "rare &#60;one&#62;",
    );
    let expected = [
        "5".to_string(),
        predicted.to_string(),
        number(hits as f64 / predicted as f64),
        number(hits as f64 / 5.0),
        number(2.0 * hits as f64 / (5 + predicted) as f64),
    ];
    assert_eq!(found, expected);
    // The map has the same counts.
    let (_, map) = drawings
        .iter()
        .find(|(name, _)| name == "confusion.svg")
        .unwrap();
    let count = scores.confusion[1][2];
    assert!(map.contains(&format!("\n{count}\n")), "{count}");
}

#[test]
fn single_rows_are_the_least_certain_and_the_most_surprising_ones() {
    let sample = classification(&["a", "b", "c"], 200, 5).with_inputs();
    let page = checked(&sample);
    let (Predictions::Classes(predictions), Targets::Classes(labels)) =
        (&sample.predictions, &sample.targets)
    else {
        unreachable!()
    };
    let draws = predictions.checked().unwrap();
    let average = draws.average();
    let largest = |values: &[f64]| {
        let rows = 0..values.len();
        rows.max_by(|&one, &other| values[one].total_cmp(&values[other]))
            .unwrap()
    };
    let entropies = predictive_entropy(&average);
    let row = largest(&entropies);
    let found = cells(&page, "The 20 least certain rows", &(row + 1).to_string());
    assert_eq!(found[2], number(entropies[row]));
    let town = ["Oslo", "Rome &#60;b&#62;", "–"][row % 3];
    assert_eq!(found[5..], [labels[row].to_string(), town.to_string()]);

    let losses = log_losses(&LabelledProbabilities::new(&average, labels).unwrap());
    let row = largest(&losses);
    let found = cells(&page, "greatest surprises", &(row + 1).to_string());
    assert_eq!(found[4], number(losses[row]));
    let probability: f64 = average.row(row)[labels[row]];
    assert!((losses[row] + probability.ln()).abs() < 1e-12);
}

#[test]
fn an_impossible_row_is_an_infinite_surprise() {
    let certain = ClassPredictions::new(vec!["a".into(), "b".into()], 1, vec![1.0, 0.0, 0.0, 1.0]);
    let truth = Targets::Classes(vec![1, 1]);
    let sample = Sample::new("y", Predictions::Classes(certain), truth).with_inputs();
    let page = checked(&sample);
    assert_eq!(cells(&page, "greatest surprises", "1")[4], "∞");
    assert!(page.contains("All rows have the same entropy."));
}

#[test]
fn of_many_inputs_the_relevant_ones_are_shown() {
    let mut sample = regression(200, 5);
    let Targets::Real(targets) = &sample.targets else {
        unreachable!()
    };
    let constant = |index: usize| Column::numbers(format!("constant {index}"), vec![1.0; 200]);
    let mut columns: Vec<Column> = (0..30).map(constant).collect();
    columns.push(Column::numbers(
        "doubled",
        targets.iter().map(|y| 2.0 * y).collect(),
    ));
    sample.inputs = Some(RowInputs::of_columns(columns));
    let page = checked(&sample);
    assert!(page.contains("Of 31 inputs, the tables show the 12"));
    assert!(page.contains("<th scope=\"col\">doubled</th>"));
    assert!(!page.contains("<th scope=\"col\">constant 11</th>"));
}

#[test]
fn coverage_is_shown_by_width_and_input() {
    let sample = regression(400, 30).with_inputs();
    let page = checked(&sample);
    let caption = "Fraction of targets inside their intervals";
    let (_, table) = page.split_once(caption).unwrap();
    let (table, _) = table.split_once("</tbody>").unwrap();
    let rows = |quantity: &str| {
        let rows = table.split("<th scope=\"row\"").skip(1);
        let rows = rows.filter_map(|row| Some(row.split_once('>')?.1));
        let rows = rows.filter(|row| row.starts_with(quantity));
        rows.map(str::to_string).collect::<Vec<_>>()
    };
    let widths = rows("width at 90\u{a0}%: ");
    assert_eq!(widths.len(), 4);
    assert!(widths.iter().all(|row| row.contains("<td>100</td>")));
    // The numbers of rows add up, whatever the ties of ages.
    let counts = rows("age: ").into_iter().map(|row| {
        let (_, count) = row.split_once("<td>").unwrap();
        count.split_once('<').unwrap().0.parse::<usize>().unwrap()
    });
    assert_eq!(counts.sum::<usize>(), 400);
}

#[test]
fn intervals_of_one_width_are_one_group() {
    let means: Vec<f64> = (0..40).map(f64::from).collect();
    let point = RealPredictions::new(0.5, 1, means.clone());
    let sample = Sample::new("y", Predictions::Reals(point), Targets::Real(means)).with_inputs();
    let page = checked(&sample);
    let (_, table) = page
        .split_once("Fraction of targets inside their intervals")
        .unwrap();
    assert_eq!(table.matches("width at 90\u{a0}%: ").count(), 1);
    assert!(page.contains("All rows have the same standard deviation."));
}

#[test]
fn many_rows_make_no_large_page() {
    let sample = regression(100_000, 2).with_inputs();
    let (page, drawings) = written(&sample);
    assert!(page.len() < 600_000, "{} bytes", page.len());
    assert!(drawings.iter().all(|(_, drawing)| drawing.len() < 300_000));
    let labels: Vec<usize> = (0..100_000).map(|row| usize::from(row % 50 == 0)).collect();
    let probabilities = (0..100_000).flat_map(|row| {
        let positive = (f64::from(row) * 0.618).fract();
        [1.0 - positive, positive]
    });
    let predictions =
        ClassPredictions::new(vec!["a".into(), "b".into()], 1, probabilities.collect());
    let sample = Sample::new(
        "y",
        Predictions::Classes(predictions),
        Targets::Classes(labels),
    );
    let (page, _) = written(&sample.with_inputs());
    assert!(page.len() < 600_000, "{} bytes", page.len());
    assert!(page.contains("aria-label=\"Precision and recall of rare classes\""));
}
