//! E6: regression networks on UCI data, the tables of the VIFA and SLANG papers.
//!
//! One hidden layer of 50 rectifiers, on the published splits. Whatever is searched or learnt comes from
//! the training rows of a split; its test rows are met once.

mod conclusions;
mod gap;
mod mixtures;
mod protocols;
mod sampling;
mod sets;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use burn_bayes_data::KFold;

use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::search::Fold;
use burn_bayes_tabular::scores::DIVERGED;
use burn_bayes_tabular::scores::HoldoutScore;
use burn_bayes_tabular::settings::{FitSettings, NoisePrecision, PriorPrecision};

use super::experiment::{Column, Context, Experiment, Job, Key, Measures};
use crate::sets::UciFolder;
pub(crate) use gap::GAP;
use mixtures::mixtures;
use protocols::{Protocol, protocols};
pub(crate) use sampling::SAMPLING;
use sets::{SETS, Set};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "E6",
    title: "regression networks on UCI data, the VIFA and SLANG papers",
    notes: "RMSE and NLL (minus the log-likelihood) of the test rows on the target's own scale, mean ± \
            standard error over the published splits; in brackets what the papers report. `VIFA` and \
            `SLANG` search as the papers do, 30 trials by 5 folds of the training rows (SLANG's paper by \
            Bayesian optimisation, here at random), with `--quick` 2 by 2. `untuned` has noise and prior in the middle of SLANG's \
            bounds. `defaults` searches nothing: one setting for all sets, chosen on training rows of \
            Energy and Boston (benches/TUNING.md), its noise learnt from training rows that a first fit has \
            not seen; the plain network has the same. A mixture has ten fits with other seeds; a fifth of the training rows chooses the likelihood (one variance of the \
            noise, or one for each row) and the prior precision (.1 or 1) before. Seconds are those of a split on one thread, search \
            included. A run that diverged is counted; if its NLL is worse than a constant's but finite, it \
            is in the means too.",
    needs: &["uci_regression"],
    columns: &[
        Column::mean(RMSE, "RMSE"),
        Column::mean(NLL, "NLL"),
        Column::mean(DIVERGED, "diverged, share"),
    ],
    published: include_str!("../../published/e6.csv"),
    jobs,
    findings: conclusions::findings,
};

const RMSE: &str = "rmse";
const NLL: &str = "nll";

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let splits = context.effort.choose(20, 2);
    let tasks: Vec<_> = SETS
        .iter()
        .filter(|set| set.is_wanted(context))
        .map(|set| (set, Arc::new(Task::new(&context.data, set))))
        .collect();
    let mut jobs = Vec::new();
    // Split by split, so that a run that was stopped has something to say of every set.
    for split in 0..splits {
        for (set, task) in &tasks {
            for protocol in protocols(set, context.effort, split) {
                let key = Key::new(set.name, protocol.label.clone(), split);
                let (task, settings) = (task.clone(), protocol.clone());
                let work = move || task.measure(split as usize, &protocol);
                jobs.push(Job::new(key, &settings, work)?);
            }
            for mixture in mixtures(set, context.effort, split) {
                let key = Key::new(set.name, mixture.label.clone(), split);
                let (task, settings) = (task.clone(), mixture.clone());
                let work = move || mixture.measure(task.folder()?, split as usize);
                jobs.push(Job::new(key, &settings, work)?);
            }
        }
    }
    Ok(jobs)
}

/// A data set that is read when first needed.
struct Task {
    folder: PathBuf,
    known: OnceLock<Result<UciFolder, String>>,
}

impl Task {
    fn new(data: &Path, set: &Set) -> Self {
        Self {
            folder: data.join("uci_regression").join(set.folder),
            known: OnceLock::new(),
        }
    }

    fn folder(&self) -> Result<&UciFolder> {
        let read = || UciFolder::open(&self.folder).map_err(|error| error.to_string());
        let known = self.known.get_or_init(read).as_ref();
        known.map_err(|message| TabularError::Data(message.clone()))
    }

    fn measure(&self, split: usize, protocol: &Protocol) -> Result<Measures> {
        let folder = self.folder()?;
        let rows = folder.split(split)?;
        let fold = Fold::standardised(folder.dataset(), &rows)?;
        let Some(base) = &protocol.base else {
            return Ok(measures(Some(fold.judge_constant()?)));
        };
        let settings = match &protocol.search {
            None => base.clone(),
            Some(plan) => {
                let kept = KFold::new(plan.folds).with_seed(split as u64);
                let folds = kept.splits(rows.train.len())?;
                let folds = folds.iter().map(|inner| {
                    let inner = inner.of_rows(&rows.train);
                    Fold::standardised(folder.dataset(), &inner)
                });
                let folds = folds.collect::<Result<Vec<_>>>()?;
                match plan.search(base).best(&folds) {
                    Ok(trial) => trial.settings,
                    Err(TabularError::Numerical(_)) => return Ok(measures(None)),
                    Err(failure) => return Err(failure),
                }
            }
        };
        let mut found = measures(fold.judge(&settings)?);
        found.extend(choices(&settings));
        Ok(found)
    }
}

fn measures(judgement: Option<HoldoutScore>) -> Measures {
    match judgement {
        None => Measures::from([(DIVERGED.into(), 1.0)]),
        Some(judgement) => Measures::from([
            (DIVERGED.into(), f64::from(u8::from(judgement.diverged))),
            (RMSE.into(), judgement.error),
            (NLL.into(), judgement.cost),
        ]),
    }
}

/// What a search may have chosen.
fn choices(settings: &FitSettings) -> Measures {
    let mut choices = Measures::from([("learning_rate".into(), settings.tuned().learning_rate)]);
    if let PriorPrecision::Given(precision) = settings.prior_precision {
        choices.insert("prior_precision".into(), precision);
    }
    if let NoisePrecision::Given(precision) = settings.noise_precision {
        choices.insert("noise_precision".into(), precision);
    }
    choices
}

#[cfg(test)]
mod needs_data {
    use burn_bayes_testing::data_folder;

    use super::*;
    use crate::experiment::Effort;

    #[test]
    fn a_constant_has_the_deviation_of_the_targets() {
        let task = Task::new(&data_folder(), &SETS[0]);
        let protocol = Protocol::constant(Effort::Quick);
        let found = task.measure(0, &protocol).unwrap();
        // Boston's target has a deviation of 9.2.
        assert!((7.0..12.0).contains(&found[RMSE]), "{found:?}");
        let gaussian = 0.5 * (2.0 * std::f64::consts::PI).ln() + 9.2f64.ln() + 0.5;
        assert!((found[NLL] - gaussian).abs() < 0.3, "{found:?}");
    }

    #[test]
    fn a_search_is_the_same_on_one_thread_and_on_two() {
        let yacht = SETS.iter().find(|set| set.name == "yacht").unwrap();
        let task = Task::new(&data_folder(), yacht);
        let mut protocol = protocols(yacht, Effort::Quick, 1)
            .into_iter()
            .find(|protocol| protocol.search.is_some())
            .unwrap();
        if let Some(base) = &mut protocol.base {
            base.epochs = Some(3);
        }
        let measured = [1, 2].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap()
                .install(|| task.measure(1, &protocol).unwrap())
        });
        assert_eq!(measured[0], measured[1]);
        assert!(measured[0].contains_key("noise_precision"));
    }
}
