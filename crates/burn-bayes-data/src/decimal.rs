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

/// Signs of currencies, before or after an amount.
const CURRENCIES: [char; 6] = ['$', '€', '£', '¥', '₹', '₩'];

/// Separators of thousands that are no decimal separators: spaces, also narrow and without a line break, and apostrophes.
const SEPARATORS: [char; 6] = [' ', '\u{a0}', '\u{202f}', '\u{2009}', '\'', '’'];

/// Signs before a number whose value is not certain.
const SIGNS: [char; 8] = ['<', '>', '≤', '≥', '~', '≈', '±', '−'];
/// The longest unit.
const LONGEST_UNIT: usize = 6;

/// What is written after a number, such as `kg` in `12 kg` and nothing in `<0.5`; `None` if the text does not look like a number.
pub(crate) fn unit_of(text: &str) -> Option<&str> {
    let bare = text.trim_start_matches(SIGNS).trim_start();
    let (digits, marks) = (|mark: char| mark.is_ascii_digit(), ['.', ',', '-', '+']);
    let is_in_number =
        |mark: char| digits(mark) || marks.contains(&mark) || SEPARATORS.contains(&mark);
    let (number, unit) = bare.split_at(bare.find(|mark| !is_in_number(mark)).unwrap_or(bare.len()));
    let mut numbers = [(DecimalMark::Point, b','), (DecimalMark::Comma, b';')].into_iter();
    let is_number =
        numbers.any(|(mark, delimiter)| mark.number(number.trim(), delimiter).is_some());
    let is_unit = unit.chars().count() <= LONGEST_UNIT && !unit.contains(digits);
    (is_number && is_unit).then(|| unit.trim())
}

impl DecimalMark {
    /// Parses a cell as a number without anything else in it.
    pub(crate) fn plain(self, cell: &str) -> Option<f64> {
        match self {
            Self::Point => cell.parse().ok(),
            Self::Comma if cell.contains('.') => None,
            Self::Comma => cell.replace(',', ".").parse().ok(),
        }
    }

    /// Writes a number that has a decimal point with this separator.
    pub(crate) fn write(self, number: &str, cell: &mut Vec<u8>) {
        let mark = |byte| {
            if byte == b'.' {
                self.mark() as u8
            } else {
                byte
            }
        };
        cell.extend(number.bytes().map(mark));
    }

    /// Parses a cell as people write numbers: with the sign of a currency, a per cent sign, whose number is kept as it is, or
    /// separators of thousands. A single point or comma may be a decimal separator, unless it is in an amount of money or the
    /// `delimiter`, which a cell contains only in quotes.
    pub(crate) fn number(self, cell: &str, delimiter: u8) -> Option<f64> {
        self.plain(cell).or_else(|| {
            let (sign, bare) = match cell.strip_prefix('-') {
                Some(bare) => (-1.0, bare),
                None => (1.0, cell),
            };
            let amount = bare.trim_start_matches(CURRENCIES);
            let amount = amount.trim_end_matches(CURRENCIES).trim();
            let number = amount.strip_suffix('%').map_or(amount, str::trim_end);
            // Neither another sign, nor what is no number, such as infinity.
            if !number.starts_with(|first: char| first.is_ascii_digit() || first == self.mark()) {
                return None;
            }
            let is_certain =
                amount.len() < bare.len() || self.other().mark() == char::from(delimiter);
            let value = self
                .plain(number)
                .or_else(|| self.grouped(number, is_certain));
            Some(sign * value?)
        })
    }

