//! Rust source with parts of it blanked out, so that a plain search sees only what it should.
//!
//! Blanking keeps every line break: a line number in the result is a line number in the file.

/// What [`blank`] turns into spaces besides the contents of strings and character literals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Comments {
    /// Comments stay readable.
    Kept,
    /// Comments, documentation included, are blanked too.
    Blanked,
}

/// The source with strings blanked, and comments as asked.
pub(crate) fn blank(source: &str, comments: Comments) -> String {
    let letters: Vec<char> = source.chars().collect();
    let mut result = String::with_capacity(source.len());
    let mut at = 0;
    while at < letters.len() {
        let (end, kind) = token(&letters, at);
        let is_kept = match kind {
            Kind::Code => true,
            Kind::Comment => comments == Comments::Kept,
            Kind::Literal => false,
        };
        for &letter in &letters[at..end] {
            let is_copied = is_kept || letter == '\n';
            result.push(if is_copied { letter } else { ' ' });
        }
        at = end;
    }
    result
}

enum Kind {
    Code,
    Comment,
    Literal,
}

/// Where the token that starts at `at` ends, and what it is. Code comes letter by letter.
fn token(letters: &[char], at: usize) -> (usize, Kind) {
    let starts_with = |text: &str| {
        text.chars()
            .enumerate()
            .all(|(offset, letter)| letters.get(at + offset) == Some(&letter))
    };
    match letters[at] {
        '/' if starts_with("//") => (end_of_line(letters, at), Kind::Comment),
        '/' if starts_with("/*") => (end_of_block(letters, at), Kind::Comment),
        '"' => (end_of_string(letters, at), Kind::Literal),
        '\'' => match end_of_character(letters, at) {
            Some(end) => (end, Kind::Literal),
            None => (at + 1, Kind::Code),
        },
        'r' if !follows_a_word(letters, at) => match end_of_raw_string(letters, at) {
            Some(end) => (end, Kind::Literal),
            None => (at + 1, Kind::Code),
        },
        _ => (at + 1, Kind::Code),
    }
}

/// Is the `r` at `at` part of a longer word? The prefixes of `br"…"` and `cr"…"` are none.
fn follows_a_word(letters: &[char], at: usize) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    match at.checked_sub(1).map(|before| letters[before]) {
        Some('b' | 'c') => at >= 2 && is_word(letters[at - 2]),
        Some(letter) => is_word(letter),
        None => false,
    }
}

fn end_of_line(letters: &[char], at: usize) -> usize {
    find(letters, at, |letter| letter == '\n')
}

fn find(letters: &[char], at: usize, is_sought: impl Fn(char) -> bool) -> usize {
    letters[at..]
        .iter()
        .position(|&letter| is_sought(letter))
        .map_or(letters.len(), |offset| at + offset)
}

/// Block comments nest.
fn end_of_block(letters: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut place = at;
    while place + 1 < letters.len() {
        match (letters[place], letters[place + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                place += 1;
                continue;
            }
        }
        place += 2;
        if depth == 0 {
            return place;
        }
    }
    letters.len()
}

fn end_of_string(letters: &[char], at: usize) -> usize {
    let mut place = at + 1;
    while place < letters.len() {
        match letters[place] {
            '\\' => place += 2,
            '"' => return place + 1,
            _ => place += 1,
        }
    }
    letters.len()
}

/// The end of a character literal; `None` for the quote of a lifetime or a label.
fn end_of_character(letters: &[char], at: usize) -> Option<usize> {
    if letters.get(at + 1) == Some(&'\\') {
        let from = (at + 3).min(letters.len());
        return Some((find(letters, from, |letter| letter == '\'') + 1).min(letters.len()));
    }
    (letters.get(at + 2) == Some(&'\'')).then_some(at + 3)
}

/// The end of `r"…"` or `r#"…"#`; `None` for a raw identifier or a plain letter.
fn end_of_raw_string(letters: &[char], at: usize) -> Option<usize> {
    let quote = find(letters, at + 1, |letter| letter != '#');
    if letters.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - at - 1;
    let mut place = quote + 1;
    while place < letters.len() {
        let after = &letters[place + 1..];
        let is_closed = after.len() >= hashes && after[..hashes].iter().all(|&hash| hash == '#');
        if letters[place] == '"' && is_closed {
            return Some(place + 1 + hashes);
        }
        place += 1;
    }
    Some(letters.len())
}

