//! Predictions with the models saved by `picture_methods`, for digits and for pictures of other
//! things: who is right, whose probabilities are, and who notices what is foreign.
//!
//! ```text
//! cargo run --release --example picture_methods
//! cargo run --release --example picture_predict
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

// ANCHOR: imports
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use burn::tensor::Device;
use burn::train::metric::Adaptor;
use burn_bayes::eval::{
    BinaryScores, Bootstrap, DrawScore, MahalanobisDistance, RiskCoverage, ScoreInterval, auroc,
    conformal_threshold, predictive_entropy, zero_one_losses,
};
use burn_bayes::likelihood::ClassificationDraws;
use burn_bayes::posterior::{Mixture, PointPosterior};
use burn_bayes::prelude::*;
use burn_bayes_examples::{
    Arguments, ClassRow, ClassScores, PictureKind, PictureNet, Pictures, is_smoke, picture_batch,
    picture_sheet, probabilities_of,
};
use plotters::prelude::*;
// ANCHOR_END: imports

const DRAWS: usize = 30;
/// Of digits that are taken for foreign.
const FALSE_ALARMS: f64 = 0.05;
const RESAMPLES: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "out", "charts"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let folder = arguments.output_folder("pictures")?;
    let charts: String = arguments.get("charts", String::new())?;

    // ANCHOR: sets
    let [train, valid, test] = Pictures::digits(seed);
    let mut sets = vec![("held-out digits", valid), ("test digits", test)];
    for kind in PictureKind::FOREIGN {
        sets.push((name_of(kind), Pictures::foreign(kind, seed)));
    }
    // ANCHOR_END: sets

    // ANCHOR: methods
    let of = |name| folder.join(name);
    let methods = [
        Method::predict::<PointPosterior>("plain", &of("plain.safetensors"), 1, &sets)?,
        Method::predict::<FactorPosterior>("VIFA", &of("vifa.safetensors"), DRAWS, &sets)?,
        Method::predict::<FactorPosterior>("SWAG", &of("swag.safetensors"), DRAWS, &sets)?,
        Method::predict::<FactorPosterior>("Laplace", &of("laplace.safetensors"), DRAWS, &sets)?,
        Method::predict::<Mixture<PointPosterior>>("five", &of("five"), 5, &sets)?,
    ];
    // ANCHOR_END: methods

    println!("test digits");
    println!("           accuracy  confidence    NLL    ECE  error at 80 %    AURC  ms per 1000");
    for method in &methods {
        method.print(&sets[TEST].1)?;
    }

    let mut scores = Vec::new();
    for method in &methods {
        scores.extend(method.scores()?);
    }
    scores.push(distances(&of("plain.safetensors"), &train, &sets)?);
    print!("\nAUROC of foreign pictures, and 95 % intervals\n{:29}", "");
    for kind in PictureKind::FOREIGN {
        print!("{:<20}", name_of(kind));
    }
    println!();
    for score in &scores {
        score.print_auroc()?;
    }
    print!("\nflagged at 5 % false alarms       digits");
    for kind in PictureKind::FOREIGN {
        print!("{:>11}", name_of(kind));
    }
    println!();
    for score in &scores {
        score.print_flagged()?;
    }
    if !charts.is_empty() {
        let folder = Path::new(&charts);
        let sheet = picture_sheet(&sets[TEST..], 10);
        std::fs::write(folder.join("pictures.svg"), sheet)?;
        draw(&folder.join("out-of-distribution.svg"), &scores)?;
    }
    Ok(())
}

/// The places of the sets; those of foreign pictures follow.
const VALID: usize = 0;
const TEST: usize = 1;

type Sets = Vec<(&'static str, Vec<ClassRow>)>;

fn name_of(kind: PictureKind) -> &'static str {
    match kind {
        PictureKind::Digits => "digits",
        PictureKind::Letters => "letters",
        PictureKind::Sideways => "sideways",
        PictureKind::Negatives => "negatives",
        PictureKind::Shuffled => "shuffled",
    }
}

