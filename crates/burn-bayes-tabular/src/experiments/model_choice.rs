//! What a fit predicts with if its settings leave it open: a number or its logarithm, from columns with long tails or their
//! logarithms, by a network or a linear model.
//!
//! Rows of the training are left out in turn, as many as are needed for about 400, and predicted by one short chain of a
//! small network for each pair of scales, and by linear models that are solved directly. A number is predicted unless its logarithm is
//! better by more than a standard error of the difference, paired by row; then the better scale of columns is taken, of which none is
//! simpler; and the network is kept unless a linear model is better by more than two: a short chain is worse than the fit that follows.

use std::fmt;

use burn_bayes::Noise;
use burn_bayes_data::{KFold, Preprocessor, Table};

use super::search::Fold;
use crate::distinct::distinct;
use crate::error::{Result, TabularError};
use crate::parallel;
use crate::random::shuffled;
use crate::rows::{SplitTable, Units};
use crate::scores::{Summary, mean};
use crate::settings::{
    Config, DataSettings, FeatureScaleName, FitSettings, LikelihoodName, Method, NetworkShape,
    NoisePrecision, TargetScaleName, TaskName, UnseenName,
};
use crate::text::number;

/// The most training rows that are used.
const MOST_ROWS: usize = 2000;
/// Left-out rows that are enough.
const LEFT_OUT: usize = 400;
const FOLDS: usize = 5;
/// Gradients of a chain.
const EPOCHS: usize = 1500;
const DRAWS: usize = 100;
/// The standard errors by which the logarithm of the target, and a linear model, must be better.
const OF_TARGETS: f64 = 1.0;
const OF_MODELS: f64 = 2.0;
/// The candidates whose NLL is shown.
const MOST_SHOWN: usize = 4;
/// Fewer rows decide nothing.
const FEWEST_ROWS: usize = 40;
/// The random stream of the rows.
const ROWS: u64 = 0x6368_6f69;

/// What was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelChoice {
    chosen: Candidate,
    /// The mean NLL of the left-out rows, of every candidate.
    costs: Vec<(Candidate, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    /// What is predicted of a number.
    target_scale: TargetScaleName,
    /// From what of columns with long tails.
    feature_scale: FeatureScaleName,
    /// Whether a linear model predicts it, and not a network.
    is_linear: bool,
}

impl ModelChoice {
    /// Chooses what the settings leave open; `None` if there is nothing to choose.
    ///
    /// # Errors
    /// If the rows cannot be prepared.
    pub fn of(rows: &SplitTable, config: &Config, threads: usize) -> Result<Option<Self>> {
        Self::of_candidates(&candidates(rows, config)?, rows, config, threads)
    }

    /// The same of the scales only: the model is that of the settings.
    ///
    /// # Errors
    /// If the rows cannot be prepared.
    pub fn of_scales(rows: &SplitTable, config: &Config, threads: usize) -> Result<Option<Self>> {
        Self::of_candidates(&scales(rows, config)?, rows, config, threads)
    }

