//! Formatting of numbers and names.

use burn_bayes::eval::Bounded;

/// At most four decimals and five digits in total; scientific notation for very small and large values.
pub fn number(value: f64) -> String {
    number_like(value, value)
}

/// Formats `value` with the digits of [`number`] for `scale`.
pub(crate) fn number_like(value: f64, scale: f64) -> String {
    let size = scale.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return minus(format!("{value:.2e}"));
    }
    let digits_before = if size < 1.0 { 0 } else { size.log10() as usize };
    minus(format!("{value:.*}", 4 - digits_before.min(4)))
}

/// The number with so many decimals; in scientific notation from a million on.
pub(crate) fn decimals(value: f64, count: usize) -> String {
    match value.abs() < 1e6 {
        true => format!("{value:.count$}"),
        false => format!("{value:.2e}"),
    }
}

/// A fraction as a percentage.
pub(crate) fn percent(share: f64) -> String {
    unbroken(&format!("{} %", tick(100.0 * share)))
}

/// The text with a non-breaking space before each percent sign.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

/// A fraction as a percentage with one decimal, as [`percentage`].
pub(crate) fn rounded_percent(share: f64) -> String {
    unbroken(&format!("{} %", tick(percentage(share))))
}

/// A fraction in per cent, rounded to one decimal: 0 and 100 only if it is 0 or 1.
pub(crate) fn percentage(share: f64) -> f64 {
    let rounded = (1000.0 * share).round() / 10.0;
    match share > 0.0 && share < 1.0 {
        true => rounded.at_least(0.1).at_most(99.9),
        false => rounded,
    }
}

/// A [`number`], or a dash for `None`.
pub(crate) fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), number)
}

/// A name from a file, with spaces instead of underscores.
pub(crate) fn label(name: &str) -> String {
    name.replace('_', " ")
}

/// The text with a capital first letter.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// A [`tick`] label for whole numbers; empty for others.
pub(crate) fn whole(value: f64) -> String {
    if value.fract() == 0.0 {
        tick(value)
    } else {
        String::new()
    }
}

/// A short tick label, with at most four decimals; four digits in scientific notation.
pub(crate) fn tick(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        let text = format!("{value:.3e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return minus(format!("{}e{exponent}", trimmed(mantissa)));
    }
    let digits = format!("{value:.4}");
    let short = trimmed(&digits);
    minus(if short == "-0" {
        "0".into()
    } else {
        short.into()
    })
}

/// A number with all of its digits.
pub(crate) fn exact(value: f64) -> String {
    minus(match value == 0.0 || (1e-6..1e16).contains(&value.abs()) {
        true => format!("{}", value + 0.0),
        false => format!("{value:e}"),
    })
}

/// The text with spaces instead of control characters, which HTML and SVG must not contain.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect()
}

/// The text shortened in the middle to at most `length` characters.
pub(crate) fn shortened(text: &str, length: usize) -> String {
    let characters: Vec<char> = plain(text).chars().collect();
    if characters.len() <= length {
        return characters.into_iter().collect();
    }
    let (start, end) = (length / 2, (length - 1) / 2);
    let head = characters[..start].iter();
    let tail = characters[characters.len() - end..].iter();
    head.chain(['…'].iter()).chain(tail).collect()
}

/// Decimals without the zeros at their end.
fn trimmed(decimals: &str) -> &str {
    decimals.trim_end_matches('0').trim_end_matches('.')
}

fn minus(text: String) -> String {
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_digits() {
        for (value, text) in [
            (0.0, "0.0000"),
            (0.928, "0.9280"),
            (-1.5, "−1.5000"),
            (12.345, "12.345"),
            (1234.56, "1234.6"),
            (98_765.4, "98765"),
            (123_456.0, "1.23e5"),
            (0.000_123_4, "1.23e−4"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(number_like(8.0, 12.3), "8.000");
        assert_eq!(decimals(-0.25, 1), "-0.2");
        assert_eq!(decimals(999_999.0, 1), "999999.0");
        assert_eq!(decimals(1.234e56, 3), "1.23e56");
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [
            (0.1 + 0.2, "0.3"),
            (-0.0, "0"),
            (20.0, "20"),
            (-2.5, "−2.5"),
            (2e7, "2e7"),
            (1.5e6, "1.5e6"),
            (1.25e-5, "1.25e−5"),
            (-9.9996e11, "−1e12"),
        ] {
            assert_eq!(tick(value), text);
        }
        for (value, text) in [
            (-0.0, "0"),
            (1_234_567.0, "1234567"),
            (-0.123_45, "−0.12345"),
            (1e300, "1e300"),
            (-2.5e-7, "−2.5e−7"),
        ] {
            assert_eq!(exact(value), text);
        }
        assert_eq!(percent(0.285), "28.5\u{a0}%");
        for (share, text) in [
            (0.0, "0"),
            (1e-4, "0.1"),
            (0.2857, "28.6"),
            (0.9996, "99.9"),
            (1.0, "100"),
        ] {
            assert_eq!(rounded_percent(share), format!("{text}\u{a0}%"));
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("layers.0.weight", 20), "layers.0.weight");
        assert_eq!(shortened("abcdefghij", 5), "ab…ij");
        assert_eq!(shortened("a\nb", 5), "a b");
    }
}
