//! Random small models and losses: every result of a recording is correct or refused.
//!
//! `BURN_BAYES_GRAMMAR_CASES` sets the total number of cases, and `BURN_BAYES_GRAMMAR_SEED` the first seed of
//! each family. GPUs are too slow for thousands of small operations: there `cargo xtask test` skips these
//! tests unless a number of cases is set.

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

/// All families.
const CASES: usize = 2000;

const VARIABLES: [&str; 2] = ["BURN_BAYES_GRAMMAR_CASES", "BURN_BAYES_GRAMMAR_SEED"];

fn variable(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {text}, no number")),
        Err(_) => default,
    }
}

fn programs(family: Family) -> impl Iterator<Item = Program> {
    let [cases, first] = VARIABLES;
    let cases = family.cases(variable(cases, CASES));
    let first = variable(first, 0) as u64;
    (first..first + cases as u64).map(move |seed| draw::program(family, seed))
}

#[track_caller]
fn all_right(family: Family) {
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
    // Other or fewer cases may have other shares.
    if VARIABLES
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        return;
    }
    let is_recorded = |(_, report): &&Case| report.answer == Answer::Graph;
    let recorded = cases.iter().filter(is_recorded).count();
    let share = family.share();
    assert!(
        recorded * 100 >= all * share,
        "{family:?}: the graph alone answers {recorded} of {all} cases, expected {share} %"
    );
}

#[test]
fn layers() {
    all_right(Family::Layers);
}

#[test]
fn products_with_parameters() {
    all_right(Family::Products);
}

#[test]
fn elementwise_operations() {
    all_right(Family::Elementwise);
}

#[test]
fn changes_of_shape() {
    all_right(Family::Shapes);
}

#[test]
fn derived_weights_and_fields() {
    all_right(Family::Derived);
}

#[test]
fn lookups_by_integers() {
    all_right(Family::Integers);
}

#[test]
fn stopped_gradients() {
    all_right(Family::Stopped);
}

#[test]
fn reads_on_the_host() {
    all_right(Family::Host);
}

#[test]
fn half_of_all_cases_are_for_the_graph() {
    let percent = |family: Family| family.cases(CASES) * family.share();
    let recorded: usize = Family::ALL.into_iter().map(percent).sum();
    assert!(
        recorded >= CASES * 50,
        "{recorded} of {} percent",
        CASES * 100
    );
}

#[test]
fn every_feature_is_in_two_percent_of_the_cases() {
    let mut counts: BTreeMap<Feature, usize> = BTreeMap::new();
    for family in Family::ALL {
        let programs = (0..family.cases(CASES) as u64).map(|seed| draw::program(family, seed));
        for feature in programs.flat_map(|program| program.features) {
            *counts.entry(feature).or_default() += 1;
        }
    }
    let losses = [
        Feature::SquaredError,
        Feature::CrossEntropy,
        Feature::MeanLoss,
    ];
    let all = Family::ALL.iter().flat_map(|family| family.features());
    for feature in all.chain(&losses) {
        let count = counts.get(feature).copied().unwrap_or(0);
        assert!(count * 50 >= CASES, "{feature:?} is in {count} cases");
    }
}
