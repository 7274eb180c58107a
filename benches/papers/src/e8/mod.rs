//! E8: selective prediction and out-of-distribution detection on pictures, after the VIFA paper's 4.3.
//!
//! The paper's photographs of eyes cannot be had without an account. Its protocol runs on two small sets
//! of medical pictures with a small convolutional network and with its ResNet-18, and the small network tells clothing from
//! digits and from other near and far sets.

mod conclusions;
pub(crate) mod fit;
pub(crate) mod network;
mod protocols;
mod residual;
mod scores;
mod unusual;

use std::sync::Arc;

use burn_bayes_tabular::error::{Result, TabularError};

use super::experiment::{Context, Effort, Experiment, Job, Key, Measures};
use super::shared::Shared;
use crate::images::{Clothing, Parts, Pictures};
use fit::{Fit, TrainedModel};
use protocols::{CLOTHING, PLAIN, Protocol, SETS, VIFA};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "E8",
    title: "selective prediction on pictures, the VIFA paper's 4.3",
    notes: "Scores of test rows, mean ± standard error over splits; accuracy on the rows that are kept, the surest by the \
            entropy of the averaged probabilities or by the variance of the draws' probabilities. The paper's \
            eyes (APTOS) and the weights of its ResNet-18 are not here: its figures have rows of their own and \
            are no measure for ours. RetinaMNIST is referable (grade 2 and more) against not, 28×28 pixels. \
            A network of a few thousand weights starts from nothing; `ResNet-18`, with the stem for small pictures, learns \
            20 000 pictures of clothing first, then ten epochs at the library's settings and a rate of 5e-4, at which nothing is \
            searched, and its digits are 200. Splits are 50/20/30 % of all \
            pictures. In full, six settings of rate and prior are tried and the NLL of validation rows chooses; \
            in `--quick`, and for clothing against digits, nothing is searched. Training is in the paper's two \
            stages, with two draws in a step where the paper has twelve. FPR95 is the share of clothing taken for digits where 95 % of \
            the digits are found; no digit is seen before. The last rows are of a network that knows eight kinds of clothing: \
            of the two other kinds (dresses and ankle boots), which are near, and of digits, gratings and noise, which are far, \
            each set has as many pictures as the test pictures.",
    needs: &[
        "medmnist/retinamnist.npz",
        "medmnist/breastmnist.npz",
        "fashion_mnist",
        "mnist",
    ],
    columns: &scores::COLUMNS,
    // A residual network on photographs of other eyes: to be read beside our figures, not against them.
    published: include_str!("../../published/e8.csv"),
    jobs,
    findings: conclusions::findings,
};

/// Pictures by the number of a split.
type Deal = Box<dyn Fn(u64) -> Result<Parts> + Send + Sync>;

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let mut sets = residual::Sets::new();
    for set in &SETS {
        let path = context
            .data
            .join("medmnist")
            .join(format!("{}.npz", set.name));
        let threshold = set.threshold;
        let pictures = Shared::new(move || Pictures::medical(&path, threshold));
        sets.push((set.name, pictures.clone()));
        let deal: Deal = Box::new(move |seed| Parts::of_split(&*pictures.get()?, Vec::new(), seed));
        jobs.extend(cells_of(set.name, deal, Protocol::medical, context)?);
    }
    let data = context.data.clone();
    let clothing = Shared::new(move || Clothing::read(&data));
    let counts = protocols::counts(context.effort);
    jobs.extend(residual::jobs(context, sets, &clothing)?);
    let unusual = unusual::jobs(context, &clothing)?;
    let deal: Deal = Box::new(move |seed| clothing.get()?.parts(counts, seed));
    jobs.extend(cells_of(CLOTHING, deal, Protocol::clothing, context)?);
    jobs.extend(unusual);
    Ok(jobs)
}

fn cells_of(
    case: &str,
    deal: Deal,
    protocol: fn(&str, Effort, u64) -> Protocol,
    context: &Context,
) -> Result<Vec<Job>> {
    let deal = Arc::new(deal);
    let mut jobs = Vec::new();
    for method in [PLAIN, VIFA] {
        for seed in 0..context.effort.choose(5, 2) {
            let key = Key::new(case, method, seed);
            let protocol = protocol(method, context.effort, seed);
            let deal = deal.clone();
            let work = move || measure(&deal(seed)?, &protocol);
            jobs.push(Job::new(key, &protocol, work)?);
        }
    }
    Ok(jobs)
}

fn measure(parts: &Parts, protocol: &Protocol) -> Result<Measures> {
    let (fit, model) = chosen(parts, protocol)?;
    let known = model.predict(&parts.test, protocol.test_draws)?;
    let classes = &parts.test.classes;
    let mut measures = match parts.foreign.first() {
        None => scores::selective(&known, classes)?,
        Some(foreign) => {
            let foreign = model.predict(foreign, protocol.test_draws)?;
            scores::detection(&known, classes, &foreign)?
        }
    };
    measures.insert("learning_rate".into(), fit.rate);
    measures.insert("prior_precision".into(), fit.prior);
    Ok(measures)
}

/// The fit that explains the validation rows best.
fn chosen(parts: &Parts, protocol: &Protocol) -> Result<(Fit, TrainedModel)> {
    let judged = |fit: Fit| {
        let model = fit.run(&parts.train)?;
        let predicted = model.predict(&parts.valid, protocol.validation_draws)?;
        let loss = scores::loss(&predicted, &parts.valid.classes)?;
        Ok::<_, TabularError>((loss, fit, model))
    };
    let mut best = judged(protocol.base)?;
    for fit in protocol.trials() {
        let next = judged(fit)?;
        if next.0 < best.0 {
            best = next;
        }
    }
    let (_, fit, model) = best;
    Ok((fit, model))
}

#[cfg(test)]
mod needs_data {
    use burn_bayes_testing::data_folder;

    use super::*;

    #[test]
    fn a_cell_of_breast_pictures_is_the_same_again() {
        let path = data_folder().join("medmnist/breastmnist.npz");
        let parts = Parts::of_split(&Pictures::medical(&path, 1).unwrap(), Vec::new(), 0).unwrap();
        let rows = [&parts.train, &parts.valid, &parts.test].map(Pictures::rows);
        assert_eq!(rows, [390, 156, 234]);
        let mut protocol = Protocol::medical(VIFA, Effort::Quick, 0);
        protocol.base.epochs = 4;
        let found = measure(&parts, &protocol).unwrap();
        assert_eq!(found, measure(&parts, &protocol).unwrap());
        // Three of four pictures are of class 1.
        assert!(found[scores::AUROC] > 0.6, "{found:?}");
    }
}
