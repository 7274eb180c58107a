//! The fits of a comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn_bayes_data::{
    Column, ColumnKind, CsvOptions, CsvReader, KFold, PreprocessorConfig, Split,
};

use super::{Variant, measures};
use crate::distinct::distinct;
use crate::error::{Result, TabularError};
use crate::experiments::ModelChoice;
use crate::experiments::jobs::{Computed, Job, Key};
use crate::experiments::search::{Fold, FoldFit, NewTable};
use crate::rows::SplitTable;
use crate::settings::{
    Config, DataSettings, FitSettings, Method, MissingName, PlainName, TaskName, expect_at_most,
    refused,
};

/// Maximum number of repeats.
const MAX_REPEATS: usize = 10_000;

/// The fits of a comparison: every method with the given settings and with those of every variant, and every plain model, on
/// every fold, with a random re-split for every repeat.
#[derive(Clone, Debug)]
pub struct Runs {
    given: Fits,
    variants: Vec<Fits>,
    plain: Vec<PlainName>,
    repeats: usize,
    /// The number of folds of a repeat; run r is on fold r mod `folds` of repeat ⌊r/`folds`⌋.
    pub(super) folds: usize,
    /// `None` if none are asked for.
    pub(super) new_rows: Option<NewRowsRequest>,
}

/// Fits with the same settings by several methods.
#[derive(Clone, Debug)]
struct Fits {
    /// `None` for the settings as given.
    variant: Option<Variant>,
    /// The settings, except for the method.
    config: Config,
    methods: Vec<Method>,
    /// The scales that were chosen for each run, if they were.
    choices: Vec<Option<ModelChoice>>,
}

/// New rows that get prediction intervals.
#[derive(Clone, Debug)]
pub(crate) struct NewRowsRequest {
    path: PathBuf,
    /// The level of the intervals.
    pub(crate) level: f64,
}

impl Runs {
    /// A comparison of single fits with these settings and with those of variants, which are fitted by all methods or by their
    /// own one. The method of the settings, their validation fraction, and settings of a run around a training, such as the
    /// number of members, are ignored.
    ///
    /// # Errors
    /// If fewer than two are compared, no method is among them, two have the same name, a variant is invalid, or a count is out
    /// of range.
    pub fn new(
        mut config: Config,
        methods: &[Method],
        variants: &[Variant],
        plain: &[PlainName],
        repeats: usize,
        folds: usize,
    ) -> Result<Self> {
        // Every row is in a test fold once, so no validation rows are needed.
        config.data.validation = 0.0;
        config.data.validation_file = None;
        config.fit = config.fit.of_one_training();
        let methods = distinct(methods.iter().copied(), |&method| method);
        let plain = distinct(plain.iter().copied(), |&plain| plain);
        if methods.is_empty() || methods.len() + variants.len() + plain.len() < 2 {
            let problem = "must name at least two methods, or one beside a model of `--plain` or a `--variant`";
            return Err(refused("methods", problem));
        }
        expect_at_most("repeats", repeats, MAX_REPEATS)?;
        // Rows can be divided in time in one way.
        let repeats = match config.data.time {
            Some(_) => 1,
            None => repeats,
        };
        if folds < 2 {
            let problem = format!("is {folds}; it must be at least 2");
            return Err(refused("folds", problem));
        }
        let of_variant = |variant: &Variant| {
            Ok(Fits {
                variant: Some(variant.clone()),
                config: variant.of(&config)?,
                methods: variant
                    .method()
                    .map_or_else(|| methods.clone(), |method| vec![method]),
                choices: Vec::new(),
            })
        };
        let runs = Self {
            variants: variants.iter().map(of_variant).collect::<Result<_>>()?,
            given: Fits {
                variant: None,
                config,
                methods,
                choices: Vec::new(),
            },
            plain,
            repeats,
            folds,
            new_rows: None,
        };
        let names = runs.names();
        let mut places = names.iter().enumerate();
        let twice = places.find(|(place, name)| names[..*place].contains(name));
        twice.map_or(Ok(()), |(_, name)| {
            let problem = format!("gives two fits the name `{name}`; leave out one of them");
            Err(refused("variant", problem))
        })?;
        Ok(runs)
    }