// ANCHOR: predict
/// A saved model and its predictions of all sets.
struct Method {
    name: &'static str,
    draws: usize,
    predictions: Vec<ClassificationDraws>,
    /// That of the test digits.
    time: Duration,
}

impl Method {
    fn predict<P: Posterior>(
        name: &'static str,
        path: &Path,
        draws: usize,
        sets: &Sets,
    ) -> Result<Self, Box<dyn Error>> {
        let device = Device::default();
        let posterior = P::load(path, &device)?;
        let predictor = Predictor::restore(PictureNet::new(&device), posterior)?;
        let predictor = predictor.with_batched_draws();
        let mut predictions: Vec<ClassificationDraws> = Vec::new();
        let mut time = Duration::ZERO;
        for (place, (_, rows)) in sets.iter().enumerate() {
            let start = Instant::now();
            predictions.push(
                predictor
                    .predict(picture_batch(rows, &device), draws)?
                    .adapt(),
            );
            if place == TEST {
                time = start.elapsed();
            }
        }
        Ok(Self {
            name,
            draws,
            predictions,
            time,
        })
    }
}
// ANCHOR_END: predict

impl Method {
    // ANCHOR: scores
    fn print(&self, rows: &[ClassRow]) -> Result<(), Box<dyn Error>> {
        let prediction = &self.predictions[TEST];
        let scores = ClassScores::new(prediction.probabilities().clone(), rows)?;
        let read = prediction.read()?;
        let errors = zero_one_losses(&read.labelled());
        let curve = RiskCoverage::new(&predictive_entropy(read.average()), &errors)?;
        println!(
            "{:<9} {:>9.3} {:>11.3} {:>6.3} {:>6.3} {:>14.3} {:>7.4} {:>12.0}",
            self.name,
            scores.accuracy,
            scores.confidence,
            scores.nll,
            scores.calibration_error,
            1.0 - scores.by_entropy[1],
            curve.aurc(),
            1e6 * self.time.as_secs_f64() / rows.len() as f64,
        );
        Ok(())
    }

    /// Scores of the rows of all sets that are higher for more unusual rows.
    fn scores(&self) -> Result<Vec<Score>, Box<dyn Error>> {
        let mut kinds = vec![
            ("max probability", DrawScore::LeastConfidence),
            ("entropy", DrawScore::PredictiveEntropy),
        ];
        if self.draws > 1 {
            kinds.push(("mutual information", DrawScore::MutualInformation));
        }
        let score = |(kind, score): (&str, DrawScore)| {
            let of_set = |set: &ClassificationDraws| Ok(score.of(set.read()?.draws()));
            let sets: Result<_, Box<dyn Error>> = self.predictions.iter().map(of_set).collect();
            Ok(Score {
                name: format!("{:<8} {kind}", self.name),
                sets: sets?,
            })
        };
        kinds.into_iter().map(score).collect()
    }
    // ANCHOR_END: scores
}

/// A score of the rows of every set, higher for more unusual rows.
struct Score {
    name: String,
    sets: Vec<Vec<f64>>,
}

// ANCHOR: features
/// Distances of the features of the plain network from those of the training digits.
fn distances(path: &Path, train: &[ClassRow], sets: &Sets) -> Result<Score, Box<dyn Error>> {
    let device = Device::default();
    let plain = PointPosterior::load(path, &device)?;
    let net = Predictor::restore(PictureNet::new(&device), plain)?.mean_model()?;
    let features =
        |rows: &[ClassRow]| probabilities_of(net.features(picture_batch(rows, &device).images));
    let labels: Vec<usize> = train.iter().map(|row| row.class).collect();
    let known = MahalanobisDistance::fit(&features(train), &labels, PictureNet::FEATURES, 1e-3)?;
    let sets = sets.iter().map(|(_, rows)| known.scores(&features(rows)));
    Ok(Score {
        name: "plain    distance of features".into(),
        sets: sets.collect::<Result<_, _>>()?,
    })
}
// ANCHOR_END: features

