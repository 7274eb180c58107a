//! The inputs that explain most of the variation of predictions.

use burn_bayes_data::{Column, ColumnKind};

use crate::error::Result;
use crate::groups::Groups;
use crate::order::{by_cost, spread};

/// Number of categories with a group of their own; the others share one.
const MOST_CATEGORIES: usize = 5;
/// Maximum number of rows that the relevance of an input is computed from.
const MOST_ROWS: usize = 4000;

/// The groups of these rows by an input, the most frequent categories first.
pub(crate) fn groups(column: &Column, rows: &[usize]) -> Result<Groups> {
    let groups = Groups::of(column, rows)?;
    Ok(match column.kind() {
        ColumnKind::Number => groups,
        ColumnKind::Category => groups.largest(MOST_CATEGORIES),
    })
}

/// The indices of the inputs by decreasing relevance, without those of no relevance: the fraction of the variance
/// of the outputs between the groups of the input, η², corrected for the number of groups G as the adjusted R²:
/// 1 − (1 − η²)(N − 1)/(N − G). `outputs` has the same number of values for every row.
pub(crate) fn by_relevance(columns: &[Column], outputs: &[f64]) -> Result<Vec<usize>> {
    let rows = columns.first().map_or(0, Column::len);
    if rows == 0 {
        return Ok(Vec::new());
    }
    let width = outputs.len() / rows;
    let sample = spread(rows, MOST_ROWS);
    let outputs: Vec<&[f64]> = sample
        .iter()
        .map(|&row| &outputs[row * width..(row + 1) * width])
        .collect();
    let mut found = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let relevance = relevance(&groups(column, &sample)?, &outputs);
        if relevance > 0.0 {
            found.push((index, relevance));
        }
    }
    found.sort_by(|one, other| by_cost(-one.1, -other.1).then(one.0.cmp(&other.0)));
    Ok(found.into_iter().map(|(index, _)| index).collect())
}

fn relevance(groups: &Groups, outputs: &[&[f64]]) -> f64 {
    let (rows, count) = (outputs.len(), groups.names.len());
    if count < 2 || rows <= count {
        return 0.0;
    }
    let (mut within, mut total) = (0.0, 0.0);
    for output in 0..outputs[0].len() {
        let (mut sums, mut sizes) = (vec![0.0; count], vec![0.0; count]);
        for (row, &group) in outputs.iter().zip(&groups.of_rows) {
            sums[group] += row[output];
            sizes[group] += 1.0;
        }
        let mean = sums.iter().sum::<f64>() / rows as f64;
        for (row, &group) in outputs.iter().zip(&groups.of_rows) {
            within += (row[output] - sums[group] / sizes[group]).powi(2);
            total += (row[output] - mean).powi(2);
        }
    }
    match total > 0.0 {
        true => 1.0 - within / total * (rows - 1) as f64 / (rows - count) as f64,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_of_noise_is_not_relevant() {
        // 97 rows in an order without pattern.
        let scrambled = |factor: usize| (0..97).map(move |row| (row * factor % 97) as f64);
        let columns = [
            Column::numbers("noise", scrambled(35).collect()),
            Column::numbers("square", scrambled(1).map(|x| x - 48.0).collect()),
            Column::numbers("constant", vec![1.0; 97]),
        ];
        let outputs: Vec<f64> = scrambled(1).map(|x| (x - 48.0).powi(2)).collect();
        let found = by_relevance(&columns, &outputs).unwrap();
        assert_eq!(found[0], 1);
        assert!(!found.contains(&2), "{found:?}");
        // Four equal groups of four rows, and a within-group variance of a quarter of the total one.
        let outputs = [0.0, 0.0, 1.0, 1.0, 4.0, 4.0, 5.0, 5.0];
        let groups = Groups {
            of_rows: vec![0, 0, 0, 0, 1, 1, 1, 1],
            names: vec![None; 2],
            by: String::new(),
        };
        let rows: Vec<&[f64]> = outputs.chunks(1).collect();
        let expected = 1.0 - 2.0 / 34.0 * 7.0 / 6.0;
        assert!((relevance(&groups, &rows) - expected).abs() < 1e-12);
    }
}
