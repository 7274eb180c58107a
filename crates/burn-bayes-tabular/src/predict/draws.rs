//! Predictions under draws of the weights.

use burn_bayes::eval::{Bounded, CountMixture, DrawProbabilities, GaussianMixture, NoisePrecision};
use burn_bayes_data::Targets;

use super::{Moments, NumberMixture};
use crate::error::{Result, TabularError};
use crate::rows::{Target, columns_of};

/// Far beyond these, numbers whose logarithms are predicted could not be computed with.
const LARGEST_LOGARITHM: f64 = 200.0;
const LARGEST_DEVIATION_OF_LOGARITHMS: f64 = 4.0;

/// The predictions of rows under every draw.
#[derive(Clone, Debug)]
pub enum Predictions {
    /// Predictions of a classification.
    Classes(ClassPredictions),
    /// Predictions of a regression.
    Reals(RealPredictions),
    /// Predictions of counts.
    Counts(CountPredictions),
    /// Predictions of several targets by the same draws, at least two.
    Several(Vec<TargetPredictions>),
}

/// The predictions of one of several targets.
#[derive(Clone, Debug)]
pub struct TargetPredictions {
    /// The name of the target.
    pub name: String,
    /// The standard deviation by which the target was standardised, in which errors of several targets are averaged; 1
    /// for labels, and for targets that were not standardised.
    pub unit: f64,
    /// Its predictions.
    pub predictions: Predictions,
}

/// Predictions of one target: a number for every draw and row, or one for each class.
#[derive(Clone, Debug)]
pub struct DrawPredictions<K> {
    /// The names of the classes, in the order of their probabilities, or the noise of numbers.
    pub kind: K,
    /// The number of draws.
    pub draws: usize,
    /// The number of draws of each member of an ensemble, in this order; of a single model, all.
    pub members: Vec<usize>,
    /// `[draws, rows]`, or for classes `[draws, rows, classes]` and mixtures `[draws, rows, Gaussians]`, row-major.
    pub values: Vec<f64>,
}

/// Class probabilities, with the names of the classes.
pub type ClassPredictions = DrawPredictions<Vec<String>>;

/// Means of numbers or of their logarithms, with the observation noise.
pub type RealPredictions = DrawPredictions<NumberNoise>;

/// Mean counts, with their dispersions.
pub type CountPredictions = DrawPredictions<Dispersions>;

/// The observation noise of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberNoise {
    /// Its standard deviations.
    pub deviations: NoiseDeviations,
    /// Whether means and deviations are those of the logarithms.
    pub is_of_logarithms: bool,
    /// The weights of the Gaussians of a draw and row, if it has several.
    pub mixture: Option<MixtureWeights>,
}

/// The weights of the Gaussians of a mixture.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureWeights {
    /// The number of Gaussians of a draw and row.
    pub gaussians: usize,
    /// `[draws, rows, Gaussians]`, row-major.
    pub weights: Vec<f64>,
}

/// The dispersions α of counts of variance μ + α μ², one for every draw and row, `[draws, rows]`, row-major; none for
/// Poisson distributions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dispersions(pub Vec<f64>);

/// Standard deviations of observation noise, in the unit of the means.
#[derive(Clone, Debug, PartialEq)]
pub enum NoiseDeviations {
    /// One for all predictions of each member of an ensemble; for a single model, one.
    PerMember(Vec<f64>),
    /// One for every draw and row, `[draws, rows]`, row-major; of a mixture, for each of its Gaussians.
    PerPrediction(Vec<f64>),
}

/// The same for all predictions of a single model.
impl From<f64> for NumberNoise {
    fn from(deviation: f64) -> Self {
        NoiseDeviations::PerMember(vec![deviation]).into()
    }
}

/// Of numbers themselves.
impl From<NoiseDeviations> for NumberNoise {
    fn from(deviations: NoiseDeviations) -> Self {
        Self {
            deviations,
            is_of_logarithms: false,
            mixture: None,
        }
    }
}

/// What predictions have besides a value for every draw and row.
pub trait Kind: Clone {
    /// The number of values of a draw and row.
    fn width(&self) -> usize {
        1
    }

    /// Adds one more member of an ensemble.
    fn append(&mut self, _member: Self) {}

    /// Of some of the rows or, of a member, of one draw: `select` has those of the values, of this number for each row.
    fn selected(
        &self,
        _member: Option<usize>,
        _select: impl Fn(&[f64], usize) -> Vec<f64>,
    ) -> Self {
        self.clone()
    }

