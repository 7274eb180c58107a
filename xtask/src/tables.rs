//! Tables of settings and scores on the pages, written from the code itself.
//!
//! A table stands between `<!-- defaults: VifaConfig -->` or `<!-- scores: CountScores -->` and `<!-- end -->`. Of the
//! documentation of a setting it has the first sentence, and a sentence that begins with "Paper", to its first semicolon.
//! The scores are those of `scores! { … }`.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, ExprLit, Field, Ident, Item, ItemStruct, Lit, LitStr, Meta, MetaNameValue,
    Token, Type, braced, parenthesized,
};

use crate::Outcome;
use crate::source::Source;
use crate::workspace::{self, TextFile};

const STARTS: [&str; 2] = ["<!-- defaults: ", "<!-- scores: "];
const END: &str = "<!-- end -->";

/// The tables by the names of their structures.
type Tables = BTreeMap<String, String>;

/// Writes every table anew.
pub(crate) fn write(root: &Path) -> Outcome {
    let files = workspace::text_files(root)?;
    let tables = tables(&files);
    for page in pages(&files) {
        let text =
            filled(&page.text, &tables).map_err(|error| format!("{}: {error}", page.path))?;
        if text != page.text {
            let written = std::fs::write(root.join(&page.path), text);
            written.map_err(|error| format!("{}: {error}", page.path))?;
            println!("tables: {} is new", page.path);
        }
    }
    Ok(())
}

/// The pages whose tables are not what [`write()`] would write.
pub(crate) fn problems(files: &[TextFile]) -> Vec<String> {
    let tables = tables(files);
    pages(files)
        .filter_map(|page| match filled(&page.text, &tables) {
            Ok(text) if text == page.text => None,
            Ok(_) => Some(format!(
                "{}: a table is out of date: cargo xtask tables",
                page.path
            )),
            Err(error) => Some(format!("{}: {error}", page.path)),
        })
        .collect()
}

fn pages(files: &[TextFile]) -> impl Iterator<Item = &TextFile> {
    let is_page = |path: &str| path == "README.md" || path.starts_with("book/src/");
    files
        .iter()
        .filter(move |file| is_page(&file.path) && file.path.ends_with(".md"))
}

/// The page with the tables in their places.
fn filled(page: &str, tables: &Tables) -> Result<String, String> {
    let fill = |page: String, start: &&str| filled_from(&page, start, tables);
    STARTS.iter().try_fold(page.to_string(), fill)
}

fn filled_from(page: &str, start: &str, tables: &Tables) -> Result<String, String> {
    let mut pieces = page.split(start);
    let mut text = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let (name, rest) = piece.split_once(" -->").unwrap_or((piece, ""));
        let (_, rest) = rest
            .split_once(END)
            .ok_or_else(|| format!("no `{END}` after the table of {name}"))?;
        let table = tables
            .get(name)
            .ok_or_else(|| format!("there is no structure {name}"))?;
        text.push_str(&format!("{start}{name} -->\n\n{table}\n{END}{rest}"));
    }
    Ok(text)
}

/// The tables of all structures that derive Burn's `Config`, and of all scores.
fn tables(files: &[TextFile]) -> Tables {
    let sources = files
        .iter()
        .filter(|file| {
            let has_table = file.text.contains("derive(Config") || file.text.contains("scores! {");
            file.path.ends_with(".rs") && has_table
        })
        .filter_map(|file| Source::read(&file.text).ok());
    let items = sources.flat_map(|source| source.items);
    items
        .filter_map(|item| match item {
            Item::Struct(item) if is_config(&item) => Some((item.ident.to_string(), table(&item))),
            Item::Macro(item) if item.mac.path.is_ident("scores") => {
                let Scores { name, table } = item.mac.parse_body().ok()?;
                Some((name, table))
            }
            _ => None,
        })
        .collect()
}

/// What `scores! { … }` defines.
struct Scores {
    name: String,
    table: String,
}

