//! The distinct values of a categorical column in order: classes, or positions in a one-hot encoding.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{DataError, Place, listed, shown};

/// Distinct names in order; the index of a name is its class.
///
/// If all names are numbers, they are in numerical order, otherwise in alphabetical order. Stored as a
/// list of names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Levels {
    names: Vec<String>,
    index: HashMap<String, usize>,
}

impl Levels {
    /// The distinct values of `names`.
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names: std::collections::BTreeSet<String> = names.into_iter().collect();
        let mut names: Vec<String> = names.into_iter().collect();
        let numbers: Option<Vec<f64>> = names.iter().map(|name| name.parse().ok()).collect();
        if let Some(numbers) = numbers {
            let mut order: Vec<usize> = (0..names.len()).collect();
            order.sort_by(|&left, &right| numbers[left].total_cmp(&numbers[right]));
            names = order
                .iter()
                .map(|&place| std::mem::take(&mut names[place]))
                .collect();
        }
        Self::of_distinct(names)
    }

    /// The classes of a target, at least two.
    pub(crate) fn classes(
        names: impl IntoIterator<Item = String>,
        place: Place,
    ) -> Result<Self, DataError> {
        let levels = Self::new(names);
        if levels.len() < 2 {
            return Err(DataError::data(
                place,
                match levels.names.first() {
                    Some(name) => format!("the one class {}", shown(name)),
                    None => "no class".into(),
                },
                "at least two classes",
                "check the target column and the choice of rows",
            ));
        }
        Ok(levels)
    }

    /// The classes in another order, if one is given: it has all of them, and may have more.
    pub(crate) fn in_order(
        self,
        order: &[String],
        place: impl Fn() -> Place,
    ) -> Result<Self, DataError> {
        if order.is_empty() {
            return Ok(self);
        }
        let ordered = Self::try_from(order.to_vec()).map_err(|problem| {
            let cure = "correct the order of the classes";
            DataError::data(place(), problem, "every class once", cure)
        })?;
        match self.names.iter().find(|name| ordered.index(name).is_none()) {
            None => Ok(ordered),
            Some(name) => Err(DataError::data(
                place(),
                format_args!("the class {}", shown(name)),
                format_args!("one of the order {ordered}"),
                "add it to the order of the classes",
            )),
        }
    }

    fn of_distinct(names: Vec<String>) -> Self {
        let index = names.iter().cloned().zip(0..).collect();
        Self { names, index }
    }

    /// The names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The class with this name, found at `place`.
    pub(crate) fn class(
        &self,
        name: &str,
        place: impl FnOnce() -> Place,
    ) -> Result<usize, DataError> {
        self.index(name).ok_or_else(|| {
            DataError::data(
                place(),
                format_args!("the label {}", shown(name)),
                format_args!("one of {self}"),
                "use the labels of the training data, or train again with all of them",
            )
        })
    }

    /// The index of `name`, if it exists.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
}

impl TryFrom<Vec<String>> for Levels {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let count = names.len();
        let levels = Self::of_distinct(names);
        if levels.index.len() == count {
            Ok(levels)
        } else {
            Err(format!("the same name twice among {levels}"))
        }
    }
}

impl From<Levels> for Vec<String> {
    fn from(levels: Levels) -> Self {
        levels.names
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&listed(&self.names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(names: &[&str]) -> Levels {
        Levels::new(names.iter().map(ToString::to_string))
    }

    #[test]
    fn numbers_are_in_the_order_of_numbers() {
        assert_eq!(levels(&["10", "9", "-1", "9"]).names(), ["-1", "9", "10"]);
        assert_eq!(levels(&["10", "9", "x"]).names(), ["10", "9", "x"]);
        // Different texts are different categories, even if they are equal as numbers.
        assert_eq!(levels(&["1", "01"]).len(), 2);
    }

    #[test]
    fn a_stored_list_comes_back_in_its_order() {
        let stored = serde_json::to_string(&levels(&["b", "a"])).unwrap();
        assert_eq!(stored, r#"["a","b"]"#);
        let read: Levels = serde_json::from_str(r#"["b","a"]"#).unwrap();
        assert_eq!((read.index("b"), read.index("c")), (Some(0), None));
        assert!(serde_json::from_str::<Levels>(r#"["a","a"]"#).is_err());
    }

    #[test]
    fn an_order_has_every_class_once() {
        let ordered = |order: &[&str]| {
            let order: Vec<String> = order.iter().map(ToString::to_string).collect();
            levels(&["low", "high"]).in_order(&order, || Place::of("f"))
        };
        assert_eq!(ordered(&[]).unwrap().names(), ["high", "low"]);
        let more = ordered(&["low", "middle", "high"]).unwrap();
        assert_eq!((more.index("low"), more.index("high")), (Some(0), Some(2)));
        for (order, problem) in [(&["low"][..], "`high`"), (&["low", "high", "low"], "twice")] {
            let message = ordered(order).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
        }
    }

    #[test]
    fn one_class_is_too_few() {
        let error = Levels::classes(["a".to_string()], Place::of("f")).unwrap_err();
        assert!(error.to_string().contains("the one class `a`"), "{error}");
        assert!(Levels::classes([], Place::of("f")).is_err());
    }
}
