//! The verdict of the program's default on generated tables of which the truth is known.
//!
//! A table has normal inputs, one of them perhaps skewed, and a category. Sound tables have targets from a likelihood that the
//! program has; of the others the program cannot have the distribution, or was told to fit too simple a model, or has too few
//! rows. A verdict is right to trust if the predictions of new rows are near the truth.

use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::ModelChoice;
use burn_bayes_tabular::experiments::jobs::{Job, Key};
use burn_bayes_tabular::new_rows::KnownRows;
use burn_bayes_tabular::rows::{PreparedRows, SplitTable, read_table};
use burn_bayes_tabular::run::{FolderFit, Run, RunFolder, Start};
use burn_bayes_tabular::scores::{ClassificationScores, CoverageScores, Measures, Scores, Verdict};
use burn_bayes_tabular::settings::{
    Config, DataSettings, FileFormat, FitSettings, NetworkShape, TargetColumns, TaskName,
    UnseenName,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{ChiSquared, Distribution, Gamma, Poisson, StandardNormal};
use std::env::temp_dir;
use std::fmt::Write;
use std::fs::{create_dir_all, remove_dir_all, write};
use std::path::Path;

use super::generators::normals;
use super::{FAILED_COLUMN, FALSE_TRUST, TRUSTED, WITHIN, indicator, or_diverged};
use crate::experiment::{Column, Context, Experiment, Statistic};
use crate::findings::Finding;
use crate::logistic::dot;
use crate::results::Results;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-verdict",
    title: "the verdict of the default on generated tables, beside the truth",
    notes: "Tables of 250 to 2 000 rows with 3 to 10 normal inputs, one of them log-normal in half of the tables, and a category. The \
            mean is a random function of eight tangents. Sound tables have noise that a likelihood of the program has; the others \
            have heavy tails (Student's t, 1.5 degrees of freedom), two modes, a linear model for a curve, excess zeros, steps, or 30 \
            rows of 12 inputs. Excess is the NLL of 4 000 new rows above that of the truth, of which the mutual information is what the \
            fit says of itself; coverage is that of the 80 % intervals of numbers, or of classes the accuracy minus the mean confidence, \
            plus .8. A fit is near the truth if the excess is at most the mutual information plus .05, and coverage within .05.",
    needs: &[],
    columns: &[
        Column::new(Statistic::Quartiles, EXCESS, "excess NLL"),
        Column::new(Statistic::Quartiles, UNKNOWN, "mutual information"),
        Column::mean(COVERAGE, "coverage"),
        Column::new(Statistic::Count, WITHIN, "near the truth"),
        Column::new(Statistic::Count, TRUSTED, "trusted"),
        Column::new(Statistic::Count, FALSE_TRUST, "falsely"),
        FAILED_COLUMN,
    ],
    published: "",
    jobs,
    findings,
};

const EXCESS: &str = "excess";
const UNKNOWN: &str = "mutual information";
const COVERAGE: &str = "coverage";
/// New rows, with which a fit is compared with the truth.
const NEW_ROWS: usize = 4000;
const MOST_EXCESS: f64 = 0.05;
const MOST_OFF: f64 = 0.05;
/// The level of the intervals.
const LEVEL: f64 = 0.8;
const METHOD: &str = "auto";

/// What the targets of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Linear,
    Curve,
    NoiseOfRows,
    LogNormal,
    TwoClasses,
    ThreeClasses,
    PoissonCounts,
    DispersedCounts,
    HeavyTails,
    TwoModes,
    LinearForCurve,
    ExcessZeros,
    Steps,
    FewRows,
}

