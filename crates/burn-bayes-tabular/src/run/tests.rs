//! Randomly damaged run files, settings, ranges and result caches: each is read, or refused with an
//! error that names it, without a panic and with memory bounded by its size.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use burn_bayes::Noise;
use burn_bayes_data::{CsvOptions, CsvReader, gap_regression, two_moons};
use burn_bayes_testing::{Edit, bounded, config, damaged, edits};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::*;
use crate::engine::{self, Checkpoint, EpochRecord, Observer};
use crate::experiments::jobs::ResultCache;
use crate::experiments::search::Ranges;
use crate::new_rows::{PredictionRequest, RowPredictor};
use crate::predict::Uncertainty;
use crate::predict::{Abstention, threshold_at_risk};
use crate::predict::{Conformal, ConformalRequest, HeldOutColumns, PredictionTable};
use crate::rows::TrainingSet;
use crate::rows::{PreparedRows, SplitTable, read_table};
use crate::settings::{DataSettings, FitSettings};

/// The files of a run.
const FILES: [&str; 6] = [
    "config.toml",
    "preprocessor.toml",
    "posterior.safetensors",
    "weights.bpk",
    "model.toml",
    "validation.csv",
];

/// A finished run, and the original content of its files.
struct Site {
    folder: TempDir,
    files: Vec<(String, Vec<u8>)>,
}

/// The model of a run that is not an ensemble.
fn single(run: &Run) -> &TrainedModel {
    match &run.model {
        RunModel::Single(model) => model,
        RunModel::Ensemble(_) => panic!("a single fit was expected"),
    }
}

/// Rows with text classes and a categorical column.
fn moons() -> String {
    let data = two_moons(40, 0.1, 1).unwrap();
    let mut text = String::from("x,y,side,kind\n");
    for (row, class) in data.targets().as_classes().unwrap().iter().enumerate() {
        let point = data.features().row(row);
        let side = if point[0] < 0.5 { "left" } else { "right" };
        let kind = ["lower", "upper"][*class];
        writeln!(text, "{},{},{side},{kind}", point[0], point[1]).unwrap();
    }
    text
}

/// Numeric rows.
fn gap() -> String {
    let data = gap_regression(40, 0.1, 1).unwrap();
    let mut text = String::from("x,price\n");
    for (row, target) in data.targets().as_real().unwrap().iter().enumerate() {
        writeln!(text, "{},{target}", data.features().row(row)[0]).unwrap();
    }
    text
}

const CLASSES: &str = "data.target = 'kind'\ndata.task = 'classification'\nfit.rank = 1";
const NUMBERS: &str = "data.target = 'price'\ndata.task = 'regression'\nfit.method = 'map'\nfit.noise_precision = 0.5";

fn prepared(data: &DataSettings, seed: u64) -> PreparedRows {
    let dealt = SplitTable::deal(read_table(data).unwrap(), data, seed).unwrap();
    PreparedRows::prepare(dealt, data).unwrap()
}

impl Site {
    fn new(rows: &str, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rows_file = folder.path().join("rows.csv");
        std::fs::write(&rows_file, rows).unwrap();
        let mut config: Config = toml::from_str(settings).unwrap();
        config.data.path = Some(rows_file);
        config.data.validation = 0.4;
        config.fit = FitSettings {
            model: Some("mlp:3".parse().unwrap()),
            epochs: Some(2),
            batch_size: 8,
            draws: 4,
            ..config.fit
        };
        let rows = prepared(&config.data, config.fit.seed);
        let start = Start::New("burn-bayes fit");
        let mut fit = FolderFit::new(&folder.path().join("run"), config, rows, start).unwrap();
        let model = fit.train(&mut ()).unwrap();
        fit.finish(&model).unwrap();
        let read = |name: &&str| {
            let bytes = std::fs::read(folder.path().join("run").join(name)).unwrap_or_default();
            (name.to_string(), bytes)
        };
        let files = FILES
            .iter()
            .map(read)
            .filter(|(_, bytes)| !bytes.is_empty());
        let files = files.collect();
        Self { folder, files }
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Damages one file of the run.
    fn spoil(&self, file: usize, edits: &[Edit]) -> (&str, Vec<u8>) {
        for (name, bytes) in &self.files {
            std::fs::write(self.run().join(name), bytes).unwrap();
        }
        let (name, bytes) = &self.files[file % self.files.len()];
        let bytes = damaged(bytes, edits);
        std::fs::write(self.run().join(name), &bytes).unwrap();
        (name, bytes)
    }

    /// Reads the run and predicts its first row.
    fn predict(&self) -> Result<()> {
        let folder = RunFolder::open(&self.run())?;
        let run = Run::load(&folder, None)?;
        let options = run.preprocessor.csv_options(run.config.data.csv_options());
        let mut reader = CsvReader::open(self.folder.path().join("rows.csv"), options)?;
        let Some(table) = reader.next_table(2)? else {
            return Ok(());
        };
        let features = run.preprocessor.features(&table, 0..table.rows())?;
        let predictions = run.predict(&features, 2)?;
        let table = PredictionTable::new(&predictions, &[0.05, 0.95])?;
        Ok(table.write_csv(true, &mut Vec::new())?)
    }
}

/// An error must name one of these.
fn named<T>(result: Result<T>, names: &[&str]) -> Result<Option<T>, TestCaseError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(failure) => {
            let message = failure.to_string();
            let is_named = names.iter().any(|name| message.contains(name));
            prop_assert!(is_named, "none of {names:?} in: {message}");
            Ok(None)
        }
    }
}

