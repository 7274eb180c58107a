//! Conformal prediction sets and intervals, calibrated on the held-out rows of a run.
//!
//! A set has every class whose nonconformity score is at most a threshold; an interval is the mean ± q̂ standard
//! deviations of the prediction. Threshold and q̂ are order statistics of the held-out rows, so that
//!
//!   P(a new row is inside) ≥ level,
//!
//! over the held-out rows and the new row, if these are exchangeable: drawn from one distribution, and none of them
//! used by the fit.

use std::path::Path;

use burn_bayes::eval::{
    ClassProbabilities, ConformalAps, ConformalLac, ConformalNormalisedResidual, ConformalRaps,
    LabelledProbabilities, PredictionIntervals, PredictionSets, RankPenalty,
};

use super::held_out::HeldOutTable;
use super::table::DEVIATIONS;
use super::{ClassPredictions, MEAN, Moments, TARGET, probability_column};
use crate::error::{Result, TabularError};
use crate::rows::Target;
use crate::settings::{choices, refused};
use crate::text::tick;

/// The penalty of RAPS: on every class beyond the most probable one.
const PENALTY: RankPenalty = RankPenalty {
    weight: 0.1,
    free_classes: 1,
};

choices! {
    /// How prediction sets are made.
    SetMethod {
        /// All classes that are probable enough: the smallest sets, possibly empty
        Lac = "lac",
        /// The most probable classes up to a cumulative probability: larger sets for uncertain rows
        Aps = "aps",
        /// As aps, with a penalty on each class beyond the first, which leaves out improbable classes
        Raps = "raps",
    }
}

/// The coverage that prediction sets or intervals must have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConformalRequest {
    /// The level.
    pub level: f64,
    /// How sets are made; `None` for the default, `lac`.
    pub set_method: Option<SetMethod>,
}

/// Prediction sets or intervals with a coverage guarantee.
#[derive(Clone, Copy, Debug)]
pub struct Conformal {
    level: f64,
    rows: usize,
    rule: Rule,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Lac(ConformalLac),
    Aps(ConformalAps),
    Raps(ConformalRaps),
    Intervals(ConformalNormalisedResidual),
}

impl ConformalRequest {
    /// Checks the request for a target.
    pub(crate) fn validate(&self, target: &Target) -> Result<()> {
        let level = self.level;
        if !(level > 0.0 && level < 1.0) {
            let problem = format!("is {level}; it must be in (0, 1), such as 0.9");
            return Err(refused("conformal", problem));
        }
        match (target, self.set_method) {
            (Target::Real(_) | Target::Counts { .. }, Some(_)) => Err(refused(
                "conformal-sets",
                "is for classification, and the run predicts numbers, which have intervals; leave it out",
            )),
            _ => Ok(()),
        }
    }
}

impl Conformal {
    /// Calibrates on the file with the predictions of the held-out rows.
    ///
    /// # Errors
    /// If the file is damaged, or has too few rows for the level.
    pub(crate) fn calibrate(
        path: &Path,
        target: &Target,
        request: ConformalRequest,
    ) -> Result<Self> {
        let level = request.level;
        let (rows, rule, threshold) = match target {
            Target::Classes(classes) => {
                let table = class_table(path, classes)?;
                let truths = table.words(TARGET)?.into_iter();
                let truths = truths.map(|truth| {
                    let class = classes.iter().position(|class| class == truth);
                    class.ok_or_else(|| table.damaged(format_args!("`{truth}` is not a class")))
                });
                let truths: Vec<usize> = truths.collect::<Result<_>>()?;
                let columns = classes
                    .iter()
                    .map(|class| table.numbers(&probability_column(class)));
                let columns: Vec<Vec<f64>> = columns.collect::<Result<_>>()?;
                let of_row = |row: usize| columns.iter().map(move |column| column[row]);
                let values: Vec<f64> = (0..table.rows()).flat_map(of_row).collect();
                let damaged = |error| table.damaged(error);
                let probabilities = ClassProbabilities::new(values, truths.len(), classes.len())
                    .map_err(damaged)?;
                let rows = LabelledProbabilities::new(&probabilities, &truths).map_err(damaged)?;
                let (rule, threshold) = sets(&rows, request)?;
                (truths.len(), rule, threshold)
            }
            Target::Real(_) | Target::Counts { .. } => {
                let names = [MEAN, DEVIATIONS[0], TARGET].map(String::from);
                let table = HeldOutTable::read(path, &names, &[])?;
                let [mean, deviation, truth] = names.map(|name| table.numbers(&name));
                let found =
                    ConformalNormalisedResidual::calibrate(&mean?, &deviation?, &truth?, level)
                        .map_err(|error| table.damaged(error))?;
                (table.rows(), Rule::Intervals(found), found.threshold())
            }
        };
        if threshold == f64::INFINITY {
            let needed = rows_needed(level);
            return Err(TabularError::Data(format!(
                "{}: {rows} held-out rows are too few for the level {level}, which needs at least {needed}; give a lower \
                 level, or fit with more rows or a larger `--validation`",
                path.display()
            )));
        }
        Ok(Self { level, rows, rule })
    }

