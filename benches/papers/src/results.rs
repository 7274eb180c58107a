//! Results by data and method, averaged over seeds.

use burn_bayes_tabular::experiments::jobs::Record;
use burn_bayes_tabular::scores::Summary;

use super::published::Published;

/// The results of an experiment's jobs, and what the papers report.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    records: &'a [Record],
    pub(crate) published: &'a Published,
}

impl<'a> Results<'a> {
    /// Of these records, in the order of the table.
    pub(crate) fn new(records: &'a [Record], published: &'a Published) -> Self {
        Self { records, published }
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
        Summary::of(&self.sorted(case, method, measure))
    }

    /// The value below which this share of the runs lies, interpolated between neighbours.
    pub(crate) fn quantile(
        &self,
        case: &str,
        method: &str,
        measure: &str,
        share: f64,
    ) -> Option<f64> {
        let values = self.sorted(case, method, measure);
        let place = share * values.len().checked_sub(1)? as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        Some(values[below] + (place - place.floor()) * (values[above] - values[below]))
    }

    /// A measure of all runs that have it, the least first.
    fn sorted(&self, case: &str, method: &str, measure: &str) -> Vec<f64> {
        let records = self.of(case, method);
        let values = records.filter_map(|record| record.computed.measures.get(measure).copied());
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The mean of a measure; nothing if no run of this kind has it.
    pub(crate) fn mean(&self, case: &str, method: &str, measure: &str) -> Option<f64> {
        Some(self.summary(case, method, measure)?.mean)
    }

    /// Our mean beside the published figure, for each of these measures in every published row of these
    /// methods; `None` if either is missing.
    pub(crate) fn beside_published(
        &self,
        methods: &[&str],
        measures: &[&str],
    ) -> Vec<Option<(f64, f64)>> {
        let rows = self.published.rows().iter();
        let rows = rows.filter(|row| methods.contains(&row.method.as_str()));
        let pairs = rows.flat_map(|row| {
            measures.iter().map(move |&measure| {
                let ours = self.mean(&row.case, &row.method, measure)?;
                Some((ours, row.figures.get(measure)?.value))
            })
        });
        pairs.collect()
    }

    /// The time that a run took, averaged.
    pub(crate) fn seconds(&self, case: &str, method: &str) -> Option<f64> {
        let seconds: Vec<f64> = self.of(case, method).map(|record| record.seconds).collect();
        Some(Summary::of(&seconds)?.mean)
    }

    /// All runs of this kind.
    pub(crate) fn of(&self, case: &str, method: &str) -> impl Iterator<Item = &'a Record> {
        let records = self.records.iter();
        records.filter(move |record| record.key.case == case && record.key.method == method)
    }
}
