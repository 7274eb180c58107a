//! Plain models of the training rows, beside which a fit is judged: a constant, a linear model, a random forest, a small
//! network beside a linear model, and the maximum a posteriori fit of the same network.
//!
//! The constant and the linear model are kept in the folder of a run, so that new rows can be scored by them without
//! the training rows.

use burn_bayes_data::{Features, Targets};

use crate::engine::{
    TrainedModel, fit, is_quickly_solved, is_solved_directly, likelihood_name, weights,
};
use crate::error::{Result, TabularError};
use crate::forest::Forest;
use crate::predict::Predictions;
use crate::rows::{Target, TrainingSet, Units};
use crate::scores::{Baseline, BaselineModel, BaselineScores, Constant, row_costs};
use crate::settings::{FitSettings, Method, NetworkShape, PlainName, PriorName, PriorPrecision};

/// The plain models beside a fit.
#[derive(Debug)]
pub(crate) struct PlainModels {
    pub(crate) target: Target,
    pub(crate) constant: Constant,
    /// Ridge, negative binomial or logistic regression; `None` if the fit is one itself, with uncertainty.
    pub(crate) linear: Option<PlainFit>,
    /// `None` of a fit that was read from its folder.
    pub(crate) forest: Option<PlainFit>,
    /// A short chain of a small network; `None` unless the fit is a linear model.
    pub(crate) network: Option<PlainFit>,
    /// `None` if it was not requested.
    pub(crate) map: Option<PlainFit>,
}

/// A plain model that is fitted, or the reason why it is not.
#[derive(Debug)]
pub(crate) enum PlainFit {
    Fitted(Box<TrainedModel>),
    Forest(Box<Forest>),
    Absent(String),
}

impl PlainModels {
    /// Fits the constant and the linear model to the training rows of a fit with these settings.
    ///
    /// # Errors
    /// If a setting is invalid for these rows.
    pub(crate) fn fit(train: &TrainingSet, settings: &FitSettings) -> Result<Self> {
        // A linear model that is solved directly, or one of counts or several targets, is this baseline, with uncertainty.
        let is_linear = is_trained(train.target()) && settings.is_linear();
        let linear = match is_linear || is_solved_directly(train, settings) {
            true => None,
            false => Some(PlainFit::linear(train, settings)?),
        };
        Ok(Self {
            target: train.target().clone(),
            constant: Constant::of(train)?,
            linear,
            forest: None,
            network: None,
            map: None,
        })
    }

    /// Adds those that are only for the held-out rows of the fit: the forest, the network, and the maximum a posteriori fit,
    /// if the settings ask for it.
    ///
    /// # Errors
    /// If a setting is invalid for these rows.
    pub(crate) fn fit_others(&mut self, train: &TrainingSet, settings: &FitSettings) -> Result<()> {
        self.forest = Some(PlainFit::forest(train, settings)?);
        if settings.is_linear() {
            let network = network(settings);
            let count = weights(&network, train.width(), train.target())? as f64;
            let products = count * (train.rows() * network.epochs(train.rows())) as f64;
            self.network = Some(match products <= MOST_PRODUCTS {
                true => PlainFit::of(train, &network)?,
                false => {
                    let reason = "it has too many weights or rows to be sampled within seconds";
                    PlainFit::Absent(reason.into())
                }
            });
        }
        if settings.against_map && settings.method != Method::Map {
            self.map = Some(PlainFit::of(train, &map(settings, train.target()))?);
        }
        Ok(())
    }

    /// The scores of these models beside a fit with these predictions of rows.
    ///
    /// # Errors
    /// If predictions and targets do not match.
    pub(crate) fn beside(
        &self,
        predictions: &Predictions,
        features: &Features,
        targets: &Targets,
        units: &Units,
    ) -> Result<Vec<Baseline>> {
        let costs = row_costs(predictions, targets)?;
        let scored = |other: &Predictions| BaselineScores::of(&costs, other, targets, units);
        let (constant, linear) = match predictions {
            Predictions::Reals(_) => ("the mean and deviation of the targets", "ridge regression"),
            Predictions::Counts(_) => ("the mean count", "negative binomial regression"),
            Predictions::Classes(_) => ("the class frequencies", "logistic regression"),
            Predictions::Several(_) => ("a constant for each target", "a linear model"),
        };
        let mut baselines = vec![Baseline {
            model: BaselineModel::Constant,
            name: constant,
            scores: Some(scored(&self.constant(features))?),
            absent: None,
        }];
        for (model, name, fit) in [
            (BaselineModel::Linear, linear, &self.linear),
            (BaselineModel::Forest, "a random forest", &self.forest),
            (BaselineModel::Network, "a small network", &self.network),
            (BaselineModel::Map, "map", &self.map),
        ] {
            let Some(fit) = fit else { continue };
            let (scores, absent) = match fit.predict(features)? {
                Ok(predictions) => (Some(scored(&predictions)?), None),
                Err(reason) => (None, Some(reason)),
            };
            baselines.push(Baseline {
                model,
                name,
                scores,
                absent,
            });
        }
        Ok(baselines)
    }

    /// The constant prediction of these rows.
    pub(crate) fn constant(&self, rows: &Features) -> Predictions {
        self.constant.predictions(&self.target, rows)
    }
}

