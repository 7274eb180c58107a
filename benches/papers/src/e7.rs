//! E7: errors of networks with two hidden layers of 400 rectifiers on MNIST, the table of the SLANG poster.
//!
//! The prior precision of each kind of method is chosen on the last 10 000 training rows, of which the networks of the
//! case `mnist, validation` know nothing. The networks of the case `mnist` are then trained on all 60 000.

use burn_bayes_data::{Dataset, Features, Targets};
use serde::Serialize;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::experiments::search::Fold;
use burn_bayes_tabular::rows::Target;
use burn_bayes_tabular::scores::HoldoutScore;
use burn_bayes_tabular::settings::{FitSettings, Method, NetworkShape};

use super::experiment::{Column, Context, Effort, Experiment, Job, Key};
use super::findings::{Finding, least_of};
use super::results::Results;
use super::sets::{LabelledImages, MnistImages, read_mnist};
use super::shared::Shared;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "E7",
    title: "errors on MNIST with two hidden layers of 400 units, the SLANG poster",
    notes: "Share of wrong test rows, and their NLL; in brackets the poster's error, where mean-field is Bayes by \
            backprop. The rows of `mnist, validation` are trained on 50 000 rows and scored on 10 000 others: they choose the \
            prior precision. The rows of `mnist` are trained on all 60 000, and scored once on the test rows. With \
            `--quick`, 4000 training and 1000 test rows.",
    needs: &["mnist"],
    columns: &[Column::mean(ERROR, "error"), Column::mean(NLL, "NLL")],
    published: include_str!("../published/e7.csv"),
    jobs,
    findings,
};

const ERROR: &str = "error";
const NLL: &str = "nll";

const VALIDATION: &str = "mnist, validation";
const TEST: &str = "mnist";
const SHORT: &str = "mnist, short";

const PLAIN: &str = "plain network";
const MEAN_FIELD: &str = "mean-field";
/// Ranks of the poster.
const RANKS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Prior precisions of which the validation rows choose.
const PRIORS: [f64; 3] = [10.0, 50.0, 200.0];
/// The mean and the deviation of MNIST's pixels, between 0 and 1.
const PIXELS: [f64; 2] = [0.1307, 0.3081];

/// Which rows are trained on and scored.
#[derive(Clone, Copy, Debug, Serialize)]
struct Rows {
    train: usize,
    /// The rows after those trained on, in the place of the test rows.
    validation: usize,
    /// The first test rows.
    test: usize,
}

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let data = context.data.clone();
    let images = Shared::new(move || read_mnist(data.join("mnist")));
    let mut jobs = Vec::new();
    let mut add = |case: &str, method: String, rows: Rows, settings: FitSettings| -> Result<()> {
        let key = Key::new(case, method, 0);
        let (images, identity) = (images.clone(), (rows, settings.clone()));
        jobs.push(Job::new(key, &identity, move || {
            let fold = rows.fold(&*images.get()?)?;
            Ok(HoldoutScore::measures(fold.judge(&settings)?))
        })?);
        Ok(())
    };
    if context.effort == Effort::Quick {
        let rows = Rows {
            train: 4000,
            validation: 0,
            test: 1000,
        };
        for (method, settings) in methods().into_iter().filter(|(name, _)| is_quick(name)) {
            let settings = FitSettings {
                epochs: Some(10),
                draws: 20,
                ..settings
            };
            add(SHORT, method, rows, settings)?;
        }
        return Ok(jobs);
    }
    let rows = Rows {
        train: 50_000,
        validation: 10_000,
        test: 0,
    };
    for prior in PRIORS {
        for (method, settings) in methods().into_iter().filter(|(name, _)| is_quick(name)) {
            let settings = FitSettings {
                prior_precision: prior.into(),
                epochs: Some(20),
                ..settings
            };
            let method = format!("{method}, prior precision {prior}");
            add(VALIDATION, method, rows, settings)?;
        }
    }
    let rows = Rows {
        train: 60_000,
        validation: 0,
        test: 10_000,
    };
    for (method, settings) in methods() {
        add(TEST, method, rows, settings)?;
    }
    Ok(jobs)
}

