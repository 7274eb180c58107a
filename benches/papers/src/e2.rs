//! E2: the posterior of a logistic regression with two weights, by VIFA, against a grid (the VIFA paper,
//! B.2, which shows a figure and no numbers).

use std::sync::Arc;

use burn_bayes::posterior::DenseGaussian;
use burn_bayes_contrib::methods::LogisticPosterior;
use burn_bayes_data::LinearModelConfig;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::experiments::jobs::{Job, Key};

use super::distances::{self, COLUMNS, COVARIANCE};
use super::experiment::{Column, Context, Experiment};
use super::findings::Finding;
use super::grid::Grid;
use super::linear_model::{Likelihood, Rows};
use super::logistic;
use super::logistic_sets;
use super::results::Results;
use super::shared::Shared;
use super::vifa_fit::{Recipe, VifaFit};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "E2",
    title: "logistic regression with two weights, the VIFA paper's section B.2",
    notes: "Against the posterior on a grid, mean ± standard error over seeds for rows, weights, order and \
            draws. The weights of a seed are those of E1. q is the approximation, p the posterior. The \
            best Gaussians are those with the best bound, by quadrature.",
    needs: &[],
    columns: &[
        Column::mean(REVERSE, "KL(q‖p)"),
        Column::mean(FORWARD, "KL(p‖q)"),
        COLUMNS[0],
        COLUMNS[1],
        COLUMNS[2],
    ],
    published: "",
    jobs,
    findings,
};

const CASE: &str = "synthetic";
const PRIOR: f64 = 0.01;
const BATCH: usize = 100;

const REVERSE: &str = "reverse_kl";
const FORWARD: &str = "kl";

const FULL: &str = "best full Gaussian";
const MEAN_FIELD: &str = "best mean-field Gaussian";
const PAPER: &str = "VIFA K=1, the paper's setting";
const OURS: &str = "VIFA K=1, ours";

/// Rows, the posterior on a grid, and the best full Gaussian.
struct Truth {
    rows: Rows,
    grid: Grid,
    full: DenseGaussian,
}

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let seeds = context.effort.choose(10, 3);
    let truths: Vec<Arc<Shared<Truth>>> = (0..seeds)
        .map(|seed| Shared::new(move || truth(seed)))
        .collect();
    let rates = [0.01, 0.0001, 0.01];
    let fits = [
        (FULL, None),
        (MEAN_FIELD, None),
        (PAPER, Some((5000, Recipe::Paper { rates }))),
        (OURS, Some((2000, Recipe::Ours { rate: 0.03 }))),
    ];
    for (method, training) in fits {
        for (seed, truth) in (0..seeds).zip(&truths) {
            let key = Key::new(CASE, method, seed);
            let fit = training.map(|(epochs, recipe)| VifaFit {
                rank: 1,
                batch: BATCH,
                epochs,
                recipe,
                seed,
            });
            let truth = truth.clone();
            let work = move || {
                let Truth { rows, grid, full } = &*truth.get()?;
                let found = match fit {
                    Some(fit) => fit.posterior(rows, PRIOR, Likelihood::Logistic)?,
                    None if method == FULL => full.clone(),
                    None => logistic::posterior(rows, PRIOR, LogisticPosterior::Diagonal)?,
                };
                let bound = rows.len() as f64 * logistic::bound(rows, &found, PRIOR)?;
                let mut measures = distances::measures(&grid.moments()?, &found)?;
                measures.insert(REVERSE.into(), bound + grid.log_evidence());
                measures.insert(FORWARD.into(), grid.divergence_to(&found)?);
                Ok(measures)
            };
            jobs.push(Job::new(key, &(PRIOR, fit), work)?);
        }
    }
    Ok(jobs)
}

fn truth(seed: u64) -> Result<Truth> {
    let config = LinearModelConfig {
        rows: 3000,
        ..LinearModelConfig::default()
    };
    let rows = logistic_sets::rows(&config.classification(seed)?.dataset)?;
    let full = logistic::posterior(&rows, PRIOR, LogisticPosterior::Full)?;
    Ok(Truth {
        grid: Grid::new(&rows, PRIOR, &full)?,
        rows,
        full,
    })
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let reverse = |method| results.mean(CASE, method, REVERSE);
    let full = reverse(FULL);
    vec![
        Finding::falling(
            "VIFA's covariance in the paper's setting is nearer than that of the best Gaussian without correlations",
            &[MEAN_FIELD, PAPER].map(|method| results.mean(CASE, method, COVARIANCE)),
        ),
        Finding::mostly_at_most(
            "in our setting it is within .01 nats of the best Gaussian there is",
            1.0,
            &[reverse(OURS).zip(full.map(|full| full + 0.01))],
        ),
    ]
}
