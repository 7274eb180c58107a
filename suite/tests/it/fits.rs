//! Every method at its defaults predicts as well as the plain network, or says that its fit should not be used.
//!
//! `BURN_BAYES_FIT_SEEDS` is the number of seeds, one if it is not set, and `BURN_BAYES_FIT_METHODS` names some of the
//! methods, separated by commas.

mod methods;
mod networks;

use burn_bayes::Result;
use burn_bayes::diagnostics::PairedDifference;

use self::methods::{Fit, METHODS, Problem};
use self::networks::Kind;

/// Fits by all methods.
#[expect(clippy::print_stdout, reason = "the table is of use to a person")]
fn compare(kind: Kind) {
    let seeds = std::env::var("BURN_BAYES_FIT_SEEDS").map_or(1, |seeds| seeds.parse().unwrap());
    let only = std::env::var("BURN_BAYES_FIT_METHODS").unwrap_or_default();
    let is_chosen = |name: &str| only.is_empty() || only.split(',').any(|one| one == name);
    let mut unsaid = Vec::new();
    for seed in 0..seeds {
        let problem = Problem::new(kind, seed);
        let plain = problem.plain();
        for (name, method) in METHODS.iter().filter(|(name, _)| is_chosen(name)) {
            let (line, is_fine) = judged(method(&problem), &plain);
            let line = format!("{kind:?} {seed} {name:<18} {line}");
            println!("{line}");
            if !is_fine {
                unsaid.push(line);
            }
        }
    }
    assert!(unsaid.is_empty(), "unsaid:\n{}", unsaid.join("\n"));
}

/// A line on a fit, and whether it is as good as plain networks, or is said not to be. Two standard errors are
/// allowed, of the differences of rows from the mean of the plain networks, and of one training among these.
fn judged(fit: Result<Fit>, plain: &[Vec<f64>]) -> (String, bool) {
    let Fit { losses, problem } = match fit {
        Ok(fit) => fit,
        Err(error) => return (format!("refused: {error}"), true),
    };
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let of_row = |row: usize| plain.iter().map(|losses| losses[row]).sum::<f64>();
    let mut difference = PairedDifference::default();
    difference.add((0..losses.len()).map(|row| losses[row] - of_row(row) / plain.len() as f64));
    let trainings: Vec<f64> = plain.iter().map(|losses| mean(losses)).collect();
    let expected = mean(&trainings);
    let scatter = trainings.iter().map(|loss| (loss - expected).powi(2));
    let between = scatter.sum::<f64>() / (trainings.len() - 1) as f64;
    let error = (difference.standard_error().powi(2) + between).sqrt();
    let is_as_good = difference.mean() <= 2.0 * error;
    let word = match (is_as_good, &problem) {
        (true, _) => "fine",
        (false, Some(_)) => "said",
        (false, None) => "WORSE",
    };
    let line = format!(
        "{:.4}, plain {expected:.4}, {:+.4} ± {error:.4} {word}; {}",
        mean(&losses),
        difference.mean(),
        problem.as_deref().unwrap_or_default()
    );
    (line, is_as_good || problem.is_some())
}

macro_rules! networks {
    ($($name:ident: $kind:ident;)+) => {$(
        #[test]
        fn $name() {
            compare(Kind::$kind);
        }
    )+};
}

networks! {
    a_convolutional_network: Cnn;
    a_residual_network: ResNet;
    a_wide_perceptron: Wide;
    a_deep_perceptron: Deep;
    a_transformer: Transformer;
    a_recurrent_network: Lstm;
    adapters_of_a_transformer: Lora;
}