    /// The same for several settings, in their order; the short fits that they share are made once.
    ///
    /// # Errors
    /// If the rows cannot be prepared.
    pub(crate) fn of_each<'a>(
        rows: &SplitTable,
        configs: impl IntoIterator<Item = &'a Config>,
        threads: usize,
    ) -> Result<Vec<Option<Self>>> {
        let mut made: Vec<(Vec<Config>, Option<Self>)> = Vec::new();
        let choices = configs.into_iter().map(|config| {
            let scales = scales(rows, config)?;
            let fits = scales.iter().map(|one| one.config(config));
            let fits = fits.collect::<Result<Vec<Config>>>()?;
            if let Some((_, choice)) = made.iter().find(|(known, _)| *known == fits) {
                return Ok(choice.clone());
            }
            let choice = Self::of_candidates(&scales, rows, config, threads)?;
            made.push((fits, choice.clone()));
            Ok(choice)
        });
        choices.collect()
    }

    fn of_candidates(
        candidates: &[Candidate],
        rows: &SplitTable,
        config: &Config,
        threads: usize,
    ) -> Result<Option<Self>> {
        if candidates.len() < 2 {
            return Ok(None);
        }
        let train = some(&rows.train, config.fit.seed);
        let some = SplitTable::of(rows.table.clone(), train, Vec::new());
        // Fewer folds, or none, where a class has few rows, or rows have few groups or times.
        let possible = (2..=FOLDS).rev().find_map(|count| {
            let kept = KFold::new(count).with_seed(config.fit.seed);
            let divisions = some.divisions(&config.data, kept);
            divisions.is_ok().then_some((count, kept))
        });
        let Some((count, kept)) = possible else {
            return Ok(None);
        };
        let held_out = some.train.len() / count;
        let folds = LEFT_OUT.div_ceil(held_out.max(1)).min(count);
        let folds_of =
            |candidate: &Candidate| Fold::all(&some, &candidate.data(&config.data), kept, None);
        // Without a choice where a fold lacks what others have, such as the classes of a group.
        let all = candidates.iter().map(folds_of);
        let Ok(all) = all.collect::<Result<Vec<_>>>() else {
            return Ok(None);
        };
        let settings = candidates.iter().map(|one| one.settings(config));
        let settings: Vec<FitSettings> = settings.collect::<Result<_>>()?;
        // A linear model with too many weights would be sampled, longer than the fit that is chosen for.
        let mut usable = Vec::new();
        for (place, candidate) in candidates.iter().enumerate() {
            if !candidate.is_linear || all[place][0].is_quickly_solved(&settings[place])? {
                usable.push(place);
            }
        }
        if usable.len() < 2 {
            return Ok(None);
        }
        let costs = parallel::map(threads, usable.len() * folds, |job| {
            let (candidate, fold) = (usable[job / folds], job % folds);
            all[candidate][fold].costs(&settings[candidate])
        })?;
        let costs = costs.chunks(folds).map(|of_folds| {
            let complete = of_folds.iter().cloned().collect::<Option<Vec<_>>>();
            complete.map(|of_folds| of_folds.concat())
        });
        let scored = usable.iter().map(|&place| candidates[place]).zip(costs);
        let scored = scored.filter_map(|(candidate, costs)| Some((candidate, costs?)));
        let scored: Vec<_> = scored.collect();
        Ok(Self::among(&scored))
    }

    /// The best of candidates with the NLL of every left-out row.
    fn among(scored: &[(Candidate, Vec<f64>)]) -> Option<Self> {
        let mut best: Option<&(Candidate, Vec<f64>)> = None;
        for is_linear in [false, true] {
            let of_kind = || {
                scored
                    .iter()
                    .filter(move |one| one.0.is_linear == is_linear)
            };
            let Some((first, _)) = of_kind().next() else {
                continue;
            };
            let targets = of_kind().filter(|one| one.0.feature_scale == first.feature_scale);
            let target = targets.fold(None, |best, other| better(best, other, OF_TARGETS));
            let features = of_kind()
                .filter(|one| target.is_some_and(|best| best.0.target_scale == one.0.target_scale));
            let of_kind = features.fold(target, |best, other| better(best, other, 0.0));
            best = match of_kind {
                Some(other) => better(best, other, OF_MODELS),
                None => best,
            };
        }
        let costs = scored.iter();
        best.map(|(chosen, _)| Self {
            chosen: *chosen,
            costs: costs.map(|(one, costs)| (*one, mean(costs))).collect(),
        })
    }

    /// How often each candidate was chosen; `None` if there was never anything to choose.
    pub(crate) fn counts(choices: &[Option<Self>]) -> Option<String> {
        let chosen = || choices.iter().flatten().map(|choice| choice.chosen);
        let counts = distinct(chosen(), |one| *one).into_iter().map(|one| {
            let count = chosen().filter(|other| *other == one).count();
            format!("{one} in {count} of {} runs", choices.len())
        });
        let counts: Vec<String> = counts.collect();
        (!counts.is_empty()).then(|| {
            let counts = counts.join(", ");
            format!("{counts}, by the NLL of left-out training rows of each run")
        })
    }

    /// Settles what was chosen.
    pub fn apply(&self, config: &mut Config) {
        config.data.target_scale = self.chosen.target_scale;
        config.data.feature_scale = self.chosen.feature_scale;
        if self.chosen.is_linear {
            config.fit.model = Some(linear());
        }
    }
}

