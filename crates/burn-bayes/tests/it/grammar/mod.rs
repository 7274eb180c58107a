//! Random small models and losses: everything that recordings say of them is right or refused.
//!
//! `BURN_BAYES_GRAMMAR_CASES` sets the number of cases of all families together, and
//! `BURN_BAYES_GRAMMAR_SEED` the seed of the first case of each.

mod check;
mod compare;
mod draw;
mod features;
mod lookups;
mod net;
mod oracle;
mod pools;
mod program;
mod quiet;
mod random;
mod report;
mod run;
mod steps;
mod weights;

use std::collections::BTreeMap;
use std::sync::Arc;

use check::{Answer, checked};
use features::{Family, Feature};
use program::Program;
use report::{Case, print_answers, print_failures};

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
    let programs: Vec<_> = programs(family).map(Arc::new).collect();
    let mut cases: Vec<_> = programs
        .iter()
        .map(|program| (program, checked(program)))
        .collect();
    // The shortest program that fails is printed first.
    cases.sort_by_key(|(program, _)| program.size());
    print_failures(family, &cases);
    print_answers(family, &cases);
    let failed = |(_, report): &&Case| !report.failures.is_empty();
    let (all, failed) = (cases.len(), cases.iter().filter(failed).count());
    assert_eq!(failed, 0, "{family:?}: so many of {all} cases are wrong");
    let is_recorded = |(_, report): &&Case| report.answer == Answer::Graph;
    let recorded = cases.iter().filter(is_recorded).count();
    assert!(
        recorded * 100 >= all * share,
        "{family:?}: the graph alone answers {recorded} of {all} cases, expected {share} %"
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
    all_right(Family::Derived, 60);
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
