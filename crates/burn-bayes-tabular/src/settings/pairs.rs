//! Lists on the command line, in which quotes keep separators together: words, and names with values.

use std::str::FromStr;

/// Names with values, in this order: `name=value`, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

impl FromStr for Pairs {
    type Err = String;

    /// Names and values in double quotes may contain commas and equals signs.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for word in split(text, ',') {
            let name = split(word, '=').next().unwrap_or_default();
            let pair = match word[name.len()..].strip_prefix('=') {
                Some(value) => Some((bare(name), bare(value))),
                None => bare(word).split_once('='),
            };
            let (name, value) = pair.ok_or_else(|| {
                format!(
                    "`{word}` has no value; write `name=value`, and what contains a comma in double quotes"
                )
            })?;
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(format!("`{name}` has two values; leave out one of them"));
            }
            pairs.push((name.into(), value.into()));
        }
        match pairs.is_empty() {
            true => Err("there is no value; write `name=value`".into()),
            false => Ok(Self(pairs)),
        }
    }
}

/// The parts of a text that are not empty.
pub(super) fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let parts = text.split(move |character| {
        is_quoted ^= character == '"';
        character == separator && !is_quoted
    });
    parts.filter(|part| !part.trim().is_empty())
}

/// A word without spaces and quotes around it.
pub(super) fn bare(word: &str) -> &str {
    let word = word.trim();
    let quoted = word
        .strip_prefix('"')
        .and_then(|word| word.strip_suffix('"'));
    quoted.unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_commas_and_equals_signs() {
        let pairs = |text: &str| text.parse::<Pairs>().map(|pairs| pairs.0);
        let expected = |pairs: &[(&str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|&(name, value)| (name.into(), value.into()));
            Ok(pairs.collect::<Vec<(String, String)>>())
        };
        assert_eq!(
            pairs("age=60, town = \"Oslo, Norway\",x=,"),
            expected(&[("age", "60"), ("town", "Oslo, Norway"), ("x", "")])
        );
        assert_eq!(
            pairs("\"a, b\"=\"c=d\",\"e, f=g\",h=i=j"),
            expected(&[("a, b", "c=d"), ("e, f", "g"), ("h", "i=j")])
        );
        for text in ["", "price=1,5", "age", "a=1,a=2"] {
            assert!(pairs(text).is_err(), "{text}");
        }
    }
}
