//! The sparse text format of libsvm: `label index:value index:value …`, without zeros.

use std::path::Path;

use burn_bayes_data::{Dataset, Features, Targets};
use burn_bayes_tabular::Result;

use super::numbers::finite;
use super::source::{read_text, wrong};

/// Reads a libsvm file, optionally compressed with gzip, into a dense matrix with numeric labels;
/// [`Dataset::with_classes`] converts them to classes. The number of features is given, because the last ones may be zero
/// in every row of a file.
pub(crate) fn read_libsvm(path: impl AsRef<Path>, features: usize) -> Result<Dataset> {
    let (text, name) = read_text(path.as_ref())?;
    dense(&text, &name, features)
}

fn dense(text: &str, name: &str, features: usize) -> Result<Dataset> {
    let (mut labels, mut values) = (Vec::new(), Vec::new());
    for (line, text) in text.lines().enumerate() {
        let place = format_args!("{name}, line {}", line + 1);
        let text = text.split_once('#').map_or(text, |(text, _)| text);
        let mut words = text.split_ascii_whitespace();
        let Some(label) = words.next() else {
            continue;
        };
        labels.push(finite(label, place)?);
        let start = values.len();
        values.resize(start + features, 0.0);
        let mut next = 0;
        for word in words {
            let refused = |expected: &str| wrong(place, format_args!("`{word}`"), expected);
            let (index, value) = word.split_once(':').ok_or_else(|| refused("index:value"))?;
            let index: usize = index
                .parse()
                .map_err(|_| refused("a whole number before the colon"))?;
            if index <= next || index > features {
                return Err(refused(
                    "increasing indices from 1 up to the number of features",
                ));
            }
            next = index;
            values[start + index - 1] = finite(value, place)?;
        }
    }
    if labels.is_empty() {
        return Err(wrong(name, "no rows", "at least one row of data"));
    }
    let features = Features::new(labels.len(), features, values)?;
    Ok(Dataset::new(features, Targets::Real(labels))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_remarks_are_left_out() {
        let text = "1 1:1\n0\n\n# remark\n-1 2:5 3:-1e2 # the rest\n";
        let data = dense(text, "test", 4).unwrap();
        assert_eq!((data.rows(), data.features().columns()), (3, 4));
        assert_eq!(data.features().row(1), [0.0; 4]);
        assert_eq!(data.features().row(2), [0.0, 5.0, -100.0, 0.0]);
        assert_eq!(data.targets().as_real(), Some(&[1.0, 0.0, -1.0][..]));
        let error = dense(text, "test", 2).unwrap_err().to_string();
        assert!(error.starts_with("test, line 5: found `3:-1e2`"), "{error}");
    }

    #[test]
    fn a_wrong_row_is_named_by_its_line() {
        for row in [
            "x 1:1",
            "1 1",
            "1 0:1",
            "1 a:1",
            "1 -1:1",
            "1 1:x",
            "1 1:inf",
            "nan 1:1",
            "1 2:1 2:1",
            "1 2:1 1:1",
            "1 1:",
            "1 :1",
            "1 qid:3 1:1",
            "1,2 1:1",
            "1 1:2:3",
            "1 18446744073709551615:1",
        ] {
            let error = dense(&format!("1 1:1\n{row}\n"), "test", 3).unwrap_err();
            assert!(
                error.to_string().starts_with("test, line 2: "),
                "{row}: {error}"
            );
        }
        let error = dense("\n#\n", "test", 3).unwrap_err().to_string();
        assert!(error.contains("no rows"), "{error}");
    }
}
