//! How a [`Preprocessor`] is learnt, from one table or from a file in pieces.

use std::collections::BTreeMap;

use crate::checks::{check_finite, check_kind, class_label, real_target};
use crate::error::{DataError, Place, shown};
use crate::levels::Levels;
use crate::preprocessor::{
    Code, FeaturePlan, MissingPolicy, Preprocessor, PreprocessorConfig, TargetCode, TargetPlan,
    Task,
};
use crate::scale::Spread;
use crate::suspicion::{DATES_TO_NUMBERS, leave_out, looks_like_date};
use crate::table::{ColumnKind, Table, listed};

/// Learns a [`Preprocessor`] from rows that come in pieces, of which none is kept.
///
/// Two passes over a file prepare it whatever its size: one through
/// [`observe`](PreprocessorFit::observe), one through [`Preprocessor::dataset`].
///
/// ```
/// use burn_bayes_data::{
///     CsvOptions, CsvReader, Dataset, PreprocessorConfig, PreprocessorFit, Task,
/// };
///
/// let text = "x,y\n1,a\n2,b\n3,a\n4,b\n5,b\n";
/// let read = |options| CsvReader::new(text.as_bytes(), "example", options);
///
/// let mut fit = PreprocessorFit::new(PreprocessorConfig::new("y", Task::Classification));
/// let mut reader = read(CsvOptions::default())?;
/// while let Some(table) = reader.next_table(2)? {
///     fit.observe(&table, 0..table.rows())?;
/// }
/// let preprocessor = fit.finish()?;
///
/// let mut all: Option<Dataset> = None;
/// let mut reader = read(preprocessor.csv_options(CsvOptions::default()))?;
/// while let Some(table) = reader.next_table(2)? {
///     let piece = preprocessor.dataset(&table, 0..table.rows())?;
///     match &mut all {
///         Some(all) => all.append(piece)?,
///         None => all = Some(piece),
///     }
/// }
/// assert_eq!(all.unwrap().targets().as_classes(), Some(&[0, 1, 0, 1, 1][..]));
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PreprocessorFit {
    config: PreprocessorConfig,
    target: Seen,
    /// What the first table said, and what was seen since.
    columns: Option<Columns>,
}

/// The columns that the first table has.
#[derive(Debug, Clone)]
struct Columns {
    features: Vec<(String, Seen)>,
    /// How the target is written.
    target_kind: ColumnKind,
    /// Where the table came from.
    source: Place,
}

/// What the rows so far have shown of a column.
#[derive(Debug, Clone)]
enum Seen {
    Numbers(Spread),
    /// How often each category was there.
    Categories(BTreeMap<String, usize>),
}

impl Seen {
    fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Number => Self::Numbers(Spread::default()),
            ColumnKind::Category => Self::Categories(BTreeMap::new()),
        }
    }

    fn kind(&self) -> ColumnKind {
        match self {
            Self::Numbers(_) => ColumnKind::Number,
            Self::Categories(_) => ColumnKind::Category,
        }
    }
}

impl PreprocessorFit {
    /// Nothing learnt yet.
    pub fn new(config: PreprocessorConfig) -> Self {
        let target = Seen::new(match config.task {
            Task::Regression => ColumnKind::Number,
            Task::Classification => ColumnKind::Category,
        });
        Self {
            config,
            target,
            columns: None,
        }
    }

