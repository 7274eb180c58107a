//! A value, or a list of values.

use serde::{Deserialize, Serialize};

/// A value, or a list of values. In files, the list of a single value has no brackets.
///
/// ```
/// use burn_bayes_data::OneOrSeveral;
///
/// let one: OneOrSeveral<f64> = serde_json::from_str("0.5")?;
/// assert_eq!(one, OneOrSeveral::from(vec![0.5]));
/// let several: OneOrSeveral<f64> = serde_json::from_str("[0.5, 2.0]")?;
/// assert_eq!(several.as_slice(), [0.5, 2.0]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum OneOrSeveral<T> {
    /// One value.
    One(T),
    /// Several values, in order.
    Several(Vec<T>),
}

impl<T> OneOrSeveral<T> {
    /// All values.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

impl<T> From<Vec<T>> for OneOrSeveral<T> {
    fn from(mut values: Vec<T>) -> Self {
        match values.len() {
            1 => Self::One(values.remove(0)),
            _ => Self::Several(values),
        }
    }
}

impl From<&str> for OneOrSeveral<String> {
    fn from(value: &str) -> Self {
        Self::One(value.into())
    }
}

impl From<String> for OneOrSeveral<String> {
    fn from(value: String) -> Self {
        Self::One(value)
    }
}