    /// With prediction intervals of the rows of a file, from the fits of the first repeat.
    ///
    /// # Errors
    /// If the level is not in (0, 1), the target is a class, there are several, or rows have groups or times.
    pub fn with_new_rows(self, path: &Path, level: f64) -> Result<Self> {
        if !(level > 0.0 && level < 1.0) {
            let problem = format!("is {level}; it must be in (0, 1), such as 0.9");
            return Err(refused("conformal", problem));
        }
        if self.config().data.task()? == TaskName::Classification {
            let problem = "makes intervals of numbers, but the target is a class; use `fit`, and `predict --conformal` for \
                           sets of classes";
            return Err(refused("predict", problem));
        }
        if self.config().data.targets()?.len() > 1 {
            let problem = "makes intervals of one target, but `target` names several; leave it out, or compare for each target \
                           alone";
            return Err(refused("predict", problem));
        }
        if self.config().data.group_by.is_some() {
            let problem = "counts rows as if they were independent, but those of a group of `--group-by` are alike; leave one of \
                           both out, or use `fit`, and `predict --conformal`, which counts groups";
            return Err(refused("predict", problem));
        }
        if self.config().data.time.is_some() {
            let problem = "needs folds that leave out every row once, which those of `--time` do not; leave one of both out";
            return Err(refused("predict", problem));
        }
        let path = path.into();
        Ok(Self {
            new_rows: Some(NewRowsRequest { path, level }),
            ..self
        })
    }

    /// Reads the new rows; `rows` are those of the data file.
    pub(crate) fn new_table(&self, rows: &SplitTable) -> Result<Option<NewTable>> {
        let Some(request) = &self.new_rows else {
            return Ok(None);
        };
        let data = &self.config().data;
        let is_read = |column: &&Column| {
            let name = column.name();
            let is_used = |fits: &Fits| {
                let mut others = fits.config.data.not_features(&rows.table);
                others.all(|other| other != name)
            };
            // A column that the preparation leaves out for all rows may have a feature in a fold.
            column.present_rows() > 0 && self.all().any(is_used)
        };
        let columns = rows.table.columns().iter();
        let kinds: BTreeMap<String, ColumnKind> = columns
            .filter(is_read)
            .map(|column| (column.name().to_string(), column.kind()))
            .collect();
        let names: BTreeSet<String> = kinds.keys().cloned().collect();
        let options = CsvOptions {
            kinds,
            only: Some(names.clone()),
            // A target may be unknown, and a missing feature is reported where it is used.
            optional: names,
            ..data.csv_options()
        };
        let table = CsvReader::open(&request.path, options)?.read_all()?;
        let targets = data.targets()?;
        let columns = table.columns().iter();
        let columns = columns.filter(|column| !targets.iter().any(|name| name == column.name()));
        let columns: Vec<&Column> = columns.collect();
        let is_complete = |row: &usize| !columns.iter().any(|column| column.is_missing(*row));
        let rows =
            (0..table.rows()).filter(|row| data.missing != MissingName::Drop || is_complete(row));
        let rows = rows.collect();
        Ok(Some(NewTable {
            table: Arc::new(table),
            rows,
        }))
    }

    /// The settings as given except for the method, without validation rows.
    pub fn config(&self) -> &Config {
        &self.given.config
    }

    /// The fits of the methods: those with the settings as given, and those of each variant.
    fn all(&self) -> impl Iterator<Item = &Fits> {
        std::iter::once(&self.given).chain(&self.variants)
    }