const KINDS: [(Kind, &str, bool); 14] = [
    (Kind::Linear, "linear", true),
    (Kind::Curve, "curve", true),
    (Kind::NoiseOfRows, "noise of each row", true),
    (Kind::LogNormal, "log-normal", true),
    (Kind::TwoClasses, "two classes", true),
    (Kind::ThreeClasses, "three classes", true),
    (Kind::PoissonCounts, "Poisson counts", true),
    (Kind::DispersedCounts, "dispersed counts", true),
    (Kind::HeavyTails, "heavy tails", false),
    (Kind::TwoModes, "two modes", false),
    (Kind::LinearForCurve, "linear model of a curve", false),
    (Kind::ExcessZeros, "excess zeros", false),
    (Kind::Steps, "steps", false),
    (Kind::FewRows, "few rows", false),
];

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for seed in 0..context.effort.choose(29, 1) {
        for (kind, name, _) in KINDS {
            let key = Key::new(name, METHOD, seed);
            let identity = (name, FitSettings::default().key(), MOST_EXCESS, MOST_OFF);
            let work = move || or_diverged(measure(kind, name, seed));
            jobs.push(Job::new(key, &identity, work)?);
        }
    }
    Ok(jobs)
}

fn measure(kind: Kind, name: &str, seed: u64) -> Result<Measures> {
    let table = Table::new(kind, seed)?;
    let process = std::process::id();
    let folder = temp_dir().join(format!("burn-bayes-verdict-{process}-{name}-{seed}"));
    let found = table.measure(kind, seed, &folder);
    // What is left over of a failed fit is of no use.
    let _ = remove_dir_all(&folder);
    found
}

/// Rows to fit and new ones, as CSV.
struct Table {
    task: TaskName,
    rows: String,
    new_rows: String,
    /// The NLL of the new rows under the truth.
    truth: f64,
}

/// A random function of normal inputs with mean 0 and deviation 1.
struct Function {
    hidden: Vec<Vec<f64>>,
    biases: Vec<f64>,
    outer: Vec<f64>,
    mean: f64,
    deviation: f64,
}

impl Function {
    fn new(inputs: usize, generator: &mut StdRng) -> Self {
        const ROUGHNESS: f64 = 1.5;
        const UNITS: usize = 8;
        const ROWS: usize = 2000;
        let scale = ROUGHNESS / (inputs as f64).sqrt();
        let hidden = (0..UNITS).map(|_| {
            let weights = normals(inputs, generator).into_iter();
            weights.map(|weight| scale * weight).collect()
        });
        let mut function = Self {
            hidden: hidden.collect(),
            biases: normals(UNITS, generator)
                .into_iter()
                .map(|bias| 0.5 * bias)
                .collect(),
            outer: normals(UNITS, generator),
            mean: 0.0,
            deviation: 1.0,
        };
        let values: Vec<f64> = (0..ROWS)
            .map(|_| function.at(&normals(inputs, generator)))
            .collect();
        let count = ROWS as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        function.deviation = (squares.sum::<f64>() / count).sqrt();
        function.mean = mean;
        function
    }

    fn at(&self, inputs: &[f64]) -> f64 {
        let units = self.hidden.iter().zip(&self.biases).zip(&self.outer);
        let terms =
            units.map(|((weights, bias), outer)| outer * (dot(weights, inputs) + bias).tanh());
        (terms.sum::<f64>() - self.mean) / self.deviation
    }
}

fn normal_loss(target: f64, mean: f64, deviation: f64) -> f64 {
    let z = (target - mean) / deviation;
    0.5 * z * z + deviation.ln() + 0.5 * (2.0 * std::f64::consts::PI).ln()
}

/// −ln p(y) of a Poisson distribution.
fn poisson_loss(count: f64, rate: f64) -> f64 {
    rate - count * rate.ln() + (1..=count as u64).map(|k| (k as f64).ln()).sum::<f64>()
}

/// −ln p(y) of a negative binomial distribution with this mean and r.
fn dispersed_loss(count: f64, mean: f64, r: f64) -> f64 {
    let steps = (0..count as u64).map(|k| ((r + k as f64) / (k as f64 + 1.0)).ln());
    -(steps.sum::<f64>() + r * (r / (r + mean)).ln() + count * (mean / (r + mean)).ln())
}

/// A class by its probabilities, and −ln of its own.
fn class(logits: &[f64], generator: &mut StdRng) -> (f64, f64) {
    let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
    let mut left = generator.random_range(0.0..1.0);
    let mut chosen = logits.len() - 1;
    for (class, logit) in logits.iter().enumerate() {
        left -= logit.exp() / total;
        if left < 0.0 {
            chosen = class;
            break;
        }
    }
    (chosen as f64, total.ln() - logits[chosen])
}

