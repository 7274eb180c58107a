//! Parquet and Arrow files, if the crate is built with the feature `parquet`.

#[cfg(feature = "parquet")]
pub(crate) use with_feature::{ColumnsFile, open};
#[cfg(not(feature = "parquet"))]
pub(crate) use without_feature::{ColumnsFile, open};

#[cfg(feature = "parquet")]
mod arrow;
#[cfg(feature = "parquet")]
mod cells;
#[cfg(feature = "parquet")]
mod with_feature;

#[cfg(not(feature = "parquet"))]
mod without_feature {
    use crate::content::ColumnsFormat;
    use crate::csv_options::CsvOptions;
    use crate::error::{DataError, Place};
    use crate::row::Row;
    use crate::source::Plain;

    /// No file is read without the feature.
    pub(crate) enum ColumnsFile {}

    impl ColumnsFile {
        pub(crate) fn names(&self) -> &[String] {
            match *self {}
        }

        pub(crate) fn read(&mut self, _: &mut Row) -> Result<bool, DataError> {
            match *self {}
        }
    }

    /// The error of a file that would be read with the feature.
    pub(crate) fn open(
        _: Plain<'_>,
        format: ColumnsFormat,
        name: &str,
        _: &CsvOptions,
    ) -> Result<ColumnsFile, DataError> {
        Err(DataError::data(
            Place::of(name),
            format.name(),
            "delimited text or a JSON object per line, because this program was built without the feature `parquet`",
            "install it with `cargo install burn-bayes-cli --features parquet`, or save the table as CSV",
        ))
    }
}