    /// The names of the fits and of the plain models.
    pub fn names(&self) -> Vec<String> {
        let fits = self.all().flat_map(|fits| {
            let methods = fits.methods.iter();
            methods.map(|&method| fits.name(method))
        });
        fits.chain(self.plain.iter().map(ToString::to_string))
            .collect()
    }

    /// Chooses the scales of the target and of columns with long tails for every run, from its training rows, where the settings
    /// leave them open. The result says what was chosen for the settings as given, and for every variant with other choices.
    ///
    /// # Errors
    /// If the rows cannot be divided or prepared.
    pub fn choose_scales(
        &mut self,
        rows: &SplitTable,
        threads: usize,
    ) -> Result<Vec<(Option<String>, String)>> {
        for split in self.divisions(rows)? {
            let rows = SplitTable::of(rows.table.clone(), split.train, split.test);
            let configs = self.all().map(|fits| &fits.config);
            let choices = ModelChoice::of_each(&rows, configs, threads)?;
            let fits = std::iter::once(&mut self.given).chain(&mut self.variants);
            for (fits, choice) in fits.zip(choices) {
                fits.choices.push(choice);
            }
        }
        let shown = distinct(self.all(), |fits| &fits.choices).into_iter();
        let shown = shown.filter_map(|fits| {
            let variant = fits.variant.as_ref().map(Variant::name);
            Some((variant, ModelChoice::counts(&fits.choices)?))
        });
        Ok(shown.collect())
    }

    /// The training and test rows of every run.
    fn divisions(&self, rows: &SplitTable) -> Result<Vec<Split>> {
        let most = rows.train.len();
        if self.folds > most {
            let problem = format!("is {}, but there are only {most} rows", self.folds);
            return Err(refused("folds", problem));
        }
        rows.divisions(&self.config().data, self.kept())
    }

    fn kept(&self) -> KFold {
        KFold::new(self.folds)
            .with_repeats(self.repeats)
            .with_seed(self.config().fit.seed)
    }

    /// The fits, and the positive class of F1.
    ///
    /// # Errors
    /// If the rows are too few, or a setting is invalid for one of the fits.
    pub fn of_rows(&self, rows: &SplitTable) -> Result<(Vec<Job>, Option<String>)> {
        let Config { data, fit } = self.config();
        let folds = self.folds_of(rows)?;
        let asked = data.positive.as_deref();
        let positives = folds[0].iter().map(|fold| fold.positive(asked));
        let positive = positives.collect::<Result<Vec<_>>>()?[0].map(String::from);
        let case = data.path()?.file_stem().unwrap_or_default();
        let case = case.to_string_lossy();
        let mut jobs = Vec::new();
        for run in 0..folds[0].len() {
            let mut push = |name, plain, settings: FitSettings, fold: &Arc<Fold>| -> Result<()> {
                let key = Key::new(case.clone().into_owned(), name, run as u64);
                let fit = FoldFit {
                    settings,
                    plain,
                    fold: fold.clone(),
                    positive: positive.clone(),
                };
                jobs.push(job(key, fit)?);
                Ok(())
            };
            for (fits, folds) in self.all().zip(&folds) {
                let settings = fits.settings((run / self.folds) as u64);
                let checked = folds[run].check(&settings);
                checked.map_err(|error| fits.in_error(error))?;
                for settings in settings {
                    push(fits.name(settings.method), None, settings, &folds[run])?;
                }
            }
            for &plain in &self.plain {
                push(plain.to_string(), Some(plain), fit.clone(), &folds[0][run])?;
            }
        }
        Ok((jobs, positive))
    }