    /// The level.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The number of held-out rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What holds, in words.
    pub fn guarantee(&self) -> String {
        let what = match self.rule {
            Rule::Intervals(_) => "the interval of a new row contains its target",
            _ => "the set of a new row contains its class",
        };
        format!(
            "{what} with a probability of at least {} %, if the row comes from the same distribution as the training \
             file; calibrated on {} held-out rows",
            tick(100.0 * self.level),
            self.rows
        )
    }

    /// The prediction sets of rows; `None` for a regression.
    pub(crate) fn sets(&self, predictions: &ClassPredictions) -> Result<Option<PredictionSets>> {
        let draws = predictions.checked()?;
        let average = draws.average();
        Ok(Some(match &self.rule {
            Rule::Lac(rule) => rule.sets(&average)?,
            Rule::Aps(rule) => rule.sets(&average)?,
            Rule::Raps(rule) => rule.sets(&average)?,
            Rule::Intervals(_) => return Ok(None),
        }))
    }

    /// The prediction intervals of rows; `None` for a classification.
    pub(crate) fn intervals(
        &self,
        moments: &Moments,
    ) -> Result<Option<PredictionIntervals<'static>>> {
        let Rule::Intervals(rule) = &self.rule else {
            return Ok(None);
        };
        let intervals = rule.intervals(&moments.mean, &moments.deviations());
        Ok(Some(intervals?))
    }
}

fn class_table(path: &Path, classes: &[String]) -> Result<HeldOutTable> {
    let names = classes.iter().map(|class| probability_column(class));
    HeldOutTable::read(path, &names.collect::<Vec<_>>(), &[TARGET])
}

fn sets(rows: &LabelledProbabilities<'_>, request: ConformalRequest) -> Result<(Rule, f64)> {
    let level = request.level;
    Ok(match request.set_method.unwrap_or(SetMethod::Lac) {
        SetMethod::Lac => {
            let rule = ConformalLac::calibrate(rows, level)?;
            (Rule::Lac(rule), rule.threshold())
        }
        SetMethod::Aps => {
            let rule = ConformalAps::calibrate(rows, level)?;
            (Rule::Aps(rule), rule.threshold())
        }
        SetMethod::Raps => {
            let rule = ConformalRaps::calibrate(rows, level, PENALTY)?;
            (Rule::Raps(rule), rule.threshold())
        }
    })
}

/// The smallest n with ⌈(n + 1)·level⌉ ≤ n.
fn rows_needed(level: f64) -> usize {
    let exact = level / (1.0 - level);
    // A quotient within rounding of an integer is that integer.
    (exact * (1.0 - 4.0 * f64::EPSILON / (1.0 - level))).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_bayes::eval::conformal_threshold;
    use burn_bayes_data::ColumnScale;

    #[test]
    fn the_number_of_rows_needed_is_the_smallest_with_a_finite_threshold() {
        let levels = (1..100).map(|percent| f64::from(percent) / 100.0);
        for level in levels.chain([0.995, 0.999, 0.9999, 1.0 / 3.0]) {
            let needed = rows_needed(level);
            let scores = vec![1.0; needed];
            assert!(
                conformal_threshold(&scores, level).unwrap().is_finite(),
                "{level}: {needed}"
            );
            let fewer = conformal_threshold(&scores[1..], level);
            assert!(
                fewer.is_err() || fewer.unwrap().is_infinite(),
                "{level}: {needed}"
            );
        }
    }

    #[test]
    fn a_file_calibrates_as_its_numbers_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        std::fs::write(&path, "row,mean,std,target\n1,0,1,0.5\n2,1,2,2\n3,2,1,4\n").unwrap();
        let target = Target::Real(ColumnScale {
            centre: 0.0,
            spread: 1.0,
        });
        let request = |level| ConformalRequest {
            level,
            set_method: None,
        };
        let found = Conformal::calibrate(&path, &target, request(0.5)).unwrap();
        let Rule::Intervals(rule) = found.rule else {
            panic!("intervals");
        };
        // The scores are 0.5, 0.5 and 2, and the second of them is the threshold.
        assert_eq!((rule.threshold(), found.rows()), (0.5, 3));
        assert!(found.guarantee().contains("50 %"), "{}", found.guarantee());
        let few = Conformal::calibrate(&path, &target, request(0.8))
            .unwrap_err()
            .to_string();
        assert!(
            few.contains("3 held-out rows are too few") && few.contains("at least 4"),
            "{few}"
        );

        std::fs::write(&path, "row,p_a,p_b,target\n1,0.9,0.1,a\n2,0.2,0.8,b\n").unwrap();
        let classes = Target::Classes(["a", "b"].map(String::from).to_vec());
        let found = Conformal::calibrate(&path, &classes, request(0.6)).unwrap();
        let Rule::Lac(rule) = found.rule else {
            panic!("sets");
        };
        assert!((rule.threshold() - 0.2).abs() < 1e-15);
        std::fs::write(&path, "row,p_a,p_b,target\n1,0.9,0.1,a\n2,0.2,0.8,c\n").unwrap();
        let error = Conformal::calibrate(&path, &classes, request(0.6))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("validation.csv") && error.contains("`c`"),
            "{error}"
        );
    }
}
