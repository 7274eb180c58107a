//! E11: the networks of E6 with a gap in the data: the rows with the middle third of the values of one feature are held
//! out, as Foong et al. 2019, "'In-between' uncertainty in Bayesian neural networks", do.

use std::sync::Arc;

use burn_bayes_data::{Dataset, Split};

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::experiments::search::Fold;
use burn_bayes_tabular::scores::DIVERGED;
use burn_bayes_tabular::settings::{FitSettings, Method};

use super::protocols::label;
use super::sets::SETS;
use super::{NLL, RMSE, Task, measures};
use crate::experiment::{Column, Context, Effort, Experiment, Job, Key};
use crate::findings::{Finding, least_of};
use crate::results::Results;

pub(crate) const GAP: Experiment = Experiment {
    name: "E11",
    title: "regression networks on UCI data with a gap in one feature",
    notes: "RMSE and NLL of the rows with the middle third of a feature's values, which are held out, mean ± standard error \
            over the features. Networks, epochs, batches and the learned noise are those of E6; all else is the program's \
            defaults, and nothing is searched. `laplace` is the linearised Laplace approximation. A feature of which all \
            values are equal has no gap.",
    needs: &["uci_regression"],
    columns: &[
        Column::mean(RMSE, "RMSE"),
        Column::mean(NLL, "NLL"),
        Column::mean(DIVERGED, "diverged, share"),
    ],
    published: "data,method,source\n",
    jobs,
    findings,
};

const LAPLACE: &str = "laplace";
const MEAN_FIELD: &str = "mean-field";
/// The methods with a low-rank covariance.
const LOW_RANK: [(&str, Method); 3] = [
    ("VIFA K=5", Method::Vifa),
    ("SWAG K=5", Method::Swag),
    ("SLANG L=5", Method::Slang),
];
const OTHERS: [(&str, Method); 3] = [
    ("plain network", Method::Map),
    (LAPLACE, Method::Laplace),
    (MEAN_FIELD, Method::MeanField),
];

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for set in SETS.iter().filter(|set| set.is_wanted(context)) {
        let task = Arc::new(Task::new(&context.data, set));
        let features = context.effort.choose(set.features, 2);
        for (feature, (name, method)) in (0..features)
            .filter(|feature| !set.constant_features.contains(feature))
            .flat_map(|feature| {
                OTHERS
                    .iter()
                    .chain(&LOW_RANK)
                    .map(move |row| (feature, *row))
            })
        {
            let key = Key::new(set.name, label(name, context.effort), feature as u64);
            let settings = FitSettings {
                method,
                epochs: Some(context.effort.choose(120, 40)),
                batch_size: if set.is_large { 100 } else { 10 },
                seed: feature as u64,
                ..FitSettings::default()
            };
            let (task, identity) = (task.clone(), settings.clone());
            jobs.push(Job::new(key, &identity, move || {
                let dataset = task.folder()?.dataset();
                let fold = Fold::standardised(dataset, &gap(dataset, feature))?;
                Ok(measures(fold.judge(&settings)?))
            })?);
        }
    }
    Ok(jobs)
}

/// The rows in the order of a feature: the middle third is for testing.
fn gap(dataset: &Dataset, feature: usize) -> Split {
    let value = |row: usize| dataset.features().row(row)[feature];
    let mut order: Vec<usize> = (0..dataset.rows()).collect();
    order.sort_by(|&one, &other| value(one).total_cmp(&value(other)));
    let third = order.len() / 3;
    let test = order.drain(third..order.len() - third).collect();
    Split { train: order, test }
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for effort in [Effort::Full, Effort::Quick] {
        for set in &SETS {
            let laplace = results.summary(set.name, &label(LAPLACE, effort), NLL);
            let Some(laplace) = laplace else {
                continue;
            };
            let bound = laplace.mean + laplace.standard_error.unwrap_or(0.0);
            let low_rank = LOW_RANK
                .iter()
                .filter_map(|(name, _)| results.mean(set.name, &label(name, effort), NLL));
            findings.push(Finding::at_most(
                format!(
                    "{}: a low-rank method's NLL in the gap is at most that of linearised Laplace plus its standard error",
                    set.name
                ),
                &[(least_of(low_rank), bound)],
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::{Features, Targets};

    use super::*;

    #[test]
    fn the_middle_third_is_held_out() {
        let values = vec![5.0, 1.0, 4.0, 2.0, 6.0, 3.0, 7.0];
        let targets = Targets::Real(values.clone());
        let dataset = Dataset::new(Features::new(7, 1, values).unwrap(), targets).unwrap();
        let split = gap(&dataset, 0);
        assert_eq!(split.train, [1, 3, 4, 6]);
        assert_eq!(split.test, [5, 2, 0]);
    }
}

#[cfg(test)]
mod needs_data {
    use burn_bayes_testing::data_folder;

    use super::*;

    #[test]
    fn sets_have_these_features() {
        for set in &SETS {
            let task = Task::new(&data_folder(), set);
            let features = task.folder().unwrap().dataset().features().clone();
            assert_eq!(features.columns(), set.features, "{}", set.name);
            let is_constant = |&feature: &usize| {
                let first = features.row(0)[feature];
                (0..features.rows()).all(|row| features.row(row)[feature] == first)
            };
            let constant: Vec<usize> = (0..set.features).filter(is_constant).collect();
            assert_eq!(constant, set.constant_features, "{}", set.name);
        }
    }
}