    /// Of all rows from parts: `scatter` has the values of all from those of the parts, of this number for each row.
    fn joined(
        parts: &[(Vec<usize>, DrawPredictions<Self>)],
        _scatter: impl Fn(&[Vec<f64>], usize) -> Vec<f64>,
    ) -> Self {
        parts[0].1.kind.clone()
    }
}

impl Kind for Vec<String> {
    fn width(&self) -> usize {
        self.len()
    }
}

impl Kind for Dispersions {
    fn append(&mut self, mut member: Self) {
        self.0.append(&mut member.0);
    }

    fn selected(&self, _member: Option<usize>, select: impl Fn(&[f64], usize) -> Vec<f64>) -> Self {
        match self.0.is_empty() {
            true => Self::default(),
            false => Self(select(&self.0, 1)),
        }
    }

    fn joined(
        parts: &[(Vec<usize>, CountPredictions)],
        scatter: impl Fn(&[Vec<f64>], usize) -> Vec<f64>,
    ) -> Self {
        let dispersions = parts.iter().map(|(_, part)| part.kind.0.clone());
        let dispersions: Vec<_> = dispersions.collect();
        match dispersions.iter().all(Vec::is_empty) {
            true => Self::default(),
            false => Self(scatter(&dispersions, 1)),
        }
    }
}

impl Kind for NumberNoise {
    fn width(&self) -> usize {
        self.mixture.as_ref().map_or(1, |mixture| mixture.gaussians)
    }

    fn append(&mut self, member: Self) {
        use NoiseDeviations::{PerMember, PerPrediction};
        match (&mut self.deviations, member.deviations) {
            (PerMember(joined), PerMember(mut member))
            | (PerPrediction(joined), PerPrediction(mut member)) => {
                joined.append(&mut member);
            }
            _ => unreachable!("all members have the same likelihood"),
        }
        if let (Some(joined), Some(mut member)) = (&mut self.mixture, member.mixture) {
            joined.weights.append(&mut member.weights);
        }
    }

    fn selected(&self, member: Option<usize>, select: impl Fn(&[f64], usize) -> Vec<f64>) -> Self {
        use NoiseDeviations::{PerMember, PerPrediction};
        let mixture = self.mixture.as_ref();
        let mixture = mixture.map(|MixtureWeights { gaussians, weights }| MixtureWeights {
            gaussians: *gaussians,
            weights: select(weights, *gaussians),
        });
        Self {
            deviations: match (&self.deviations, member) {
                (PerPrediction(deviations), _) => PerPrediction(select(deviations, self.width())),
                (PerMember(deviations), Some(member)) => PerMember(vec![deviations[member]]),
                (per_member, None) => per_member.clone(),
            },
            mixture,
            ..*self
        }
    }

    fn joined(
        parts: &[(Vec<usize>, RealPredictions)],
        scatter: impl Fn(&[Vec<f64>], usize) -> Vec<f64>,
    ) -> Self {
        let noise = parts.iter().map(|(_, part)| part.noise_of_predictions());
        let own = &parts[0].1.kind;
        let weights = parts
            .iter()
            .filter_map(|(_, part)| part.kind.mixture.as_ref());
        let weights: Vec<_> = weights.map(|mixture| mixture.weights.clone()).collect();
        let width = own.width();
        Self {
            deviations: NoiseDeviations::PerPrediction(scatter(&noise.collect::<Vec<_>>(), width)),
            is_of_logarithms: own.is_of_logarithms,
            mixture: own.mixture.as_ref().map(|_| MixtureWeights {
                gaussians: width,
                weights: scatter(&weights, width),
            }),
        }
    }
}

