//! Settings as data. A table lists the name, the meaning and the allowed values of each setting. The
//! structure, its TOML and the options of a program are generated from the table.

use super::method::MethodRow;
use super::tuned::MethodDefaults;
use super::value::{Kind, SettingValue};

/// A setting, as a program may offer it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name, as in TOML.
    pub name: &'static str,
    /// Its meaning.
    pub help: String,
    /// Its allowed values.
    pub kind: Kind,
    /// The default, as text; `None` if it depends on other settings.
    pub default: Option<String>,
    /// Whether a method uses it.
    pub applies: fn(&MethodRow) -> bool,
    /// Other settings and their values, or the part before a colon, with which this one is not used.
    pub unless: &'static [(&'static str, &'static str)],
    /// The default from those of a method, as text; `None` if it does not depend on the method.
    pub method_default: Option<fn(&MethodDefaults) -> String>,
    /// The name of its option, if it differs from `name`.
    pub option: Option<&'static str>,
    /// A shorter name of the option.
    pub alias: Option<&'static str>,
    /// The placeholder of its value in help texts, if it differs from `name`.
    pub value: Option<&'static str>,
    /// Whether a value may begin with a hyphen.
    pub allows_hyphens: bool,
    /// What depends on it.
    pub scope: Scope,
}

/// What depends on a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The steps of a training, and so all results.
    Training,
    /// How many steps a training makes, but not what they are: it may go on with another value.
    Length,
    /// The results of a run, but not the steps of its trainings.
    Run,
    /// No result.
    Nothing,
}

/// Defines a structure of settings with its table.
///
/// A field with a default is a value; one without is an `Option`, and may name its default in the
/// [`Tuned`](crate::settings::Tuned) settings of a method. Every type is a [`SettingValue`] that serde reads and writes.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $settings:ident {
            $(
                $(#[doc = $doc:literal])+
                $([$($key:ident: $value:expr),+])?
                $field:ident: $type:ty $(= $default:expr)?
                    $(, tuned $tuned:ident)?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $settings {
            $(
                $(#[doc = $doc])+
                pub $field: settings!(@field $type $(= $default)?),
            )+
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
                    $(method_default: Some(|defaults| defaults.tuned.$tuned.to_string()),)?
                    ..$crate::settings::table::blank::<$type>(
                        stringify!($field),
                        concat!($($doc),+),
                        settings!(@shown $($default)?),
                    )
                }),+]
            }

            /// The settings of these scopes, and the defaults of all others.
            pub fn of_scopes(&self, scopes: &[$crate::settings::Scope]) -> Self {
                let (table, defaults) = (Self::table().into_iter(), Self::default());
                let kept: Vec<&str> = table
                    .filter(|setting| scopes.contains(&setting.scope))
                    .map(|setting| setting.name)
                    .collect();
                Self {
                    $($field: match kept.contains(&stringify!($field)) {
                        true => self.$field.clone(),
                        false => defaults.$field,
                    },)+
                }
            }

            /// Sets the setting with this name to the value of a text.
            ///
            /// # Errors
            /// If the text is not a value of the setting, or if there is no such setting.
            pub fn set(&mut self, name: &str, text: &str) -> std::result::Result<(), String> {
                match name {
                    $(stringify!($field) => {
                        let value: $type = $crate::settings::value::parsed(text)?;
                        self.$field = settings!(@given value $(, $default)?);
                    })+
                    _ => return Err(format!("there is no setting `{name}`")),
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

/// A setting with nothing but a name, a help text and a type.
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
        applies: |_| true,
        unless: &[],
        method_default: None,
        option: None,
        alias: None,
        value: None,
        allows_hyphens: false,
        scope: Scope::Training,
    }
}