#[test]
fn spoilt_runs() {
    let sites = [Site::new(&moons(), CLASSES), Site::new(&gap(), NUMBERS)];
    for site in &sites {
        site.predict().unwrap();
    }
    proptest!(config(100), |(site in 0..2_usize, file in 0..60_usize, edits in edits())| {
        let site = &sites[site];
        let (name, bytes) = site.spoil(file, &edits);
        let is_spoilt = site.files.iter().all(|(_, whole)| *whole != bytes);
        match bounded(&bytes, |_| site.predict())? {
            Ok(()) => {
                let is_read = name != "validation.csv";
                prop_assert!(!(is_read && is_spoilt), "{name} is not what it was");
            }
            Err(failure) => {
                let message = failure.to_string();
                prop_assert!(message.contains(name), "{message}");
            }
        }
    });
}

/// The results that commands compute from the files of the run: the predictions, for classes with
/// decisions at a target risk, and the epochs of a report.
fn answers(site: &Site) -> Result<(Vec<u8>, Vec<EpochMetrics>)> {
    let folder = RunFolder::open(&site.run())?;
    let run = Run::load(&folder, None)?;
    let decides = run.preprocessor.targets()[0].classes().is_some();
    let request = PredictionRequest {
        target_risk: decides.then_some(0.95),
        confidence: 0.5,
        ..PredictionRequest::default()
    };
    let predictor = RowPredictor::new(&folder, &run, &request)?;
    let mut pieces = predictor.open(&site.folder.path().join("rows.csv"))?;
    let mut output = Vec::new();
    while let Some(piece) = pieces.next_piece()? {
        piece.table.write_objects(&mut output)?;
    }
    Ok((output, run.metrics(&folder)?))
}

/// A damage that changes the bytes.
fn damaged_at_random(bytes: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    let place = random.random_range(0..bytes.len());
    let digits = (place..bytes.len()).chain(0..place);
    let digit = digits
        .into_iter()
        .find(|&place| bytes[place].is_ascii_digit());
    match (random.random_range(0..4), digit) {
        (0, Some(digit)) => {
            let other = (bytes[digit] - b'0' + random.random_range(1..10)) % 10;
            damaged[digit] = b'0' + other;
        }
        (1, _) => damaged.truncate(place),
        (2, _) => damaged.insert(place, random.random()),
        _ => damaged[place] ^= 1 << random.random_range(0..8),
    }
    damaged
}

