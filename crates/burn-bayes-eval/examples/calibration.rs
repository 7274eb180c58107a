//! Calibration of a classifier: measurement, temperature scaling, and conformal sets with
//! guaranteed coverage.
//!
//! `cargo run -p burn-bayes-eval --example calibration`
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod simulation;

use burn_bayes_eval::{
    Bootstrap, ClassProbabilities, ConformalSets, DrawProbabilities, EvalError, HeldOut,
    LabelledProbabilities, PairedLosses, ReliabilityDiagram, SetScore, Temperature, brier,
    classwise_calibration_error, log_losses, nll,
};

use crate::simulation::{CLASSES, DRAWS, Simulation, simulate};

fn main() -> Result<(), EvalError> {
    let rows = 4000;
    let (validation, test) = (simulate(rows, 1), simulate(rows, 2));
    let known = average(&validation)?;
    let known = LabelledProbabilities::new(&known, &validation.labels)?;
    let raw = average(&test)?;
    let labelled = LabelledProbabilities::new(&raw, &test.labels)?;

    // ANCHOR: diagram
    let diagram = ReliabilityDiagram::equal_mass(&labelled, 10)?;
    println!("rows  confidence  accuracy");
    for bin in diagram.bins() {
        if let (Some(confidence), Some(accuracy)) = (bin.mean_confidence, bin.accuracy) {
            println!("{:>4}  {confidence:.3}       {accuracy:.3}", bin.count);
        }
    }
    // ANCHOR_END: diagram

    // ANCHOR: temperature
    // Identifiers of rows in a common table, or of the patients they come from.
    let validation_ids: Vec<usize> = (0..rows).collect();
    let test_ids: Vec<usize> = (rows..2 * rows).collect();
    let held_out = HeldOut::new(known, &validation_ids, &test_ids)?;
    let temperature = Temperature::fit(&held_out)?; // of validation rows, never of training rows
    let scaled = temperature.apply(&raw);
    let rescored = LabelledProbabilities::new(&scaled, &test.labels)?;
    // ANCHOR_END: temperature
    println!("\ntemperature {:.3}", temperature.value());
    println!("          NLL     Brier   ECE     MCE     classwise ECE");
    report("raw", &labelled)?;
    report("scaled", &rescored)?;

    // ANCHOR: difference
    let paired = PairedLosses::new(&log_losses(&labelled), &log_losses(&rescored))?;
    let bootstrap = Bootstrap::of_mean(paired.differences(), 2000, 7)?;
    let interval = bootstrap.bca_interval(0.95)?;
    // ANCHOR_END: difference
    println!(
        "\nthe NLL falls by {:.4}, between {:.4} and {:.4} in 95 of 100 cases",
        bootstrap.estimate(),
        interval.lower,
        interval.upper
    );

    // ANCHOR: conformal
    let level = 0.9;
    let lac = ConformalSets::calibrate(&known, level, SetScore::Lac)?.sets(&raw)?;
    let aps = ConformalSets::calibrate(&known, level, SetScore::Aps)?.sets(&raw)?;
    // ANCHOR_END: conformal
    println!("\nsets at {level}    coverage  mean size");
    for (name, sets) in [("LAC", lac), ("APS", aps)] {
        let (coverage, size) = (sets.coverage(&test.labels)?, sets.mean_size());
        println!("{name:<15}{coverage:.3}     {size:.3}");
    }
    Ok(())
}

/// The average over draws, which is the final prediction and therefore the one to calibrate.
fn average(simulation: &Simulation) -> Result<ClassProbabilities<'static>, EvalError> {
    let rows = simulation.labels.len();
    let draws = DrawProbabilities::from_logits(&simulation.logits, DRAWS, rows, CLASSES)?;
    Ok(draws.average())
}

fn report(name: &str, labelled: &LabelledProbabilities<'_>) -> Result<(), EvalError> {
    // ANCHOR: scores
    let diagram = ReliabilityDiagram::equal_width(labelled, 15)?;
    let (likelihood, squares) = (nll(labelled), brier(labelled));
    let expected = diagram.expected_calibration_error();
    let maximum = diagram.maximum_calibration_error();
    let classwise = classwise_calibration_error(labelled, 15)?;
    // ANCHOR_END: scores
    println!(
        "{name:<10}{likelihood:.4}  {squares:.4}  {expected:.4}  {maximum:.4}  {classwise:.4}"
    );
    Ok(())
}