/// The source with every test module (`#[cfg(test)]` at the start of a line, then its item)
/// replaced by blank lines. It relies on the formatting that the fmt stage enforces: a module
/// that starts in the first column ends with a `}` there.
pub(crate) fn without_tests(source: &str) -> String {
    let code = blank(source, Comments::Blanked);
    let mut result = String::with_capacity(source.len());
    let mut is_test = false;
    for (line, code) in source.lines().zip(code.lines()) {
        is_test |= code.trim_end() == "#[cfg(test)]";
        if !is_test {
            result.push_str(line);
        }
        result.push('\n');
        let is_item_end = code.starts_with('}') || (!code.starts_with(' ') && code.contains(';'));
        is_test &= !is_item_end;
    }
    result
}

/// How many lines of code a file has: neither tests, nor blank, nor comments alone.
pub(crate) fn lines_of_code(source: &str) -> usize {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    without_tests(source).lines().filter(is_code).count()
}

/// Does `word` occur in `line` with no letter, digit or underscore on either side?
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(start, _)| {
        !line[..start].ends_with(is_word) && !line[start + word.len()..].starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_characters_are_blanked_and_code_is_kept() {
        let source = r##"let a = "x\"y"; let b = '"'; let c = '\''; let d = r#"z"w"#; call('q')"##;
        let code = blank(source, Comments::Blanked);
        assert_eq!(code.len(), source.len());
        for letter in ['x', 'y', 'z', 'w', 'q', '"', '\''] {
            assert!(!code.contains(letter), "{letter} in {code}");
        }
        assert!(code.contains("let d =") && code.contains("call("));
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        let source = "fn f<'a>(x: &'a str) -> r#type { 'outer: loop {} for_r(\"s\") }";
        let code = blank(source, Comments::Blanked);
        assert!(code.contains("<'a>(x: &'a str) -> r#type { 'outer: loop"));
        assert!(!code.contains("\"s\""));
    }

    #[test]
    fn comments_are_blanked_only_when_asked() {
        let source = "a // one \"\n/* two /* three */ \" */ b";
        assert_eq!(blank(source, Comments::Kept), source);
        let code = blank(source, Comments::Blanked);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(code.lines().count(), 2);
    }

    #[test]
    fn a_slash_in_a_string_is_no_comment() {
        let code = blank("f(\"// no\"); g()", Comments::Blanked);
        assert!(code.ends_with("g()"));
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for source in ["\"abc", "r#\"abc\"", "'\\", "/* abc", "\"abc\\"] {
            assert_eq!(blank(source, Comments::Blanked).trim(), "", "{source}");
        }
    }

    const WITH_TESTS: &str = "fn a() {\n    b();\n}\n\n#[cfg(test)]\nuse c::D;\n\nfn e() {}\n\n\
        #[cfg(test)]\nmod tests {\n    fn f() {\n    }\n}\n";

    #[test]
    fn test_modules_do_not_count() {
        let kept = without_tests(WITH_TESTS);
        assert_eq!(kept.lines().count(), WITH_TESTS.lines().count());
        assert!(kept.contains("b();") && kept.contains("fn e()"));
        assert!(!kept.contains("D") && !kept.contains("fn f()"));
        assert_eq!(lines_of_code(WITH_TESTS), 4);
    }

    #[test]
    fn code_after_a_test_module_counts_and_comments_do_not() {
        let source = format!("{WITH_TESTS}\n/// Last.\nfn last() {{}} // at last\n");
        assert_eq!(lines_of_code(&source), 5);
    }

    #[test]
    fn words_have_borders() {
        assert!(has_word("use Flex;", "Flex"));
        assert!(!has_word("use Flexible;", "Flex"));
        assert!(!has_word("use MyFlex;", "Flex"));
        assert!(has_word("FlexFlex Flex", "Flex"));
    }
}
