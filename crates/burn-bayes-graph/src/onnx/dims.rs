//! The lengths of axes as multiples of the number of rows.

use super::message::{Dimension, Length};

/// The length of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dim {
    /// The same for any number of rows.
    Fixed(usize),
    /// So many for each row.
    Rows(usize),
}

/// The name of the number of rows in files.
pub(super) const ROWS: &str = "rows";

impl Dim {
    /// From the lengths at several numbers of rows. `None` if they are no multiple of the number of rows.
    pub(super) fn of(lens: &[usize], rows: &[usize]) -> Option<Self> {
        let (first, examples) = (*lens.first()?, *rows.first()?);
        if lens.iter().all(|&len| len == first) {
            return Some(Self::Fixed(first));
        }
        let each = first / examples;
        let mut pairs = lens.iter().zip(rows);
        pairs
            .all(|(&len, &rows)| len == each * rows)
            .then_some(Self::Rows(each))
    }

    /// The length if it does not depend on the number of rows.
    pub(super) fn fixed(self) -> Option<usize> {
        match self {
            Self::Fixed(len) => Some(len),
            Self::Rows(_) => None,
        }
    }

    /// As the format states it.
    pub(super) fn message(self) -> Dimension {
        let length = match self {
            Self::Fixed(len) => Length::Value(len as i64),
            Self::Rows(1) => Length::Name(ROWS.into()),
            Self::Rows(each) => Length::Name(format!("{each}*{ROWS}")),
        };
        Dimension {
            length: Some(length),
        }
    }
}

/// The lengths if none depends on the number of rows.
pub(super) fn all_fixed(dims: &[Dim]) -> Option<Vec<usize>> {
    dims.iter().map(|dim| dim.fixed()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_multiples_of_the_number_of_rows_or_none() {
        let rows = [3, 4, 5];
        assert_eq!(Dim::of(&[7, 7, 7], &rows), Some(Dim::Fixed(7)));
        assert_eq!(Dim::of(&[6, 8, 10], &rows), Some(Dim::Rows(2)));
        assert_eq!(Dim::of(&[4, 5, 6], &rows), None);
        assert_eq!(Dim::of(&[9, 16, 25], &rows), None);
    }
}