impl Parse for Scores {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.call(Attribute::parse_outer)?;
        let name = input.parse::<Ident>()?.to_string();
        let fields;
        braced!(fields in input);
        let mut table =
            "| Name in JSON | Score | Better | Meaning |\n| --- | --- | --- | --- |\n".to_string();
        while !fields.is_empty() {
            let documentation = documentation(&fields.call(Attribute::parse_outer)?);
            let key = fields.parse::<Ident>()?;
            fields.parse::<Token![:]>()?;
            fields.parse::<Type>()?;
            if fields.parse::<Option<Token![=]>>()?.is_some() {
                let row;
                parenthesized!(row in fields);
                if let Ok(title) = row.parse::<LitStr>() {
                    row.parse::<Token![,]>()?;
                    let better = match row.parse::<Ident>()?.to_string().as_str() {
                        "Higher" => "higher",
                        "Lower" => "lower",
                        "AtLevel" => "near the level",
                        _ => "–",
                    };
                    let (title, meaning) = (title.value(), documentation.trim_end_matches('.'));
                    table.push_str(&format!("| `{key}` | {title} | {better} | {meaning} |\n"));
                }
                row.parse::<proc_macro2::TokenStream>()?;
            }
            fields.parse::<Token![;]>()?;
        }
        Ok(Self { name, table })
    }
}

fn is_config(item: &ItemStruct) -> bool {
    let mut derives = item
        .attrs
        .iter()
        .filter(|one| one.path().is_ident("derive"));
    derives.any(|one| text_of(one.meta.span()).contains("Config"))
}

fn table(item: &ItemStruct) -> String {
    let rows: Vec<Row> = item.fields.iter().map(Row::of).collect();
    let has_paper = rows.iter().any(|row| row.paper.is_some());
    let (title, line) = if has_paper {
        (" Paper |", " --- |")
    } else {
        ("", "")
    };
    let mut table = format!("| Field | Default |{title} Meaning |\n| --- | --- |{line} --- |\n");
    for Row {
        name,
        default,
        paper,
        meaning,
    } in rows
    {
        let paper = paper.unwrap_or_default();
        let paper = if has_paper {
            format!(" {paper} |")
        } else {
            paper
        };
        table.push_str(&format!("| `{name}` | {default} |{paper} {meaning} |\n"));
    }
    table
}

struct Row {
    name: String,
    default: String,
    paper: Option<String>,
    meaning: String,
}

impl Row {
    fn of(field: &Field) -> Self {
        let documentation = documentation(&field.attrs).replace('|', "\\|");
        let mut sentences = documentation
            .split(". ")
            .map(|text| text.trim_end_matches('.'));
        let meaning = sentences.next().unwrap_or_default().to_string();
        let paper = sentences.find_map(|sentence| {
            let said = sentence.strip_prefix("Paper")?;
            let said = said.strip_prefix("'s").unwrap_or(said);
            let said = said.trim_start_matches([':', ' ']);
            Some(said.split(';').next().unwrap_or(said).to_string())
        });
        let name = field.ident.as_ref().map(ToString::to_string);
        Self {
            name: name.unwrap_or_default(),
            default: default(field),
            paper,
            meaning,
        }
    }
}

/// What is given to `#[config(default = …)]`. Burn makes a field without it an argument of `new`,
/// unless it is an `Option`.
fn default(field: &Field) -> String {
    let is_config = |attribute: &&syn::Attribute| attribute.path().is_ident("config");
    let given = field.attrs.iter().find(is_config);
    match given.and_then(|attribute| attribute.parse_args::<MetaNameValue>().ok()) {
        Some(MetaNameValue { value, .. }) => {
            format!(
                "`{}`",
                string(&value).unwrap_or_else(|| text_of(value.span()))
            )
        }
        None if is_option(&field.ty) => "none".into(),
        None => "required".into(),
    }
}

fn is_option(of: &Type) -> bool {
    matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Option"))
}

