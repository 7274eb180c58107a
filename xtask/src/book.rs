//! The book, built with mdBook as a library so that nothing but Rust need be installed.

use std::path::Path;

use crate::Outcome;

/// Renders `book/` into `book/book`.
#[cfg(feature = "book")]
pub(crate) fn build(root: &Path) -> Outcome {
    mdbook_driver::MDBook::load(root.join("book"))
        .and_then(|book| book.build())
        .map_err(|error| format!("the book was not built: {error:#}"))?;
    println!("book: book/book/index.html");
    Ok(())
}

/// Runs this program again with the book's builder compiled in, without the optimisation that the
/// development profile gives to dependencies: the book is small and compiling is what takes time.
#[cfg(not(feature = "book"))]
pub(crate) fn build(root: &Path) -> Outcome {
    crate::process::cargo(root, &["run", "--package", "xtask", "--features", "book"])
        .arguments(&["--config", "profile.dev.package.\"*\".opt-level = 0"])
        .arguments(&["--", "book"])
        .run()
}