    /// A number with thousands separators.
    fn grouped(self, number: &str, is_certain: bool) -> Option<f64> {
        let (whole, fraction) = match number.split_once(self.mark()) {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (number, None),
        };
        let separator = whole.chars().find(|mark| SEPARATORS.contains(mark));
        let mut groups = whole.split(separator.unwrap_or(self.other().mark()));
        let first = groups.next()?;
        let groups: Vec<&str> = groups.collect();
        let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        let is_whole = (1..=3).contains(&first.len())
            && !first.starts_with('0')
            && is_number(first)
            && groups
                .iter()
                .all(|group| group.len() == 3 && is_number(group));
        let is_clear = is_certain || separator.is_some() || fraction.is_some() || groups.len() > 1;
        if !(is_whole && is_clear && is_number(fraction.unwrap_or_default())) {
            return None;
        }
        let digits = [first].into_iter().chain(groups).collect::<String>();
        format!("{digits}.{}", fraction.unwrap_or("0")).parse().ok()
    }

    /// The character.
    fn mark(self) -> char {
        let (_, mark, _) = self.words();
        mark
    }

    /// Whether a cell is not a number with this separator, but with the other one, possibly with a
    /// thousands separator.
    pub(crate) fn is_number_with_other(self, cell: &str) -> bool {
        if self.plain(cell).is_some() {
            return false;
        }
        match self {
            Self::Comma => Self::Point.plain(cell).is_some(),
            Self::Point if cell.contains(',') => {
                Self::Comma.plain(&cell.replace('.', "")).is_some()
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
        let mark = self.other().mark();
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
            assert_eq!((Point.plain(cell), Comma.plain(cell)), (point, comma));
        }
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        use DecimalMark::{Comma, Point};
        for (mark, delimiter, cell, expected) in [
            (Point, b',', "$1.50", Some(1.5)),
            (Point, b',', "-$1,234.50", Some(-1234.5)),
            (Point, b';', "1,234.5", Some(1234.5)),
            (Point, b';', "1,234,567", Some(1_234_567.0)),
            (Point, b',', "1,234", Some(1234.0)),
            (Point, b';', "£1,234", Some(1234.0)),
            (Point, b',', "13.4%", Some(13.4)),
            (Point, b',', "13.4 %", Some(13.4)),
            (Comma, b';', "1.234,50 €", Some(1234.5)),
            (Comma, b';', "1.234.567", Some(1_234_567.0)),
            (Point, b',', "1 234", Some(1234.0)),
            (Point, b',', "-1\u{a0}234\u{202f}€", Some(-1234.0)),
            (Comma, b';', "1\u{202f}234\u{202f}567,5", Some(1_234_567.5)),
            (Point, b',', "1'234.50", Some(1234.5)),
            (Point, b',', "1’234", Some(1234.0)),
            (Point, b',', "0 123", None),
            (Point, b',', "1234 567", None),
            (Point, b',', "123 45", None),
            (Point, b',', "1 234'567", None),
            (Point, b',', "1 234,567", None),
            // A single point or comma may be that of decimals.
            (Point, b';', "1,234", None),
            (Comma, b';', "1.234", None),
            (Point, b',', "0,123", None),
            (Point, b',', "12,34", None),
            (Point, b',', "1,2345", None),
            (Point, b',', "$", None),
            (Point, b',', "%", None),
            (Point, b',', "--1", None),
            (Point, b',', "$-1", None),
            (Point, b',', "$nan", None),
            (Point, b',', "$inf", None),
            (Point, b',', "$5-$10", None),
            (Point, b',', "5%%", None),
            (Point, b',', "1,234,", None),
            (Point, b',', ",234", None),
        ] {
            assert_eq!(mark.number(cell, delimiter), expected, "{cell}");
        }
    }

    #[test]
    fn a_number_may_have_a_unit() {
        for (text, unit) in [
            ("12.3k", "k"),
            ("-0.8 kg", "kg"),
            ("<0.5", ""),
            ("≥ 1,5 mg/dL", "mg/dL"),
            ("−3", ""),
        ] {
            assert_eq!(unit_of(text), Some(unit), "{text}");
        }
        for text in [
            "<LOD",
            "A12",
            "10-19",
            "9b1c-4",
            "12:30",
            "1.2.3",
            "12 Main Street",
            "5-",
            "",
        ] {
            assert_eq!(unit_of(text), None, "{text}");
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
