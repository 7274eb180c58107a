//! Times several variants of training one network in turns, so that other load on the machine
//! affects all of them equally: rounds of A B C A B C …. Reports the median time of each, and the
//! median over rounds of its ratio to the first.
#![allow(clippy::print_stdout, reason = "a program's report")]

use std::time::{Duration, Instant};

use crate::cases::{Case, Parts, Stepper};
use crate::training::{Holder, wait};

/// Reads the command line, times and prints.
///
/// # Errors
///
/// An unknown word on the command line.
pub fn main(allocator: &str) -> Result<(), String> {
    let mut cases = Vec::new();
    let mut holders = vec![Holder::Learner, Holder::Owner];
    let mut rounds = None;
    for word in std::env::args().skip(1) {
        match word.split_once('=').unwrap_or((&word, "")) {
            ("learner", _) => holders = vec![Holder::Learner],
            ("owner", _) => holders = vec![Holder::Owner],
            ("rounds", count) => {
                rounds = Some(count.parse().map_err(|_| format!("rounds={count}"))?);
            }
            (word, _) => cases.push(Case::named(word).ok_or_else(|| {
                format!(
                    "`{word}`: use small, mlp, resnet32, resnet64, learner, owner, rounds=<number>"
                )
            })?),
        }
    }
    if cases.is_empty() {
        cases = vec![Case::Small, Case::Mlp, Case::ResNet64];
    }
    println!("allocator: {allocator}");
    for case in cases {
        for &holder in &holders {
            measure(case, holder, rounds.unwrap_or(plan(case).rounds));
        }
    }
    Ok(())
}

struct Plan {
    rounds: usize,
    /// Number of steps of a variant in a round.
    steps: u32,
}

fn plan(case: Case) -> Plan {
    let (rounds, steps) = match case {
        Case::Small => (60, 100),
        Case::Mlp => (40, 4),
        Case::ResNet32 => (15, 1),
        Case::ResNet64 => (9, 1),
    };
    Plan { rounds, steps }
}

fn measure(case: Case, holder: Holder, rounds: usize) {
    let held = match holder {
        Holder::Learner => "the model is kept during the update, as by Burn's Learner",
        Holder::Owner => "the model is given away for the update",
    };
    println!("\n{}: {held}", case.name());
    let steps = plan(case).steps;
    let variants = case.compared();
    let mut steppers: Vec<Box<dyn Stepper>> = variants
        .iter()
        .map(|&variant| case.stepper(variant, holder))
        .collect();
    for stepper in &mut steppers {
        (0..2).for_each(|_| stepper.step());
    }
    wait();
    let mut times = vec![Vec::new(); steppers.len()];
    let mut parts = vec![Vec::new(); steppers.len()];
    for _ in 0..rounds {
        for (index, stepper) in steppers.iter_mut().enumerate() {
            let start = Instant::now();
            (0..steps).for_each(|_| stepper.step());
            wait();
            times[index].push(start.elapsed().as_secs_f64() / f64::from(steps));
        }
        for (index, stepper) in steppers.iter_mut().enumerate() {
            parts[index].extend(stepper.parts());
        }
    }
    let names: Vec<_> = variants.iter().map(ToString::to_string).collect();
    print_ratios("ms per step", &names, &times);
    println!(
        "\n{:<28} {:>9} {:>9} {:>9} {:>9} {:>9}  medians, ms",
        "of which", "draw", "write", "model", "gradient", "optimiser"
    );
    for (variant, parts) in variants.iter().zip(&parts) {
        if parts.is_empty() {
            continue;
        }
        let median = |part: fn(&Parts) -> Duration| {
            let mut values: Vec<f64> = parts.iter().map(|p| part(p).as_secs_f64()).collect();
            1e3 * quartiles(&mut values)[1]
        };
        println!(
            "{:<28} {:>9.4} {:>9.4} {:>9.4} {:>9.4} {:>9.4}",
            variant.to_string(),
            median(|parts| parts.draw),
            median(|parts| parts.write),
            median(|parts| parts.model),
            median(|parts| parts.gradient),
            median(|parts| parts.optimizer),
        );
    }
}

/// Times named functions in turns and prints their medians and their ratios to the first.
pub fn in_turns(title: &str, rounds: usize, works: &mut [(&str, &mut dyn FnMut())]) {
    println!("\n{title}");
    for (_, work) in works.iter_mut() {
        work();
    }
    wait();
    let mut times = vec![Vec::new(); works.len()];
    for _ in 0..rounds {
        for (index, (_, work)) in works.iter_mut().enumerate() {
            let start = Instant::now();
            work();
            wait();
            times[index].push(start.elapsed().as_secs_f64());
        }
    }
    let names: Vec<_> = works.iter().map(|(name, _)| (*name).to_owned()).collect();
    print_ratios("ms", &names, &times);
}

/// The median of each, and the quartiles over rounds of its ratio to the first.
fn print_ratios(unit: &str, names: &[String], times: &[Vec<f64>]) {
    println!("{:<28} {unit:>11}  ratio (quartiles)", "");
    for (name, times_of) in names.iter().zip(times) {
        let ratios = times_of.iter().zip(&times[0]);
        let mut ratios: Vec<f64> = ratios.map(|(time, first)| time / first).collect();
        let [low, ratio, high] = quartiles(&mut ratios);
        let [_, median, _] = quartiles(&mut times_of.clone());
        println!(
            "{name:<28} {:>11.4}  {ratio:.3} ({low:.3} … {high:.3})",
            1e3 * median
        );
    }
}

fn quartiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [1, 2, 3].map(|quarter| values.get(last * quarter / 4).copied().unwrap_or(f64::NAN))
}
