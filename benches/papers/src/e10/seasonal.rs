//! A seasonal series by the program: extrapolation with a periodic prior, and with one over the weights.

use std::f64::consts::TAU;

use burn_bayes::Noise;
use burn_bayes_data::{Dataset, Features, Scaling, Split, Targets};
use burn_bayes_tabular::engine::fit;
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::predict::Predictions;
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::settings::{FitSettings, Method, NetworkShape};
use serde::Serialize;

use crate::trust::HeldOut;

pub(super) const NAME: &str = "seasonal series";
/// Months of the series, and of the extrapolation.
pub(super) const KNOWN: usize = 60;
pub(super) const AHEAD: usize = 30;
const NOISE_DEVIATION: f64 = 0.8;
/// Places per month.
const FINE: usize = 4;

/// The prior of a fit.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum PriorOf {
    Functions,
    Weights,
}

impl PriorOf {
    pub(super) const ALL: [Self; 2] = [Self::Functions, Self::Weights];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Functions => "vifa, --prior gp:periodic",
            Self::Weights => "vifa, --prior weights",
        }
    }
}

/// The mean of the series in a month.
pub(super) fn season(month: f64) -> f64 {
    10.0 + 4.0 * (TAU * month / 12.0).sin() + 1.5 * (2.0 * TAU * month / 12.0).cos()
}

/// Targets of the months of the series.
pub(super) fn targets(seed: u64) -> Vec<f64> {
    let noise = Noise::new(seed).fold(3).latent(KNOWN);
    let months = (0..KNOWN).zip(noise);
    months
        .map(|(month, z)| season(month as f64) + NOISE_DEVIATION * f64::from(z))
        .collect()
}

/// The places of predictions, in months.
pub(super) fn places() -> Vec<f64> {
    let all = FINE * (KNOWN + AHEAD);
    (0..all).map(|at| at as f64 / FINE as f64).collect()
}

/// Mean and epistemic deviation of the function at the places.
pub(super) fn predicted(prior: PriorOf, seed: u64) -> Result<[Vec<f64>; 2]> {
    let months: Vec<f64> = (0..KNOWN).map(|month| month as f64).collect();
    let months = Features::new(KNOWN, 1, months)?;
    let mut all = Dataset::new(months, Targets::Real(targets(seed)))?;
    let places = places();
    let truth = places.iter().map(|&month| season(month)).collect();
    let places = Features::new(places.len(), 1, places)?;
    all.append(Dataset::new(places, Targets::Real(truth))?)?;
    let split = Split {
        train: (0..KNOWN).collect(),
        test: (KNOWN..all.rows()).collect(),
    };
    let rows = HeldOut::new(&all, &split, Scaling::Standardise)?;
    let settings = FitSettings {
        method: Method::Vifa,
        model: Some(NetworkShape { hidden: vec![100] }),
        prior: match prior {
            PriorOf::Functions => "gp:periodic".parse().map_err(TabularError::Usage)?,
            PriorOf::Weights => FitSettings::default().prior,
        },
        seed,
        ..FitSettings::default()
    };
    let model = fit(&rows.train, &settings, &mut ())?;
    let Predictions::Reals(found) = model.predict(&rows.test, settings.draws)? else {
        return Err(TabularError::Data("the targets are no numbers".into()));
    };
    let mixture = found.checked()?;
    let variances = mixture.variance_between_draws().into_iter();
    Ok([mixture.mean(), variances.map(f64::sqrt).collect()])
}

/// The RMSE against the mean of the series, among the known months and after them.
pub(super) fn measured(prior: PriorOf, seed: u64, names: [&str; 2]) -> Result<Measures> {
    let [means, _] = predicted(prior, seed)?;
    let places = places();
    let error = |is_known: bool| {
        let pairs = places.iter().zip(&means);
        let squares = pairs
            .filter(|(month, _)| (**month < KNOWN as f64) == is_known)
            .map(|(month, mean)| (mean - season(*month)).powi(2));
        let squares: Vec<f64> = squares.collect();
        (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
    };
    let [inside, outside] = names;
    Ok([(inside, error(true)), (outside, error(false))]
        .map(|(name, value)| (name.to_owned(), value))
        .into())
}
