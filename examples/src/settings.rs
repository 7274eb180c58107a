//! Settings of a run: command line, environment, and the small size used in tests.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// Whether `BURN_BAYES_SMOKE=1` requests a run of a few seconds, whose results are meaningless.
pub fn is_smoke() -> bool {
    std::env::var_os("BURN_BAYES_SMOKE").is_some_and(|value| value != "0" && !value.is_empty())
}

/// The command line as `--name value` pairs.
#[derive(Debug)]
pub struct Arguments {
    pairs: Vec<(String, String)>,
}

impl Arguments {
    /// Reads the command line; `known` are the names without their dashes.
    ///
    /// # Errors
    ///
    /// A word that is not one of the known names, or a name without a value.
    pub fn read(known: &[&str]) -> Result<Self, String> {
        Self::parse(std::env::args().skip(1), known)
    }

    fn parse(words: impl Iterator<Item = String>, known: &[&str]) -> Result<Self, String> {
        let mut words = words;
        let mut pairs = Vec::new();
        while let Some(word) = words.next() {
            let name = word
                .strip_prefix("--")
                .filter(|name| known.contains(name))
                .ok_or_else(|| format!("`{word}` is not known; use --{}", known.join(", --")))?;
            let value = words
                .next()
                .ok_or_else(|| format!("--{name} needs a value"))?;
            pairs.push((name.to_string(), value));
        }
        Ok(Self { pairs })
    }

    /// The value of an argument; the last one if it is given twice.
    ///
    /// # Errors
    ///
    /// A value that cannot be read as a `T`.
    pub fn get<T: FromStr<Err: Display>>(&self, name: &str, default: T) -> Result<T, String> {
        match self.pairs.iter().rev().find(|pair| pair.0 == name) {
            None => Ok(default),
            Some((_, value)) => value
                .parse()
                .map_err(|error| format!("--{name} {value}: {error}")),
        }
    }

    /// The output folder of the program: `--out`, or a folder for temporary files.
    ///
    /// # Errors
    ///
    /// The folder cannot be created.
    pub fn output_folder(&self, program: &str) -> Result<PathBuf, String> {
        let default = std::env::temp_dir().join(format!("burn-bayes-{program}"));
        let folder = self.get("out", default.display().to_string())?;
        std::fs::create_dir_all(&folder).map_err(|error| format!("{folder}: {error}"))?;
        Ok(folder.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, String> {
        Arguments::parse(words.iter().map(ToString::to_string), &["seed", "set"])
    }

    #[test]
    fn the_last_value_holds_and_mistakes_are_named() {
        let arguments = parse(&["--seed", "3", "--set", "yacht", "--seed", "4"]).unwrap();
        assert_eq!(arguments.get("seed", 0), Ok(4));
        assert_eq!(arguments.get("set", String::new()).as_deref(), Ok("yacht"));
        assert_eq!(parse(&[]).unwrap().get("seed", 7), Ok(7));
        assert!(parse(&["--sede", "3"]).unwrap_err().contains("--sede"));
        assert!(parse(&["--seed"]).unwrap_err().contains("--seed"));
        let unread = parse(&["--seed", "x"]).unwrap().get("seed", 0);
        assert!(unread.unwrap_err().contains("--seed x"));
    }
}
