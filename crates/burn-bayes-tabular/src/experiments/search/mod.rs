//! Random search of settings, with cross-validation on the training rows.
//!
//! Trial t depends only on the seed of the search and t, and all trials have the same folds and the same
//! seed of the fit. So trials may run in any order and in parallel, and a search can be extended later.

mod fold;
mod leaderboard;
mod ranges;
mod tuning;

pub(crate) use fold::FoldFit;
pub(crate) use fold::NewTable;
pub use fold::{Fold, Scored};
pub use ranges::{Range, Ranges};
pub use tuning::{TrialRow, Tuned, Tuning};

use std::cmp::Ordering;

use burn_bayes::Noise;

use crate::error::{Result, TabularError};
use crate::order::by_cost;
use crate::parallel;
use crate::scores::HoldoutScore;
use crate::settings::{FitSettings, expect_count};

/// The random stream of the settings of trials.
pub const TRIALS: u64 = 0x7472_6961;

/// A random search.
#[derive(Clone, Debug)]
pub struct Search {
    /// The settings without a range.
    pub base: FitSettings,
    /// The ranges of the settings drawn.
    pub ranges: Ranges,
    /// Number of trials.
    pub trials: usize,
    /// Number of trials evaluated on all folds: the best ones on the first fold; by default all.
    pub survivors: Option<usize>,
    /// Seed of the trials and the fits.
    pub seed: u64,
}

/// The fit of a trial to a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The number of the trial.
    pub trial: usize,
    /// The number of the fold.
    pub fold: usize,
}

/// Settings and their scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The number of the trial, from 0.
    pub number: usize,
    /// All settings, drawn or not.
    pub settings: FitSettings,
    /// The score on each evaluated fold; `None` if the fit has no scores.
    pub judgements: Vec<Option<HoldoutScore>>,
    /// Whether all folds were evaluated.
    pub is_complete: bool,
}

impl Trial {
    /// The mean over folds; `None` if a fit has no scores.
    pub fn mean(&self) -> Option<HoldoutScore> {
        HoldoutScore::mean(
            &self
                .judgements
                .iter()
                .copied()
                .collect::<Option<Vec<_>>>()?,
        )
    }

    /// Orders trials from best to worst; diverged trials are last.
    pub fn compare(&self, other: &Self) -> Ordering {
        let cost = |trial: &Self| trial.mean().map_or(f64::INFINITY, |mean| mean.cost);
        self.has_diverged()
            .cmp(&other.has_diverged())
            .then(by_cost(cost(self), cost(other)))
            .then(self.number.cmp(&other.number))
    }

    /// Whether a fit diverged.
    pub fn has_diverged(&self) -> bool {
        self.mean().is_none_or(|mean| mean.diverged)
    }
}

impl Search {
    /// The settings of a trial.
    ///
    /// # Errors
    /// If a range does not fit its setting.
    pub fn settings(&self, trial: usize) -> Result<FitSettings> {
        let noise = Noise::new(self.seed).fold(TRIALS).fold(trial as u64);
        self.ranges.draw(&self.base, noise)
    }

    /// Checks the settings of all trials, before the first fit.
    ///
    /// # Errors
    /// If there are no trials, or the settings of a trial are invalid for a fold.
    pub fn check<'a>(&self, folds: impl IntoIterator<Item = &'a Fold>) -> Result<()> {
        expect_count("trials", self.trials)?;
        expect_count("survivors", self.survivors.unwrap_or(self.trials))?;
        let trials = (0..self.trials).map(|trial| self.settings(trial));
        let trials = trials.collect::<Result<Vec<_>>>()?;
        for fold in folds {
            fold.check(&trials)?;
        }
        Ok(())
    }

    /// Runs all trials, in the order of their numbers.
    ///
    /// `judge` fits and scores any number of units, in any order.
    pub fn run(
        &self,
        folds: usize,
        judge: impl Fn(&[(Unit, FitSettings)]) -> Result<Vec<Option<HoldoutScore>>>,
    ) -> Result<Vec<Trial>> {
        let blank = |number| {
            Ok(Trial {
                number,
                settings: self.settings(number)?,
                judgements: Vec::new(),
                is_complete: false,
            })
        };
        let mut trials = (0..self.trials).map(blank).collect::<Result<Vec<_>>>()?;
        let first = if self.survivors.is_some() { 1 } else { folds };
        let all: Vec<usize> = (0..trials.len()).collect();
        meet(&mut trials, &all, 0..first, &judge)?;
        let mut ranking = all;
        ranking.sort_by(|&a, &b| trials[a].compare(&trials[b]));
        ranking.truncate(self.survivors.unwrap_or(self.trials));
        meet(&mut trials, &ranking, first..folds, &judge)?;
        for trial in ranking {
            trials[trial].is_complete = true;
        }
        Ok(trials)
    }

    /// Runs the search on folds in memory, in parallel on rayon's threads, and returns the best trial.
    ///
    /// # Errors
    /// As [`Search::check`] and [`Search::run`], and if every trial diverged.
    pub fn best(&self, folds: &[Fold]) -> Result<Trial> {
        self.check(folds)?;
        let trials = self.run(folds.len(), |units| {
            parallel::map(rayon::current_num_threads(), units.len(), |index| {
                let (unit, settings) = &units[index];
                folds[unit.fold].judge(settings)
            })
        })?;
        best(&trials).cloned()
    }
}

