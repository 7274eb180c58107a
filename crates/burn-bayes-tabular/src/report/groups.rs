//! Groups of rows by an input, and the inputs that explain most of the variation of predictions.

use std::collections::HashMap;

use burn_bayes_data::{Column, ColumnKind};

use super::chart::spread;
use crate::error::Result;
use crate::order::by_cost;
use crate::quartiles::{QUARTILES, ValueGroups};
use crate::text::{number, shortened};

/// Number of categories with a group of their own; the others share one.
const MOST_CATEGORIES: usize = 5;
/// Maximum number of rows that the relevance of an input is computed from.
const MOST_ROWS: usize = 4000;
const NAME_LENGTH: usize = 22;

/// Rows in groups.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Groups {
    /// The group of each row.
    pub(crate) of_rows: Vec<usize>,
    /// The name of each group.
    pub(crate) names: Vec<String>,
}

impl Groups {
    /// Quartiles of numbers, or the most frequent categories; missing values are one more group.
    pub(crate) fn of(column: &Column) -> Result<Self> {
        let values: Vec<Option<f64>> = (0..column.len()).map(|row| column.number(row)).collect();
        match column.kind() {
            ColumnKind::Number => Self::quartiles(&values),
            ColumnKind::Category => Ok(Self::of_categories(column)),
        }
    }

    /// Quartiles of numbers; equal numbers are in one group.
    pub(crate) fn quartiles(values: &[Option<f64>]) -> Result<Self> {
        let present: Vec<f64> = values.iter().flatten().copied().collect();
        let groups = match present.len() {
            0..QUARTILES => ValueGroups::numbered(&present, &vec![0; present.len()]),
            _ => ValueGroups::quartiles(&present)?,
        };
        let limits = groups.limits.iter();
        let names = limits.map(|&(low, high)| match low == high {
            true => short(low),
            false => format!("{} – {}", short(low), short(high)),
        });
        let mut names: Vec<String> = names.collect();
        if present.len() < values.len() {
            names.push("missing".into());
        }
        Ok(Self {
            of_rows: groups.of_cells(values),
            names,
        })
    }

    fn of_categories(column: &Column) -> Self {
        let mut counts: HashMap<Option<&str>, usize> = HashMap::new();
        for row in 0..column.len() {
            *counts.entry(column.category(row)).or_insert(0) += 1;
        }
        let mut found: Vec<(Option<&str>, usize)> = counts.into_iter().collect();
        found.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        let own = if found.len() > MOST_CATEGORIES + 1 {
            MOST_CATEGORIES
        } else {
            found.len()
        };
        let name = |(category, _): &(Option<&str>, usize)| {
            category.map_or("missing".into(), |category| {
                shortened(category, NAME_LENGTH)
            })
        };
        let mut names: Vec<String> = found[..own].iter().map(name).collect();
        if own < found.len() {
            names.push(format!("{} other categories", found.len() - own));
        }
        let group_of: HashMap<Option<&str>, usize> = found
            .iter()
            .enumerate()
            .map(|(group, &(category, _))| (category, group.min(own)))
            .collect();
        Self {
            of_rows: (0..column.len())
                .map(|row| group_of[&column.category(row)])
                .collect(),
            names,
        }
    }
}

/// A limit of a group.
fn short(value: f64) -> String {
    let text = number(value);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
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
        let relevance = relevance(&Groups::of(&column.select(&sample))?, &outputs);
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
    fn numbers_have_quartiles_and_categories_their_own_groups() {
        let values = [4.0, 1.0, f64::NAN, 3.0, 2.0, 2.0, 7.5, 8.25, 6.0];
        let groups = Groups::of(&Column::numbers("age", values.to_vec())).unwrap();
        assert_eq!(
            groups.names,
            ["1 – 2", "3", "4 – 6", "7.5 – 8.25", "missing"]
        );
        assert_eq!(groups.of_rows, [2, 0, 4, 1, 0, 0, 3, 3, 2]);
        let constant = Groups::quartiles(&[Some(1.0); 9]).unwrap();
        assert_eq!((constant.names.len(), constant.of_rows[8]), (1, 0));

        let towns = "aabbbccdefg".chars().map(String::from).collect::<Vec<_>>();
        let towns = towns.iter().map(|town| Some(town.as_str()));
        let groups = Groups::of(&Column::categories("town", towns.chain([None]))).unwrap();
        let others = "3 other categories";
        assert_eq!(groups.names, ["b", "a", "c", "missing", "d", others]);
        assert_eq!(groups.of_rows, [1, 1, 0, 0, 0, 2, 2, 4, 5, 5, 5, 3]);
    }

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
            names: vec![String::new(); 2],
        };
        let rows: Vec<&[f64]> = outputs.chunks(1).collect();
        let expected = 1.0 - 2.0 / 34.0 * 7.0 / 6.0;
        assert!((relevance(&groups, &rows) - expected).abs() < 1e-12);
    }
}