/// The second, if it is better by more than this many standard errors; otherwise the first.
fn better<'a>(
    first: Option<&'a (Candidate, Vec<f64>)>,
    second: &'a (Candidate, Vec<f64>),
    errors: f64,
) -> Option<&'a (Candidate, Vec<f64>)> {
    let Some(first) = first else {
        return Some(second);
    };
    let units = Units::rows(second.1.len());
    let difference = Summary::of_differences(&second.1, &first.1, &units);
    let is_better = difference.is_some_and(|found| {
        let error = found.standard_error.unwrap_or(f64::INFINITY);
        found.mean < -errors * error
    });
    Some(if is_better { second } else { first })
}

/// What the settings leave open.
fn candidates(rows: &SplitTable, config: &Config) -> Result<Vec<Candidate>> {
    let Config { data, fit } = config;
    let task = data.task()?;
    let target_scales = match data.target_scale {
        TargetScaleName::Auto if can_be_logarithmic(rows, config)? => {
            vec![TargetScaleName::Linear, TargetScaleName::Log]
        }
        TargetScaleName::Auto => vec![TargetScaleName::Linear],
        given => vec![given],
    };
    let feature_scales = match data.feature_scale {
        FeatureScaleName::Auto if has_long_tails(rows, config)? => {
            vec![FeatureScaleName::Linear, FeatureScaleName::Log]
        }
        FeatureScaleName::Auto => vec![FeatureScaleName::Linear],
        given => vec![given],
    };
    let is_open = fit.method == Method::Auto && fit.model.is_none() && fit.likelihood.is_none();
    let is_solved = data.targets()?.len() == 1
        && matches!(task, TaskName::Regression | TaskName::Classification);
    let kinds = match is_open && is_solved && rows.train.len() >= FEWEST_ROWS {
        true => vec![false, true],
        false => vec![!is_open && fit.is_linear()],
    };
    let mut candidates = Vec::new();
    for is_linear in kinds {
        for &feature_scale in &feature_scales {
            candidates.extend(target_scales.iter().map(|&target_scale| Candidate {
                target_scale,
                feature_scale,
                is_linear,
            }));
        }
    }
    Ok(candidates)
}

/// The same of the scales only.
fn scales(rows: &SplitTable, config: &Config) -> Result<Vec<Candidate>> {
    let mut candidates = candidates(rows, config)?;
    let is_linear = candidates.first().is_some_and(|first| first.is_linear);
    candidates.retain(|candidate| candidate.is_linear == is_linear);
    Ok(candidates)
}

/// Whether the logarithms of columns could be features.
fn has_long_tails(rows: &SplitTable, config: &Config) -> Result<bool> {
    let Config { data, fit } = config;
    if data.targets()?.len() > 1
        || data.no_standardize
        || fit.prior.kernel().is_some()
        || rows.train.len() < FEWEST_ROWS
    {
        return Ok(false);
    }
    let logarithmic = DataSettings {
        feature_scale: FeatureScaleName::Log,
        ..data.clone()
    };
    let preparation = logarithmic.preprocessor(&rows.table)?;
    // What is wrong with the rows is said where they are prepared.
    let prepared = Preprocessor::fit(&preparation, &rows.table, some(&rows.train, fit.seed));
    Ok(prepared.is_ok_and(|prepared| prepared.logarithmic().next().is_some()))
}

