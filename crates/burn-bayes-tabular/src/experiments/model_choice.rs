//! What a fit predicts with if its settings leave it open: a number or its logarithm, one Gaussian for each row or two, a
//! network or a linear model.
//!
//! Rows of the training are left out in turn, as many as are needed for about 400, and predicted by one short chain of a
//! small network for each scale and number of Gaussians, and by linear models that are solved directly. The first of them is
//! kept unless another one is better by more than a standard error of the difference, paired by row, and the network unless
//! a linear model is so by more than two: a short chain is worse than the fit that follows.

use std::fmt;

use burn_bayes::Noise;
use burn_bayes_data::KFold;

use super::search::Fold;
use crate::error::Result;
use crate::parallel;
use crate::random::shuffled;
use crate::rows::SplitTable;
use crate::scores::Summary;
use crate::settings::{
    Config, DataSettings, FitSettings, LikelihoodName, Method, NetworkShape, NoisePrecision,
    TargetScaleName, TaskName, UnseenName,
};
use crate::text::number;

/// The most training rows that are used.
const MOST_ROWS: usize = 2000;
/// Left-out rows that are enough.
const LEFT_OUT: usize = 400;
const FOLDS: usize = 5;
/// Gradients of a chain.
const EPOCHS: usize = 1500;
const DRAWS: usize = 100;
/// The standard errors by which another scale must be better.
const OF_SCALES: f64 = 1.0;
/// Fewer rows decide nothing.
const FEWEST_ROWS: usize = 40;
/// The random stream of the rows.
const ROWS: u64 = 0x6368_6f69;

/// What was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelChoice {
    /// What is predicted of a number.
    pub target_scale: TargetScaleName,
    /// The model that predicts it.
    pub model: ModelKind,
    /// The mean NLL of the left-out rows, of every candidate.
    costs: Vec<(Candidate, f64)>,
}

/// A model that a fit may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModelKind {
    /// A network with the likelihood that is the default.
    Network,
    /// A network with a mixture of Gaussians for each row.
    Mixture,
    /// A linear model.
    Linear,
}

impl ModelKind {
    /// From the one that is kept in doubt.
    const ALL: [Self; 3] = [Self::Network, Self::Mixture, Self::Linear];