#[test]
fn no_damage_to_a_file_of_a_run_changes_what_it_says_in_silence() {
    const ROUNDS: usize = 40;
    let mut random = StdRng::seed_from_u64(1);
    let read = [
        "config.toml",
        "preprocessor.toml",
        "model.toml",
        "metrics.jsonl",
    ];
    for (site, others) in [
        (
            Site::new(&moons(), CLASSES),
            ["posterior.safetensors", "validation.csv"].as_slice(),
        ),
        (Site::new(&gap(), NUMBERS), &["weights.bpk"]),
    ] {
        let whole = answers(&site).unwrap();
        let mut changed = 0;
        for entry in std::fs::read_dir(site.run()).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_file() {
                continue;
            }
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_read = read.iter().chain(others).any(|known| known == &name);
            let bytes = std::fs::read(&path).unwrap();
            for round in 0..ROUNDS {
                match round {
                    0 => std::fs::remove_file(&path).unwrap(),
                    _ => std::fs::write(&path, damaged_at_random(&bytes, &mut random)).unwrap(),
                }
                match answers(&site) {
                    Ok(answers) => assert!(!is_read && answers == whole, "{name}, {round}"),
                    Err(failure) => {
                        let message = failure.to_string();
                        assert!(message.contains(name), "{name}, {round}: {message}");
                        changed += 1;
                    }
                }
            }
            std::fs::write(&path, &bytes).unwrap();
        }
        // If a file is not read, only its absence may be noticed.
        assert_eq!(changed, ROUNDS * (read.len() + others.len()) + 1);
        assert!(answers(&site).unwrap() == whole);
    }
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_run_of_a_device_that_was_not_built_in_predicts_on_another() {
    let site = Site::new(&gap(), NUMBERS);
    let folder = RunFolder::open(&site.run()).unwrap();
    let mut run = Run::load(&folder, None).unwrap();
    let plain_models = run.plain_models(&folder, None).unwrap();
    run.config.fit.device = DeviceName::Cuda(1);
    let files = folder.model_files(single(&run));
    folder
        .finish(&run.config, &plain_models, &files, run.file)
        .unwrap();
    let message = Run::load(&folder, None).unwrap_err().to_string();
    for word in ["config.toml", "--features cuda", "--device"] {
        assert!(message.contains(word), "{message}");
    }
    Run::load(&folder, Some(DeviceName::Flex)).unwrap();
}

