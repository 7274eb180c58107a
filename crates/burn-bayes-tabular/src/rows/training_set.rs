//! The training rows of a network, in memory, with standardised targets.

use burn::tensor::{Device, Tensor, TensorData};
use burn_bayes::sampling::some_rows;
use burn_bayes_data::{
    ColumnScale, Dataset, Features, Preprocessor, Scaling, Table, TargetPlan, Targets,
};

use super::Units;
use crate::error::{Result, TabularError};
use crate::files::{HASH_START, hashed};
use crate::network::Batch;
use crate::settings::{DataSettings, listed, refused};

/// Training rows with their type of target.
#[derive(Clone, Debug)]
pub struct TrainingSet {
    /// Row-major.
    features: Vec<f32>,
    width: usize,
    /// Row-major: a number, a count, or the one-hot encoding of the class; of several targets, the numbers, or 0 or 1
    /// for the first or second class.
    targets: Vec<f32>,
    rows: usize,
    target: Target,
    /// Which of the rows are independent.
    units: Units,
}

/// Number of rows per chunk.
const PIECE: usize = 4096;

/// The type of a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A number, with its scale.
    Real(ColumnScale),
    /// A count.
    Counts {
        /// The mean of the training rows, which networks multiply.
        mean: f64,
        /// Whether the last feature is the logarithm of an exposure, which a mean is proportional to.
        has_exposure: bool,
    },
    /// One of these classes.
    Classes(Vec<String>),
    /// Several targets with their names, at least two: all are numbers, or all are labels, which are one of two classes.
    Several(Vec<(String, Self)>),
}

impl Target {
    /// The target of a fitted preprocessor.
    pub(crate) fn of(preprocessor: &Preprocessor) -> Self {
        match preprocessor.targets() {
            [plan] => Self::of_column(plan, preprocessor.has_exposure()),
            plans => {
                let named =
                    |plan: &TargetPlan| (plan.name().to_string(), Self::of_column(plan, false));
                Self::Several(plans.iter().map(named).collect())
            }
        }
    }

    fn of_column(plan: &TargetPlan, has_exposure: bool) -> Self {
        if let Some(scale) = plan.scale() {
            return Self::Real(scale);
        }
        if let Some(mean) = plan.mean_count() {
            return Self::Counts { mean, has_exposure };
        }
        let classes = plan.classes();
        Self::Classes(classes.map_or_else(Vec::new, |classes| classes.names().to_vec()))
    }

    /// The scale of every number; `None` for counts, classes and labels.
    pub(crate) fn scales(&self) -> Option<Vec<ColumnScale>> {
        match self {
            Self::Real(scale) => Some(vec![*scale]),
            Self::Counts { .. } | Self::Classes(_) => None,
            Self::Several(targets) => {
                let scales = targets.iter().map(|(_, target)| target.scales());
                Some(scales.collect::<Option<Vec<_>>>()?.concat())
            }
        }
    }

    /// The names of the classes; none of other targets.
    pub(crate) fn classes(&self) -> Vec<String> {
        match self {
            Self::Classes(classes) => classes.clone(),
            Self::Real(_) | Self::Counts { .. } | Self::Several(_) => Vec::new(),
        }
    }

    /// The standard deviation by which a number was standardised; 1 for other targets.
    pub(crate) fn unit(&self) -> f64 {
        match self {
            Self::Real(scale) => scale.spread,
            Self::Counts { .. } | Self::Classes(_) | Self::Several(_) => 1.0,
        }
    }

    /// Whether the last feature is the logarithm of an exposure.
    pub(crate) fn has_exposure(&self) -> bool {
        matches!(
            self,
            Self::Counts {
                has_exposure: true,
                ..
            }
        )
    }

    /// The exposures of rows, in means of the training rows; all 1 without exposures.
    pub(crate) fn exposures(&self, rows: &Features) -> Vec<f64> {
        let exposure = |row| match (self.has_exposure(), rows.row(row).last()) {
            (true, Some(logarithm)) => logarithm.exp(),
            _ => 1.0,
        };
        (0..rows.rows()).map(exposure).collect()
    }

