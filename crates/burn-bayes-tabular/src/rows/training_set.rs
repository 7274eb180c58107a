//! The rows that a network learns from, in memory and on the scale on which it learns.

use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes::Noise;
use burn_bayes_data::{ColumnScale, Dataset, Features, Preprocessor, Scaling, Table, Targets};

use crate::error::{Result, TabularError};
use crate::files::{HASH_START, hashed};
use crate::network::Batch;
use crate::random::shuffled;
use crate::settings::{listed, refused};

/// Training rows and what their targets mean.
#[derive(Clone, Debug)]
pub struct TrainingSet {
    /// Row by row.
    features: Vec<f32>,
    width: usize,
    /// Row by row: a number, or a one at the place of the class.
    targets: Vec<f32>,
    rows: usize,
    meaning: Target,
}

/// Rows that are prepared at a time.
const PIECE: usize = 4096;

/// The scale of targets that are learnt as they are.
const KEPT: ColumnScale = ColumnScale {
    centre: 0.0,
    spread: 1.0,
};

/// What the outputs of a network stand for.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// One number, on a scale of its own.
    Real(ColumnScale),
    /// One of these classes.
    Classes(Vec<String>),
}

impl Target {
    /// As it was learnt from training rows.
    pub(crate) fn of(preprocessor: &Preprocessor) -> Self {
        match (preprocessor.target_scale(), preprocessor.classes()) {
            (Some(scale), _) => Self::Real(scale),
            (None, classes) => {
                Self::Classes(classes.map_or_else(Vec::new, |classes| classes.names().to_vec()))
            }
        }
    }

    /// The class of which F1 is told: the one that was asked for, or else the second of two; none of
    /// numbers and of more classes.
    ///
    /// # Errors
    /// If the one that was asked for is none of two classes.
    pub fn positive(&self, asked: Option<&str>) -> Result<Option<&str>> {
        let problem = match (self, asked) {
            (Self::Real(_), None) => return Ok(None),
            (Self::Real(_), Some(_)) => "is for classes, and the target is a number".into(),
            (Self::Classes(classes), None) => {
                let second = classes.get(1).filter(|_| classes.len() == 2);
                return Ok(second.map(String::as_str));
            }
            (Self::Classes(classes), Some(asked)) => {
                match classes.iter().find(|class| *class == asked) {
                    Some(class) if classes.len() == 2 => return Ok(Some(class)),
                    Some(_) => format!("is for two classes, and the target has {}", classes.len()),
                    None => {
                        let classes = listed(classes);
                        format!(
                            "is `{asked}`, which is no class of the target; use one of {classes}"
                        )
                    }
                }
            }
        };
        Err(refused("positive", problem))
    }

    /// Outputs of a network.
    pub(crate) fn outputs(&self) -> usize {
        match self {
            Self::Real(_) => 1,
            Self::Classes(classes) => classes.len(),
        }
    }
}

impl TrainingSet {
    /// Rows whose features and targets are on the scale on which a network learns.
    ///
    /// # Errors
    /// If there are no rows, or the targets are not what they are said to mean.
    pub fn new(dataset: &Dataset, meaning: Target) -> Result<Self> {
        let width = dataset.features().columns();
        let mut problem = Self::with_room(dataset.rows(), width, meaning);
        problem.append(dataset)?;
        problem.checked()
    }

    /// Rows of a table, prepared.
    ///
    /// # Errors
    /// As [`TrainingSet::new`], and if a row cannot be prepared.
    pub(crate) fn prepared(
        preprocessor: &Preprocessor,
        table: &Table,
        rows: &[usize],
    ) -> Result<Self> {
        let (width, meaning) = (preprocessor.width(), Target::of(preprocessor));
        let mut problem = Self::with_room(rows.len(), width, meaning);
        // In pieces, as beside the table there shall be no second one in double precision.
        for piece in rows.chunks(PIECE) {
            problem.append(&preprocessor.dataset(table, piece.iter().copied())?)?;
        }
        problem.checked()
    }

    /// No rows, and room for so many.
    fn with_room(rows: usize, width: usize, meaning: Target) -> Self {
        Self {
            features: Vec::with_capacity(rows * width),
            width,
            targets: Vec::with_capacity(rows * meaning.outputs()),
            rows: 0,
            meaning,
        }
    }

    /// With at least one row.
    fn checked(self) -> Result<Self> {
        if self.rows == 0 {
            let problem = "there are no training rows; give a file with at least one";
            return Err(TabularError::Data(problem.into()));
        }
        Ok(self)
    }

