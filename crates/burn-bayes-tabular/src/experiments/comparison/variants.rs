//! Variants of the settings of a comparison.
//!
//! A variant changes some settings of the fits: those of a training, and how columns are prepared. It may not change which
//! rows are compared, their target or their unit, because scores of different rows cannot be compared.

use burn_bayes_data::shell::quoted;
use burn_bayes_data::{Column, Table};

use crate::error::{Result, TabularError};
use crate::rows::not_a_column;
use crate::settings::{Config, DataSettings, FitSettings, Method, MissingName, Scope, refused};

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The setting and its value as typed, for the name of the variant.
    pub word: String,
    /// The name of the setting.
    pub setting: String,
    /// Its value as text.
    pub value: String,
}

/// Changes of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    changes: Vec<Change>,
    /// The only method; `None` for those of the comparison.
    method: Option<Method>,
}

/// The settings of the rows that a variant may change.
const OF_PREPARATION: [&str; 8] = [
    "ignore",
    "rare",
    "max_categories",
    "missing",
    "unseen",
    "feature_scale",
    "target_scale",
    "no_standardize",
];
/// Those that have no effect on a comparison.
const OF_ONE_RUN: [&str; 3] = ["keep", "validation", "validation_file"];

impl Variant {
    /// A variant with these changes.
    ///
    /// # Errors
    /// If there are none, or one is invalid or not allowed.
    pub fn new(changes: Vec<Change>) -> Result<Self> {
        if changes.is_empty() {
            let problem = "is empty; give settings, such as `model=linear`";
            return Err(refused("variant", problem));
        }
        let mut unused = Config::default();
        let mut method = None;
        for (place, change) in changes.iter().enumerate() {
            let name = &change.setting;
            if changes[..place].iter().any(|other| other.setting == *name) {
                let problem = format!("has `{name}` twice; leave out one of them");
                return Err(refused("variant", problem));
            }
            change.check()?;
            change.apply(&mut unused)?;
            if name == "method" {
                method = Some(unused.fit.method);
            }
        }
        Ok(Self { changes, method })
    }

    /// The only method; `None` for those of the comparison.
    pub(super) fn method(&self) -> Option<Method> {
        self.method
    }

    /// Its changes as typed, except for the method, by which a fit is called anyway.
    pub(super) fn name(&self) -> String {
        let words = self.changes.iter();
        let words = words.filter(|change| change.setting != "method");
        let words: Vec<String> = words.map(|change| quoted(&change.word)).collect();
        words.join(" ")
    }

    /// Settings with its changes. Columns to leave out are left out in addition.
    ///
    /// # Errors
    /// If the changed settings are invalid, or leave out other rows.
    pub fn of(&self, base: &Config) -> Result<Config> {
        let mut config = base.clone();
        for change in &self.changes {
            change.apply(&mut config)?;
        }
        // The method is that of a fit, as in the settings that it is compared with.
        config.fit.method = base.fit.method;
        let is_dropped = |config: &Config| config.data.missing == MissingName::Drop;
        if is_dropped(&config) != is_dropped(base) {
            let problem = "has `missing`, and leaves out other rows, but all fits are to the same; use impute or refuse, or \
                           give `--missing` for all fits";
            return Err(refused("variant", problem));
        }
        config.validate().map_err(|error| self.in_error(error))?;
        Ok(config)
    }

    /// Checks that the columns that it leaves out are in the table of a comparison with settings `base`.
    pub(super) fn check_columns(&self, base: &DataSettings, table: &Table) -> Result<()> {
        let mut names = Vec::new();
        for change in self.changes.iter().filter(|one| one.setting == "ignore") {
            names.extend(change.words()?);
        }
        let path = base.path()?;
        let columns = table.columns().iter().map(Column::name);
        let columns: Vec<String> = columns.map(String::from).collect();
        for name in names {
            let problem = if base.targets()?.contains(&name) {
                format!("names the target `{name}`; leave it out")
            } else if columns.contains(&name) || base.ignore.0.contains(&name) {
                continue;
            } else {
                not_a_column(&name, path, &columns)
            };
            return Err(self.in_error(refused("ignore", problem)));
        }
        Ok(())
    }

    /// An error of fits with its settings, which then names it.
    pub(super) fn in_error(&self, error: TabularError) -> TabularError {
        let words: Vec<String> = self.changes.iter().map(|one| quoted(&one.word)).collect();
        let words = words.join(" ");
        match error {
            TabularError::Setting { name, problem } => {
                refused("variant", format!("is `{words}`, but `{name}` {problem}"))
            }
            TabularError::Usage(message) => {
                TabularError::Usage(format!("with the variant `{words}`: {message}"))
            }
            TabularError::Data(message) => {
                TabularError::Data(format!("with the variant `{words}`: {message}"))
            }
            other => other,
        }
    }
}

impl Change {
    /// Refuses settings that a variant may not change.
    fn check(&self) -> Result<()> {
        let name = self.setting.as_str();
        let (of_rows, of_fit) = (DataSettings::table(), FitSettings::table());
        let is_of_rows = of_rows.iter().any(|setting| setting.name == name);
        let option = of_rows.iter().chain(&of_fit);
        let option = option.filter(|setting| setting.name == name);
        let option = option.filter_map(|setting| setting.option).next();
        let option = option.map_or_else(|| name.replace('_', "-"), String::from);
        let is_around = of_fit.iter().any(|setting| {
            setting.name == name && matches!(setting.scope, Scope::Run | Scope::Nothing)
        });
        let problem = if is_around || OF_ONE_RUN.contains(&name) {
            "single trainings on folds are compared, which it does not change; leave it out".into()
        } else if is_of_rows && !OF_PREPARATION.contains(&name) {
            format!(
                "all fits are to the same rows with the same target; give `--{option}` for all fits"
            )
        } else if name == "seed" {
            "all fits have seeds from the same one; leave it out, or give more `--repeats`".into()
        } else {
            return Ok(());
        };
        Err(refused("variant", format!("has `{option}`, but {problem}")))
    }

