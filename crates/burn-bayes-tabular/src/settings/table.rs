//! One table of settings, from which come the structure, its defaults and the flags that override it.

/// Defines a structure of settings and one of flags.
///
/// A field with a default is a value; one without is an `Option`. Every type is displayed in help,
/// parsed from a flag, and read and written by serde.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $settings:ident, $flags:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[arg($($arg:tt)*)])?
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

        /// The same as flags, each of which may be absent.
        #[derive(Clone, Debug, Default, PartialEq, clap::Args)]
        pub(crate) struct $flags {
            $(
                #[arg(long, allow_negative_numbers = true, help = $crate::settings::help(concat!($($doc),+), &settings!(@shown $($default)?)))]
                $(#[arg($($arg)*)])?
                $field: Option<$type>,
            )+
        }

        impl $flags {
            /// The names of those that were given.
            pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
                let names = [$(self.$field.is_some().then_some(stringify!($field))),+];
                names.into_iter().flatten()
            }

            /// Puts what was given in the place of what the settings say.
            pub(crate) fn override_in(&self, settings: &mut $settings) {
                $(if let Some(value) = &self.$field {
                    settings.$field = settings!(@given value.clone() $(, $default)?);
                })+
            }
        }
    };
    (@field $type:ty) => { Option<$type> };
    (@field $type:ty = $default:expr) => { $type };
    (@default) => { None };
    (@default $default:expr) => { $default };
    (@shown) => { String::new() };
    (@shown $default:expr) => { $default.to_string() };
    (@given $value:expr) => { Some($value) };
    (@given $value:expr, $default:expr) => { $value };
}

pub(crate) use settings;

/// What `--help` says of a setting.
pub(crate) fn help(text: &str, default: &str) -> String {
    match default {
        "" => text.trim().to_string(),
        _ => format!("{} [default: {default}]", text.trim()),
    }
}
