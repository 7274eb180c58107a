//! Parsing of numbers with a decimal point or a decimal comma.

use serde::{Deserialize, Serialize};

/// The decimal separator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecimalMark {
    /// 1.5
    #[default]
    Point,
    /// 1,5
    Comma,
}

impl DecimalMark {
    /// Parses a cell as a number.
    pub(crate) fn number(self, cell: &str) -> Option<f64> {
        match self {
            Self::Point => cell.parse().ok(),
            // A point could only be a thousands separator, which is never allowed.
            Self::Comma if cell.contains('.') => None,
            Self::Comma => cell.replace(',', ".").parse().ok(),
        }
    }

    /// Whether a cell is not a number with this separator, but with the other one, possibly with a
    /// thousands separator.
    pub(crate) fn is_number_with_other(self, cell: &str) -> bool {
        if self.number(cell).is_some() {
            return false;
        }
        match self {
            Self::Comma => Self::Point.number(cell).is_some(),
            Self::Point if cell.contains(',') => {
                Self::Comma.number(&cell.replace('.', "")).is_some()
            }
            Self::Point => false,
        }
    }

    /// The name of the separator, the character, and the name of the other separator.
    fn words(self) -> (&'static str, char, &'static str) {
        match self {
            Self::Point => ("point", '.', "comma"),
            Self::Comma => ("comma", ',', "point"),
        }
    }

    /// What is expected instead of a cell [with the other separator](Self::is_number_with_other).
    pub(crate) fn expected(self) -> String {
        let (name, ..) = self.words();
        format!("a number with a decimal {name}")
    }

    /// The cure for such a cell.
    pub(crate) fn cure(self) -> String {
        let (_, _, other) = self.words();
        let (_, mark, _) = self.other().words();
        format!(
            "if the {other} is the decimal separator, set `decimal` to it (`--decimal {mark}`); if it is a \
             thousands separator, remove it"
        )
    }

    fn other(self) -> Self {
        match self {
            Self::Point => Self::Comma,
            Self::Comma => Self::Point,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_mark() {
        use DecimalMark::{Comma, Point};
        for (cell, point, comma) in [
            ("1.5", Some(1.5), None),
            ("1,5", None, Some(1.5)),
            ("-,5e3", None, Some(-500.0)),
            ("12", Some(12.0), Some(12.0)),
            ("1,2,3", None, None),
            ("1.234,5", None, None),
            (",", None, None),
            ("a,b", None, None),
        ] {
            assert_eq!((Point.number(cell), Comma.number(cell)), (point, comma));
        }
    }

    #[test]
    fn the_other_mark_is_recognised() {
        use DecimalMark::{Comma, Point};
        for cell in ["1,5", "-0,25", "1.234,5", "1,234.5"] {
            assert!(Point.is_number_with_other(cell), "{cell}");
        }
        for cell in ["1.5", "12", "1,2,3", "01.03.2024", "Paris, France", ",", ""] {
            assert!(!Point.is_number_with_other(cell), "{cell}");
        }
        assert!(Comma.is_number_with_other("1.5"));
        assert!(!Comma.is_number_with_other("1,5") && !Comma.is_number_with_other("3"));
        assert!(Point.cure().contains("`--decimal ,`"), "{}", Point.cure());
    }
}