impl<K: Kind> DrawPredictions<K> {
    /// Those of a single model.
    pub fn new(kind: impl Into<K>, draws: usize, values: Vec<f64>) -> Self {
        Self {
            kind: kind.into(),
            draws,
            members: vec![draws],
            values,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.values.len() / (self.draws * self.kind.width()).max(1)
    }

    /// The predictions of some of the rows.
    pub(crate) fn of_rows(&self, rows: &[usize]) -> Self {
        let count = self.rows();
        let selected = |values: &[f64], width| gathered(values, count, width, rows);
        Self {
            kind: self.kind.selected(None, selected),
            values: selected(&self.values, self.kind.width()),
            draws: self.draws,
            members: self.members.clone(),
        }
    }

    /// The predictions of one draw.
    fn of_draw(&self, draw: usize) -> Self {
        let of_draw = |values: &[f64]| {
            let count = values.len() / self.draws.max(1);
            values[draw * count..][..count].to_vec()
        };
        let member = members_of_draws(&self.members).nth(draw);
        let kind = self
            .kind
            .selected(Some(member.unwrap_or_default()), |values, _| {
                of_draw(values)
            });
        Self::new(kind, 1, of_draw(&self.values))
    }

    /// Adds the draws of one more member.
    fn join(&mut self, mut member: Self) {
        self.draws += member.draws;
        self.members.append(&mut member.members);
        self.values.append(&mut member.values);
        self.kind.append(member.kind);
    }

    /// The predictions of all rows from those of parts.
    fn of_parts(parts: Vec<(Vec<usize>, Self)>) -> Self {
        let count = parts.iter().map(|(rows, _)| rows.len()).sum();
        let Self { kind, draws, .. } = &parts[0].1;
        let scatter = |values: &[Vec<f64>], width| {
            let rows = parts.iter().map(|(rows, _)| &rows[..]);
            scattered(rows.zip(values), *draws, count, width)
        };
        let values: Vec<Vec<f64>> = parts.iter().map(|(_, part)| part.values.clone()).collect();
        Self {
            kind: K::joined(&parts, scatter),
            values: scatter(&values, kind.width()),
            draws: *draws,
            members: parts[0].1.members.clone(),
        }
    }
}

impl Predictions {
    /// The predictions of an ensemble from those of its members for the same rows.
    ///
    /// # Panics
    /// If there are none, or some predict classes and others numbers.
    pub(crate) fn of_members(members: Vec<Self>) -> Self {
        let members = members.into_iter();
        let joined = members.reduce(|mut joined, member| {
            joined.join(member);
            joined
        });
        joined.expect("an ensemble has a member")
    }

    fn join(&mut self, member: Self) {
        match (self, member) {
            (Self::Classes(joined), Self::Classes(member)) => joined.join(member),
            (Self::Reals(joined), Self::Reals(member)) => joined.join(member),
            (Self::Counts(joined), Self::Counts(member)) => joined.join(member),
            (Self::Several(joined), Self::Several(member)) => {
                let pairs = joined.iter_mut().zip(member);
                pairs.for_each(|(joined, member)| joined.predictions.join(member.predictions));
            }
            _ => unreachable!("all members predict the same target"),
        }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Classes(predictions) => predictions.rows(),
            Self::Reals(predictions) => predictions.rows(),
            Self::Counts(predictions) => predictions.rows(),
            Self::Several(targets) => targets.first().map_or(0, |one| one.predictions.rows()),
        }
    }

    /// The predictions of each target, with its name if there are several.
    pub(crate) fn of_targets(&self) -> Vec<(Option<&str>, &Self)> {
        match self {
            Self::Several(targets) => {
                let targets = targets.iter();
                targets
                    .map(|one| (Some(&*one.name), &one.predictions))
                    .collect()
            }
            one => vec![(None, one)],
        }
    }

