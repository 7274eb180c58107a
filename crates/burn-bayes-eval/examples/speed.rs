//! The time of scores on a million rows with ten classes and fifty draws, on two threads.
//!
//! `cargo run --release -p burn-bayes-eval --example speed`
//!
//! The draws (4 GB as double precision) are made in chunks and streamed, so memory stays far below
//! them. The time includes the softmax, and not the random numbers.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::thread;
use std::time::{Duration, Instant};

use burn_bayes_eval::{
    BinaryScores, ClassProbabilities, ClassificationTotals, ConformalSets, DrawProbabilities,
    EvalError, HeldOut, LabelledProbabilities, RankingTotals, ReliabilityDiagram, RiskCoverage,
    SetScore, Temperature, adaptive_calibration_error, auroc, average_precision, brier,
    classwise_calibration_error, nll, predictive_entropy, smooth_calibration_error,
    top_label_calibration_error, uniforms, zero_one_losses,
};

const ROWS: usize = 1_000_000;
const CHUNK: usize = 2_000;
const CLASSES: usize = 10;
const DRAWS: usize = 50;
const THREADS: usize = 2;

fn main() -> Result<(), EvalError> {
    println!("{ROWS} rows, {CLASSES} classes, {DRAWS} draws, {THREADS} threads");
    let start = Instant::now();
    let workers: Vec<_> = (0..THREADS)
        .map(|worker| thread::spawn(move || streamed(worker)))
        .collect();
    let mut parts = Vec::new();
    for worker in workers {
        match worker.join() {
            Ok(part) => parts.push(part?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    let elapsed = start.elapsed();
    let making = parts.iter().map(|part| part.2).max().unwrap_or_default();
    let mut parts = parts.into_iter();
    let Some((mut totals, mut ranking, _)) = parts.next() else {
        return Ok(());
    };
    for (more, more_ranking, _) in parts {
        totals.merge(&more)?;
        ranking.merge(&more_ranking)?;
    }
    let scores = totals.scores()?;
    println!(
        "all streamed scores     {:7.3} s",
        (elapsed - making).as_secs_f64()
    );
    println!(
        "  NLL {:.4}, Brier {:.4}, ECE {:.4}, mean IoU {:.4}, AUROC of the entropy {:.4}",
        scores.nll,
        scores.brier,
        scores.reliability.expected_calibration_error(),
        scores.confusion.mean_intersection_over_union(),
        ranking.auroc()?.estimate,
    );

    println!("\nof the average over draws, on one thread:");
    let (logits, labels) = chunk(ROWS, 1, 77);
    let average = ClassProbabilities::from_logits(&logits, ROWS, CLASSES)?;
    let labelled = LabelledProbabilities::new(&average, &labels)?;
    let losses = zero_one_losses(&labelled);
    let wrong: Vec<bool> = losses.iter().map(|loss| *loss > 0.0).collect();
    let entropy = predictive_entropy(&average);
    time("check of the table", || {
        ClassProbabilities::new(average.values(), ROWS, CLASSES).map_or(0.0, |t| t.row(0)[0])
    });
    time("NLL", || nll(&labelled));
    time("Brier", || brier(&labelled));
    time("entropy", || predictive_entropy(&average)[0]);
    time("ECE", || {
        let diagram = ReliabilityDiagram::equal_width(&labelled, 15);
        diagram.map_or(f64::NAN, |diagram| diagram.expected_calibration_error())
    });
    time("ECE, equal mass", || {
        let diagram = ReliabilityDiagram::equal_mass(&labelled, 15);
        diagram.map_or(f64::NAN, |diagram| diagram.expected_calibration_error())
    });
    time("classwise ECE", || {
        classwise_calibration_error(&labelled, 15).unwrap_or(f64::NAN)
    });
    time("ACE", || {
        adaptive_calibration_error(&labelled, 15).unwrap_or(f64::NAN)
    });
    time("top-label ECE", || {
        top_label_calibration_error(&labelled, 15).unwrap_or(f64::NAN)
    });
    time("smECE", || smooth_calibration_error(&labelled));
    time("AUROC", || {
        BinaryScores::new(&entropy, &wrong).map_or(f64::NAN, |s| auroc(&s))
    });
    time("AUPR", || {
        BinaryScores::new(&entropy, &wrong).map_or(f64::NAN, |s| average_precision(&s))
    });
    time("AURC", || {
        RiskCoverage::new(&entropy, &losses).map_or(f64::NAN, |c| c.aurc())
    });
    time("temperature", || {
        Temperature::fit(&HeldOut::for_new_rows(labelled)).map_or(f64::NAN, |t| t.value())
    });
    time("APS", || {
        let conformal = ConformalSets::calibrate(&labelled, 0.9, SetScore::Aps);
        conformal
            .and_then(|c| c.sets(&average))
            .map_or(f64::NAN, |sets| sets.mean_size())
    });
    Ok(())
}

/// The rows of one thread, and the time that random numbers took.
fn streamed(worker: usize) -> Result<(ClassificationTotals, RankingTotals, Duration), EvalError> {
    let mut totals = ClassificationTotals::new(CLASSES, 15)?;
    let mut ranking = RankingTotals::new(0.0, (CLASSES as f64).ln(), 10_000)?;
    let mut making = Duration::ZERO;
    for index in (worker..ROWS / CHUNK).step_by(THREADS) {
        let start = Instant::now();
        let (logits, labels) = chunk(CHUNK, DRAWS, index as u64);
        making += start.elapsed();
        let draws = DrawProbabilities::from_logits(&logits, DRAWS, CHUNK, CLASSES)?;
        totals.add(&draws, &labels)?;
        let average = draws.average();
        let predicted = average.predicted_classes();
        let wrong: Vec<bool> = predicted.iter().zip(&labels).map(|(a, b)| a != b).collect();
        ranking.add(&predictive_entropy(&average), &wrong)?;
    }
    Ok((totals, ranking, making))
}

/// Logits of all draws and labels, from a seed.
fn chunk(rows: usize, draws: usize, seed: u64) -> (Vec<f64>, Vec<usize>) {
    let centres = uniforms(rows * CLASSES, seed);
    let mut logits = uniforms(draws * rows * CLASSES, seed ^ 1 << 40);
    for table in logits.chunks_exact_mut(rows * CLASSES) {
        table
            .iter_mut()
            .zip(&centres)
            .for_each(|(z, centre)| *z = 2.0 * *z + 8.0 * centre);
    }
    let label = |row: &[f64]| {
        let largest = row.iter().copied().fold(0.0, f64::max);
        row.iter().position(|z| *z > 0.9 * largest).unwrap_or(0)
    };
    let labels = centres.chunks_exact(CLASSES).map(label).collect();
    (logits, labels)
}

/// Prints the best of three times, since other programs may run.
fn time(name: &str, score: impl Fn() -> f64) {
    let once = || {
        let start = Instant::now();
        let value = score();
        (start.elapsed().as_secs_f64(), value)
    };
    let times = [once(), once(), once()];
    let best = times
        .iter()
        .map(|time| time.0)
        .fold(f64::INFINITY, f64::min);
    println!("{name:<22}  {best:7.3} s   {:.4}", times[0].1);
}
