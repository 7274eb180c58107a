//! The settings of the library as command-line options.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use burn_bayes_data::shell::words_of;
use burn_bayes_tabular::Result;
use burn_bayes_tabular::error::TabularError;
use burn_bayes_tabular::experiments::comparison::{Change, Variant};
use burn_bayes_tabular::predict::{ConformalRequest, SetMethod};
use burn_bayes_tabular::settings::{
    Choice, Config, DataSettings, DecimalName, Delimiter, FileFormat, FitSettings, Kind, Scope,
    Setting, SettingValue, refused,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// A table of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Rows,
    Fit,
}

impl Part {
    const ALL: [Self; 2] = [Self::Rows, Self::Fit];

    fn heading(self) -> &'static str {
        match self {
            Self::Rows => "Rows",
            Self::Fit => "Fit",
        }
    }

    fn table(self) -> Vec<Setting> {
        match self {
            Self::Rows => DataSettings::table(),
            Self::Fit => FitSettings::table(),
        }
    }

    fn set(self, config: &mut Config, name: &str, text: &str) -> Result<(), String> {
        match self {
            Self::Rows => config.data.set(name, text),
            Self::Fit => config.fit.set(name, text),
        }
    }
}

/// A setting with the names of its option.
#[derive(Debug)]
struct Flag {
    part: Part,
    setting: Setting,
    long: String,
    value: String,
}

/// All options, in the order of the help text.
static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let parts = Part::ALL.into_iter();
    let settings = parts.flat_map(|part| part.table().into_iter().map(move |found| (part, found)));
    let named = settings.map(|(part, setting)| {
        let (long, value) = (setting.option, setting.value);
        let name = setting.name;
        Flag {
            part,
            long: long.map_or_else(|| name.replace('_', "-"), String::from),
            value: value.map_or_else(|| name.to_uppercase(), String::from),
            setting,
        }
    });
    named.collect()
});

/// The settings given on the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConfigFlags {
    config: Option<PathBuf>,
    /// The options given, with their text.
    given: Vec<(Part, &'static str, String)>,
}

impl ConfigFlags {
    /// Refuses these options, each with a reason. The same settings are allowed in the file, which may be
    /// the file of a fit.
    pub(crate) fn refuse<'a>(
        &self,
        flags: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<()> {
        let is_given = |name: &str| self.given.iter().any(|(_, given, _)| *given == name);
        let mut flags = flags.into_iter();
        let found = flags.find(|(name, _)| is_given(name));
        found.map_or(Ok(()), |(name, problem)| Err(refused(name, problem)))
    }

    /// The given options without effect, each with what rules it out.
    pub(crate) fn without_effect(
        &self,
        settings: &FitSettings,
    ) -> impl Iterator<Item = (&'static str, String)> {
        let of_fit = self.given.iter().filter(|(part, ..)| *part == Part::Fit);
        of_fit.filter_map(|(_, name, _)| Some((*name, settings.without_effect(name)?)))
    }

    /// The name of a setting: that of its option, if it was given as one, or else that in TOML.
    pub(crate) fn shown_name(&self, name: &str) -> String {
        match self.given.iter().any(|(_, given, _)| *given == name) {
            true => with_options(&format!("`{name}`")),
            false => format!("`{name}`"),
        }
    }

    /// Sets those that may change while a fit goes on, and returns whether there are any.
    ///
    /// # Errors
    /// If others are given, or a value is invalid. The message names the setting.
    pub(crate) fn go_on(&self, config: &mut Config) -> Result<bool> {
        let table = FitSettings::table();
        let may_change = |name: &str| {
            let mut settings = table.iter();
            settings.any(|setting| setting.name == name && setting.scope == Scope::Length)
        };
        let is_other =
            |(part, name, _): &(Part, &str, String)| *part != Part::Fit || !may_change(name);
        if self.config.is_some() || self.given.iter().any(is_other) {
            let problem = "uses the settings in the folder; leave out all others but `--budget` and `--until-rhat`";
            return Err(refused("resume", problem));
        }
        self.set(config)?;
        config.validate()?;
        Ok(!self.given.is_empty())
    }

    fn set(&self, config: &mut Config) -> Result<()> {
        self.given.iter().try_for_each(|(part, name, text)| {
            let set = part.set(config, name, text);
            set.map_err(|problem| refused(name, problem))
        })
    }

    /// The file of settings, if given.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The settings of the file, if given, overridden by the options.
    ///
    /// # Errors
    /// If the file cannot be read or a setting is invalid. The message names the setting.
    pub(crate) fn config(&self) -> Result<Config> {
        let config = self.unchecked_config()?;
        config.validate()?;
        Ok(config)
    }