    /// Each target, with its name if there are several.
    pub(crate) fn of_targets(&self) -> Vec<(Option<&str>, &Self)> {
        match self {
            Self::Several(targets) => {
                let targets = targets.iter();
                targets.map(|(name, one)| (Some(&**name), one)).collect()
            }
            one => vec![(None, one)],
        }
    }

    /// The first of several targets, or itself.
    pub(crate) fn first(&self) -> &Self {
        match self {
            Self::Several(targets) => targets.first().map_or(self, |(_, target)| target),
            one => one,
        }
    }

    /// Fails for several targets, which `setting` is not made for. `cure` says what to do instead.
    pub(crate) fn expect_one(&self, setting: &str, cure: &str) -> Result<()> {
        match self {
            Self::Several(targets) => {
                let count = targets.len();
                let problem = format!("is for one target, but the fit has {count}; {cure}");
                Err(refused(setting, problem))
            }
            _ => Ok(()),
        }
    }

    /// The positive class of F1: the one asked for, by default the second of two classes; `None` for
    /// numbers and for more than two classes.
    ///
    /// # Errors
    /// If the class asked for is not one of two classes.
    pub fn positive(&self, asked: Option<&str>) -> Result<Option<&str>> {
        let problem = match (self, asked) {
            (Self::Real(_) | Self::Counts { .. } | Self::Several(_), None) => return Ok(None),
            (Self::Several(_), Some(_)) => {
                "is for one target of two classes; leave it out: the second class of every label is positive".into()
            }
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
            Self::Several(targets) => targets.len(),
        }
    }

    /// Targets as they are stored, row-major; `None` if they are of another type.
    fn encoded(&self, targets: &Targets) -> Option<Vec<f32>> {
        let outputs = self.columns();
        match (targets, self) {
            (Targets::Real(values), Self::Real(_) | Self::Counts { .. }) => {
                Some(values.iter().map(|&value| value as f32).collect())
            }
            (Targets::Classes(classes), Self::Classes(_))
                if classes.iter().all(|&class| class < outputs) =>
            {
                let one_hot = |&class: &usize| {
                    (0..outputs).map(move |other| f32::from(u8::from(other == class)))
                };
                Some(classes.iter().flat_map(one_hot).collect())
            }
            (Targets::Several(columns), Self::Several(targets)) if columns.len() == outputs => {
                let pairs = columns.iter().zip(targets);
                let columns = pairs.map(|(column, (_, target))| {
                    let encoded = target.encoded(column)?.into_iter();
                    // Of the one-hot encoding of a label, its second class.
                    Some(
                        encoded
                            .skip(target.columns() - 1)
                            .step_by(target.columns())
                            .collect(),
                    )
                });
                let columns = columns.collect::<Option<Vec<Vec<f32>>>>()?;
                let rows = 0..columns.first().map_or(0, Vec::len);
                Some(
                    rows.flat_map(|row| columns.iter().map(move |column| column[row]))
                        .collect(),
                )
            }
            _ => None,
        }
    }

    /// Targets from these stored values, in their own unit.
    fn decoded(&self, values: &[f32]) -> Targets {
        let numbers = || values.iter().copied().map(f64::from);
        match self {
            Self::Real(scale) => Targets::Real(numbers().map(|value| scale.undo(value)).collect()),
            Self::Counts { .. } => Targets::Real(numbers().collect()),
            Self::Classes(classes) => {
                let rows = values.chunks(classes.len().max(1));
                let class = |row: &[f32]| row.iter().position(|&target| target == 1.0);
                Targets::Classes(rows.map(|row| class(row).unwrap_or_default()).collect())
            }
            Self::Several(targets) => {
                let column = |place: usize| values.iter().skip(place).step_by(targets.len());
                let decoded = targets
                    .iter()
                    .enumerate()
                    .map(|(place, (_, target))| match target {
                        Self::Classes(_) => Targets::Classes(
                            column(place)
                                .map(|&value| usize::from(value == 1.0))
                                .collect(),
                        ),
                        other => other.decoded(&column(place).copied().collect::<Vec<_>>()),
                    });
                Targets::Several(decoded.collect())
            }
        }
    }
}