    /// The folds of the fits with the given settings, and of those of each variant. Fits whose columns are prepared in the same
    /// way share them.
    fn folds_of(&self, rows: &SplitTable) -> Result<Vec<Vec<Arc<Fold>>>> {
        for variant in self.all().filter_map(|fits| fits.variant.as_ref()) {
            variant.check_columns(&self.config().data, &rows.table)?;
        }
        let count = self.divisions(rows)?.len();
        let new = self.new_table(rows)?;
        let mut made: Vec<(PreprocessorConfig, Vec<Arc<Fold>>)> = Vec::new();
        let folds = self.all().map(|fits| {
            let of_run = |run| {
                let data = fits.data(run);
                let preparation = data.preprocessor(&rows.table)?;
                if let Some((_, folds)) = made.iter().find(|(known, _)| *known == preparation) {
                    return Ok(folds[run].clone());
                }
                let folds = Fold::all(rows, &data, self.kept(), new.clone());
                let folds = folds.map_err(|error| fits.in_error(error))?;
                let fold = folds[run].clone();
                made.push((preparation, folds));
                Ok(fold)
            };
            (0..count).map(of_run).collect()
        });
        folds.collect()
    }
}

impl Fits {
    /// The name of the fit by a method: the method, and the changes of the variant.
    fn name(&self, method: Method) -> String {
        let changes = self.variant.as_ref().map(Variant::name);
        match changes.filter(|changes| !changes.is_empty()) {
            Some(changes) => format!("{method}, {changes}"),
            None => method.to_string(),
        }
    }

    /// How the rows of a run are prepared.
    fn data(&self, run: usize) -> DataSettings {
        let mut config = self.config.clone();
        if let Some(Some(choice)) = self.choices.get(run) {
            choice.apply(&mut config);
        }
        config.data
    }

    /// The settings of the fit by each method in a repeat.
    fn settings(&self, repeat: u64) -> Vec<FitSettings> {
        let fit = &self.config.fit;
        let of_method = |&method: &Method| FitSettings {
            method,
            seed: fit.seed.wrapping_add(repeat),
            ..fit.clone()
        };
        self.methods.iter().map(of_method).collect()
    }

    /// An error of these fits, which names the variant.
    fn in_error(&self, error: TabularError) -> TabularError {
        match &self.variant {
            Some(variant) => variant.in_error(error),
            None => error,
        }
    }
}

