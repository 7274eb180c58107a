//! The values of settings: what is allowed, and how a text becomes one.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// The allowed values of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number or a text, checked when it is parsed.
    Text,
    /// Words, separated by commas.
    List,
    /// One of these.
    Choice(&'static [Choice]),
    /// True or false; true if only its name is given.
    Switch,
}

/// One of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub help: &'static str,
}

/// The type of a setting.
pub trait SettingValue: FromStr<Err: Display> {
    /// The allowed values.
    const KIND: Kind = Kind::Text;
}

impl SettingValue for PathBuf {}
impl SettingValue for String {}
impl SettingValue for f64 {}
impl SettingValue for u64 {}
impl SettingValue for usize {}
impl SettingValue for bool {
    const KIND: Kind = Kind::Switch;
}

/// Parses a value.
pub(super) fn parsed<T: SettingValue>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}