    /// The same, without a check of values that were not given.
    ///
    /// # Errors
    /// If the file cannot be read or an option is invalid.
    pub(crate) fn unchecked_config(&self) -> Result<Config> {
        let file = self.config.as_deref();
        let mut config = file.map_or_else(|| Ok(Config::default()), Config::read)?;
        self.set(&mut config)?;
        Ok(config)
    }
}

impl FromArgMatches for ConfigFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.config = matches.get_one("config").cloned();
        self.given.clear();
        for Flag { part, setting, .. } in FLAGS.iter() {
            // A list may be given in several options.
            let texts = matches.get_many::<String>(setting.name);
            let text = texts.map(|texts| texts.cloned().collect::<Vec<_>>().join(","));
            self.given
                .extend(text.map(|text| (*part, setting.name, text)));
        }
        Ok(())
    }
}

impl Args for ConfigFlags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(ValueParser::path_buf())
            .help("TOML file with settings; options override them");
        command.arg(config).args(FLAGS.iter().map(Flag::option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl Flag {
    /// Whether it is the setting or the option with this name.
    fn is_named(&self, name: &str) -> bool {
        let names = [
            Some(self.setting.name),
            Some(&*self.long),
            self.setting.alias,
        ];
        names.contains(&Some(name))
    }

    fn option(&'static self) -> Arg {
        let Self { part, setting, .. } = self;
        let (part, name) = (*part, setting.name);
        let help = match &setting.default {
            None => setting.help.clone(),
            Some(default) => format!("{} [default: {default}]", setting.help),
        };
        let option = Arg::new(name)
            .long(self.long.as_str())
            .value_name(self.value.as_str())
            .help(help)
            .help_heading(part.heading())
            .action(match setting.kind {
                Kind::List => ArgAction::Append,
                _ => ArgAction::Set,
            })
            .allow_negative_numbers(true)
            .allow_hyphen_values(setting.allows_hyphens);
        let option = match setting.alias {
            Some(alias) => option.visible_alias(alias),
            None => option,
        };
        match setting.kind {
            Kind::Choice(choices) => option.value_parser(PossibleValuesParser::new(named(choices))),
            Kind::Switch => option
                .num_args(0..=1)
                .default_missing_value("true")
                .value_parser(PossibleValuesParser::new(["true", "false"])),
            Kind::Text | Kind::List => option.value_parser(move |text: &str| {
                part.set(&mut Config::default(), name, text)
                    .map(|()| text.to_string())
            }),
        }
    }
}

/// A variant from its text: options of `fit` with their values, as in `model=linear`, with or without hyphens before them.
///
/// # Errors
/// If a word is not such an option, or its value is invalid.
pub(crate) fn variant(text: &str) -> Result<Variant> {
    let wrong = |problem: String| refused("variant", problem);
    let words = words_of(text)
        .ok_or_else(|| wrong(format!("is `{text}`, in which a quote is not closed")))?;
    let change = |word: &String| {
        let word = word.trim_start_matches('-');
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let mut flags = FLAGS.iter();
        let flag = flags.find(|flag| flag.is_named(name)).ok_or_else(|| {
            wrong(format!(
                "has `{name}`, which is not an option of `fit`; write options with their values, as in `model=linear`"
            ))
        })?;
        let value = match (value, flag.setting.kind) {
            (Some(value), _) => value,
            (None, Kind::Switch) => "true",
            (None, _) => {
                let problem = format!("has `{word}` without a value; write `{name}=VALUE`");
                return Err(wrong(problem));
            }
        };
        Ok(Change {
            word: word.into(),
            setting: flag.setting.name.into(),
            value: value.into(),
        })
    };
    Variant::new(words.iter().map(change).collect::<Result<_>>()?)
}

/// A text in which the settings of a fit have the names of their options.
pub(crate) fn with_options(text: &str) -> String {
    let flags = FLAGS.iter().filter(|flag| flag.part == Part::Fit);
    flags.fold(text.to_string(), |text, Flag { setting, long, .. }| {
        text.replace(&format!("`{}`", setting.name), &format!("`--{long}`"))
    })
}

/// The message of an error, with the names of options as they are typed. A setting whose value is from a file keeps
/// the name that it has there.
pub(crate) fn error_message(
    error: &TabularError,
    program: &Command,
    matches: &ArgMatches,
) -> String {
    match error {
        TabularError::Setting { name, problem } => match option(name, program, matches) {
            Some(option) => format!("{option}: {problem}"),
            None => error.to_string(),
        },
        TabularError::Numerical(message) => with_options(message),
        _ => error.to_string(),
    }
}

/// The option of a setting; `None` if the command has none, or the value is from a file.
fn option(name: &str, mut command: &Command, mut matches: &ArgMatches) -> Option<String> {
    while let Some((subcommand, found)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(subcommand)?, found);
    }
    // The names of some options have hyphens already.
    let id = name.replace('-', "_");
    let mut arguments = command.get_arguments();
    let argument = arguments.find(|argument| argument.get_id() == id.as_str())?;
    let long = argument.get_long()?;
    let is_typed = matches.value_source(&id) == Some(ValueSource::CommandLine);
    let is_in_file = || files(matches).any(|path| Config::is_set_in(&path, name));
    (is_typed || !is_in_file()).then(|| format!("--{long}"))
}

/// The files with settings that are not typed: the given ones, and that of a run.
fn files(matches: &ArgMatches) -> impl Iterator<Item = PathBuf> {
    let path = |id: &str| matches.try_get_one::<PathBuf>(id).ok().flatten();
    let is_resumed = matches.try_get_one("resume").ok().flatten() == Some(&true);
    let run = path("run").or_else(|| path("out").filter(|_| is_resumed));
    let given = [path("config").cloned(), path("ranges").cloned()];
    let in_run = run.map(|folder| folder.join("config.toml"));
    given.into_iter().chain([in_run]).flatten()
}

fn named(choices: &'static [Choice]) -> Vec<PossibleValue> {
    let named = choices.iter().map(|choice| {
        let help = choice.help.trim().trim_end_matches('.');
        PossibleValue::new(choice.name).help(help)
    });
    named.collect()
}

/// A parser of an enumeration.
pub(crate) fn choice<T>() -> impl TypedValueParser<Value = T>
where
    T: SettingValue + Clone + Send + Sync + 'static,
{
    let choices = match T::KIND {
        Kind::Choice(choices) => choices,
        Kind::Text | Kind::List | Kind::Switch => &[],
    };
    PossibleValuesParser::new(named(choices)).try_map(|text| text.parse().map_err(wrong::<T>))
}

/// Converts an error to clap's type.
fn wrong<T: SettingValue>(error: T::Err) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}

