//! Command lines quoted for a shell.

use std::borrow::Cow;
use std::ffi::OsStr;

/// The command line of a program with these arguments.
pub fn command_of(program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let words = arguments.into_iter();
    let words = words.map(|word| quoted(&word.as_ref().to_string_lossy()));
    let words = [program.to_string()].into_iter().chain(words);
    words.collect::<Vec<_>>().join(" ")
}

/// The words of a text that was written for a shell, without their quotes; `None` if a quote is not closed.
pub fn words_of(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                // Quotes with nothing between them are a word.
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => word.get_or_insert_default().push(letters.next()?),
            (_, None) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// A word as a shell reads it.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_=.,:/+".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The name of a column as the value of an option that takes a list.
pub fn quoted_name(name: &str) -> String {
    quoted(&item(name))
}

/// A word of a list that is separated by commas.
pub fn item(word: &str) -> Cow<'_, str> {
    match word.contains(',') {
        true => format!("\"{word}\"").into(),
        false => word.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_one_item_of_a_list() {
        assert_eq!(quoted_name("age"), "age");
        assert_eq!(quoted_name("Row No"), "'Row No'");
        assert_eq!(quoted_name("a, b"), "'\"a, b\"'");
    }

    #[test]
    fn words_are_quoted_as_a_shell_needs() {
        assert_eq!(quoted("--model=mlp:50,50"), "--model=mlp:50,50");
        assert_eq!(quoted("my rows.csv"), "'my rows.csv'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn quoted_words_are_read_again() {
        let words = [
            "--model=mlp:50,50",
            "ignore=my rows",
            "it's",
            "",
            "a\\b",
            "\"a, b\",c",
        ];
        let text = words.map(quoted).join("  ");
        assert_eq!(words_of(&text).unwrap(), words);
        let text = r#" ignore="my rows" clip=\ 1 "#;
        assert_eq!(words_of(text).unwrap(), ["ignore=my rows", "clip= 1"]);
        assert_eq!(words_of("").unwrap(), [""; 0]);
        for text in ["'open", "\"open'", "end\\"] {
            assert_eq!(words_of(text), None, "{text}");
        }
    }
}