/// The methods of the table, with the chosen settings.
fn methods() -> Vec<(String, FitSettings)> {
    let settings = |method, rank| FitSettings {
        method,
        rank,
        model: Some(NetworkShape {
            hidden: vec![400, 400],
        }),
        epochs: Some(60),
        batch_size: 200,
        learning_rate: Some(1e-3),
        prior_precision: 50.0.into(),
        draws: 50,
        ..FitSettings::default()
    };
    let ranked = |name: &str, method| {
        RANKS.map(|rank| (format!("{name}-{rank}"), settings(method, Some(rank))))
    };
    let mut methods = vec![
        (PLAIN.into(), settings(Method::Map, None)),
        (MEAN_FIELD.into(), settings(Method::MeanField, None)),
    ];
    methods.extend(ranked("VIFA", Method::Vifa));
    methods.extend(ranked("SLANG", Method::Slang).map(|(name, settings)| {
        // Its tuned rates.
        let settings = FitSettings {
            learning_rate: None,
            ..settings
        };
        (name, settings)
    }));
    methods
}

fn is_quick(method: &str) -> bool {
    [PLAIN, MEAN_FIELD, "VIFA-8", "SLANG-8"].contains(&method)
}

impl Rows {
    fn fold(self, images: &MnistImages) -> Result<Fold> {
        let MnistImages { train, test } = images;
        let scored = match self.validation {
            0 => dataset(test, 0, self.test)?,
            validation => dataset(train, self.train, validation)?,
        };
        let classes = (0..train.class_count()).map(|class| class.to_string());
        let target = Target::Classes(classes.collect());
        Fold::given(&dataset(train, 0, self.train)?, &scored, target)
    }
}

/// `count` images from number `first` on, at the scale of MNIST's pixels.
fn dataset(images: &LabelledImages, first: usize, count: usize) -> Result<Dataset> {
    let rows: Vec<usize> = (first..first + count).collect();
    let [mean, deviation] = PIXELS;
    let pixels = images.unit_pixels(&rows)?.into_iter();
    let pixels = pixels.map(|pixel| (f64::from(pixel) - mean) / deviation);
    let classes = rows.iter().map(|&row| images.classes()[row].into());
    let features = Features::new(count, images.shape().bytes(), pixels.collect())?;
    Ok(Dataset::new(features, Targets::Classes(classes.collect()))?)
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mean = |case: &str, method: &str, measure: &str| results.mean(case, method, measure);
    let best = results.published.rows().iter();
    let best = best.filter_map(|row| Some(row.figures.get(ERROR)?.value));
    let best = best.fold(f64::INFINITY, f64::min);
    let of_rank_8 = ["VIFA-8", "SLANG-8"];
    let ours = of_rank_8
        .into_iter()
        .filter_map(|method| mean(TEST, method, ERROR));
    let short = of_rank_8
        .into_iter()
        .filter_map(|method| mean(SHORT, method, NLL));
    vec![
        Finding::at_most(
            "with eight factors, the error of VIFA or SLANG is at most the poster's least",
            &[(least_of(ours), best)],
        ),
        Finding::falling(
            "4000 rows: the NLL falls from the plain network to the better of VIFA-8 and SLANG-8",
            &[mean(SHORT, PLAIN, NLL), least_of(short)],
        ),
    ]
}

#[cfg(test)]
mod needs_data {
    use burn_bayes_testing::data_folder;

    use super::*;

    #[test]
    fn validation_rows_are_no_training_rows() {
        let images = read_mnist(data_folder().join("mnist")).unwrap();
        let rows = Rows {
            train: 30,
            validation: 20,
            test: 0,
        };
        rows.fold(&images).unwrap();
        let validation = dataset(&images.train, 30, 20).unwrap();
        let expected: Vec<usize> = images.train.classes()[30..50]
            .iter()
            .map(|&class| class.into())
            .collect();
        assert_eq!(validation.targets().as_classes(), Some(&expected[..]));
        // The pixels have about this scale.
        let values = validation.features().values();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        assert!(
            mean.abs() < 0.1 && (square - 1.0).abs() < 0.2,
            "{mean} {square}"
        );
    }
}
