//! The four sets of two classes that the SLANG poster and the VIFA paper use, with fixed halves.

use std::path::Path;

use burn_bayes_data::Dataset;
use burn_bayes_tabular::error::{Result, TabularError};

use super::linear_model::Rows;
use super::sets::{Presplit, read_libsvm, read_numbers, read_presplit};

/// Where they lie in the data folder.
pub(crate) const FOLDERS: &[&str] = &["australian_scale", "breast_cancer_scale", "a1a", "usps"];

/// A set by its name: australian, breast, a1a or usps, which is the images of 3 and 5.
pub(crate) fn read(folder: &Path, name: &str) -> Result<Presplit> {
    match name {
        "a1a" => {
            let train = read_libsvm(folder.join("a1a/a1a"), 123)?;
            let test = read_libsvm(folder.join("a1a/a1a.t.gz"), 123)?;
            let levels = train.target_levels()?;
            Ok(Presplit {
                train: train.with_classes(&levels)?,
                test: test.with_classes(&levels)?,
            })
        }
        "usps" => {
            let numbers = read_numbers(folder.join("usps/usps_3vs5.txt.gz"))?;
            let pixels: Vec<usize> = (1..numbers.columns()).collect();
            let all = numbers.into_dataset(&pixels, 0)?;
            let levels = all.target_levels()?;
            let all = all.with_classes(&levels)?;
            let half = |from| (from..all.rows()).step_by(2).collect::<Vec<_>>();
            Ok(Presplit {
                train: all.select(&half(0))?,
                test: all.select(&half(1))?,
            })
        }
        "australian" => presplit(folder, "australian_scale"),
        "breast" => presplit(folder, "breast_cancer_scale"),
        _ => Err(TabularError::Usage(format!(
            "`{name}` is none of the four sets"
        ))),
    }
}

fn presplit(folder: &Path, name: &str) -> Result<Presplit> {
    read_presplit(folder.join(name).join("presplit"), name)
}

/// The features as they are, and targets −1 and 1 for the two classes.
pub(crate) fn rows(data: &Dataset) -> Result<Rows> {
    Ok(Rows {
        inputs: data.features().values().to_vec(),
        targets: signs(data)?,
        width: data.features().columns(),
    })
}

/// The same behind a leading 1.
pub(crate) fn rows_with_intercept(data: &Dataset) -> Result<Rows> {
    let features = data.features();
    let rows =
        (0..data.rows()).flat_map(|row| [1.0].into_iter().chain(features.row(row).iter().copied()));
    Ok(Rows {
        inputs: rows.collect(),
        targets: signs(data)?,
        width: features.columns() + 1,
    })
}

fn signs(data: &Dataset) -> Result<Vec<f64>> {
    let sign = |&class: &usize| match class {
        0 => Some(-1.0),
        1 => Some(1.0),
        _ => None,
    };
    let classes = data.targets().as_classes();
    let signs = classes.and_then(|classes| classes.iter().map(sign).collect());
    signs.ok_or_else(|| {
        TabularError::Data("logistic regression needs targets of two classes".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_bayes_data::{Features, Targets};

    #[test]
    fn classes_become_signs_and_a_third_is_refused() {
        let data = |classes: &[usize]| {
            let features = Features::new(2, 2, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
            Dataset::new(features, Targets::Classes(classes.to_vec())).unwrap()
        };
        let rows = rows_with_intercept(&data(&[1, 0])).unwrap();
        assert_eq!(rows.inputs, [1.0, 1.0, 2.0, 1.0, 3.0, 4.0]);
        assert_eq!((rows.targets, rows.width), (vec![1.0, -1.0], 3));
        assert!(rows_with_intercept(&data(&[0, 2])).is_err());
    }
}