/// The predictions of several groups of rows by a plain model of the training rows of a fit; `None` if it takes more than
/// seconds.
///
/// # Errors
/// If a setting is invalid for these rows.
pub(crate) fn predictions(
    model: PlainName,
    train: &TrainingSet,
    settings: &FitSettings,
    groups: &[&Features],
) -> Result<Option<Vec<Predictions>>> {
    let fit = match model {
        PlainName::Constant => {
            let constant = Constant::of(train)?;
            let of_rows = |rows: &&Features| constant.predictions(train.target(), rows);
            return Ok(Some(groups.iter().map(of_rows).collect()));
        }
        PlainName::Linear => PlainFit::linear(train, settings)?,
        PlainName::Forest => PlainFit::forest(train, settings)?,
    };
    let predictions = groups.iter().map(|rows| Ok(fit.predict(rows)?.ok()));
    predictions.collect()
}

/// Whether a linear model of the target is trained, and not solved directly.
fn is_trained(target: &Target) -> bool {
    matches!(target, Target::Counts { .. } | Target::Several(_))
}

impl PlainFit {
    fn linear(train: &TrainingSet, settings: &FitSettings) -> Result<Self> {
        let linear = linear(settings);
        let is_quick = is_quickly_solved(train, &linear)
            || is_trained(train.target()) && is_quickly_trained(train, &linear);
        match is_quick {
            true => Self::of(train, &linear),
            false => {
                let reason = "it has too many weights or rows to be solved within seconds";
                Ok(Self::Absent(reason.into()))
            }
        }
    }

    fn forest(train: &TrainingSet, settings: &FitSettings) -> Result<Self> {
        let forest = Forest::fit(train, settings.seed);
        Self::or_absent(forest.map(|forest| Self::Forest(Box::new(forest))))
    }

    fn of(train: &TrainingSet, settings: &FitSettings) -> Result<Self> {
        let model = fit(train, settings, &mut ());
        Self::or_absent(model.map(|model| Self::Fitted(Box::new(model))))
    }

    /// A fit that failed for numerical reasons is absent.
    fn or_absent(fit: Result<Self>) -> Result<Self> {
        match fit {
            Err(TabularError::Numerical(reason)) => Ok(Self::Absent(reason)),
            fit => fit,
        }
    }

    /// Predictions of rows, or the reason why there are none.
    ///
    /// # Errors
    /// If the number of features differs from that in training.
    pub(crate) fn predict(&self, rows: &Features) -> Result<Result<Predictions, String>> {
        let predictions = match self {
            Self::Fitted(model) => model.predict(rows, DRAWS),
            Self::Forest(forest) => forest.predict(rows),
            Self::Absent(reason) => return Ok(Err(reason.clone())),
        };
        match predictions {
            Ok(predictions) => Ok(Ok(predictions)),
            Err(TabularError::Numerical(reason)) => Ok(Err(reason)),
            Err(failure) => Err(failure),
        }
    }
}

/// Whether the steps of a linear model that is not solved directly take seconds.
fn is_quickly_trained(train: &TrainingSet, linear: &FitSettings) -> bool {
    let numbers = (linear.epochs(train.rows()) * train.rows()) as f64 * train.width() as f64;
    linear.steps(train.rows()) <= MOST_STEPS && numbers <= MOST_NUMBERS
}

/// A step of a linear model takes some tens of microseconds.
const MOST_STEPS: usize = 100_000;
/// The number of values in all mini-batches, each read within nanoseconds.
const MOST_NUMBERS: f64 = 1e9;

/// The products of a row, a weight and an epoch that a chain makes within seconds.
const MOST_PRODUCTS: f64 = 1e10;
/// The draws of a plain model that has some.
const DRAWS: usize = 100;

/// The settings of the network beside a linear model.
fn network(settings: &FitSettings) -> FitSettings {
    FitSettings {
        method: Method::Mclmc,
        chains: 1,
        epochs: Some(1500),
        device: settings.device,
        seed: settings.seed,
        ..FitSettings::default()
    }
}

/// The settings of ridge, negative binomial or logistic regression for the rows of a fit.
pub(crate) fn linear(settings: &FitSettings) -> FitSettings {
    FitSettings {
        method: Method::Map,
        model: Some(NetworkShape { hidden: Vec::new() }),
        device: settings.device,
        seed: settings.seed,
        ..FitSettings::default()
    }
}

/// The settings of the maximum a posteriori fit beside a fit.
fn map(settings: &FitSettings, target: &Target) -> FitSettings {
    // The learning rate of an update rule says nothing about an optimiser.
    let has_optimizer = settings.without_effect("optimizer").is_none();
    FitSettings {
        method: Method::Map,
        prior: PriorName::Weights,
        // The same network as of another method's defaults.
        model: Some(settings.shape()),
        activation: Some(settings.tuned().activation),
        likelihood: Some(likelihood_name(settings, target)),
        epochs: settings.epochs.filter(|_| !settings.method.is_sampled()),
        learning_rate: settings.learning_rate.filter(|_| has_optimizer),
        prior_precision: match settings.prior_precision {
            // Only a bound on the evidence teaches it.
            PriorPrecision::Learned(_) => FitSettings::default().prior_precision,
            other => other,
        },
        ..settings.clone()
    }
}