    /// The standard errors by which it must be better than those before it.
    fn standard_errors(self) -> f64 {
        match self {
            Self::Network | Self::Mixture => 1.0,
            Self::Linear => 2.0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    target_scale: TargetScaleName,
    model: ModelKind,
}

impl ModelChoice {
    /// Chooses what the settings leave open; `None` if there is nothing to choose.
    ///
    /// # Errors
    /// If the rows cannot be prepared.
    pub fn of(rows: &SplitTable, config: &Config, threads: usize) -> Result<Option<Self>> {
        Self::of_candidates(&candidates(rows, config)?, rows, config, threads)
    }

    /// The same of the scale only: the model is that of the settings.
    ///
    /// # Errors
    /// If the rows cannot be prepared.
    pub fn of_scale(rows: &SplitTable, config: &Config, threads: usize) -> Result<Option<Self>> {
        let mut candidates = candidates(rows, config)?;
        candidates.retain(|candidate| candidate.model == ModelKind::Network);
        Self::of_candidates(&candidates, rows, config, threads)
    }

    fn of_candidates(
        candidates: &[Candidate],
        rows: &SplitTable,
        config: &Config,
        threads: usize,
    ) -> Result<Option<Self>> {
        if candidates.len() < 2 {
            return Ok(None);
        }
        let some = SplitTable {
            table: rows.table.clone(),
            train: some(&rows.train, config.fit.seed),
            validation: Vec::new(),
        };
        let kept = KFold::new(FOLDS).with_seed(config.fit.seed);
        let held_out = some.train.len() / FOLDS;
        let folds = LEFT_OUT.div_ceil(held_out.max(1)).min(FOLDS);
        let folds_of =
            |candidate: &Candidate| Fold::all(&some, &candidate.data(&config.data), kept, None);
        let all = candidates
            .iter()
            .map(folds_of)
            .collect::<Result<Vec<_>>>()?;
        let settings = candidates.iter().map(|one| one.settings(&config.fit));
        let settings: Vec<FitSettings> = settings.collect();
        let mut usable = Vec::new();
        for (place, candidate) in candidates.iter().enumerate() {
            let fold = &all[place][0];
            let is_usable = match candidate.model {
                ModelKind::Network => true,
                // Only samplers have been tried with it.
                ModelKind::Mixture => fold.is_sampled(rows.train.len(), &config.fit)?,
                // With too many weights it would be sampled, longer than the fit that is chosen for.
                ModelKind::Linear => fold.is_quickly_solved(&settings[place])?,
            };
            if is_usable {
                usable.push(place);
            }
        }
        if usable.len() < 2 {
            return Ok(None);
        }
        let costs = parallel::map(threads, usable.len() * folds, |job| {
            let (candidate, fold) = (usable[job / folds], job % folds);
            all[candidate][fold].costs(&settings[candidate])
        })?;
        let costs = costs.chunks(folds).map(|of_folds| {
            let complete = of_folds.iter().cloned().collect::<Option<Vec<_>>>();
            complete.map(|of_folds| of_folds.concat())
        });
        let scored = usable.iter().map(|&place| candidates[place]).zip(costs);
        let scored = scored.filter_map(|(candidate, costs)| Some((candidate, costs?)));
        Ok(Some(Self::among(&scored.collect::<Vec<_>>())))
    }

    /// The best of candidates with the NLL of every left-out row.
    fn among(scored: &[(Candidate, Vec<f64>)]) -> Self {
        let mut best: Option<&(Candidate, Vec<f64>)> = None;
        for model in ModelKind::ALL {
            let mut kind = scored.iter().filter(|one| one.0.model == model);
            let first = kind.next();
            let of_kind = kind.fold(first, |best, other| better(best, other, OF_SCALES));
            best = match of_kind {
                Some(other) => better(best, other, model.standard_errors()),
                None => best,
            };
        }
        let mean = |costs: &[f64]| Summary::of(costs).map_or(f64::NAN, |summary| summary.mean);
        let chosen = best.map(|best| best.0);
        Self {
            target_scale: chosen.map_or(TargetScaleName::Linear, |one| one.target_scale),
            model: chosen.map_or(ModelKind::Network, |one| one.model),
            costs: scored
                .iter()
                .map(|(one, costs)| (*one, mean(costs)))
                .collect(),
        }
    }

    /// Settles what was chosen.
    pub fn apply(&self, config: &mut Config) {
        config.data.target_scale = self.target_scale;
        match self.model {
            ModelKind::Network => {}
            ModelKind::Mixture => config.fit.likelihood = Some(LikelihoodName::Mixture),
            ModelKind::Linear => config.fit.model = Some(linear()),
        }
    }
}

/// The second, if it is better by more than this many standard errors; otherwise the first.
fn better<'a>(
    first: Option<&'a (Candidate, Vec<f64>)>,
    second: &'a (Candidate, Vec<f64>),
    errors: f64,
) -> Option<&'a (Candidate, Vec<f64>)> {
    let Some(first) = first else {
        return Some(second);
    };
    let differences = second
        .1
        .iter()
        .zip(&first.1)
        .map(|(one, other)| one - other);
    let difference = Summary::of(&differences.collect::<Vec<_>>());
    let is_better = difference.is_some_and(|found| {
        let error = found.standard_error.unwrap_or(f64::INFINITY);
        found.mean < -errors * error
    });
    Some(if is_better { second } else { first })
}

/// What the settings leave open.
fn candidates(rows: &SplitTable, config: &Config) -> Result<Vec<Candidate>> {
    let Config { data, fit } = config;
    let task = data.task()?;
    let scales = match data.target_scale {
        TargetScaleName::Auto if can_be_logarithmic(rows, config)? => {
            vec![TargetScaleName::Linear, TargetScaleName::Log]
        }
        TargetScaleName::Auto => vec![TargetScaleName::Linear],
        given => vec![given],
    };
    let is_one = data.targets()?.len() == 1 && rows.train.len() >= FEWEST_ROWS;
    let is_open = fit.likelihood.is_none() && is_one;
    let of_network = fit.method.is_sampled() || fit.method == Method::Auto;
    let has_mixture = is_open
        && of_network
        && !fit.is_linear()
        && task == TaskName::Regression
        && fit.noise_precision == NoisePrecision::LEARNED
        && !is_coarse(rows, data)?;
    let has_linear = is_open
        && fit.method == Method::Auto
        && fit.model.is_none()
        && matches!(task, TaskName::Regression | TaskName::Classification);
    let kinds = ModelKind::ALL.into_iter().filter(|kind| match kind {
        ModelKind::Network => true,
        ModelKind::Mixture => has_mixture,
        ModelKind::Linear => has_linear,
    });
    let with_scales = kinds.flat_map(|model| {
        scales.iter().map(move |&target_scale| Candidate {
            target_scale,
            model,
        })
    });
    Ok(with_scales.collect())
}

/// Whether the target is rounded to few values, each of which would have a Gaussian of its own.
fn is_coarse(rows: &SplitTable, data: &DataSettings) -> Result<bool> {
    /// The least difference of two values, in deviations of them.
    const COARSE: f64 = 0.3;
    let [target] = data.targets()? else {
        return Ok(false);
    };
    let column = rows.table.column(target)?;
    let values = rows.train.iter().filter_map(|&row| column.number(row));
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    let deviation = (squares.sum::<f64>() / count).sqrt();
    let gaps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let differ = |gap: &f64| *gap > 1e-6 * deviation;
    Ok(gaps.filter(differ).all(|gap| gap >= COARSE * deviation))
}