/// The first paragraph of the documentation on one line, its links as plain text.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(doc) if doc.path.is_ident("doc") => string(&doc.value),
            _ => None,
        });
    let lines: Vec<String> = lines
        .map(|line| line.trim().to_string())
        .take_while(|line| !line.is_empty())
        .collect();
    lines.join(" ").replace("[`", "`").replace("`]", "`")
}

/// The text of a string literal.
fn string(value: &Expr) -> Option<String> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

fn text_of(span: Span) -> String {
    span.source_text().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        /// Settings.
        #[derive(Config, Debug)]
        pub struct AConfig {
            /// N, the number. Not of batches.
            pub train_len: usize,
            /// The [`Rate`] `a | b`, which
            /// is constant. Paper: 0.1; others are worse.
            ///
            /// More.
            #[config(default = "Rate::Constant(0.01)")]
            pub rate: Rate,
            /// A momentum. Paper's networks: 0.9.
            #[config(default = -1e-5)]
            pub momentum: f64,
            /// A norm.
            pub clip: Option<f64>,
        }
        #[derive(Config)]
        struct BConfig {
            /// A switch.
            #[config(default = false)]
            is_on: bool,
        }
        struct Other {}
    "#;

    const TABLE: &str = "\
| Field | Default | Paper | Meaning |
| --- | --- | --- | --- |
| `train_len` | required |  | N, the number |
| `rate` | `Rate::Constant(0.01)` | 0.1 | The `Rate` `a \\| b`, which is constant |
| `momentum` | `-1e-5` | networks: 0.9 | A momentum |
| `clip` | none |  | A norm |
";

    #[test]
    fn a_table_is_written_from_scores() {
        let source = r#"
            scores! {
                /// All scores.
                AScores {
                    /// Number of rows.
                    rows: usize;
                    /// A mean, of
                    /// all rows.
                    rmse: Score = ("RMSE", Lower, compared);
                    /// Others.
                    #[serde(flatten)]
                    more: Vec<(A, B)> = (each);
                    /// A fraction.
                    hits: Score = ("Hits", Higher);
                }
            }
        "#;
        let rows = "| `rmse` | RMSE | lower | A mean, of all rows |\n| `hits` | Hits | higher | A fraction |\n";
        let tables = tables(&[file("a.rs", source)]);
        let table = &tables["AScores"];
        assert!(
            table.starts_with("| Name in JSON |") && table.ends_with(rows),
            "{table}"
        );
    }

    fn file(path: &str, text: &str) -> TextFile {
        TextFile {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_table_is_written_from_a_configuration() {
        let tables = tables(&[file("a.rs", CONFIG)]);
        assert_eq!(tables.keys().collect::<Vec<_>>(), ["AConfig", "BConfig"]);
        assert_eq!(tables["AConfig"], TABLE);
        assert!(
            tables["BConfig"].ends_with("| --- | --- | --- |\n| `is_on` | `false` | A switch |\n")
        );
    }

    #[test]
    fn a_table_out_of_date_is_found_and_filled() {
        let page =
            |inside: &str| format!("# A\n\n{}AConfig -->{inside}{END}\n\nMore.\n", STARTS[0]);
        let check = |text: &str| problems(&[file("a.rs", CONFIG), file("book/src/a.md", text)]);
        let current = page(&format!("\n\n{TABLE}\n"));
        assert_eq!(check(&current), [""; 0]);
        for old in [page("\n"), current.replace("-1e-5", "0.9")] {
            assert_eq!(check(&old).len(), 1);
            let tables = tables(&[file("a.rs", CONFIG)]);
            assert_eq!(filled(&old, &tables).as_ref(), Ok(&current));
        }
    }

    #[test]
    fn a_table_of_nothing_and_one_without_end_are_refused() {
        let tables = Tables::from([("A".into(), String::new())]);
        for page in [
            "<!-- defaults: B -->\n<!-- end -->\n",
            "<!-- defaults: A -->\n",
        ] {
            assert!(filled(page, &tables).is_err(), "{page}");
        }
    }
}
