//! Settings as data: a table says of each what it is called, what it does and what it may be, and from
//! it come the structure, its TOML and the options that a program offers.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use super::choices::Method;

/// A setting, as a program may offer it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name, as in TOML.
    pub name: &'static str,
    /// What it does.
    pub help: String,
    /// What it may be.
    pub kind: Kind,
    /// What it is if nothing is said, as text; nothing if that depends on others.
    pub default: Option<String>,
    /// The methods that it changes something for.
    pub methods: &'static [Method],
    /// What its option is called, where that is not its name.
    pub option: Option<&'static str>,
    /// A shorter name of the option.
    pub alias: Option<&'static str>,
    /// What its value is called in help, where that is not its name.
    pub value: Option<&'static str>,
    /// Whether a value may begin as an option does.
    pub allows_hyphens: bool,
}

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number or a text, which parsing checks.
    Text,
    /// One of these.
    Choice(&'static [Choice]),
    /// True or false; true if nothing is said but its name.
    Switch,
}

/// One of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// As it is written.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
}

/// A type of settings' values.
pub trait SettingValue: FromStr<Err: Display> {
    /// What its values are.
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

/// A value from its text, or what is wrong with that.
pub(super) fn parsed<T: SettingValue>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// Defines a structure of settings with its table.
///
/// A field with a default is a value; one without is an `Option`. Every type is a [`SettingValue`] that
/// serde reads and writes.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $settings:ident {
            $(
                $(#[doc = $doc:literal])+
                $([$($key:ident: $value:expr),+])?
                $field:ident: $type:ty $(= $default:expr)?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $settings {
            $($(#[doc = $doc])+ pub $field: settings!(@field $type $(= $default)?),)+
        }

        impl Default for $settings {
            fn default() -> Self {
                Self { $($field: settings!(@default $($default)?),)+ }
            }
        }

        impl $settings {
            /// All settings, in the order of the table.
            pub fn table() -> Vec<$crate::settings::Setting> {
                vec![$($crate::settings::Setting {
                    $($($key: $value,)+)?
                    ..$crate::settings::table::blank::<$type>(
                        stringify!($field),
                        concat!($($doc),+),
                        settings!(@shown $($default)?),
                    )
                }),+]
            }

            /// Sets the setting with this name to what a text says.
            ///
            /// # Errors
            /// What is wrong with the text, or that there is no such setting.
            pub fn set(&mut self, name: &str, text: &str) -> std::result::Result<(), String> {
                match name {
                    $(stringify!($field) => {
                        let value: $type = $crate::settings::table::parsed(text)?;
                        self.$field = settings!(@given value $(, $default)?);
                    })+
                    _ => return Err(format!("`{name}` is no setting")),
                }
                Ok(())
            }
        }
    };
    (@field $type:ty) => { Option<$type> };
    (@field $type:ty = $default:expr) => { $type };
    (@default) => { None };
    (@default $default:expr) => { $default };
    (@shown) => { None };
    (@shown $default:expr) => { Some($default.to_string()) };
    (@given $value:expr) => { Some($value) };
    (@given $value:expr, $default:expr) => { $value };
}

pub(super) use settings;

/// A setting of which its name, its help and its type say all.
pub(super) fn blank<T: SettingValue>(
    name: &'static str,
    help: &str,
    default: Option<String>,
) -> Setting {
    Setting {
        name,
        help: help.trim().to_string(),
        kind: T::KIND,
        default: default.filter(|text| !text.is_empty()),
        methods: &Method::ALL,
        option: None,
        alias: None,
        value: None,
        allows_hyphens: false,
    }
}