    /// The predictions of each target beside its true values, with its name if there are several.
    pub(crate) fn beside<'a>(
        &'a self,
        targets: &'a Targets,
    ) -> impl Iterator<Item = (Option<&'a str>, &'a Self, &'a Targets)> {
        let pairs = self.of_targets().into_iter().zip(columns_of(targets));
        pairs.map(|((name, predictions), targets)| (name, predictions, targets))
    }

    /// The number of draws.
    pub(crate) fn draws(&self) -> usize {
        match self {
            Self::Classes(predictions) => predictions.draws,
            Self::Reals(predictions) => predictions.draws,
            Self::Counts(predictions) => predictions.draws,
            Self::Several(targets) => targets.first().map_or(0, |one| one.predictions.draws()),
        }
    }

    /// The predictions of one draw.
    pub(crate) fn of_draw(&self, draw: usize) -> Self {
        match self {
            Self::Classes(all) => Self::Classes(all.of_draw(draw)),
            Self::Reals(all) => Self::Reals(all.of_draw(draw)),
            Self::Counts(all) => Self::Counts(all.of_draw(draw)),
            Self::Several(targets) => Self::Several(mapped(targets, |one| one.of_draw(draw))),
        }
    }

    /// The predictions of some of the rows.
    pub(crate) fn of_rows(&self, rows: &[usize]) -> Self {
        match self {
            Self::Classes(all) => Self::Classes(all.of_rows(rows)),
            Self::Reals(all) => Self::Reals(all.of_rows(rows)),
            Self::Counts(all) => Self::Counts(all.of_rows(rows)),
            Self::Several(targets) => Self::Several(mapped(targets, |one| one.of_rows(rows))),
        }
    }

    /// The mixtures of numbers or counts, checked.
    ///
    /// # Errors
    /// If these are predictions of classes or several targets.
    pub(crate) fn numbers(&self) -> Result<NumberMixture<'_>> {
        self.mixture()?.ok_or_else(|| mismatched(self))
    }

    /// The moments of numbers and counts; `None` for classes and several targets, and without rows.
    pub(crate) fn moments(&self) -> Result<Option<Moments>> {
        let mixture = match self.rows() {
            0 => None,
            _ => self.mixture()?,
        };
        let is_positive = matches!(self, Self::Reals(found) if found.kind.is_of_logarithms);
        Ok(mixture.map(|mixture| {
            let moments = mixture.moments();
            Moments {
                least: is_positive.then_some(0.0).or(moments.least),
                ..moments
            }
        }))
    }

    /// Predictions of no rows, by two members with a draw each.
    pub(crate) fn none(target: &Target) -> Self {
        fn none<K>(kind: K) -> DrawPredictions<K> {
            DrawPredictions {
                kind,
                draws: 2,
                members: vec![1, 1],
                values: Vec::new(),
            }
        }
        match target {
            Target::Classes(classes) => Self::Classes(none(classes.clone())),
            Target::Real(_) => Self::Reals(none(NoiseDeviations::PerPrediction(Vec::new()).into())),
            Target::Counts { .. } => Self::Counts(none(Dispersions::default())),
            Target::Several(targets) => {
                let none = |one| TargetPredictions::of(one, Self::none(&one.1));
                Self::Several(targets.iter().map(none).collect())
            }
        }
    }

    /// The predictions of all rows from those of parts, each with its rows. The noise of a part is that of its rows.
    ///
    /// # Panics
    /// If there are none, or the parts are of different fits, or of several targets.
    pub(crate) fn of_parts(parts: Vec<(Vec<usize>, Self)>) -> Self {
        macro_rules! joined {
            ($kind:ident) => {{
                let parts = parts.into_iter().map(|(rows, part)| match part {
                    Self::$kind(part) => (rows, part),
                    _ => unreachable!("all parts predict the same target"),
                });
                Self::$kind(DrawPredictions::of_parts(parts.collect()))
            }};
        }
        match parts[0].1 {
            Self::Classes(_) => joined!(Classes),
            Self::Reals(_) => joined!(Reals),
            Self::Counts(_) => joined!(Counts),
            Self::Several(_) => unreachable!("parts are of one target"),
        }
    }

    /// The mixtures of numbers or counts, checked; `None` for classes and several targets.
    pub(crate) fn mixture(&self) -> Result<Option<NumberMixture<'_>>> {
        Ok(match self {
            Self::Reals(all) => Some(NumberMixture::Gaussian(all.checked()?)),
            Self::Counts(all) => Some(NumberMixture::Counts(all.checked()?)),
            Self::Classes(_) | Self::Several(_) => None,
        })
    }
}

impl TargetPredictions {
    /// Those of this target with its name.
    pub(crate) fn of((name, target): &(String, Target), predictions: Predictions) -> Self {
        Self {
            name: name.clone(),
            unit: target.unit(),
            predictions,
        }
    }
}

/// The same targets with other predictions.
fn mapped(
    targets: &[TargetPredictions],
    of: impl Fn(&Predictions) -> Predictions,
) -> Vec<TargetPredictions> {
    let target = |one: &TargetPredictions| TargetPredictions {
        name: one.name.clone(),
        unit: one.unit,
        predictions: of(&one.predictions),
    };
    targets.iter().map(target).collect()
}

/// The values of some of `count` rows, `[draws, rows, width]`, row-major.
fn gathered(values: &[f64], count: usize, width: usize, rows: &[usize]) -> Vec<f64> {
    let draws = values.chunks_exact((count * width).max(1));
    draws
        .flat_map(|draw| rows.iter().map(move |row| &draw[row * width..][..width]))
        .flatten()
        .copied()
        .collect()
}