    fn append(&mut self, dataset: &Dataset) -> Result<()> {
        let outputs = self.meaning.outputs();
        match (dataset.targets(), &self.meaning) {
            (Targets::Real(values), Target::Real(_)) => {
                self.targets
                    .extend(values.iter().map(|&value| value as f32));
            }
            (Targets::Classes(classes), Target::Classes(_))
                if classes.iter().all(|&class| class < outputs) =>
            {
                for &class in classes {
                    let one_hot = (0..outputs).map(|other| f32::from(u8::from(other == class)));
                    self.targets.extend(one_hot);
                }
            }
            _ => {
                let problem = "the targets are not of the kind that the task says";
                return Err(TabularError::Data(problem.into()));
            }
        }
        self.features.extend(dataset.features().to_f32());
        self.rows += dataset.rows();
        Ok(())
    }

    /// How many there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.features) + size_of_val(&*self.targets)
    }

    /// Features of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn meaning(&self) -> &Target {
        &self.meaning
    }

    /// These rows, in this order.
    pub(crate) fn batch(&self, rows: &[usize], device: &Device) -> Batch {
        Batch {
            inputs: matrix(&self.features, self.width, rows, device),
            targets: matrix(&self.targets, self.meaning.outputs(), rows, device),
        }
    }

    /// Two parts in random order, the second about a `share` of the rows and at least one.
    pub(crate) fn parted(&self, share: f64, noise: Noise) -> (Self, Self) {
        let order = shuffled(self.rows, noise);
        let held_out = held_out_rows(self.rows, share);
        let (second, first) = order.split_at(held_out);
        (self.select(first), self.select(second))
    }

    /// All rows, some of them at a time.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Self> {
        let starts = (0..self.rows).step_by(PIECE);
        starts.map(|start| {
            let rows: Vec<usize> = (start..self.rows.min(start + PIECE)).collect();
            self.select(&rows)
        })
    }

    fn select(&self, rows: &[usize]) -> Self {
        Self {
            features: gathered(&self.features, self.width, rows),
            width: self.width,
            targets: gathered(&self.targets, self.meaning.outputs(), rows),
            rows: rows.len(),
            meaning: self.meaning.clone(),
        }
    }

    /// A number that tells these rows from others: FNV-1a of every bit.
    pub(crate) fn fingerprint(&self) -> u64 {
        let values = self.features.iter().chain(&self.targets);
        hashed(HASH_START, values.map(|value| value.to_bits().into()))
    }

    /// The features of all rows, in double precision.
    pub(crate) fn features(&self) -> Result<Features> {
        let values = self.features.iter().map(|&value| f64::from(value));
        Ok(Features::new(self.rows, self.width, values.collect())?)
    }

    /// The standard deviation of real targets on the scale on which a network learns: 1 where they are
    /// standardised, and of classes.
    pub(crate) fn target_deviation(&self) -> Result<f64> {
        match self.meaning {
            Target::Real(KEPT) => Ok(self.target_scale()?.spread),
            Target::Real(_) | Target::Classes(_) => Ok(1.0),
        }
    }

    /// The mean and the standard deviation of real targets, in their own unit.
    pub(crate) fn target_scale(&self) -> Result<ColumnScale> {
        match self.meaning {
            Target::Real(scale) if scale != KEPT => Ok(scale),
            _ => {
                let targets = self.targets.iter().copied().map(f64::from);
                Ok(ColumnScale::fit(targets, Scaling::Standardise)?)
            }
        }
    }

    /// The mean of every target as a network learns it: of classes, their frequencies.
    pub(crate) fn target_means(&self) -> Vec<f64> {
        let outputs = self.meaning.outputs();
        let mean = |output: usize| {
            let targets = self.targets.iter().skip(output).step_by(outputs);
            targets.copied().map(f64::from).sum::<f64>() / self.rows as f64
        };
        (0..outputs).map(mean).collect()
    }

    /// The targets of all rows on their own scale.
    pub(crate) fn true_targets(&self) -> Targets {
        match &self.meaning {
            Target::Real(scale) => {
                let values = self.targets.iter().copied().map(f64::from);
                Targets::Real(values.map(|value| scale.undo(value)).collect())
            }
            Target::Classes(classes) => {
                let rows = self.targets.chunks(classes.len().max(1));
                let class = |row: &[f32]| row.iter().position(|&target| target == 1.0);
                Targets::Classes(rows.map(|row| class(row).unwrap_or_default()).collect())
            }
        }
    }

    /// The targets of all rows, row by row, as a network learns them.
    pub(crate) fn targets(&self) -> &[f32] {
        &self.targets
    }
}

/// How many of some rows are about a share of them, and at least one.
pub(crate) fn held_out_rows(rows: usize, share: f64) -> usize {
    ((rows as f64 * share) as usize).max(1)
}

/// `values`, row by row, on a device.
fn matrix(values: &[f32], width: usize, rows: &[usize], device: &Device) -> Tensor<2> {
    let data = TensorData::new(gathered(values, width, rows), [rows.len(), width]);
    Tensor::from_data(data, device)
}

fn gathered(values: &[f32], width: usize, rows: &[usize]) -> Vec<f32> {
    let values = rows.iter().flat_map(|&row| &values[row * width..][..width]);
    values.copied().collect()
}