    /// Takes in some rows of a table. The first table says which features there are.
    ///
    /// # Errors
    /// As for [`Preprocessor::fit`]; what was taken in before the error stays.
    pub fn observe(
        &mut self,
        table: &Table,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<(), DataError> {
        let Columns {
            features,
            target_kind,
            ..
        } = match &mut self.columns {
            Some(columns) => columns,
            None => self.columns.insert(Columns::of(table, &self.config)?),
        };
        let mut columns = Vec::with_capacity(features.len());
        for (name, seen) in features.iter() {
            let column = table.column(name)?;
            check_kind(table, column, seen.kind())?;
            columns.push(column);
        }
        let target = table.column(&self.config.target)?;
        for row in rows {
            table.check_row(row)?;
            for ((name, seen), column) in features.iter_mut().zip(&columns) {
                let place = || table.place(row).column(name);
                if column.is_missing(row) && self.config.missing == MissingPolicy::Refuse {
                    return Err(DataError::missing(place()));
                }
                match seen {
                    Seen::Numbers(spread) => {
                        if let Some(value) = column.number(row) {
                            spread.push(check_finite(value, place)?);
                        }
                    }
                    Seen::Categories(counts) => {
                        if let Some(category) = column.category(row) {
                            let most = self.config.max_categories;
                            count(counts, category, most).map_err(|found| {
                                too_many_categories(place(), name, &found, category)
                            })?;
                        }
                    }
                }
            }
            match &mut self.target {
                Seen::Numbers(spread) => spread.push(real_target(table, target, row)?),
                Seen::Categories(counts) => {
                    let label = class_label(table, target, *target_kind, row)?;
                    count(counts, &label, self.config.max_categories).map_err(|found| {
                        let place = table.place(row).column(target.name());
                        let cure = "choose regression for a target of numbers, or raise the limit";
                        DataError::data(place, found, MOST_LEVELS, cure)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What was learnt.
    ///
    /// # Errors
    /// If there were no rows, a column was missing in all of them, or the target was constant or of one
    /// class.
    pub fn finish(self) -> Result<Preprocessor, DataError> {
        let Some(columns) = self.columns else {
            let cure = "check that the file has rows";
            return Err(DataError::data(
                Place::default(),
                "no table",
                "at least one",
                cure,
            ));
        };
        let place = |name: &str| columns.source.clone().column(name);
        let name = self.config.target.clone();
        let code = match self.target {
            Seen::Numbers(spread) => {
                let scale = spread.scale(self.config.target_scaling, place(&name))?;
                if spread.is_constant() {
                    return Err(DataError::data(
                        place(&name),
                        format_args!("the target {} in every training row", spread.mean()),
                        "a target that varies",
                        "check the target column and the choice of rows",
                    ));
                }
                TargetCode::Regression { scale }
            }
            Seen::Categories(counts) => TargetCode::Classification {
                classes: Levels::classes(counts.into_keys(), place(&name))?,
                labels: columns.target_kind,
            },
        };
        let target = TargetPlan { name, code };
        let features = columns.features.into_iter().map(|(name, seen)| {
            let code = match seen {
                Seen::Numbers(spread) => Code::Number {
                    scale: spread.scale(self.config.scaling, place(&name))?,
                    imputed: spread.mean(),
                },
                Seen::Categories(counts) => one_hot(counts, place(&name))?,
            };
            Ok(FeaturePlan { name, code })
        });
        let features = features.collect::<Result<_, DataError>>()?;
        Ok(Preprocessor::new(&self.config, features, target))
    }
}

impl Columns {
    /// The columns of a table, after a look at the names in the configuration.
    fn of(table: &Table, config: &PreprocessorConfig) -> Result<Self, DataError> {
        let names = table.names();
        let ignored = config.ignore.iter().map(|name| ("ignore", name));
        for (setting, name) in [("target", &config.target)].into_iter().chain(ignored) {
            if !names.contains(&name.as_str()) {
                let expected = format_args!("a column of {}: {}", table.whole(), listed(&names));
                return Err(DataError::config(setting, shown(name), expected));
            }
        }
        let is_feature = |name: &str| name != config.target && !config.ignore.contains(name);
        let columns = table.columns().iter();
        let features: Vec<_> = columns
            .filter(|column| is_feature(column.name()))
            .map(|column| (column.name().to_string(), Seen::new(column.kind())))
            .collect();
        if features.is_empty() {
            let found = "every column but the target";
            return Err(DataError::config(
                "ignore",
                found,
                "at least one feature left",
            ));
        }
        Ok(Self {
            features,
            target_kind: table.column(&config.target)?.kind(),
            source: table.whole(),
        })
    }
}

/// What is expected of a column of categories.
const MOST_LEVELS: &str = "at most as many as `max_categories`";

/// One more of a category.
///
/// # Errors
/// If that is one category too many, as the beginning of a message.
fn count(counts: &mut BTreeMap<String, usize>, category: &str, most: usize) -> Result<(), String> {
    if let Some(count) = counts.get_mut(category) {
        *count += 1;
    } else if counts.len() < most {
        counts.insert(category.into(), 1);
    } else {
        return Err(format!("more than {most} categories"));
    }
    Ok(())
}

/// A feature with one category too many, and what it probably holds.
fn too_many_categories(place: Place, name: &str, found: &str, category: &str) -> DataError {
    let leave_out = leave_out(name);
    match looks_like_date(category) {
        true => DataError::data(
            place,
            format_args!("{found}, and {} looks like a date", shown(category)),
            "numbers, or fewer categories",
            &format!("{}, or {leave_out}", DATES_TO_NUMBERS),
        ),
        false => DataError::data(
            place,
            found,
            MOST_LEVELS,
            &format!("{leave_out} if it holds names or identifiers, or raise the limit"),
        ),
    }
}

/// The code of the categories; of equally frequent ones the first is imputed.
fn one_hot(counts: BTreeMap<String, usize>, place: Place) -> Result<Code, DataError> {
    let mut most: Option<(&String, usize)> = None;
    for (category, &count) in &counts {
        if most.is_none_or(|(_, before)| count > before) {
            most = Some((category, count));
        }
    }
    let Some((imputed, _)) = most else {
        let cure = "choose other rows, or leave the column out";
        return Err(DataError::data(place, "no value", "at least one", cure));
    };
    Ok(Code::OneHot {
        imputed: imputed.clone(),
        levels: Levels::new(counts.into_keys()),
    })
}
