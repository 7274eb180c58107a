//! The type of the task, from the values of the target.

use std::collections::HashSet;

use burn_bayes_data::{Column, ColumnKind, Table};

use crate::error::Result;
use crate::settings::{DataSettings, TaskName, refused};

/// A numeric target with at most this many values is one of two classes.
const CLASSES: usize = 2;
/// Whole numbers with at most this many values may be classes or numbers, if on average each comes twice.
const UNCLEAR: usize = 20;

/// A task that follows from the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferredTask {
    /// The task.
    pub task: TaskName,
    /// What about the target implies it.
    pub reason: String,
}

impl InferredTask {
    /// The task of text, of numbers with at most two values, of fractions, and of whole numbers with many values
    /// or few rows for each.
    ///
    /// Several targets are all numbers, or all have two values. What has an exposure is a count.
    ///
    /// # Errors
    /// If a target has a few whole numbers, which may be classes, counts or numbers, or targets have different tasks.
    pub fn of(table: &Table, settings: &DataSettings) -> Result<Self> {
        if let Some(name) = &settings.exposure {
            return Ok(Self {
                task: TaskName::Counts,
                reason: format!("the rows have the exposure `{name}`"),
            });
        }
        let names = settings.targets()?.iter();
        let columns = names.map(|name| Self::of_column(table.column(name)?));
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        let first = columns.remove(0);
        match columns.iter().find(|other| other.task != first.task) {
            Some(other) => {
                let problem = format!(
                    "is not given, and {}, but {}; use regression for numbers, or multilabel for columns of two values",
                    first.reason, other.reason
                );
                Err(refused("task", problem))
            }
            None if first.task == TaskName::Classification && !columns.is_empty() => Ok(Self {
                task: TaskName::Multilabel,
                ..first
            }),
            None => Ok(first),
        }
    }

    /// The task if this is the only target.
    fn of_column(target: &Column) -> Result<Self> {
        let name = target.name();
        let (task, reason) = match target.kind() {
            ColumnKind::Category => (TaskName::Classification, "has categories".to_string()),
            ColumnKind::Number => {
                let values = || (0..target.len()).filter_map(|row| target.number(row));
                // Negative zero is zero.
                let count = values()
                    .map(|value| (value + 0.0).to_bits())
                    .collect::<HashSet<_>>()
                    .len();
                if count <= CLASSES {
                    (TaskName::Classification, format!("has {count} values"))
                } else if values().any(|value| value.fract() != 0.0) {
                    (TaskName::Regression, "has fractions".into())
                } else if count > UNCLEAR || 2 * count > values().count() {
                    (
                        TaskName::Regression,
                        format!(
                            "has {count} different whole numbers; for counts, give `--task counts`"
                        ),
                    )
                } else {
                    let problem = format!(
                        "is not given, and the {count} whole numbers of the target `{name}` may be classes \
                         or numbers; use regression, counts, classification or multilabel"
                    );
                    return Err(refused("task", problem));
                }
            }
        };
        let reason = format!("the target `{name}` {reason}");
        Ok(Self { task, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(target: Column) -> Result<TaskName> {
        let settings = DataSettings {
            target: Some("y".into()),
            ..DataSettings::default()
        };
        let table = Table::new(vec![target]).unwrap();
        Ok(InferredTask::of(&table, &settings)?.task)
    }

    #[test]
    fn targets_of_different_tasks_need_one() {
        let table = Table::new(vec![
            Column::numbers("price", vec![0.5, 1.5, 2.5]),
            Column::numbers("rent", vec![5.5, 1.0, 2.5]),
            Column::numbers("sold", vec![0.0, 1.0, 0.0]),
            Column::categories("new", ["no", "yes", "no"].map(Some)),
        ])
        .unwrap();
        let inferred = |names: &str| {
            let target = names.parse().ok();
            let settings = DataSettings {
                target,
                ..DataSettings::default()
            };
            Ok::<_, crate::error::TabularError>(InferredTask::of(&table, &settings)?.task)
        };
        assert_eq!(inferred("price,rent").unwrap(), TaskName::Regression);
        assert_eq!(inferred("sold,new").unwrap(), TaskName::Multilabel);
        let message = inferred("price,sold").unwrap_err().to_string();
        assert!(
            message.contains("`price` has fractions, but the target `sold` has 2"),
            "{message}"
        );
    }

    #[test]
    fn a_task_is_inferred_if_the_target_allows_only_one() {
        let numbers = |values: Vec<f64>| inferred(Column::numbers("y", values));
        let whole = |count: u32| numbers((0..60).map(|row| f64::from(row % count)).collect());
        let text = Column::categories("y", ["a", "b", "c"].map(Some));
        assert_eq!(inferred(text).unwrap(), TaskName::Classification);
        assert_eq!(whole(2).unwrap(), TaskName::Classification);
        assert_eq!(
            numbers(vec![0.0, -0.0, 1.0, f64::NAN]).unwrap(),
            TaskName::Classification
        );
        assert_eq!(numbers(vec![0.0, 1.0, 1.5]).unwrap(), TaskName::Regression);
        assert_eq!(whole(21).unwrap(), TaskName::Regression);
        assert_eq!(
            numbers(vec![7.0, 3.0, 5.0, 1.0, 3.0]).unwrap(),
            TaskName::Regression
        );
        for count in [3, 20] {
            let message = whole(count).unwrap_err().to_string();
            assert!(message.contains("`task`") && message.contains(&count.to_string()));
        }
    }
}
