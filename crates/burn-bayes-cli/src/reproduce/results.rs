//! Results by data and method, averaged over seeds.

use super::ledger::Record;

/// The results of an experiment's cells.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    records: &'a [Record],
}

/// The average of a measure over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    /// Of the mean; none for a single run.
    pub(crate) standard_error: Option<f64>,
    pub(crate) runs: usize,
}

impl Summary {
    /// Of these values; nothing if there are none.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let runs = values.len();
        let count = runs as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (runs > 0).then(|| Self {
            mean,
            standard_error: (runs > 1).then(|| (squares / (count - 1.0) / count).sqrt()),
            runs,
        })
    }
}

impl<'a> Results<'a> {
    /// Of these records, in the order of the table.
    pub(crate) fn new(records: &'a [Record]) -> Self {
        Self { records }
    }

    /// Every pair of data and method, in order.
    pub(crate) fn groups(&self) -> Vec<(&'a str, &'a str)> {
        let mut groups = Vec::new();
        for record in self.records {
            let group = (record.key.case.as_str(), record.key.method.as_str());
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    /// The average of a measure; nothing if no run of this kind has it.
    pub(crate) fn summary(&self, case: &str, method: &str, measure: &str) -> Option<Summary> {
        let values: Vec<f64> = self
            .of(case, method)
            .filter_map(|record| record.measures.get(measure).copied())
            .collect();
        Summary::of(&values)
    }

    /// The mean of a measure; nothing if no run of this kind has it.
    pub(crate) fn mean(&self, case: &str, method: &str, measure: &str) -> Option<f64> {
        Some(self.summary(case, method, measure)?.mean)
    }

    /// The time that a run took, averaged.
    pub(crate) fn seconds(&self, case: &str, method: &str) -> Option<f64> {
        let seconds: Vec<f64> = self.of(case, method).map(|record| record.seconds).collect();
        Some(Summary::of(&seconds)?.mean)
    }

    fn of(&self, case: &str, method: &str) -> impl Iterator<Item = &'a Record> {
        let records = self.records.iter();
        records.filter(move |record| record.key.case == case && record.key.method == method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_errors_are_those_of_means() {
        let summary = Summary::of(&[1.0, 3.0]).unwrap();
        // A sample deviation of √2 over √2.
        assert_eq!((summary.mean, summary.standard_error), (2.0, Some(1.0)));
        assert_eq!(Summary::of(&[5.0]).unwrap().standard_error, None);
        assert_eq!(Summary::of(&[]), None);
    }
}