    fn apply(&self, config: &mut Config) -> Result<()> {
        let (name, text) = (self.setting.as_str(), &self.value);
        let ignored = config.data.ignore.0.clone();
        let of_rows = DataSettings::table();
        let set = match of_rows.iter().any(|setting| setting.name == name) {
            true => config.data.set(name, text),
            false => config.fit.set(name, text),
        };
        set.map_err(|problem| refused("variant", format!("has `{}`: {problem}", self.word)))?;
        if name == "ignore" {
            config.data.ignore.0.splice(..0, ignored);
        }
        Ok(())
    }

    /// The value as a list of words.
    fn words(&self) -> Result<Vec<String>> {
        let mut config = Config::default();
        self.apply(&mut config)?;
        Ok(config.data.ignore.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::NetworkShape;

    fn change(word: &str) -> Change {
        let (setting, value) = word.split_once('=').unwrap_or((word, "true"));
        Change {
            word: word.into(),
            setting: setting.replace('-', "_"),
            value: value.into(),
        }
    }

    fn variant(words: &[&str]) -> Result<Variant> {
        Variant::new(words.iter().map(|word| change(word)).collect())
    }

    fn base() -> Config {
        let mut config = Config::default();
        config.data.path = Some("rows.csv".into());
        config.data.target = Some("y".into());
        config.data.ignore.0 = vec!["a".into()];
        config
    }

    #[test]
    fn a_variant_changes_only_what_it_names() {
        let changed = variant(&["model=linear", "ignore=b,c", "no-standardize", "method=map"]);
        let changed = changed.unwrap();
        let found = changed.of(&base()).unwrap();
        let mut expected = base();
        expected.fit.model = Some(NetworkShape { hidden: Vec::new() });
        expected.data.ignore.0 = ["a", "b", "c"].map(String::from).to_vec();
        expected.data.no_standardize = true;
        assert_eq!(found, expected);
        assert_eq!(changed.method(), Some(Method::Map));
        assert_eq!(changed.name(), "model=linear ignore=b,c no-standardize");
        let quoted = variant(&["ignore=my column"]).unwrap();
        assert_eq!(quoted.name(), "'ignore=my column'");
        assert_eq!(variant(&["method=map"]).unwrap().name(), "");
    }

    #[test]
    fn every_setting_is_changed_or_refused_for_a_reason() {
        let refusal = |name: &str| {
            let mut change = change(name);
            change.value.clear();
            change.check().err().map(|error| error.to_string())
        };
        for setting in DataSettings::table() {
            let found = refusal(setting.name);
            let is_allowed = OF_PREPARATION.contains(&setting.name);
            assert_eq!(found.is_none(), is_allowed, "{}: {found:?}", setting.name);
        }
        for setting in FitSettings::table() {
            let found = refusal(setting.name);
            let is_allowed = matches!(setting.scope, Scope::Training | Scope::Length);
            let is_allowed = is_allowed && setting.name != "seed";
            assert_eq!(found.is_none(), is_allowed, "{}: {found:?}", setting.name);
        }
        for (name, part) in [
            ("target", "give `--target` for all fits"),
            ("path", "give `--data` for all fits"),
            ("members", "`members`, but single trainings"),
            ("validation", "leave it out"),
            ("seed", "more `--repeats`"),
        ] {
            let found = refusal(name).unwrap();
            assert!(found.contains(part), "{found}");
        }
    }

    #[test]
    fn what_is_no_variant_is_named() {
        let message = |words: &[&str]| {
            let found = variant(words).and_then(|variant| variant.of(&base()));
            found.unwrap_err().to_string()
        };
        for (words, part) in [
            (&[][..], "is empty"),
            (&["rank=2", "rank=3"], "`rank` twice"),
            (
                &["likelihood=mixtur"],
                "has `likelihood=mixtur`: `mixtur` is not one of gaussian",
            ),
            (&["missing=drop"], "other rows"),
            (&["epochs=0"], "`variant` is `epochs=0`, but `epochs` is 0"),
        ] {
            let found = message(words);
            assert!(found.contains(part), "{found}");
        }
        let dropped = {
            let mut config = base();
            config.data.missing = MissingName::Drop;
            config
        };
        assert!(variant(&["missing=impute"]).unwrap().of(&dropped).is_err());
        assert!(variant(&["missing=drop"]).unwrap().of(&dropped).is_ok());
        assert!(variant(&["missing=refuse"]).unwrap().of(&base()).is_ok());
    }

    #[test]
    fn columns_to_leave_out_exist() {
        let columns = ["y", "bb", "cc"].map(|name| Column::numbers(name, vec![0.0]));
        let table = Table::new(columns.to_vec()).unwrap();
        let check = |word: &str| variant(&[word])?.check_columns(&base().data, &table);
        check("ignore=bb,a").unwrap();
        check("model=linear").unwrap();
        for (word, part) in [
            ("ignore=bc", "did you mean `bb`"),
            ("ignore=bb,y", "names the target `y`"),
        ] {
            let found = check(word).unwrap_err().to_string();
            assert!(found.contains(part) && found.contains(word), "{found}");
        }
    }
}
