//! The training rows of a network, in memory, with standardised targets.

use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes_data::{ColumnScale, Dataset, Features, Preprocessor, Scaling, Table, Targets};

use crate::error::{Result, TabularError};
use crate::files::{HASH_START, hashed};
use crate::network::Batch;
use crate::settings::{listed, refused};

/// Training rows with their type of target.
#[derive(Clone, Debug)]
pub struct TrainingSet {
    /// Row-major.
    features: Vec<f32>,
    width: usize,
    /// Row-major: a number, a count, or the one-hot encoding of the class.
    targets: Vec<f32>,
    rows: usize,
    target: Target,
}

/// Number of rows per chunk.
const PIECE: usize = 4096;

/// The scale of targets that are not standardised.
const KEPT: ColumnScale = ColumnScale {
    centre: 0.0,
    spread: 1.0,
};

/// The type of a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A number, with its scale.
    Real(ColumnScale),
    /// A count.
    Counts {
        /// The mean of the training rows, which networks multiply.
        mean: f64,
    },
    /// One of these classes.
    Classes(Vec<String>),
}

impl Target {
    /// The target of a fitted preprocessor.
    pub(crate) fn of(preprocessor: &Preprocessor) -> Self {
        if let Some(scale) = preprocessor.target_scale() {
            return Self::Real(scale);
        }
        if let Some(mean) = preprocessor.mean_count() {
            return Self::Counts { mean };
        }
        let classes = preprocessor.classes();
        Self::Classes(classes.map_or_else(Vec::new, |classes| classes.names().to_vec()))
    }

    /// The positive class of F1: the one asked for, by default the second of two classes; `None` for
    /// numbers and for more than two classes.
    ///
    /// # Errors
    /// If the class asked for is not one of two classes.
    pub fn positive(&self, asked: Option<&str>) -> Result<Option<&str>> {
        let problem = match (self, asked) {
            (Self::Real(_) | Self::Counts { .. }, None) => return Ok(None),
            (Self::Real(_) | Self::Counts { .. }, Some(_)) => {
                "is for classification, but the target is a number".into()
            }
            (Self::Classes(classes), None) => {
                let second = classes.get(1).filter(|_| classes.len() == 2);
                return Ok(second.map(String::as_str));
            }
            (Self::Classes(classes), Some(asked)) => {
                match classes.iter().find(|class| *class == asked) {
                    Some(class) if classes.len() == 2 => return Ok(Some(class)),
                    Some(_) => format!("is for two classes, but the target has {}", classes.len()),
                    None => {
                        let classes = listed(classes);
                        format!(
                            "is `{asked}`, which is not a class of the target; use one of {classes}"
                        )
                    }
                }
            }
        };
        Err(refused("positive", problem))
    }

    /// Number of columns of an encoded target.
    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Real(_) | Self::Counts { .. } => 1,
            Self::Classes(classes) => classes.len(),
        }
    }
}

impl TrainingSet {
    /// A training set of prepared rows.
    ///
    /// # Errors
    /// If there are no rows, or the targets do not match `target`.
    pub fn new(dataset: &Dataset, target: Target) -> Result<Self> {
        let width = dataset.features().columns();
        let mut set = Self::with_room(dataset.rows(), width, target);
        set.append(dataset)?;
        set.checked()
    }

    /// Prepares rows of a table.
    ///
    /// # Errors
    /// As [`TrainingSet::new`], and if a row cannot be prepared.
    pub(crate) fn prepared(
        preprocessor: &Preprocessor,
        table: &Table,
        rows: &[usize],
    ) -> Result<Self> {
        let (width, target) = (preprocessor.width(), Target::of(preprocessor));
        let mut set = Self::with_room(rows.len(), width, target);
        // In chunks, to avoid a second copy of the table in double precision.
        for piece in rows.chunks(PIECE) {
            set.append(&preprocessor.dataset(table, piece.iter().copied())?)?;
        }
        set.checked()
    }

    /// An empty set with capacity for `rows` rows.
    fn with_room(rows: usize, width: usize, target: Target) -> Self {
        Self {
            features: Vec::with_capacity(rows * width),
            width,
            targets: Vec::with_capacity(rows * target.columns()),
            rows: 0,
            target,
        }
    }

    /// Checks that there is at least one row.
    fn checked(self) -> Result<Self> {
        if self.rows == 0 {
            let problem = "there are no training rows; use a file with at least one row";
            return Err(TabularError::Data(problem.into()));
        }
        Ok(self)
    }

    /// With more rows at the end.
    ///
    /// # Errors
    /// If their targets are of another type.
    pub(crate) fn with_rows(&self, dataset: &Dataset) -> Result<Self> {
        let mut all = self.clone();
        all.append(dataset)?;
        Ok(all)
    }