/// The inverse for parts with their rows, which together are all `count` rows.
fn scattered<'a>(
    parts: impl Iterator<Item = (&'a [usize], &'a Vec<f64>)>,
    draws: usize,
    count: usize,
    width: usize,
) -> Vec<f64> {
    let mut all = vec![0.0; draws * count * width];
    for (rows, values) in parts {
        let places = (0..draws).flat_map(|draw| rows.iter().map(move |row| draw * count + row));
        for (place, values) in places.zip(values.chunks_exact(width)) {
            all[place * width..][..width].copy_from_slice(values);
        }
    }
    all
}

/// The member of each draw.
fn members_of_draws(members: &[usize]) -> impl Iterator<Item = usize> {
    let members = members.iter().enumerate();
    members.flat_map(|(member, &draws)| std::iter::repeat_n(member, draws))
}

/// The member of each draw; `None` for a single model.
pub(crate) fn members(counts: &[usize]) -> Option<Vec<usize>> {
    (counts.len() > 1).then(|| members_of_draws(counts).collect())
}

/// The error of predictions that are scored by the targets of another task.
pub(crate) fn mismatched(predictions: &Predictions) -> TabularError {
    let (predicted, given) = match predictions {
        Predictions::Classes(_) => ("classes", "numbers"),
        Predictions::Reals(_) => ("numbers", "classes"),
        Predictions::Counts(_) => ("counts", "classes"),
        Predictions::Several(_) => ("several targets", "others"),
    };
    TabularError::Data(format!(
        "the fit predicts {predicted}, but the target column was read as {given}; use rows of the same task"
    ))
}

impl ClassPredictions {
    /// Checks the probabilities, for the computation of scores.
    pub fn checked(&self) -> Result<DrawProbabilities<'_>> {
        let (rows, classes) = (self.rows(), self.kind.len());
        Ok(DrawProbabilities::new(
            &self.values,
            self.draws,
            rows,
            classes,
        )?)
    }
}

impl CountPredictions {
    /// The predictive mixture for each row, checked, for the computation of scores.
    pub fn checked(&self) -> Result<CountMixture<'_>> {
        let mixture = CountMixture::new(&self.values, self.draws, self.rows())?;
        Ok(match self.kind.0.as_slice() {
            [] => mixture,
            dispersions => mixture.with_dispersions(dispersions)?,
        })
    }
}

impl RealPredictions {
    /// The mean of the numbers of every draw and row, or of their logarithms, and its variance, `[draws, rows]` each.
    pub(crate) fn moments_of_draws(&self) -> [Vec<f64>; 2] {
        let squares = self.noise_of_predictions().into_iter().map(|d| d * d);
        let Some(MixtureWeights { gaussians, weights }) = &self.kind.mixture else {
            return [self.values.clone(), squares.collect()];
        };
        let squares: Vec<f64> = squares.collect();
        let parts = self.values.chunks(*gaussians);
        let parts = parts
            .zip(squares.chunks(*gaussians))
            .zip(weights.chunks(*gaussians));
        let moments = parts.map(|((means, squares), weights)| {
            let all = means.iter().zip(squares).zip(weights);
            let sum = |of: &dyn Fn(f64, f64) -> f64| {
                let terms = all
                    .clone()
                    .map(|((&mean, &square), weight)| weight * of(mean, square));
                terms.sum::<f64>()
            };
            let centre = sum(&|mean, _| mean);
            (
                centre,
                sum(&|mean, square| square + (mean - centre).powi(2)),
            )
        });
        let (means, variances) = moments.unzip();
        [means, variances]
    }

    /// The standard deviation of the noise of every draw and row; of a mixture, of each of its Gaussians.
    pub(crate) fn noise_of_predictions(&self) -> Vec<f64> {
        match &self.kind.deviations {
            NoiseDeviations::PerPrediction(deviations) => deviations.clone(),
            NoiseDeviations::PerMember(deviations) => members_of_draws(&self.members)
                .flat_map(|member| std::iter::repeat_n(deviations[member], self.rows()))
                .collect(),
        }
    }