impl Score {
    fn print_auroc(&self) -> Result<(), Box<dyn Error>> {
        print!("{:<29}", self.name);
        for foreign in &self.sets[TEST + 1..] {
            let (area, interval) = separation(&self.sets[TEST], foreign)?;
            print!("{area:.3} {:.3}–{:.3}   ", interval.lower, interval.upper);
        }
        println!();
        Ok(())
    }

    // ANCHOR: threshold
    fn print_flagged(&self) -> Result<(), Box<dyn Error>> {
        // A new digit is above it with probability 5 % at most.
        let threshold = conformal_threshold(&self.sets[VALID], 1.0 - FALSE_ALARMS)?;
        print!("{:<29}", self.name);
        for set in &self.sets[TEST..] {
            let flagged = set.iter().filter(|&&score| score > threshold).count();
            print!("{:>11.3}", flagged as f64 / set.len() as f64);
        }
        println!();
        Ok(())
    }
    // ANCHOR_END: threshold
}

// ANCHOR: auroc
/// The AUROC of foreign rows among known ones, with a bootstrap interval of 95 %.
fn separation(known: &[f64], foreign: &[f64]) -> Result<(f64, ScoreInterval), Box<dyn Error>> {
    let values = [known, foreign].concat();
    let is_foreign = |row: usize| row >= known.len();
    let strata: Vec<usize> = (0..values.len())
        .map(|row| is_foreign(row).into())
        .collect();
    let resamples = if is_smoke() { 20 } else { RESAMPLES };
    let area = Bootstrap::of_score_within(&strata, resamples, 0, |rows| {
        let scores: Vec<f64> = rows.iter().map(|&row| values[row]).collect();
        let labels: Vec<bool> = rows.iter().map(|&row| is_foreign(row)).collect();
        BinaryScores::new(&scores, &labels).map_or(f64::NAN, |scores| auroc(&scores))
    })?;
    Ok((area.estimate(), area.percentile_interval(0.95)?))
}
// ANCHOR_END: auroc

/// The fraction of letters that are flagged, by the fraction of digits that are.
fn draw(file: &Path, scores: &[Score]) -> Result<(), Box<dyn Error>> {
    const LINES: [(&str, RGBColor); 6] = [
        ("plain    entropy", RGBColor(120, 120, 120)),
        ("VIFA     mutual information", RGBColor(23, 78, 140)),
        ("SWAG     mutual information", RGBColor(60, 150, 90)),
        ("Laplace  mutual information", RGBColor(150, 90, 170)),
        ("five     mutual information", RGBColor(205, 84, 32)),
        ("plain    distance of features", RGBColor(0, 0, 0)),
    ];
    let area = SVGBackend::new(file, (760, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(18)
        .x_label_area_size(44)
        .y_label_area_size(54)
        .build_cartesian_2d(0.0..0.5, 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(236, 236, 236))
        .axis_style(RGBColor(120, 120, 120))
        .x_labels(6)
        .y_labels(6)
        .x_desc("digits that are flagged")
        .y_desc("letters that are flagged")
        .axis_desc_style(("sans-serif", 17))
        .label_style(("sans-serif", 14))
        .draw()?;
    for (name, colour) in LINES {
        let Some(score) = scores.iter().find(|score| score.name == name) else {
            continue;
        };
        let mut digits = score.sets[TEST].clone();
        digits.sort_by(|one, other| other.total_cmp(one));
        let point = |percent: usize| {
            let threshold = digits[percent * (digits.len() - 1) / 100];
            let letters = &score.sets[TEST + 1];
            let flagged = letters.iter().filter(|&&score| score > threshold).count();
            let alarms = digits.iter().filter(|&&score| score > threshold).count();
            (
                alarms as f64 / digits.len() as f64,
                flagged as f64 / letters.len() as f64,
            )
        };
        let words: Vec<&str> = name.split_whitespace().collect();
        chart
            .draw_series(LineSeries::new((0..=50).map(point), colour.stroke_width(2)))?
            .label(words.join(" "))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.9))
        .border_style(RGBColor(210, 210, 210))
        .label_font(("sans-serif", 15))
        .draw()?;
    area.present()?;
    Ok(())
}
