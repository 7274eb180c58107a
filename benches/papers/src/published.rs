//! The figures that the papers report, from the CSV files in `published/`.
//!
//! Each experiment has one file, and each line is a row of a paper's table: data set, method, one cell per
//! measure, and the source. A cell is empty, `value`, or `value ± standard error`.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::ParseFloatError;
use std::str::FromStr;

/// The published figures of one experiment.
#[derive(Debug)]
pub(crate) struct Published(Vec<PublishedRow>);

/// A row of a paper's table.
#[derive(Debug)]
pub(crate) struct PublishedRow {
    pub(crate) case: String,
    pub(crate) method: String,
    /// Figures by measure.
    pub(crate) figures: BTreeMap<String, Figure>,
}

/// A published number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) standard_error: Option<f64>,
}

impl Published {
    /// Parses the content of a file.
    pub(crate) fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows = reader.deserialize().map(|cells| PublishedRow::new(cells?));
        Ok(Self(rows.collect::<Result<_, _>>()?))
    }

    /// All rows, in the order of the file.
    pub(crate) fn rows(&self) -> &[PublishedRow] {
        &self.0
    }

    /// The figure of a method on a data set; `None` if the papers do not report it.
    pub(crate) fn figure(&self, case: &str, method: &str, measure: &str) -> Option<Figure> {
        let mut rows = self.0.iter();
        let row = rows.find(|row| row.case == case && row.method == method)?;
        row.figures.get(measure).copied()
    }
}

impl PublishedRow {
    /// From the cells of a line, by column.
    fn new(mut cells: BTreeMap<String, String>) -> Result<Self, Box<dyn Error>> {
        let [case, method, _] = ["data", "method", "source"].map(|column| cells.remove(column));
        let (case, method) = case.zip(method).ok_or("no column `data` or `method`")?;
        let figures = cells.into_iter().filter(|(_, cell)| !cell.is_empty());
        let figures = figures.map(|(measure, cell)| match cell.parse() {
            Ok(figure) => Ok((measure, figure)),
            Err(error) => Err(format!("{case}, {method}, {measure}: `{cell}`: {error}")),
        });
        Ok(Self {
            figures: figures.collect::<Result<_, _>>()?,
            case,
            method,
        })
    }
}

impl FromStr for Figure {
    type Err = ParseFloatError;

    fn from_str(cell: &str) -> Result<Self, ParseFloatError> {
        let (value, error) = match cell.split_once(" ± ") {
            Some((value, error)) => (value, Some(error)),
            None => (cell, None),
        };
        Ok(Self {
            value: value.parse()?,
            standard_error: error.map(str::parse).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_empty_a_value_or_a_value_with_its_error() {
        let text = "data,method,rmse,nll,source\nyacht,VIFA,1.5,,a\nyacht,SLANG,1 ± 0.5,-2,b\n";
        let published = Published::parse(text).unwrap();
        let figure = |method, measure| published.figure("yacht", method, measure);
        let numbers = |method, measure| {
            figure(method, measure).map(|figure| (figure.value, figure.standard_error))
        };
        assert_eq!(numbers("VIFA", "rmse"), Some((1.5, None)));
        assert_eq!(numbers("VIFA", "nll"), None);
        assert_eq!(numbers("SLANG", "rmse"), Some((1.0, Some(0.5))));
        assert_eq!(numbers("SLANG", "nll"), Some((-2.0, None)));
    }

    #[test]
    fn an_error_names_the_cell_or_the_line() {
        for (text, words) in [
            (
                "data,method,rmse,source\nyacht,VIFA,1.5±1,a\n",
                "yacht, VIFA, rmse: `1.5±1`",
            ),
            ("data,method,rmse,source\nyacht,VIFA,1.5\n", "line: 2"),
            ("case,method,rmse,source\nyacht,VIFA,1.5,a\n", "`data`"),
        ] {
            let message = Published::parse(text).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