    /// The standard deviation of the noise, its root mean square over draws and rows; that of the logarithms, if these are
    /// predicted.
    pub fn noise_deviation(&self) -> f64 {
        let mean_square = match &self.kind.deviations {
            NoiseDeviations::PerMember(deviations) => match **deviations {
                [deviation] => return deviation,
                _ => {
                    let members = self.members.iter().zip(deviations);
                    let squares =
                        members.map(|(&draws, deviation)| draws as f64 * deviation.powi(2));
                    squares.sum::<f64>() / self.draws as f64
                }
            },
            NoiseDeviations::PerPrediction(_) => {
                let [_, variances] = self.moments_of_draws();
                variances.iter().sum::<f64>() / variances.len() as f64
            }
        };
        mean_square.sqrt()
    }

    /// Those of the logarithms of positive numbers, which a network extrapolates without an end.
    #[must_use]
    pub fn of_logarithms(mut self) -> Self {
        let limit = |values: &mut [f64], most: f64| {
            let all = values.iter_mut();
            all.for_each(|value| *value = value.at_most(most));
        };
        limit(&mut self.values, LARGEST_LOGARITHM);
        match &mut self.kind.deviations {
            NoiseDeviations::PerMember(deviations) | NoiseDeviations::PerPrediction(deviations) => {
                limit(deviations, LARGEST_DEVIATION_OF_LOGARITHMS);
            }
        }
        self.kind.is_of_logarithms = true;
        self
    }

    /// The same with other values, a Gaussian of all draws and rows after the other, as those of [`checked`](Self::checked).
    pub(crate) fn with_means(self, means: &[f64]) -> Self {
        let (rows, width) = (self.rows(), self.kind.width());
        let values = means.chunks(rows * width);
        let values = values.flat_map(|draw| transposed(draw, rows));
        Self {
            values: values.collect(),
            ..self
        }
    }

    /// The predictive mixture for each row, checked, for the computation of scores.
    pub fn checked(&self) -> Result<GaussianMixture<'_>> {
        if let Some(MixtureWeights { gaussians, weights }) = &self.kind.mixture {
            return self.checked_mixture(*gaussians, weights);
        }
        let (NoiseDeviations::PerMember(deviations) | NoiseDeviations::PerPrediction(deviations)) =
            &self.kind.deviations;
        let precisions = deviations.iter().map(|deviation| deviation.powi(-2));
        let precisions: Vec<f64> = precisions.collect();
        let per_draw: Vec<f64>;
        let noise = match (&self.kind.deviations, &precisions[..]) {
            (NoiseDeviations::PerPrediction(_), _) => NoisePrecision::PerPrediction(&precisions),
            (NoiseDeviations::PerMember(_), &[precision]) => NoisePrecision::Shared(precision),
            (NoiseDeviations::PerMember(_), _) => {
                per_draw = members_of_draws(&self.members)
                    .map(|member| precisions[member])
                    .collect();
                NoisePrecision::PerDraw(&per_draw)
            }
        };
        let mixture = GaussianMixture::new(&self.values, self.draws, self.rows(), noise)?;
        self.located(mixture)
    }

    /// The same of several Gaussians of each draw.
    fn checked_mixture(&self, gaussians: usize, weights: &[f64]) -> Result<GaussianMixture<'_>> {
        let first = |values: &[f64]| -> Vec<f64> {
            let draws = values.chunks((self.rows() * gaussians).max(1));
            draws.flat_map(|draw| transposed(draw, gaussians)).collect()
        };
        let precisions = self.noise_of_predictions().into_iter();
        let precisions: Vec<f64> = precisions.map(|deviation| deviation.powi(-2)).collect();
        let precisions = first(&precisions);
        let noise = NoisePrecision::PerPrediction(&precisions);
        let (draws, rows) = (self.draws * gaussians, self.rows());
        let mixture = GaussianMixture::new(first(&self.values), draws, rows, noise)?;
        self.located(mixture.with_weights(gaussians, first(weights))?)
    }

    /// Of the numbers themselves.
    fn located<'a>(&self, mixture: GaussianMixture<'a>) -> Result<GaussianMixture<'a>> {
        Ok(match self.kind.is_of_logarithms {
            true => mixture.exponentiated()?,
            false => mixture,
        })
    }
}

/// The columns of a matrix of this width, one after the other.
fn transposed(values: &[f64], width: usize) -> Vec<f64> {
    let columns = (0..width).flat_map(|column| values.iter().skip(column).step_by(width));
    columns.copied().collect()
}