fn drawn(distribution: &impl Distribution<f64>, generator: &mut StdRng) -> f64 {
    distribution.sample(generator)
}

fn poisson(rate: f64, generator: &mut StdRng) -> f64 {
    // A rate that is not positive has no counts but 0.
    Poisson::new(rate).map_or(0.0, |distribution| drawn(&distribution, generator))
}

impl Kind {
    /// A target of a row with these inputs, and its NLL.
    fn draw(
        self,
        functions: &[Function],
        x: &[f64],
        mean: f64,
        deviation: f64,
        generator: &mut StdRng,
    ) -> Result<(f64, f64)> {
        let z: f64 = StandardNormal.sample(generator);
        Ok(match self {
            Kind::Linear | Kind::Curve | Kind::LinearForCurve | Kind::FewRows => {
                let target = mean + deviation * z;
                (target, normal_loss(target, mean, deviation))
            }
            Kind::NoiseOfRows => {
                let deviation = deviation * (0.6 * functions[1].at(x)).exp();
                let target = mean + deviation * z;
                (target, normal_loss(target, mean, deviation))
            }
            Kind::LogNormal => {
                let logarithm = mean + deviation * z + 3.0;
                let loss = normal_loss(logarithm, mean + 3.0, deviation) + logarithm;
                (logarithm.exp(), loss)
            }
            Kind::TwoClasses => class(&[0.0, 2.0 * mean], generator),
            Kind::ThreeClasses => {
                let others = functions[1..].iter().map(|function| 1.5 * function.at(x));
                let logits: Vec<f64> = others.chain([1.5 * mean]).collect();
                class(&logits, generator)
            }
            Kind::PoissonCounts => {
                let rate = (0.7 * mean + 1.0).exp();
                let count = poisson(rate, generator);
                (count, poisson_loss(count, rate))
            }
            Kind::DispersedCounts => {
                const R: f64 = 1.5;
                let rate = (0.7 * mean + 1.0).exp();
                let gamma = Gamma::new(R, rate / R);
                let gamma = gamma.map_err(|error| TabularError::Data(error.to_string()))?;
                let count = poisson(drawn(&gamma, generator), generator);
                (count, dispersed_loss(count, rate, R))
            }
            Kind::HeavyTails => {
                const FREEDOM: f64 = 1.5;
                let squares = ChiSquared::new(FREEDOM);
                let squares = squares.map_err(|error| TabularError::Data(error.to_string()))?;
                let t = z / (drawn(&squares, generator) / FREEDOM).sqrt();
                // Γ(1.25)/(Γ(.75) √(1.5π)) is the density at 0.
                let density =
                    0.9064024771 / (1.2254167024 * (FREEDOM * std::f64::consts::PI).sqrt());
                let loss = 0.5 * (FREEDOM + 1.0) * (t * t / FREEDOM).ln_1p() - density.ln();
                (mean + deviation * t, loss + deviation.ln())
            }
            Kind::TwoModes => {
                let side = if generator.random_range(0.0..1.0) < 0.5 {
                    -1.5
                } else {
                    1.5
                };
                let target = mean + side + 0.2 * z;
                let near = normal_loss(target, mean + side, 0.2);
                let far = normal_loss(target, mean - side, 0.2);
                let both = 0.5 * (-near).exp() + 0.5 * (-far).exp();
                (target, -both.ln())
            }
            Kind::ExcessZeros => {
                const ZEROS: f64 = 0.4;
                let rate = (0.5 * mean + 2.0).exp();
                let count = match generator.random_range(0.0..1.0) < ZEROS {
                    true => 0.0,
                    false => poisson(rate, generator),
                };
                let probability = (1.0 - ZEROS) * (-poisson_loss(count, rate)).exp();
                let zero = if count == 0.0 { ZEROS } else { 0.0 };
                (count, -(zero + probability).ln())
            }
            Kind::Steps => {
                let corner = x[1] > 0.3 && x[2] < 0.0;
                let step = (2.0 * x[0]).floor() + 3.0 * f64::from(u8::from(corner));
                let mean = step + 2.0 * (4.0 * x[1]).sin().signum();
                (mean + 0.1 * z, normal_loss(mean + 0.1 * z, mean, 0.1))
            }
        })
    }
}

