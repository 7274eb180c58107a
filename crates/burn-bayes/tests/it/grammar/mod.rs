//! Random small models and losses: everything that recordings say of them is right or refused.
//!
//! `BURN_BAYES_GRAMMAR_CASES` sets the number of cases of all families together, and
//! `BURN_BAYES_GRAMMAR_SEED` the seed of the first case of each.

mod check;
mod draw;
mod features;
mod lookups;
mod net;
mod oracle;
mod pools;
mod program;
mod random;
mod run;
mod weights;

use std::collections::BTreeMap;

use check::{Answer, checked};
use features::{Family, Feature};
use program::Program;

/// All families together.
const CASES: usize = 2000;

fn variable(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {text}, no number")),
        Err(_) => default,
    }
}

fn programs(family: Family) -> impl Iterator<Item = Program> {
    let cases = variable("BURN_BAYES_GRAMMAR_CASES", CASES).div_ceil(Family::ALL.len());
    let first = variable("BURN_BAYES_GRAMMAR_SEED", 0) as u64;
    (first..first + cases as u64).map(move |seed| draw::program(family, seed))
}

/// Checks the family's cases; at least `share` percent must be answered by the graph alone.
#[track_caller]
fn all_right(family: Family, share: usize) {
    let mut answers: BTreeMap<Answer, usize> = BTreeMap::new();
    let (mut left, mut cases, mut failed) = (0, 0, Vec::new());
    for program in programs(family) {
        let report = checked(program.clone());
        cases += 1;
        left += usize::from(report.is_left);
        *answers.entry(report.answer).or_default() += 1;
        if !report.failures.is_empty() {
            failed.push((program, report));
        }
    }
    println!("{family:?}: {cases} cases, {answers:?}, mean gradients one by one {left}");
    failed.sort_by_key(|(program, _)| program.size());
    for (program, report) in &failed {
        println!("{family:?} {program}");
        println!("  answer  {:?}", report.answer);
        for failure in &report.failures {
            println!("  WRONG   {failure}");
        }
    }
    assert!(
        failed.is_empty(),
        "{family:?}: {} of {cases} cases are wrong",
        failed.len()
    );
    let recorded = answers.get(&Answer::Graph).copied().unwrap_or(0);
    assert!(
        recorded * 100 >= cases * share,
        "{family:?}: the graph alone answers {recorded} of {cases} cases, expected {share} %"
    );
}

#[test]
fn layers() {
    all_right(Family::Layers, 60);
}

#[test]
fn products_with_parameters() {
    all_right(Family::Products, 60);
}

#[test]
fn elementwise_operations() {
    all_right(Family::Elementwise, 60);
}

#[test]
fn changes_of_shape() {
    all_right(Family::Shapes, 60);
}

#[test]
fn derived_weights_and_fields() {
    all_right(Family::Derived, 40);
}

#[test]
fn lookups_by_integers() {
    all_right(Family::Integers, 60);
}

#[test]
fn stopped_gradients() {
    all_right(Family::Stopped, 60);
}

#[test]
fn reads_on_the_host() {
    all_right(Family::Host, 0);
}

#[test]
fn every_feature_is_in_two_percent_of_the_cases() {
    let mut counts: BTreeMap<Feature, usize> = BTreeMap::new();
    let mut cases = 0;
    for program in Family::ALL.into_iter().flat_map(programs) {
        cases += 1;
        for feature in program.features {
            *counts.entry(feature).or_default() += 1;
        }
    }
    println!("{counts:?}");
    let all = Family::ALL.iter().flat_map(|family| family.features());
    for feature in all.chain(&[
        Feature::SquaredError,
        Feature::CrossEntropy,
        Feature::MeanLoss,
    ]) {
        let count = counts.get(feature).copied().unwrap_or(0);
        assert!(
            count * 50 >= cases,
            "{feature:?} is in {count} of {cases} cases"
        );
    }
}
