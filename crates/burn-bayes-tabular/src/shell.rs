//! Command lines quoted for a shell.

use std::ffi::OsStr;

/// The command line of a program with these arguments.
pub fn command_of(program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let words = arguments.into_iter();
    let words = words.map(|word| quoted(&word.as_ref().to_string_lossy()));
    let words = [program.to_string()].into_iter().chain(words);
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_=.,:/+".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_needs() {
        assert_eq!(quoted("--model=mlp:50,50"), "--model=mlp:50,50");
        assert_eq!(quoted("my rows.csv"), "'my rows.csv'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