/// One fit.
fn job(key: Key, fit: FoldFit) -> Result<Job> {
    Job::of(key, fit, |fit| {
        let positive = fit.positive.as_deref();
        let scored = match fit.plain {
            Some(plain) => fit.fold.score_plain(plain, &fit.settings, positive)?,
            None => fit.fold.score(&fit.settings, positive)?,
        };
        Ok(Computed {
            measures: measures(&scored),
            left_out: scored.left_out,
            ..Computed::default()
        })
    })
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::Table;
    use serde_json::Value;

    use super::*;
    use crate::experiments::comparison::Change;
    use crate::settings::{NetworkShape, TargetScaleName};

    const ROWS: usize = 60;

    /// A number `a`, which is related to the target `y`, a number `b`, and a category `town` that is rare in most rows.
    fn rows() -> SplitTable {
        let number = |row: usize, factor: f64| (row as f64 * factor).fract();
        let column = |name: &str, factor: f64| {
            Column::numbers(name, (0..ROWS).map(|row| number(row, factor)).collect())
        };
        let towns: Vec<String> = (0..ROWS).map(|row| format!("t{}", row % 30)).collect();
        let targets = (0..ROWS).map(|row| 2.0 + number(row, 0.618) + 0.1 * number(row, 0.3));
        let columns = vec![
            column("a", 0.618),
            column("b", 0.414),
            Column::categories("town", towns.iter().map(|town| Some(town.as_str()))),
            Column::numbers("y", targets.collect()),
        ];
        let table = Table::new(columns).unwrap();
        SplitTable::of(table, (0..ROWS).collect(), Vec::new())
    }

    fn config() -> Config {
        let mut config = Config::default();
        config.data.path = Some("rows.csv".into());
        config.data.target = Some("y".into());
        config.data.task = Some(TaskName::Regression);
        config.data.target_scale = TargetScaleName::Linear;
        config.fit.epochs = Some(3);
        config
    }

    fn variant(words: &[(&str, &str)]) -> Variant {
        let changes = words.iter().map(|&(setting, value)| Change {
            word: format!("{setting}={value}"),
            setting: setting.into(),
            value: value.into(),
        });
        Variant::new(changes.collect()).unwrap()
    }

    fn runs(config: Config, methods: &[Method], variants: &[Variant]) -> Result<Runs> {
        Runs::new(config, methods, variants, &[PlainName::Constant], 1, 3)
    }

    /// The name, the fold and the settings of every job.
    fn jobs(runs: &Runs) -> Vec<(String, u64, Value)> {
        let (jobs, _) = runs.of_rows(&rows()).unwrap();
        let parts = jobs.into_iter();
        parts
            .map(|job| (job.key.method, job.key.seed, job.settings))
            .collect()
    }

    #[test]
    fn every_method_is_fitted_with_every_variant() {
        let variants = [
            variant(&[("model", "linear")]),
            variant(&[("method", "vadam"), ("momentum", "0.8"), ("epochs", "5")]),
            variant(&[("method", "laplace")]),
        ];
        let found = runs(config(), &[Method::Map, Method::MeanField], &variants).unwrap();
        let names = [
            "map",
            "mean-field",
            "map, model=linear",
            "mean-field, model=linear",
            "vadam, momentum=0.8 epochs=5",
            "laplace",
            "constant",
        ];
        assert_eq!(found.names(), names);
        let jobs = jobs(&found);
        assert_eq!(jobs.len(), 3 * names.len());
        for (fold, of_fold) in jobs.chunks(names.len()).enumerate() {
            for ((name, seed, _), expected) in of_fold.iter().zip(names) {
                assert_eq!((name.as_str(), *seed), (expected, fold as u64));
            }
        }
    }

    #[test]
    fn a_variant_is_fitted_like_the_settings_that_it_stands_for() {
        for (words, change) in [
            (
                &[("model", "linear"), ("likelihood", "heteroscedastic")][..],
                (|config: &mut Config| {
                    config.fit.model = Some(NetworkShape { hidden: Vec::new() });
                    config.fit.likelihood = Some(crate::settings::LikelihoodName::Heteroscedastic);
                }) as fn(&mut Config),
            ),
            (&[("ignore", "b,town")], |config| {
                config.data.ignore.0 = ["b", "town"].map(String::from).to_vec();
            }),
            (&[("rare", "1")], |config| config.data.rare = Some(1)),
            (&[("no_standardize", "true")], |config| {
                config.data.no_standardize = true;
            }),
            (&[("target_scale", "log")], |config| {
                config.data.target_scale = TargetScaleName::Log;
            }),
        ] {
            let found = runs(config(), &[Method::Map], &[variant(words)]).unwrap();
            let name = found.names()[1].clone();
            let mut changed = config();
            change(&mut changed);
            let expected = runs(changed, &[Method::Map], &[]).unwrap();
            let of = |runs: &Runs, name: &str| -> Vec<Value> {
                let of_name = jobs(runs).into_iter().filter(|job| job.0 == name);
                of_name.map(|job| job.2).collect()
            };
            let (fits, given) = (of(&found, &name), of(&found, "map"));
            assert_eq!(fits, of(&expected, "map"), "{name}");
            // So a result of other settings is not taken for one of these.
            assert!(fits.len() == 3 && fits[0] != given[0], "{name}");
        }
    }

    #[test]
    fn scales_are_chosen_from_the_training_rows_of_a_run() {
        let mut open = config();
        open.data.target_scale = TargetScaleName::Auto;
        // Its fits are solved directly.
        open.fit.model = Some(NetworkShape { hidden: Vec::new() });
        let plain = runs(open, &[Method::Map], &[]).unwrap();
        let rows = rows();
        let tested = &plain.divisions(&rows).unwrap()[0].test;
        // The targets of the first run's test rows are other ones.
        let columns = rows.table.columns().iter().map(|column| {
            let number = |row| {
                let factor = match column.name() == "y" && tested.contains(&row) {
                    true => 100.0,
                    false => 1.0,
                };
                column.number(row).map(|value| factor * value)
            };
            match column.kind() {
                ColumnKind::Number => {
                    Column::numbers(column.name(), (0..ROWS).filter_map(number).collect())
                }
                ColumnKind::Category => column.clone(),
            }
        });
        let table = Table::new(columns.collect()).unwrap();
        let other = SplitTable::of(table, rows.train.clone(), Vec::new());
        let choices = [&rows, &other].map(|rows| {
            let mut found = plain.clone();
            let shown = found.choose_scales(rows, 2).unwrap();
            assert!(shown.len() == 1 && shown[0].1.contains("run"), "{shown:?}");
            found.given.choices
        });
        assert_eq!(choices[0].len(), 3);
        assert!(choices[0][0].is_some());
        assert_eq!(choices[0][0], choices[1][0]);
        assert_ne!(choices[0][1], choices[1][1]);
    }

    #[test]
    fn fits_that_cannot_be_compared_are_refused() {
        let linear = || variant(&[("model", "linear")]);
        let message = |methods: &[Method], variants: &[Variant]| {
            let found = runs(config(), methods, variants).and_then(|runs| runs.of_rows(&rows()));
            match found {
                Err(error) => error.to_string(),
                Ok(_) => panic!("{variants:?} are compared"),
            }
        };
        for (variants, part) in [
            (vec![linear(), linear()], "the name `map, model=linear`"),
            (vec![variant(&[("method", "map")])], "the name `map`"),
            (
                vec![variant(&[("method", "vifa"), ("rank", "5000")])],
                "`variant` is `method=vifa rank=5000`, but `rank` is 5000",
            ),
            (vec![variant(&[("ignore", "c")])], "not a column"),
        ] {
            let found = message(&[Method::Map], &variants);
            assert!(found.contains(part), "{found}");
        }
        let mut grouped = config();
        grouped.data.group_by = Some("town".into());
        let grouped = runs(grouped, &[Method::Map], &[]).unwrap();
        let problem = grouped
            .with_new_rows(Path::new("new.csv"), 0.9)
            .unwrap_err();
        assert!(problem.to_string().contains("counts groups"), "{problem}");
        // One method is enough, if it has a variant.
        let alone = |variants: &[Variant]| Runs::new(config(), &[Method::Map], variants, &[], 1, 3);
        assert!(alone(&[]).is_err());
        assert_eq!(alone(&[linear()]).unwrap().names().len(), 2);
    }

    #[test]
    fn new_rows_have_the_columns_of_every_variant() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.csv");
        std::fs::write(&path, "a,b,town,other\n0.5,0.1,t1,x\n0.2,0.3,t2,y\n").unwrap();
        let columns = |config: Config, variants: &[Variant]| {
            let runs = runs(config, &[Method::Map], variants).unwrap();
            let runs = runs.with_new_rows(&path, 0.9).unwrap();
            let count = 3 * runs.names().len();
            assert_eq!(runs.of_rows(&rows()).unwrap().0.len(), count);
            let new = runs.new_table(&rows()).unwrap().unwrap();
            assert_eq!(new.rows, [0, 1]);
            let names = new.table.columns().iter().map(Column::name);
            names.map(String::from).collect::<Vec<_>>()
        };
        // In all rows every town is rare, but not in those of a fold, which are fewer.
        let all = ["a", "b", "town"];
        assert_eq!(columns(config(), &[]), all);
        assert_eq!(columns(config(), &[variant(&[("ignore", "b")])]), all);
        let mut without = config();
        without.data.ignore.0 = vec!["b".into()];
        assert_eq!(
            columns(without, &[variant(&[("rare", "1")])]),
            ["a", "town"]
        );
    }
}
