//! Mixtures of several fits. A fifth of the training rows of a split chooses among settings, each fitted once to the others;
//! the members of the mixture are fitted to all training rows.

use burn_bayes_data::KFold;
use serde::Serialize;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::experiments::search::Fold;
use burn_bayes_tabular::settings::{FitSettings, LikelihoodName, Method};

use super::protocols::label;
use super::sets::Set;
use super::{NLL, measures};
use crate::experiment::{Effort, Measures};
use crate::sets::UciFolder;

/// The mixtures' names in the table.
pub(super) const MIXTURES: [&str; 3] =
    ["mixture of networks", "mixture of SWAG", "mixture of VIFA"];

/// The number of members.
const MEMBERS: usize = 10;
/// Prior precisions of which the held-out rows choose.
const PRIORS: [f64; 2] = [0.1, 1.0];
/// The share of the training rows that choose is one over this.
const FOLDS: usize = 5;

/// Everything that the result depends on, besides the data.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Mixture {
    pub(super) label: String,
    members: usize,
    candidates: Vec<FitSettings>,
}

/// All mixtures of a split.
pub(super) fn mixtures(set: &Set, effort: Effort, split: u64) -> Vec<Mixture> {
    let rows = MIXTURES
        .into_iter()
        .zip([Method::Map, Method::Swag, Method::Vifa]);
    let rows = rows.map(|(name, method)| Mixture {
        label: label(name, effort),
        members: effort.choose(MEMBERS, 3),
        candidates: candidates(set, method, effort, split),
    });
    rows.collect()
}

fn candidates(set: &Set, method: Method, effort: Effort, split: u64) -> Vec<FitSettings> {
    let likelihoods = [LikelihoodName::Gaussian, LikelihoodName::Heteroscedastic];
    let both = likelihoods.into_iter().flat_map(|likelihood| {
        PRIORS.map(|prior| FitSettings {
            method,
            epochs: Some(effort.choose(set.mixture_epochs, 40)),
            likelihood: Some(likelihood),
            prior_precision: prior.into(),
            seed: split,
            ..FitSettings::default()
        })
    });
    both.collect()
}

impl Mixture {
    pub(super) fn measure(&self, folder: &UciFolder, split: usize) -> Result<Measures> {
        let rows = folder.split(split)?;
        let kept = KFold::new(FOLDS).with_seed(split as u64);
        let inner = kept.splits(rows.train.len())?.swap_remove(0);
        let held_out = Fold::standardised(folder.dataset(), &inner.of_rows(&rows.train))?;
        let mut best: Option<(f64, usize)> = None;
        for (number, settings) in self.candidates.iter().enumerate() {
            let cost = held_out.judge(settings)?.map(|score| score.cost);
            if let Some(cost) = cost.filter(|&cost| best.is_none_or(|(least, _)| cost < least)) {
                best = Some((cost, number));
            }
        }
        let Some((cost, number)) = best else {
            return Ok(measures(None));
        };
        let fold = Fold::standardised(folder.dataset(), &rows)?;
        let mixture = FitSettings {
            members: self.members,
            ..self.candidates[number].clone()
        };
        let mut found = measures(fold.judge(&mixture)?);
        found.insert(format!("held_out_{NLL}"), cost);
        found.insert("candidate".into(), number as f64);
        Ok(found)
    }
}