/// Whether the logarithm of the target could be predicted.
fn can_be_logarithmic(rows: &SplitTable, config: &Config) -> Result<bool> {
    let Config { data, fit } = config;
    let [target] = data.targets()? else {
        return Ok(false);
    };
    let is_open = data.task()? == TaskName::Regression
        && fit.likelihood != Some(LikelihoodName::Mixture)
        && fit.prior.kernel().is_none()
        && fit.noise_precision == NoisePrecision::LEARNED
        && rows.train.len() >= FEWEST_ROWS;
    let are_positive = |table: &Table, rows: &[usize]| {
        let column = table.column(target)?;
        let is_positive = |&row: &usize| column.number(row).is_some_and(|value| value > 0.0);
        Ok::<_, TabularError>(rows.iter().all(is_positive))
    };
    let SplitTable {
        table,
        train,
        held_out,
    } = rows;
    Ok(is_open && are_positive(table, train)? && are_positive(&held_out.table, &held_out.rows)?)
}

/// Some of many rows.
fn some(train: &[usize], seed: u64) -> Vec<usize> {
    let order = shuffled(train.len(), Noise::new(seed).fold(ROWS));
    let some = order.into_iter().take(MOST_ROWS).map(|place| train[place]);
    some.collect()
}

fn linear() -> NetworkShape {
    NetworkShape { hidden: Vec::new() }
}

impl Candidate {
    /// The settings of its fits, in the place of those that are given.
    fn config(&self, given: &Config) -> Result<Config> {
        Ok(Config {
            data: self.data(&given.data),
            fit: self.settings(given)?,
        })
    }

    fn data(&self, data: &DataSettings) -> DataSettings {
        DataSettings {
            target_scale: self.target_scale,
            feature_scale: self.feature_scale,
            // A rare category may be in left-out rows only.
            unseen: UnseenName::Zeros,
            ..data.clone()
        }
    }