/// Whether the logarithm of the target could be predicted.
fn can_be_logarithmic(rows: &SplitTable, config: &Config) -> Result<bool> {
    let Config { data, fit } = config;
    let [target] = data.targets()? else {
        return Ok(false);
    };
    let is_open = data.task()? == TaskName::Regression
        && fit.prior.kernel().is_none()
        && fit.noise_precision == NoisePrecision::LEARNED
        && rows.train.len() >= FEWEST_ROWS;
    let column = rows.table.column(target)?;
    let mut all = rows.train.iter().chain(&rows.validation);
    Ok(is_open && all.all(|&row| column.number(row).is_some_and(|value| value > 0.0)))
}

/// Some of many rows.
fn some(train: &[usize], seed: u64) -> Vec<usize> {
    let order = shuffled(train.len(), Noise::new(seed).fold(ROWS));
    let some = order.into_iter().take(MOST_ROWS).map(|place| train[place]);
    some.collect()
}

fn linear() -> NetworkShape {
    NetworkShape { hidden: Vec::new() }
}

impl Candidate {
    fn data(&self, data: &DataSettings) -> DataSettings {
        DataSettings {
            target_scale: self.target_scale,
            // A rare category may be in left-out rows only.
            unseen: UnseenName::Zeros,
            ..data.clone()
        }
    }