impl TrainingSet {
    /// A training set of prepared rows, each of which is independent of the others.
    ///
    /// # Errors
    /// If there are no rows, or the targets do not match `target`.
    pub fn new(dataset: &Dataset, target: Target) -> Result<Self> {
        let width = dataset.features().columns();
        let mut set = Self::with_room(width, target, Units::rows(dataset.rows()));
        set.append(dataset)?;
        set.checked()
    }

    /// Prepares rows of a table that is split by these settings.
    ///
    /// # Errors
    /// As [`TrainingSet::new`], and if a row cannot be prepared.
    pub(crate) fn prepared(
        preprocessor: &Preprocessor,
        table: &Table,
        settings: &DataSettings,
        rows: &[usize],
    ) -> Result<Self> {
        let (width, target) = (preprocessor.width(), Target::of(preprocessor));
        let mut set = Self::with_room(width, target, Units::of_table(table, settings, rows)?);
        // In chunks, to avoid a second copy of the table in double precision.
        for piece in rows.chunks(PIECE) {
            set.append(&preprocessor.dataset(table, piece.iter().copied())?)?;
        }
        set.checked()
    }

    /// An empty set with capacity for rows of these units.
    fn with_room(width: usize, target: Target, units: Units) -> Self {
        let rows = units.of_rows().len();
        Self {
            features: Vec::with_capacity(rows * width),
            width,
            targets: Vec::with_capacity(rows * target.columns()),
            rows: 0,
            target,
            units,
        }
    }

    /// Checks that there is at least one row, and that several targets are of one type.
    fn checked(self) -> Result<Self> {
        if let Target::Several(targets) = &self.target {
            let is_number = |(_, target): &(_, _)| matches!(target, Target::Real(_));
            let is_label = |(_, target): &(_, _)| matches!(target, Target::Classes(classes) if classes.len() == 2);
            if !(targets.iter().all(is_number) || targets.iter().all(is_label)) {
                let problem = "several targets must be numbers, or labels of two classes each; fit others alone";
                return Err(TabularError::Data(problem.into()));
            }
        }
        if self.rows == 0 {
            let problem = "there are no training rows; use a file with at least one row";
            return Err(TabularError::Data(problem.into()));
        }
        Ok(self)
    }

    /// With more rows of these units at the end.
    ///
    /// # Errors
    /// If their targets are of another type.
    pub(super) fn with_rows(&self, dataset: &Dataset, units: &Units) -> Result<Self> {
        let mut all = Self {
            units: self.units.with(units),
            ..self.clone()
        };
        all.append(dataset)?;
        Ok(all)
    }

    fn append(&mut self, dataset: &Dataset) -> Result<()> {
        let encoded = self.target.encoded(dataset.targets()).ok_or_else(|| {
            let problem = "the targets do not match the task";
            TabularError::Data(problem.into())
        })?;
        self.targets.extend(encoded);
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

    /// Mini-batches of all rows, in order.
    pub(crate) fn batches(&self, device: &Device) -> impl Iterator<Item = Batch> {
        self.chunks().map(|rows| self.batch(&rows, device))
    }

    /// At most this many rows, evenly from all.
    pub(crate) fn some(&self, most: usize) -> Vec<usize> {
        some_rows(self.rows, most).collect()
    }

    /// All rows, in chunks.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Self> {
        self.chunks().map(|rows| self.select(&rows))
    }