    fn settings(&self, given: &Config) -> Result<FitSettings> {
        let fit = &given.fit;
        let is_sampled = fit.method.is_sampled() || fit.method == Method::Auto;
        let is_number = given.data.task()? == TaskName::Regression;
        let own = FitSettings {
            seed: fit.seed,
            device: fit.device,
            draws: DRAWS,
            ..FitSettings::default()
        };
        Ok(match self.is_linear {
            true => FitSettings {
                model: Some(linear()),
                ..own
            },
            false => FitSettings {
                method: Method::Mclmc,
                chains: 1,
                epochs: Some(EPOCHS),
                likelihood: match is_sampled || !is_number {
                    true => fit.likelihood,
                    false => Some(fit.likelihood.unwrap_or(LikelihoodName::Gaussian)),
                },
                ..own
            },
        })
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_linear {
            true => "a linear model",
            false => "a network",
        })?;
        if self.target_scale == TargetScaleName::Log {
            f.write_str(" of the logarithm")?;
        }
        if self.feature_scale == FeatureScaleName::Log {
            f.write_str(" with logarithms of columns")?;
        }
        Ok(())
    }
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut best: Vec<&(Candidate, f64)> = self.costs.iter().collect();
        best.sort_by(|one, other| one.1.total_cmp(&other.1));
        let is_best = best.first().is_none_or(|(best, _)| *best == self.chosen);
        // The chosen one first, and then those that come next.
        best.sort_by_key(|(one, _)| *one != self.chosen);
        let (shown, others) = best.split_at(best.len().min(MOST_SHOWN));
        let shown = shown.iter();
        let shown = shown.map(|(one, cost)| format!("{one} {}", number(*cost)));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let chosen = self.chosen;
        write!(f, "{chosen}, by the NLL of left-out training rows: {shown}")?;
        if !others.is_empty() {
            write!(f, ", and {} other ways", others.len())?;
        }
        if !is_best {
            f.write_str(
                " (the logarithm of the target must be better by a standard error, and a linear model by two)",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {

    use burn_bayes_data::Column;

    use super::*;

    const ROWS: usize = 250;

    fn normals(seed: u64) -> impl Iterator<Item = f64> {
        Noise::new(seed).latent(ROWS).into_iter().map(f64::from)
    }

    /// Rows with an input x, from −2 to 2, and the target of x and of normal noise.
    fn rows(target: impl Fn(f64, f64) -> f64) -> SplitTable {
        let inputs: Vec<f64> = (0..ROWS).map(|row| row as f64 / 62.5 - 2.0).collect();
        let targets = inputs
            .iter()
            .zip(normals(1))
            .map(|(x, noise)| target(*x, noise));
        let columns = vec![
            Column::numbers("y", targets.collect()),
            Column::numbers("x", inputs),
        ];
        SplitTable::of(
            Table::new(columns).unwrap(),
            (0..ROWS).collect(),
            Vec::new(),
        )
    }

    fn config(text: &str) -> Config {
        Config {
            data: DataSettings {
                target: "y".parse().ok(),
                task: Some(TaskName::Regression),
                ..DataSettings::default()
            },
            fit: toml::from_str(text).unwrap(),
        }
    }

    fn chosen(rows: &SplitTable, config: &Config) -> Option<(TargetScaleName, bool)> {
        let choice = ModelChoice::of(rows, config, 2).unwrap();
        choice.map(|choice| (choice.chosen.target_scale, choice.chosen.is_linear))
    }

    #[test]
    fn the_scale_and_the_model_that_predict_better_are_chosen() {
        use TargetScaleName::{Linear, Log};
        let auto = config("");
        let grown = rows(|x, noise| ((2.0 * x).sin() + x + 0.3 * noise).exp());
        assert_eq!(chosen(&grown, &auto), Some((Log, false)));
        let curve = rows(|x, noise| 5.0 + (3.0 * x).sin() + 0.2 * noise);
        assert_eq!(chosen(&curve, &auto), Some((Linear, false)));
    }

    #[test]
    fn logarithms_of_columns_with_long_tails_are_chosen() {
        let inputs: Vec<f64> = normals(3).map(|normal| (2.0 * normal).exp()).collect();
        let pairs = inputs.iter().zip(normals(1));
        let targets = pairs.map(|(x, noise)| (1.5 * x.ln()).sin() + 0.2 * noise);
        let columns = vec![
            Column::numbers("y", targets.collect()),
            Column::numbers("x", inputs.clone()),
        ];
        let table = Table::new(columns).unwrap();
        let rows = SplitTable::of(table, (0..ROWS).collect(), Vec::new());
        let mut settled = config("");
        let choice = ModelChoice::of(&rows, &settled, 2).unwrap().unwrap();
        choice.apply(&mut settled);
        assert_eq!(settled.data.feature_scale, FeatureScaleName::Log);
        assert_eq!(settled.fit.model, None);
        let text = choice.to_string();
        let start = "a network with logarithms of columns, by";
        assert!(text.starts_with(start), "{text}");

        let mut given = config("");
        given.data.feature_scale = FeatureScaleName::Linear;
        let [open, kept] = [config(""), given].map(|config| candidates(&rows, &config).unwrap());
        assert_eq!(open.len(), 2 * kept.len());
    }

    /// The scale of a linear model is that which suits a linear model.
    #[test]
    fn a_given_linear_model_is_tried_itself() {
        let grown = rows(|x, noise| (x + 0.1 * noise).exp());
        let config = config("model = 'linear'");
        assert_eq!(chosen(&grown, &config), Some((TargetScaleName::Log, true)));
        let choice = ModelChoice::of_scales(&grown, &config, 2).unwrap();
        assert!(choice.unwrap().to_string().starts_with("a linear model"));
    }

    #[test]
    fn a_linear_model_is_chosen_if_it_is_better_by_two_standard_errors() {
        use TargetScaleName::{Linear, Log};
        // Of 100 rows, half are better by 1 + gain, and half worse by 1 − gain: the mean has a standard error of .1.
        let choice = |gain: f64| {
            let candidates = [(Linear, false), (Log, false), (Linear, true)];
            let scored = candidates.map(|(target_scale, is_linear)| {
                let candidate = Candidate {
                    target_scale,
                    feature_scale: FeatureScaleName::Linear,
                    is_linear,
                };
                let cost = |row: usize| match (is_linear, row % 2) {
                    (false, _) => 0.0,
                    (true, 0) => 1.0 - gain,
                    (true, _) => -1.0 - gain,
                };
                (candidate, (0..100).map(cost).collect())
            });
            ModelChoice::among(&scored).unwrap()
        };
        let unsure = choice(0.15);
        assert!(!unsure.chosen.is_linear);
        let text = unsure.to_string();
        assert!(text.ends_with("a linear model by two)"), "{text}");
        let choice = choice(0.25);
        let mut settled = config("");
        choice.apply(&mut settled);
        assert_eq!(settled.data.target_scale, Linear);
        assert_eq!(settled.fit.model, Some(linear()));
        let text = choice.to_string();
        assert!(text.starts_with("a linear model, by the NLL"), "{text}");
        assert!(text.contains("a network of the logarithm "), "{text}");
    }

    #[test]
    fn a_linear_model_that_is_not_solved_within_seconds_is_no_candidate() {
        let columns = (0..1100).map(|column| {
            let values = (0..ROWS).map(|row| ((row * (column + 3)) % 17) as f64);
            Column::numbers(format!("x{column}"), values.collect())
        });
        let targets = Column::numbers("y", normals(1).collect());
        let columns = columns.chain([targets]).collect();
        let table = Table::new(columns).unwrap();
        let wide = SplitTable::of(table, (0..ROWS).collect(), Vec::new());
        assert_eq!(candidates(&wide, &config("")).unwrap().len(), 2);
        assert_eq!(chosen(&wide, &config("")), None);
    }

    #[test]
    fn settings_that_leave_the_same_open_share_a_choice() {
        let grown = rows(|x, noise| ((2.0 * x).sin() + x + 0.3 * noise).exp());
        let texts = ["", "learning_rate = 0.1", "noise_precision = 2.0", ""];
        let configs = texts.map(config);
        let choices = ModelChoice::of_each(&grown, &configs, 2).unwrap();
        let one = ModelChoice::of_scales(&grown, &configs[0], 2).unwrap();
        assert!(one.is_some());
        assert_eq!(choices, [one.clone(), one.clone(), None, one]);
    }

    /// As many folds as the rarest class has rows; none of one row.
    #[test]
    fn a_class_of_few_rows_is_no_error() {
        for ill in [1, 3] {
            let targets = (0..ROWS).map(|row| f64::from(row < ill));
            let inputs = normals(2).collect();
            let columns = vec![
                Column::numbers("y", targets.collect()),
                Column::numbers("x", inputs),
            ];
            let table = Table::new(columns).unwrap();
            let rows = SplitTable::of(table, (0..ROWS).collect(), Vec::new());
            let mut config = config("");
            config.data.task = Some(TaskName::Classification);
            config.data.path = Some("ill.csv".into());
            let choice = ModelChoice::of(&rows, &config, 2).unwrap();
            assert_eq!(choice.is_some(), ill > 1);
        }
    }

    #[test]
    fn what_is_given_is_not_chosen() {
        let line = rows(|x, noise| 20.0 + 2.0 * x + 0.5 * noise);
        let open = |text: &str| candidates(&line, &config(text)).unwrap().len();
        assert_eq!(open(""), 4);
        assert_eq!(open("method = 'vifa'"), 2);
        assert_eq!(open("model = 'mlp:5'"), 2);
        assert_eq!(open("noise_precision = 2.0\nmodel = 'linear'"), 1);
        assert_eq!(open("prior = 'gp:rbf'\nmodel = 'mlp:5'"), 1);
        let mut given = config("");
        given.data.target_scale = TargetScaleName::Log;
        assert_eq!(candidates(&line, &given).unwrap().len(), 2);
        let with_zero = rows(|x, _| (x + 2.0).max(0.0));
        assert_eq!(candidates(&with_zero, &config("")).unwrap().len(), 2);
        assert_eq!(chosen(&with_zero, &config("model = 'mlp:5'")), None);
    }
}