    fn settings(&self, fit: &FitSettings) -> FitSettings {
        let own = FitSettings {
            seed: fit.seed,
            device: fit.device,
            draws: DRAWS,
            ..FitSettings::default()
        };
        let likelihood = match self.model {
            ModelKind::Linear => {
                return FitSettings {
                    model: Some(linear()),
                    ..own
                };
            }
            ModelKind::Mixture => Some(LikelihoodName::Mixture),
            ModelKind::Network if fit.method.is_sampled() || fit.method == Method::Auto => {
                fit.likelihood
            }
            ModelKind::Network => Some(fit.likelihood.unwrap_or(LikelihoodName::Gaussian)),
        };
        FitSettings {
            method: Method::Mclmc,
            chains: 1,
            epochs: Some(EPOCHS),
            likelihood,
            ..own
        }
    }
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |candidate: &Candidate| {
            let model = match candidate.model {
                ModelKind::Network => "a network",
                ModelKind::Mixture => "a network with two Gaussians for each row",
                ModelKind::Linear => "a linear model",
            };
            match candidate.target_scale {
                TargetScaleName::Log => format!("{model} of the logarithm"),
                _ => model.to_string(),
            }
        };
        let chosen = Candidate {
            target_scale: self.target_scale,
            model: self.model,
        };
        let costs = self.costs.iter();
        let costs = costs.map(|(one, cost)| format!("{} {}", name(one), number(*cost)));
        let costs = costs.collect::<Vec<_>>().join(", ");
        write!(
            f,
            "{}, by the NLL of left-out training rows: {costs}",
            name(&chosen)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use burn_bayes_data::{Column, Table};

    use super::*;

    const ROWS: usize = 250;

    fn normals(seed: u64) -> impl Iterator<Item = f64> {
        Noise::new(seed).latent(ROWS).into_iter().map(f64::from)
    }

    /// Rows with an input x, from −2 to 2, and the target of x and of normal noise.
    fn rows(target: impl Fn(f64, f64) -> f64) -> SplitTable {
        let inputs: Vec<f64> = (0..ROWS).map(|row| row as f64 / 62.5 - 2.0).collect();
        let targets = inputs
            .iter()
            .zip(normals(1))
            .map(|(x, noise)| target(*x, noise));
        let columns = vec![
            Column::numbers("y", targets.collect()),
            Column::numbers("x", inputs),
        ];
        SplitTable {
            table: Arc::new(Table::new(columns).unwrap()),
            train: (0..ROWS).collect(),
            validation: Vec::new(),
        }
    }

    fn config(text: &str) -> Config {
        Config {
            data: DataSettings {
                target: "y".parse().ok(),
                task: Some(TaskName::Regression),
                ..DataSettings::default()
            },
            fit: toml::from_str(text).unwrap(),
        }
    }

    fn chosen(rows: &SplitTable, config: &Config) -> Option<(TargetScaleName, ModelKind)> {
        let choice = ModelChoice::of(rows, config, 2).unwrap();
        choice.map(|choice| (choice.target_scale, choice.model))
    }

    #[test]
    fn the_scale_and_the_model_that_predict_better_are_chosen() {
        use TargetScaleName::{Linear, Log};
        let auto = config("");
        let grown = rows(|x, noise| ((2.0 * x).sin() + x + 0.3 * noise).exp());
        assert_eq!(chosen(&grown, &auto), Some((Log, ModelKind::Network)));
        let curve = rows(|x, noise| 5.0 + (3.0 * x).sin() + 0.2 * noise);
        assert_eq!(chosen(&curve, &auto), Some((Linear, ModelKind::Network)));
        // A third of the rows is far above the others, and nothing says which.
        let split = rows(|x, noise| {
            let jump = if noise > 0.44 { 4.0 } else { 0.0 };
            5.0 + (3.0 * x).sin() + jump + 0.1 * (7.0 * noise).sin()
        });
        let (scale, model) = chosen(&split, &auto).unwrap();
        assert_eq!(model, ModelKind::Mixture, "{scale}");
        // SLANG has not been tried with it.
        let mut trained = config("budget = 0.01");
        trained.data.target_scale = Linear;
        assert_ne!(chosen(&split, &trained).unwrap().1, ModelKind::Mixture);
    }

    #[test]
    fn a_linear_model_is_chosen_if_it_is_better_by_two_standard_errors() {
        use TargetScaleName::{Linear, Log};
        // Of 100 rows, half are better by 1 + gain, and half worse by 1 − gain: the mean has a standard error of .1.
        let choice = |gain: f64| {
            let candidates = [
                (Linear, ModelKind::Network),
                (Log, ModelKind::Network),
                (Linear, ModelKind::Mixture),
                (Linear, ModelKind::Linear),
            ];
            let scored = candidates.map(|(target_scale, model)| {
                let candidate = Candidate {
                    target_scale,
                    model,
                };
                let cost = |row: usize| match (model, row % 2) {
                    (ModelKind::Network, _) => 0.0,
                    (ModelKind::Mixture, 0) => 1.0,
                    (ModelKind::Mixture, _) => -1.0,
                    (ModelKind::Linear, 0) => 1.0 - gain,
                    (ModelKind::Linear, _) => -1.0 - gain,
                };
                (candidate, (0..100).map(cost).collect())
            });
            ModelChoice::among(&scored)
        };
        assert_eq!(choice(0.15).model, ModelKind::Network);
        let choice = choice(0.25);
        let mut settled = config("");
        choice.apply(&mut settled);
        assert_eq!(settled.data.target_scale, Linear);
        assert_eq!(settled.fit.model, Some(linear()));
        let text = choice.to_string();
        assert!(text.starts_with("a linear model, by the NLL"), "{text}");
        assert!(text.contains("a network of the logarithm "), "{text}");
    }

    #[test]
    fn a_linear_model_that_is_not_solved_within_seconds_is_no_candidate() {
        let columns = (0..1100).map(|column| {
            let values = (0..ROWS).map(|row| ((row * (column + 3)) % 17) as f64);
            Column::numbers(format!("x{column}"), values.collect())
        });
        let targets = Column::numbers("y", normals(1).collect());
        let columns = columns.chain([targets]).collect();
        let wide = SplitTable {
            table: Arc::new(Table::new(columns).unwrap()),
            train: (0..ROWS).collect(),
            validation: Vec::new(),
        };
        assert_eq!(candidates(&wide, &config("")).unwrap().len(), 3);
        let (_, model) = chosen(&wide, &config("")).unwrap();
        assert_ne!(model, ModelKind::Linear);
    }

    #[test]
    fn what_is_given_is_not_chosen() {
        let line = rows(|x, noise| 20.0 + 2.0 * x + 0.5 * noise);
        let open = |text: &str| candidates(&line, &config(text)).unwrap().len();
        assert_eq!(open(""), 6);
        assert_eq!(open("method = 'vifa'"), 2);
        assert_eq!(open("model = 'mlp:5'"), 4);
        assert_eq!(open("likelihood = 'heteroscedastic'"), 2);
        assert_eq!(open("noise_precision = 2.0\nmodel = 'linear'"), 1);
        assert_eq!(open("prior = 'gp:rbf'\nmodel = 'mlp:5'"), 1);
        let mut given = config("");
        given.data.target_scale = TargetScaleName::Log;
        assert_eq!(candidates(&line, &given).unwrap().len(), 3);
        let with_zero = rows(|x, _| (x + 2.0).max(0.0));
        assert_eq!(candidates(&with_zero, &config("")).unwrap().len(), 3);
        let grades = rows(|x, noise| (x + noise).round());
        assert_eq!(candidates(&grades, &config("")).unwrap().len(), 2);
        let given = config("model = 'mlp:5'\nlikelihood = 'gaussian'");
        assert_eq!(chosen(&with_zero, &given), None);
    }
}