    fn append(&mut self, dataset: &Dataset) -> Result<()> {
        let outputs = self.target.columns();
        match (dataset.targets(), &self.target) {
            (Targets::Real(values), Target::Real(_) | Target::Counts { .. }) => {
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
                let problem = "the targets do not match the task";
                return Err(TabularError::Data(problem.into()));
            }
        }
        self.features.extend(dataset.features().to_f32());
        self.rows += dataset.rows();
        Ok(())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Memory of all rows in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.features) + size_of_val(&*self.targets)
    }

    /// Number of features.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Features and targets of every row.
    pub(crate) fn examples(&self) -> impl Iterator<Item = (&[f32], &[f32])> {
        let outputs = self.target.columns();
        (0..self.rows).map(move |row| {
            let features = &self.features[row * self.width..(row + 1) * self.width];
            (features, &self.targets[row * outputs..(row + 1) * outputs])
        })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// A mini-batch of these rows.
    pub(crate) fn batch(&self, rows: &[usize], device: &Device) -> Batch {
        Batch {
            inputs: matrix(&self.features, self.width, rows, device),
            targets: matrix(&self.targets, self.target.columns(), rows, device),
        }
    }

    /// All rows, in chunks.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Self> {
        let starts = (0..self.rows).step_by(PIECE);
        starts.map(|start| {
            let rows: Vec<usize> = (start..self.rows.min(start + PIECE)).collect();
            self.select(&rows)
        })
    }

    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self {
            features: gathered(&self.features, self.width, rows),
            width: self.width,
            targets: gathered(&self.targets, self.target.columns(), rows),
            rows: rows.len(),
            target: self.target.clone(),
        }
    }

    /// The same features with other stored targets, row-major.
    pub(crate) fn with_targets(&self, targets: Vec<f32>) -> Self {
        debug_assert_eq!(targets.len(), self.targets.len());
        Self {
            targets,
            ..self.clone()
        }
    }

    /// A hash of the rows: FNV-1a of all bits.
    pub(crate) fn fingerprint(&self) -> u64 {
        let values = self.features.iter().chain(&self.targets);
        hashed(HASH_START, values.map(|value| value.to_bits().into()))
    }

    /// The features of all rows, in double precision.
    pub(crate) fn features(&self) -> Result<Features> {
        let values = self.features.iter().map(|&value| f64::from(value));
        Ok(Features::new(self.rows, self.width, values.collect())?)
    }

    /// The standard deviation of the stored targets: 1 for standardised targets, counts and classes.
    pub(crate) fn target_deviation(&self) -> Result<f64> {
        match self.target {
            Target::Real(KEPT) => Ok(self.target_scale()?.spread),
            Target::Real(_) | Target::Counts { .. } | Target::Classes(_) => Ok(1.0),
        }
    }

    /// The mean and standard deviation of real targets, in their own unit.
    pub(crate) fn target_scale(&self) -> Result<ColumnScale> {
        match self.target {
            Target::Real(scale) if scale != KEPT => Ok(scale),
            _ => {
                let targets = self.targets.iter().copied().map(f64::from);
                Ok(ColumnScale::fit(targets, Scaling::Standardise)?)
            }
        }
    }

    /// The means of the stored targets; for classes, their frequencies.
    pub(crate) fn target_means(&self) -> Vec<f64> {
        let outputs = self.target.columns();
        let mean = |output: usize| {
            let targets = self.targets.iter().skip(output).step_by(outputs);
            targets.copied().map(f64::from).sum::<f64>() / self.rows as f64
        };
        (0..outputs).map(mean).collect()
    }

    /// The targets of all rows, in their own unit.
    pub(crate) fn true_targets(&self) -> Targets {
        match &self.target {
            Target::Real(scale) => {
                let values = self.targets.iter().copied().map(f64::from);
                Targets::Real(values.map(|value| scale.undo(value)).collect())
            }
            Target::Counts { .. } => {
                Targets::Real(self.targets.iter().copied().map(f64::from).collect())
            }
            Target::Classes(classes) => {
                let rows = self.targets.chunks(classes.len().max(1));
                let class = |row: &[f32]| row.iter().position(|&target| target == 1.0);
                Targets::Classes(rows.map(|row| class(row).unwrap_or_default()).collect())
            }
        }
    }

    /// The stored targets, row-major.
    pub(crate) fn targets(&self) -> &[f32] {
        &self.targets
    }
}

/// The number of held-out rows for a fraction, at least one.
pub(crate) fn held_out_rows(rows: usize, share: f64) -> usize {
    ((rows as f64 * share) as usize).max(1)
}

/// The given rows of `values` as a matrix.
fn matrix(values: &[f32], width: usize, rows: &[usize], device: &Device) -> Tensor<2> {
    let data = TensorData::new(gathered(values, width, rows), [rows.len(), width]);
    Tensor::from_data(data, device)
}

fn gathered(values: &[f32], width: usize, rows: &[usize]) -> Vec<f32> {
    let values = rows.iter().flat_map(|&row| &values[row * width..][..width]);
    values.copied().collect()
}