/// The complete trial with the smallest mean cost.
///
/// # Errors
/// If every trial diverged.
pub fn best(trials: &[Trial]) -> Result<&Trial> {
    let complete = trials
        .iter()
        .filter(|trial| trial.is_complete && !trial.has_diverged());
    complete.min_by(|a, b| a.compare(b)).ok_or_else(|| {
        TabularError::Numerical(format!(
            "all {} trials diverged: their NLL is not finite, or worse than that of a constant; lower \
             the range of `learning_rate`, increase `epochs`, or set `clip`",
            trials.len()
        ))
    })
}

/// Adds the scores of the given folds to the chosen trials.
fn meet(
    trials: &mut [Trial],
    chosen: &[usize],
    folds: std::ops::Range<usize>,
    judge: impl Fn(&[(Unit, FitSettings)]) -> Result<Vec<Option<HoldoutScore>>>,
) -> Result<()> {
    let units: Vec<_> = chosen
        .iter()
        .flat_map(|&trial| folds.clone().map(move |fold| Unit { trial, fold }))
        .map(|unit| (unit, trials[unit.trial].settings.clone()))
        .collect();
    for ((unit, _), judgement) in units.iter().zip(judge(&units)?) {
        trials[unit.trial].judgements.push(judgement);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::PriorPrecision;

    fn search(trials: usize, survivors: Option<usize>) -> Search {
        let text = "prior_precision = { log_uniform = [0.01, 10.0] }";
        Search {
            base: FitSettings::default(),
            ranges: toml::from_str(text).unwrap(),
            trials,
            survivors,
            seed: 3,
        }
    }

    /// A cost that is smallest at a prior precision of one.
    fn distance(settings: &FitSettings) -> Option<HoldoutScore> {
        let PriorPrecision::Given(precision) = settings.prior_precision else {
            return None;
        };
        let cost = precision.ln().abs();
        let error = cost;
        Some(HoldoutScore {
            cost,
            error,
            diverged: false,
        })
    }

    fn judge_all(units: &[(Unit, FitSettings)]) -> Result<Vec<Option<HoldoutScore>>> {
        Ok(units
            .iter()
            .map(|(_, settings)| distance(settings))
            .collect())
    }

    #[test]
    fn the_best_trial_is_found_and_more_trials_only_add() {
        let few = search(10, None).run(3, judge_all).unwrap();
        let many = search(40, None).run(3, judge_all).unwrap();
        assert_eq!(few[..], many[..10]);
        let found = best(&many).unwrap();
        let costs = many
            .iter()
            .map(|trial| distance(&trial.settings).unwrap().cost);
        let least = costs.fold(f64::INFINITY, f64::min);
        assert_eq!(found.mean().unwrap().cost, least);
        // The probability that none of forty trials is this close is one in a million.
        assert!(least < 1.0, "{least}");
        assert!(many.iter().all(|trial| trial.judgements.len() == 3));
    }

    #[test]
    fn the_hopeless_meet_one_fold_alone() {
        let trials = search(20, Some(5)).run(4, judge_all).unwrap();
        let complete: Vec<_> = trials.iter().filter(|trial| trial.is_complete).collect();
        assert_eq!(complete.len(), 5);
        for trial in &trials {
            let folds = if trial.is_complete { 4 } else { 1 };
            assert_eq!(trial.judgements.len(), folds);
        }
        let all = search(20, None).run(4, judge_all).unwrap();
        assert_eq!(best(&trials).unwrap().number, best(&all).unwrap().number);
    }

    #[test]
    fn a_trial_that_diverges_once_is_never_the_best() {
        let trials = search(6, None).run(2, |units| {
            let judged = units.iter().map(|(unit, _)| match (unit.trial, unit.fold) {
                (0, 1) => None,
                (0 | 1, 0) => Some(HoldoutScore {
                    cost: -9.0,
                    error: 0.0,
                    diverged: false,
                }),
                // Trial 1 has a cost, but is worse than a constant.
                (trial, _) => Some(HoldoutScore {
                    cost: trial as f64,
                    error: 1.0,
                    diverged: trial == 1,
                }),
            });
            Ok(judged.collect())
        });
        let trials = trials.unwrap();
        assert_eq!(best(&trials).unwrap().number, 2);
        let mut ranking: Vec<&Trial> = trials.iter().collect();
        ranking.sort_by(|a, b| a.compare(b));
        let numbers: Vec<usize> = ranking.iter().map(|trial| trial.number).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 1, 0]);
        let none = search(2, None)
            .run(2, |units| Ok(vec![None; units.len()]))
            .unwrap();
        assert!(matches!(best(&none), Err(TabularError::Numerical(_))));
    }

    #[test]
    fn a_search_of_nothing_is_refused_by_the_name_of_what_is_0() {
        for (search, name) in [
            (search(0, None), "`trials`"),
            (search(3, Some(0)), "`survivors`"),
        ] {
            let failure = search.check([]).unwrap_err();
            assert!(
                matches!(failure, TabularError::Setting { .. }),
                "{failure:?}"
            );
            assert!(failure.to_string().contains(name), "{failure}");
        }
        search(3, Some(1)).check([]).unwrap();
    }
}
