//! Precision, recall and F1 of each class.

use burn_bayes::eval::ConfusionMatrix;
use serde::Serialize;

/// Counts and rates of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassScores {
    /// The name of the class.
    pub class: String,
    /// Number of rows of the class, its support.
    pub rows: usize,
    /// Number of rows that are predicted as the class.
    pub predicted: usize,
    /// Fraction of the predicted rows that are of the class; null without predicted rows.
    pub precision: Option<f64>,
    /// Fraction of the rows of the class that are predicted as it; null without rows.
    pub recall: Option<f64>,
    /// The harmonic mean of precision and recall; null if the class is neither a label nor a prediction.
    pub f1: Option<f64>,
}

impl ClassScores {
    /// Of every class, in the order of their names.
    pub(super) fn of_all(names: &[String], matrix: &ConfusionMatrix) -> Vec<Self> {
        let of_class = |(class, name): (usize, &String)| Self {
            class: name.clone(),
            // Counts of rows are whole numbers.
            rows: matrix.support(class) as usize,
            predicted: matrix.predicted(class) as usize,
            precision: matrix.precision(class),
            recall: matrix.recall(class),
            f1: matrix.f1(class),
        };
        names.iter().enumerate().map(of_class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_counts() {
        // Rows of each true class by predicted class: 8 2 0, 4 6 0, and none of the last.
        let labels = [[0; 10], [1; 10]].concat();
        let predicted = [[0; 8].as_slice(), &[1; 2], &[0; 4], &[1; 6]].concat();
        let matrix = ConfusionMatrix::new(&predicted, &labels, 3).unwrap();
        let names = ["a", "b", "c"].map(String::from);
        let found = ClassScores::of_all(&names, &matrix);
        assert_eq!(
            (found[0].precision, found[0].recall),
            (Some(8.0 / 12.0), Some(0.8))
        );
        assert_eq!((found[1].rows, found[1].predicted), (10, 8));
        let (precision, recall) = (8.0 / 12.0, 0.8);
        let f1 = 2.0 * precision * recall / (precision + recall);
        assert!((found[0].f1.unwrap() - f1).abs() < 1e-15);
        let absent = ClassScores {
            class: "c".into(),
            rows: 0,
            predicted: 0,
            precision: None,
            recall: None,
            f1: None,
        };
        assert_eq!(found[2], absent);
    }
}
