//! Selective prediction: the gain from referring uncertain rows, and a threshold with a guarantee.
//!
//! `cargo run -p burn-bayes-eval --example selective_prediction`
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod simulation;

use burn_bayes_eval::{
    DrawProbabilities, EvalError, LabelledProbabilities, RiskCoverage, SelectiveBounds,
    model_disagreement, predictive_entropy, referral_table, uniforms, zero_one_losses,
};

use crate::simulation::{CLASSES, DRAWS, simulate};

fn main() -> Result<(), EvalError> {
    let rows = 4000;
    let (validation, test) = (simulate(rows, 1), simulate(rows, 2));

    // ANCHOR: uncertainty
    let draws = DrawProbabilities::from_logits(&test.logits, DRAWS, rows, CLASSES)?;
    let average = draws.average();
    let labelled = LabelledProbabilities::new(&average, &test.labels)?;
    let entropy = predictive_entropy(&average); // in nats, high meaning unsure
    // ANCHOR_END: uncertainty

    // ANCHOR: referral
    println!("kept   accuracy  balanced  macro F1  AUROC");
    for row in referral_table(&labelled, &entropy, &[1.0, 0.9, 0.8, 0.7, 0.6, 0.5])? {
        println!(
            "{:>4.0} %  {:.3}     {:.3}     {:.3}     {:.3}",
            100.0 * row.kept_fraction,
            row.accuracy,
            row.balanced_accuracy,
            row.macro_f1,
            row.auroc.unwrap_or(f64::NAN), // a class has no rows among the kept
        );
    }
    // ANCHOR_END: referral

    // ANCHOR: curve
    let losses = zero_one_losses(&labelled);
    let scores = [
        ("predictive entropy", entropy.clone()),
        ("model disagreement", model_disagreement(&draws)),
        ("a random order", uniforms(rows, 3)),
    ];
    println!("\n{:<20}AURC    E-AURC  AUGRC", "");
    for (name, uncertainty) in scores {
        let curve = RiskCoverage::new(&uncertainty, &losses)?;
        let (aurc, excess, augrc) = (curve.aurc(), curve.excess_aurc(), curve.augrc());
        println!("{name:<20}{aurc:.4}  {excess:.4}  {augrc:.4}");
    }
    // ANCHOR_END: curve

    // ANCHOR: threshold
    let known = DrawProbabilities::from_logits(&validation.logits, DRAWS, rows, CLASSES)?;
    let known = known.average();
    let known_entropy = predictive_entropy(&known);
    let known = LabelledProbabilities::new(&known, &validation.labels)?;
    // 21 thresholds up to the maximum entropy, chosen without looking at the rows.
    let candidates: Vec<f64> = (0..=20)
        .map(|step| f64::from(step) / 20.0 * (CLASSES as f64).ln())
        .collect();
    let bounds =
        SelectiveBounds::exact(&known_entropy, &zero_one_losses(&known), &candidates, 0.95)?;
    let chosen = bounds.coverage_at_risk(0.05)?;
    // ANCHOR_END: threshold

    let Some(chosen) = chosen else {
        println!("\nno candidate is known to be wrong in at most 5 % of the kept rows");
        return Ok(());
    };
    println!(
        "\nkeep entropies up to {:.3}: wrong in {:.3} of the validation rows, {:.3} at most; keeps {:.3}, {:.3} at least",
        chosen.threshold,
        chosen.risk.unwrap_or(f64::NAN),
        chosen.risk_upper,
        chosen.coverage,
        chosen.coverage_lower,
    );
    let kept = entropy
        .iter()
        .zip(&losses)
        .filter(|(entropy, _)| **entropy <= chosen.threshold);
    let kept: Vec<f64> = kept.map(|(_, loss)| *loss).collect();
    println!(
        "on the test rows: wrong in {:.3}, keeps {:.3}",
        kept.iter().sum::<f64>() / kept.len() as f64,
        kept.len() as f64 / rows as f64,
    );
    Ok(())
}