impl Table {
    fn new(kind: Kind, seed: u64) -> Result<Self> {
        const CATEGORIES: [&str; 4] = ["a", "b", "c", "d"];
        const CLASSES: [&str; 3] = ["low", "middle", "high"];
        let generator = &mut StdRng::seed_from_u64(1000 * seed + kind as u64);
        let mut one_of = |choices: &[f64]| choices[generator.random_range(0..choices.len())];
        let (mut rows, mut inputs) = (
            one_of(&[250.0, 500.0, 1000.0, 2000.0]),
            one_of(&[3.0, 6.0, 10.0]),
        );
        let (deviation, is_skewed) = (one_of(&[0.2, 0.5, 1.0]), one_of(&[0.0, 1.0]) == 1.0);
        if kind == Kind::FewRows {
            (rows, inputs) = (30.0, 12.0);
        }
        let (rows, inputs) = (rows as usize, inputs as usize);
        let functions: Vec<_> = (0..3).map(|_| Function::new(inputs, generator)).collect();
        let line = normals(inputs, generator);
        let length = dot(&line, &line).sqrt();
        let effects: Vec<f64> = normals(CATEGORIES.len(), generator);
        let task = match kind {
            Kind::TwoClasses | Kind::ThreeClasses => TaskName::Classification,
            Kind::PoissonCounts | Kind::DispersedCounts | Kind::ExcessZeros => TaskName::Counts,
            _ => TaskName::Regression,
        };
        let columns: Vec<String> = (1..=inputs).map(|number| format!("x{number}")).collect();
        let header = format!("{},group,y\n", columns.join(","));
        let mut texts = [header.clone(), header];
        let mut truth = 0.0;
        for row in 0..rows + NEW_ROWS {
            let x = normals(inputs, generator);
            let category = generator.random_range(0..CATEGORIES.len());
            let mean = 0.5 * effects[category]
                + match kind {
                    Kind::Linear => dot(&line, &x) / length,
                    _ => functions[0].at(&x),
                };
            let (target, loss) = kind.draw(&functions, &x, mean, deviation, generator)?;
            let is_new = row >= rows;
            if is_new {
                truth += loss / NEW_ROWS as f64;
            }
            let text = &mut texts[usize::from(is_new)];
            for (column, value) in x.iter().enumerate() {
                let value = if is_skewed && column == 0 {
                    value.exp()
                } else {
                    *value
                };
                // Writing to a string cannot fail.
                let _ = write!(text, "{value:.6},");
            }
            let _ = match task {
                TaskName::Classification => {
                    writeln!(
                        text,
                        "{},{}",
                        CATEGORIES[category], CLASSES[target as usize]
                    )
                }
                _ => writeln!(text, "{},{target:.6}", CATEGORIES[category]),
            };
        }
        let [rows, new_rows] = texts;
        Ok(Self {
            task,
            rows,
            new_rows,
            truth,
        })
    }