#[test]
fn a_run_of_an_earlier_version_is_fitted_again() {
    let site = Site::new(&gap(), NUMBERS);
    let folder = RunFolder::open(&site.run()).unwrap();
    let earlier = "format = 1\nnoise_precision = 1.0\nchecksum = \"0123456789abcdef\"\n\
                   preprocessor_checksum = \"0123456789abcdef\"\n";
    std::fs::write(folder.model_file(), earlier).unwrap();
    let message = Run::load(&folder, None).unwrap_err().to_string();
    for word in ["model.toml", "earlier version", "fit again"] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn spoilt_validation_rows() {
    let site = Site::new(&moons(), CLASSES);
    let folder = RunFolder::open(&site.run()).unwrap();
    let path = folder.validation_file();
    let whole = std::fs::read(&path).unwrap();
    let run = Run::load(&folder, None).unwrap();
    let request = ConformalRequest::at(0.5);
    let abstention = Abstention::Class {
        score: Uncertainty::Entropy,
        classes: 2,
    };
    let columns = HeldOutColumns {
        target: None,
        rules: &BTreeMap::new(),
        options: &CsvOptions::default(),
        group_by: None,
    };
    let threshold = || {
        Conformal::calibrate(&path, run.model.target(), "y", &request, &columns, None)?;
        threshold_at_risk(&path, None, abstention, 0.95, 0.5)
    };
    threshold().unwrap();
    proptest!(config(100), |(edits in edits())| {
        let bytes = damaged(&whole, &edits);
        std::fs::write(&path, &bytes).unwrap();
        named(bounded(&bytes, |_| threshold())?, &["validation.csv"])?;
    });
}

/// Stores the last checkpoint.
#[derive(Default)]
struct Kept(Option<Checkpoint>);

impl Observer for Kept {
    fn keeps_checkpoints(&self) -> bool {
        true
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<()> {
        self.0 = Some(checkpoint);
        Ok(())
    }
}

/// Writes a checkpoint to the folder of a run, and returns its rows and settings.
fn with_checkpoint(folder: &RunFolder) -> (TrainingSet, FitSettings) {
    let Config { data, mut fit } = folder.config().unwrap();
    fit.checkpoint_every = 1;
    let problem = prepared(&data, fit.seed).train;
    let mut kept = Kept::default();
    engine::fit(&problem, &fit, &mut kept).unwrap();
    let checkpoint = kept.0.unwrap();
    folder
        .save_checkpoint(&checkpoint, problem.fingerprint(), &fit)
        .unwrap();
    (problem, fit)
}

#[test]
fn checkpoints_of_other_settings() {
    let site = Site::new(&moons(), CLASSES);
    let folder = RunFolder::open(&site.run()).unwrap();
    let (problem, fit) = with_checkpoint(&folder);
    let load = |change: fn(&mut FitSettings)| {
        let mut changed = fit.clone();
        change(&mut changed);
        folder.load_checkpoint(problem.fingerprint(), &changed)
    };
    let changes: [fn(&mut FitSettings); 4] = [
        |fit| fit.batch_size = 4,
        |fit| fit.learning_rate = Some(0.5),
        |fit| fit.epochs = Some(3),
        |fit| fit.seed = 7,
    ];
    for change in changes {
        let message = load(change).unwrap_err().to_string();
        assert!(message.contains("checkpoint.bin") && message.contains("settings"));
    }
    // This setting does not change the result of a fit.
    assert!(load(|fit| fit.checkpoint_every = 5).unwrap().is_some());
}

/// Stores the numbers of the epochs.
#[derive(Default)]
struct Epochs(Vec<usize>);

impl Observer for Epochs {
    fn epoch(
        &mut self,
        record: &EpochRecord,
        _: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        self.0.push(record.epoch);
        ControlFlow::Continue(())
    }
}

#[test]
fn a_resumed_fit_reads_its_checkpoint_once() {
    let site = Site::new(&gap(), NUMBERS);
    let folder = RunFolder::open(&site.run()).unwrap();
    let config = folder.config().unwrap();
    let rows = prepared(&config.data, config.fit.seed);
    let settings = FitSettings {
        checkpoint_every: 1,
        ..config.fit.clone()
    };
    let mut kept = Kept::default();
    engine::fit(&rows.train, &settings, &mut kept).unwrap();
    folder
        .save_checkpoint(&kept.0.unwrap(), rows.fingerprint(), &config.fit)
        .unwrap();
    let mut resumed = FolderFit::new(&site.run(), config, rows, Start::Resumed).unwrap();
    std::fs::remove_file(folder.checkpoint_file()).unwrap();
    let mut epochs = Epochs::default();
    resumed.train(&mut epochs).unwrap();
    assert_eq!(epochs.0, [2]);
}

#[test]
fn spoilt_checkpoints() {
    let site = Site::new(&moons(), CLASSES);
    let folder = RunFolder::open(&site.run()).unwrap();
    let (problem, fit) = with_checkpoint(&folder);
    let whole = std::fs::read(folder.checkpoint_file()).unwrap();
    let resumed = || {
        let checkpoint = folder.load_checkpoint(problem.fingerprint(), &fit)?;
        let checkpoint = checkpoint.expect("the file is there");
        engine::resume(&problem, &fit, checkpoint, &mut Kept::default())
    };
    resumed().unwrap();
    proptest!(config(100), |(edits in edits())| {
        let bytes = damaged(&whole, &edits);
        std::fs::write(folder.checkpoint_file(), &bytes).unwrap();
        let result = named(bounded(&bytes, |_| resumed())?, &["checkpoint.bin"])?;
        prop_assert!(result.is_none() || bytes == whole, "a damaged checkpoint was used");
    });
}

#[test]
fn spoilt_metrics() {
    let site = Site::new(&gap(), NUMBERS);
    let folder = RunFolder::open(&site.run()).unwrap();
    let whole = std::fs::read(folder.metrics_file()).unwrap();
    proptest!(config(1000), |(edits in edits(), epochs in 0..3_usize)| {
        let bytes = damaged(&whole, &edits);
        std::fs::write(folder.metrics_file(), &bytes).unwrap();
        let resume = || MetricsFile::resume(&folder, epochs);
        named(bounded(&bytes, |_| resume())?, &["metrics.jsonl"])?;
    });
}

#[test]
fn half_a_line_of_metrics_is_cut_off() {
    let site = Site::new(&gap(), NUMBERS);
    let folder = RunFolder::open(&site.run()).unwrap();
    let path = folder.metrics_file();
    let whole = std::fs::read(&path).unwrap();
    // The last byte is the first of a two-byte character.
    let half = [&whole, &whole[..20], b"\xc3"].concat();
    std::fs::write(&path, half).unwrap();
    assert_eq!(folder.metrics().unwrap().len(), 2);
    MetricsFile::resume(&folder, 2).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
}

#[test]
fn numbers_that_no_chart_can_show() {
    let site = Site::new(&gap(), NUMBERS);
    let folder = RunFolder::open(&site.run()).unwrap();
    let mut metrics = folder.metrics().unwrap();
    for (loss, error, is_read) in [
        (3e38, 1e299, true),
        (1e308, 1.0, false),
        (-1e308, 1.0, false),
        (1.0, 1e308, false),
    ] {
        metrics[0].record.loss = loss;
        metrics[0].validation.as_mut().unwrap().error = error;
        let lines = metrics
            .iter()
            .map(|line| serde_json::to_string(line).unwrap() + "\n");
        std::fs::write(folder.metrics_file(), lines.collect::<String>()).unwrap();
        assert_eq!(folder.metrics().is_ok(), is_read, "{loss} {error}");
        named(folder.metrics(), &["metrics.jsonl, line 1"]).unwrap();
    }
}

/// Writes damaged `text` to a file, and reads it.
fn spoil<T>(name: &str, text: &str, read: impl Fn(&Path) -> Result<T>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    read(&path).unwrap();
    proptest!(config(1000), |(edits in edits())| {
        let bytes = damaged(text.as_bytes(), &edits);
        std::fs::write(&path, &bytes).unwrap();
        named(bounded(&bytes, |_| read(&path))?, &[name])?;
    });
}

#[test]
fn spoilt_settings() {
    let text = "[data]\npath = \"rows.csv\"\ntarget = \"y\"\ntask = \"classification\"\n\
        ignore = [\"id\", \"note\"]\ndelimiter = \"tab\"\nheader = \"present\"\n\
        missing = \"impute\"\nvalidation = 0.25\n\n[fit]\nmethod = \"vifa\"\nmodel = \"mlp:50,20\"\n\
        rank = 3\nepochs = 100\nbatch_size = 32\nlearning_rate = 0.01\nclip = 1e3\n\
        noise_precision = \"learned\"\ndevice = \"cuda:1\"\nseed = 7\n";
    spoil("config.toml", text, |path| {
        let folder = path.parent().unwrap();
        std::fs::write(folder.join("command.txt"), "burn-bayes fit\n").unwrap();
        RunFolder::open(folder)?.config()
    });
}

#[test]
fn spoilt_ranges() {
    let text = "learning_rate = { log_uniform = [0.01, 1.0] }\nmomentum = { uniform = [0.5, 0.9] }\n\
        rank = { integer = [1, 3] }\nmodel = { choice = [\"linear\", \"mlp:50\"] }\n\
        [noise_precision]\nchoice = [\"learned\", 2.0]\n";
    let base = FitSettings::default();
    spoil("ranges.toml", text, |path| {
        let ranges = Ranges::read(path, &base)?;
        for seed in 1..4 {
            // A range that was valid in one draw may contain invalid values.
            let _ = ranges.draw(&base, Noise::new(seed));
        }
        Ok(())
    });
}

#[test]
fn spoilt_ledgers() {
    let line = "{\"case\":\"trial 0\",\"method\":\"vifa\",\"seed\":0,\"settings\":{\"epochs\":3},\
        \"measures\":{\"nll\":0.5},\"seconds\":1.5}\n";
    spoil("trials.jsonl", &line.repeat(3), ResultCache::open);
}

#[test]
fn a_fit_leaves_nothing_of_one_that_came_to_nothing() {
    let site = Site::new(&moons(), CLASSES);
    let folder = RunFolder::open(&site.run()).unwrap();
    let run = Run::load(&folder, None).unwrap();
    std::fs::remove_file(folder.model_file()).unwrap();
    // A point estimate, into a folder with a posterior.
    let target = run.model.target().clone();
    let point = TrainedModel::new(single(&run).network(), None, target, vec![1.0], 0).unwrap();
    let plain_models = run.plain_models(&folder, None).unwrap();
    folder.save_model(&point).unwrap();
    let files = folder.model_files(&point);
    folder
        .finish(&run.config, &plain_models, &files, run.file)
        .unwrap();
    assert!(
        Run::load(&folder, None)
            .unwrap()
            .model
            .posterior()
            .is_none()
    );
}