/// Sets or intervals with a coverage guarantee.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConformalFlags {
    /// Make prediction sets of classes, or intervals of numbers, that contain the target of a new row with at least
    /// this probability; calibrated on the held-out rows of the fit
    #[arg(long, value_name = "LEVEL")]
    conformal: Option<f64>,
    /// How --conformal makes sets of classes [default: lac]
    #[arg(long, value_name = "METHOD", value_parser = choice::<SetMethod>(), requires = "conformal")]
    conformal_sets: Option<SetMethod>,
    /// Give the guarantee in each group of this column, which `fit --keep` copied, or for the target in each class
    #[arg(long, value_name = "COLUMN", requires = "conformal")]
    conformal_by: Option<String>,
    /// Rows that came after those of the fit, in the order of time, with known targets: the level follows their drift
    #[arg(
        long,
        value_name = "FILE",
        requires = "conformal",
        conflicts_with = "conformal_by"
    )]
    conformal_recent: Option<PathBuf>,
    /// Halve the weight of a known row after this number of later rows, for a fit with --time: newer rows count more.
    /// Rows of --conformal-recent then have weights too, and the level does not follow
    #[arg(
        long,
        value_name = "ROWS",
        requires = "conformal",
        conflicts_with = "conformal_by",
        allow_negative_numbers = true
    )]
    conformal_half_life: Option<f64>,
}

impl ConformalFlags {
    /// The file of recent rows, if given.
    pub(crate) fn recent(&self) -> Option<&Path> {
        self.conformal_recent.as_deref()
    }

    /// The request, if there is one.
    pub(crate) fn request(&self) -> Option<ConformalRequest> {
        self.conformal.map(|level| ConformalRequest {
            level,
            set_method: self.conformal_sets,
            by: self.conformal_by.clone(),
            recent: self.conformal_recent.clone(),
            half_life: self.conformal_half_life,
        })
    }
}

/// The format of a new file, if it differs from the fit's.
#[derive(Clone, Debug, Args)]
pub(crate) struct FileFlags {
    /// Decimal separator, a point or a comma [default: as in the fit]
    #[arg(long, value_name = "MARK", value_parser = choice::<DecimalName>())]
    decimal: Option<DecimalName>,
    /// Column separator, or `tab` [default: as in the fit]
    #[arg(long)]
    delimiter: Option<Delimiter>,
}

impl FileFlags {
    /// The format given by the options.
    pub(crate) fn format(&self) -> FileFormat {
        FileFormat {
            decimal: self.decimal,
            delimiter: self.delimiter,
        }
    }
}