    /// The numbers of all rows, in chunks.
    fn chunks(&self) -> impl Iterator<Item = Vec<usize>> {
        let starts = (0..self.rows).step_by(PIECE);
        starts.map(|start| (start..self.rows.min(start + PIECE)).collect())
    }

    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self {
            features: gathered(&self.features, self.width, rows),
            width: self.width,
            targets: gathered(&self.targets, self.target.columns(), rows),
            rows: rows.len(),
            target: self.target.clone(),
            units: self.units.select(rows),
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

    /// Which of the rows are independent.
    pub(crate) fn units(&self) -> &Units {
        &self.units
    }

    /// A hash of the rows, their type of target and their units, if not every row is for itself: FNV-1a of all bits.
    pub(crate) fn fingerprint(&self) -> u64 {
        let Self {
            features,
            width,
            targets,
            rows,
            target,
            units,
        } = self;
        let sizes = [*width as u64, *rows as u64].into_iter();
        let values = features.iter().chain(targets);
        let values = values.map(|value| value.to_bits().into());
        let target = format!("{target:?}")
            .into_bytes()
            .into_iter()
            .map(u64::from);
        let units = units.clusters().into_iter().flatten();
        let units = units.map(|&unit| unit as u64);
        hashed(HASH_START, sizes.chain(values).chain(target).chain(units))
    }

    /// The features of all rows, in double precision.
    pub(crate) fn features(&self) -> Result<Features> {
        let values = self.features.iter().map(|&value| f64::from(value));
        Ok(Features::new(self.rows, self.width, values.collect())?)
    }

    /// The standard deviation of every stored target: 1 for standardised targets, counts and classes.
    pub(crate) fn target_deviations(&self) -> Result<Vec<f64>> {
        let Some(scales) = self.target.scales() else {
            return Ok(vec![1.0; self.target.columns()]);
        };
        let own = self.target_scales()?;
        let pairs = scales.iter().zip(own);
        let deviation = |(scale, own): (&ColumnScale, ColumnScale)| match *scale {
            ColumnScale::KEPT => own.spread,
            _ => 1.0,
        };
        Ok(pairs.map(deviation).collect())
    }

    /// The mean and standard deviation of every stored column, of standardised targets in their own unit.
    pub(crate) fn target_scales(&self) -> Result<Vec<ColumnScale>> {
        let outputs = self.target.columns();
        let scales = self
            .target
            .scales()
            .unwrap_or_else(|| vec![ColumnScale::KEPT; outputs]);
        let columns = scales.into_iter().enumerate();
        let scale = |(column, scale): (usize, ColumnScale)| {
            if scale != ColumnScale::KEPT {
                return Ok(scale);
            }
            let targets = self.targets.iter().skip(column).step_by(outputs);
            let targets = targets.copied().map(f64::from);
            Ok(ColumnScale::fit(targets, Scaling::Standardise)?)
        };
        columns.map(scale).collect()
    }

    /// What the mean loss of the rows lacks of their negative log-likelihood: the mean of ln y! of counts, 0 for other targets.
    pub(crate) fn constant_of_loss(&self) -> f64 {
        match self.target {
            Target::Counts { .. } => {
                let counts = self.targets.iter().map(|&count| f64::from(count));
                counts.map(|count| libm::lgamma(count + 1.0)).sum::<f64>() / self.rows() as f64
            }
            _ => 0.0,
        }
    }

    /// The means of the stored targets; for classes, their frequencies, and for labels those of their second class.
    pub(crate) fn target_means(&self) -> Vec<f64> {
        let outputs = self.target.columns();
        let mean = |output: usize| {
            let targets = self.targets.iter().skip(output).step_by(outputs);
            targets.copied().map(f64::from).sum::<f64>() / self.rows as f64
        };
        (0..outputs).map(mean).collect()
    }

    /// The same, of classes and labels with one more row, which is of all classes in equal parts: a class without a row is not
    /// impossible.
    pub(crate) fn smoothed_means(&self) -> Vec<f64> {
        let classes = match &self.target {
            Target::Classes(classes) => classes.len(),
            Target::Several(_) if self.target.scales().is_none() => 2,
            _ => return self.target_means(),
        };
        let (rows, part) = (self.rows as f64, 1.0 / classes as f64);
        let means = self.target_means().into_iter();
        means
            .map(|mean| (rows * mean + part) / (rows + 1.0))
            .collect()
    }

    /// The targets of all rows, in their own unit.
    pub(crate) fn true_targets(&self) -> Targets {
        self.target.decoded(&self.targets)
    }

    /// The stored targets, row-major.
    pub(crate) fn targets(&self) -> &[f32] {
        &self.targets
    }
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
