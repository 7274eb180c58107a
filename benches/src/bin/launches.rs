//! Counts the kernels that one training step launches on a GPU, and times the step, for plain training and for several
//! methods.
//!
//! ```text
//! cargo run --profile bench -p burn-bayes-benches --features cuda --bin launches -- mlp kernels
//! ```
#![allow(clippy::print_stdout, reason = "a program's report")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use burn::cubecl::config::{TypeNameFormatLevel, type_name_format};
use burn::cubecl::logging::{LaunchObservation, LaunchObserver};
use burn_bayes_benches::{Case, Holder, wait};

/// Steps before anything is counted: kernels are compiled and chosen in them.
const WARM: usize = 20;
/// Steps that are counted.
const COUNTED: usize = 10;
/// Steps that are timed, without being counted.
const TIMED: usize = 50;

fn main() -> Result<(), String> {
    let mut cases = Vec::new();
    let mut lists_kernels = false;
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "kernels" => lists_kernels = true,
            word => {
                cases.push(Case::named(word).ok_or_else(|| {
                    format!("`{word}`: use small, mlp, resnet32, resnet64, kernels")
                })?)
            }
        }
    }
    if cases.is_empty() {
        cases = vec![Case::Small, Case::Mlp, Case::ResNet32];
    }
    for case in cases {
        println!("\n{:<40} {:>9} {:>9}", case.name(), "launches", "ms");
        for variant in case.every_method() {
            let mut stepper = case.stepper(variant, Holder::Owner);
            (0..WARM).for_each(|_| stepper.step());
            wait();
            let start = Instant::now();
            (0..TIMED).for_each(|_| stepper.step());
            wait();
            let milliseconds = 1e3 * start.elapsed().as_secs_f64() / TIMED as f64;
            let launches = Arc::new(Launches::default());
            let watching = LaunchObservation::new(launches.clone());
            (0..COUNTED).for_each(|_| stepper.step());
            wait();
            drop(watching);
            let counts = launches.0.lock().unwrap_or_else(PoisonError::into_inner);
            let all: usize = counts.values().sum();
            println!(
                "{:<40} {:>9.1} {milliseconds:>9.3}",
                variant.to_string(),
                all as f64 / COUNTED as f64
            );
            if lists_kernels {
                for (kernel, count) in counts.iter() {
                    let name = type_name_format(kernel, TypeNameFormatLevel::Short);
                    println!("    {:>6.1} {name}", *count as f64 / COUNTED as f64);
                }
            }
        }
    }
    Ok(())
}

/// How often each kernel was launched.
#[derive(Default)]
struct Launches(Mutex<BTreeMap<&'static str, usize>>);

impl LaunchObserver for Launches {
    fn launched(&self, kernel: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(kernel).or_default() += 1;
    }
}
