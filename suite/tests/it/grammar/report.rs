//! The printed report: programs that fail, and how the others were answered.
#![expect(clippy::print_stdout, reason = "a report is there to be read")]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::check::{Answer, Report};
use super::features::Family;
use super::program::Program;

/// A program and the library's answers.
pub(crate) type Case<'a> = (&'a Arc<Program>, Report);

/// The programs that fail, with the reasons.
pub(crate) fn print_failures(family: Family, cases: &[Case]) {
    for (program, report) in cases {
        if report.failures.is_empty() {
            continue;
        }
        println!("{family:?} {program}");
        println!("  answer  {:?}", report.answer);
        for failure in &report.failures {
            println!("  WRONG   {failure}");
        }
    }
}

/// How the cases were answered: all of them, and those with each feature of the family.
pub(crate) fn print_answers(family: Family, cases: &[Case]) {
    let print = |what: &str, cases: &[&Case]| {
        let mut answers: BTreeMap<Answer, usize> = BTreeMap::new();
        for (_, report) in cases {
            *answers.entry(report.answer).or_default() += 1;
        }
        let left = cases.iter().filter(|(_, report)| report.is_left).count();
        let count = cases.len();
        println!("{what}: {count} cases, {answers:?}; draws one by one: {left}");
    };
    print(&format!("{family:?}"), &cases.iter().collect::<Vec<_>>());
    for feature in family.features() {
        let with = cases
            .iter()
            .filter(|(program, _)| program.features.contains(feature));
        print(&format!("  {feature:?}"), &with.collect::<Vec<_>>());
    }
}