    /// Fits the rows as the program does by default, and compares its verdict with the truth.
    fn measure(&self, kind: Kind, seed: u64, folder: &Path) -> Result<Measures> {
        let unwritable =
            |error: std::io::Error| TabularError::Data(format!("{}: {error}", folder.display()));
        create_dir_all(folder).map_err(unwritable)?;
        let [rows, new_rows] = ["rows.csv", "new_rows.csv"].map(|name| folder.join(name));
        write(&rows, &self.rows).map_err(unwritable)?;
        write(&new_rows, &self.new_rows).map_err(unwritable)?;
        let mut config = Config {
            data: DataSettings {
                path: Some(rows),
                target: Some(TargetColumns::from("y")),
                task: Some(self.task),
                unseen: UnseenName::Zeros,
                ..DataSettings::default()
            },
            fit: FitSettings {
                seed,
                model: (kind == Kind::LinearForCurve).then(|| NetworkShape { hidden: Vec::new() }),
                ..FitSettings::default()
            },
        };
        let dealt = SplitTable::deal(read_table(&config.data)?, &config.data, seed)?;
        if let Some(choice) = ModelChoice::of(&dealt, &config, 1)? {
            choice.apply(&mut config);
        }
        let prepared = PreparedRows::prepare(dealt, &config.data)?;
        let (path, draws) = (folder.join("run"), config.fit.draws);
        let mut fit = FolderFit::new(&path, config, prepared, Start::New("papers trust-verdict"))?;
        let trained = fit.train(&mut ())?;
        let assessment = fit.finish(&trained)?.assessment;
        let run = Run::load(&RunFolder::open(&path)?, None)?;
        let known = KnownRows::read(&run, &new_rows, FileFormat::default(), &[], None)?;
        let scores = known.score(&run, draws, None)?.scores;
        let (nll, coverage) = match &scores {
            Scores::Regression(scores) => (scores.nll.value, covered(&scores.intervals)),
            // Intervals of counts contain more than their level.
            Scores::Counts(scores) => (scores.nll.value, Some(LEVEL)),
            Scores::Classification(scores) => {
                (scores.nll.value, Some(accuracy_of_confidence(scores)))
            }
            Scores::SeveralTargets(_) => (None, None),
        };
        let excess = nll.unwrap_or(f64::INFINITY) - self.truth;
        let coverage = coverage.unwrap_or(f64::NAN);
        let unknown = assessment.mutual_information.unwrap_or(0.0);
        let is_near = excess - unknown <= MOST_EXCESS && (coverage - LEVEL).abs() <= MOST_OFF;
        let is_trusted = assessment.verdict == Some(Verdict::Trust);
        Ok(Measures::from([
            (EXCESS.into(), excess),
            (UNKNOWN.into(), unknown),
            (COVERAGE.into(), coverage),
            (WITHIN.into(), indicator(is_near)),
            (TRUSTED.into(), indicator(is_trusted)),
            (FALSE_TRUST.into(), indicator(is_trusted && !is_near)),
        ]))
    }
}

fn covered(intervals: &[CoverageScores]) -> Option<f64> {
    let of_level = intervals.iter().find(|scores| scores.level == LEVEL);
    of_level.and_then(|scores| scores.coverage.value)
}

/// Accuracy minus mean confidence, plus the level of intervals.
fn accuracy_of_confidence(scores: &ClassificationScores) -> f64 {
    let bins = scores.reliability.iter();
    let gaps = bins.filter_map(|bin| {
        let gap = bin.accuracy? - bin.confidence?;
        Some(bin.rows as f64 * gap)
    });
    LEVEL + gaps.sum::<f64>() / scores.rows as f64
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    const WANTED: f64 = 0.9;
    let measures = |name: &'static str, is_wanted: fn(bool) -> bool| -> Vec<f64> {
        let kinds = KINDS.into_iter();
        let kinds = kinds.filter(move |(_, _, is_sound)| is_wanted(*is_sound));
        let runs = kinds.flat_map(|(_, case, _)| results.of(case, METHOD));
        runs.filter_map(|run| run.computed.measures.get(name).copied())
            .collect()
    };
    let pairs = measures(TRUSTED, |_| true)
        .into_iter()
        .zip(measures(FALSE_TRUST, |_| true));
    let of_trusted = pairs.map(|(trusted, falsely)| (trusted == 1.0).then_some((falsely, 0.0)));
    let of_others = measures(TRUSTED, |is_sound| !is_sound).into_iter();
    let of_others = of_others.map(|trusted| Some((trusted, 0.0)));
    [
        (
            "nine of ten trusted fits are near the truth, up to what they say is unknown",
            of_trusted.collect::<Vec<_>>(),
        ),
        (
            "nine of ten fits to tables that are not sound are not trusted",
            of_others.collect(),
        ),
    ]
    .map(|(claim, pairs)| Finding::mostly_at_most(claim, WANTED, &pairs))
    .into()
}
