//! Rust source: its items as `syn` parses them, and its text with parts of it blanked out.
//!
//! Blanking keeps every line break: a line number in the result is a line number in the file.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Attribute, Item, Path};

/// A file of Rust.
pub(crate) struct Source<'a> {
    text: &'a str,
    /// Its items, test modules included.
    pub(crate) items: Vec<Item>,
    /// The bytes of the items under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
    /// The bytes of the literals.
    literals: Vec<Range<usize>>,
    /// The bytes of all other tokens; comments are no tokens.
    code: Vec<Range<usize>>,
}

impl<'a> Source<'a> {
    /// Parses a file.
    pub(crate) fn read(text: &'a str) -> syn::Result<Self> {
        let tokens: TokenStream = text.parse()?;
        let mut source = Self {
            text,
            items: Vec::new(),
            tests: Vec::new(),
            literals: Vec::new(),
            code: Vec::new(),
        };
        source.sort_tokens(tokens.clone());
        for (attributes, item) in items.parse2(tokens)? {
            if attributes.iter().any(is_test) {
                source.tests.push(item.span().byte_range());
            }
            source.items.push(item);
        }
        Ok(source)
    }

    fn sort_tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            let bytes = token.span().byte_range();
            // The tokens `#[doc = "…"]` that stand for a comment all have its place.
            if self.text[bytes.clone()].starts_with("//")
                || self.text[bytes.clone()].starts_with("/*")
            {
                continue;
            }
            match token {
                TokenTree::Group(group) => {
                    self.code.push(group.span_open().byte_range());
                    self.sort_tokens(group.stream());
                    self.code.push(group.span_close().byte_range());
                }
                TokenTree::Literal(_) => self.literals.push(bytes),
                TokenTree::Ident(_) | TokenTree::Punct(_) => self.code.push(bytes),
            }
        }
    }

    /// The code alone: no literals, comments or test modules.
    pub(crate) fn code(&self) -> String {
        let mut is_kept = vec![false; self.text.len()];
        mark(&mut is_kept, &self.code, true);
        mark(&mut is_kept, &self.tests, false);
        self.blanked(&is_kept)
    }

    /// Code and comments, tests included.
    pub(crate) fn without_literals(&self) -> String {
        let mut is_kept = vec![true; self.text.len()];
        mark(&mut is_kept, &self.literals, false);
        self.blanked(&is_kept)
    }

    /// How many lines of code the file has: neither tests, nor blank, nor comments alone.
    pub(crate) fn lines_of_code(&self) -> usize {
        let mut is_kept = vec![true; self.text.len()];
        mark(&mut is_kept, &self.tests, false);
        let text = self.blanked(&is_kept);
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty() && !line.starts_with("//"))
            .count()
    }

    fn blanked(&self, is_kept: &[bool]) -> String {
        let letters = self.text.char_indices();
        letters
            .map(|(at, letter)| {
                if is_kept[at] || letter == '\n' {
                    letter
                } else {
                    ' '
                }
            })
            .collect()
    }
}

fn mark(bytes: &mut [bool], ranges: &[Range<usize>], value: bool) {
    for range in ranges {
        bytes[range.clone()].fill(value);
    }
}

/// The items of a file, each with its attributes, which every kind of item keeps in a field of its own.
fn items(input: ParseStream<'_>) -> syn::Result<Vec<(Vec<Attribute>, Item)>> {
    input.call(Attribute::parse_inner)?;
    let mut items = Vec::new();
    while !input.is_empty() {
        items.push((input.fork().call(Attribute::parse_outer)?, input.parse()?));
    }
    Ok(items)
}

/// Is it `#[cfg(test)]`?
fn is_test(attribute: &Attribute) -> bool {
    let condition = || attribute.parse_args::<Path>();
    attribute.path().is_ident("cfg") && condition().is_ok_and(|path| path.is_ident("test"))
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

    fn read(text: &str) -> Source<'_> {
        Source::read(text).unwrap()
    }

    #[test]
    fn strings_and_characters_are_blanked_and_code_is_kept() {
        let text = r##"const A: B = f("x\"y", '"', '\'', r#"z"w"#, b"v", 'q');"##;
        let code = read(text).code();
        assert_eq!(code.len(), text.len());
        for letter in ['x', 'y', 'z', 'w', 'v', 'q', '"', '\''] {
            assert!(!code.contains(letter), "{letter} in {code}");
        }
        assert!(code.contains("const A: B = f(") && code.ends_with(");"));
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        let text = "fn f<'a>(x: &'a str) -> r#type { 'outer: loop {} for_r(\"s\") }";
        let code = read(text).code();
        assert!(code.contains("<'a>(x: &'a str) -> r#type { 'outer: loop"));
        assert!(!code.contains("\"s\""));
    }

    #[test]
    fn comments_are_kept_beside_literals_and_no_code() {
        let text = "//! Ä \"\n\n/// b\n#[c]\nfn d() {} // e \"\n/* f /* g */ \" */ struct H;\n";
        let source = read(text);
        assert_eq!(source.without_literals(), text);
        let code = source.code();
        let words: Vec<_> = code.split_whitespace().collect();
        assert_eq!(words, ["#[c]", "fn", "d()", "{}", "struct", "H;"]);
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn a_slash_in_a_string_is_no_comment() {
        let code = read("const A: B = (f(\"// no\"), g());").code();
        assert!(code.ends_with("g());"));
    }

    #[test]
    fn what_is_no_rust_is_an_error_with_its_line() {
        for text in ["\nconst A: B = \"abc", "\n/* abc", "\nx\n"] {
            assert!(Source::read(text).is_err(), "{text}");
        }
        let error = Source::read("\nfn\n{}").err().unwrap();
        assert_eq!(error.span().start().line, 3);
    }

    const WITH_TESTS: &str = "fn a() {\n    b();\n}\n\n#[cfg(test)]\nuse c::{D};\n\nfn e() {}\n\n\
        #[cfg(test)]\nmod tests {\n    fn f() {\n    }\n}\n";

    #[test]
    fn test_modules_do_not_count() {
        let source = read(WITH_TESTS);
        let code = source.code();
        assert_eq!(code.lines().count(), WITH_TESTS.lines().count());
        assert!(code.contains("b();") && code.contains("fn e()"));
        assert!(!code.contains('D') && !code.contains("fn f()"));
        assert_eq!(source.lines_of_code(), 4);
    }

    #[test]
    fn code_after_a_test_module_counts_and_comments_do_not() {
        let text = format!("{WITH_TESTS}\n/// Last.\nfn last() {{}} // at last\n");
        assert_eq!(read(&text).lines_of_code(), 5);
    }

    #[test]
    fn words_have_borders() {
        assert!(has_word("use Flex;", "Flex"));
        assert!(!has_word("use Flexible;", "Flex"));
        assert!(!has_word("use MyFlex;", "Flex"));
        assert!(has_word("FlexFlex Flex", "Flex"));
    }
}
