//! A fit into a folder: training with checkpoints, scores and results.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn_bayes_data::{Dataset, OneOrSeveral};
use serde::Serialize;

use super::best_epoch::{BestEpoch, StopAfter};
use super::model_file::ModelFile;
use super::recalibration;
use super::validation::{Validation, report_failure, validate};
use super::{EpochMetrics, MetricsFile, RunFolder, WatchedRows};
use crate::assessment::Assessment;
use crate::engine::{self, Checkpoint, EpochRecord, Observer, TrainedModel};
use crate::error::{Result, TabularError};
use crate::plain_models::PlainModels;
use crate::predict::PredictionTable;
use crate::rows::{PreparedRows, TrainingSet, Units};
use crate::scores::{HoldoutScore, diverged_by, divergence};
use crate::settings::{Config, FitSettings};
use crate::trend::Trend;

/// Number of weight draws to check that predictions of training rows are finite.
const CHECKED_DRAWS: usize = 10;
/// The number of training rows that are compared with a constant prediction.
const MOST_COMPARED: usize = 4096;

/// How a fit starts.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// In a new folder, with this command line.
    New(&'a str),
    /// The same, in the place of the run in the folder, if there is one.
    Instead(&'a str),
    /// From the checkpoint in the folder, if any.
    Resumed,
}

/// A fit into a folder.
#[derive(Debug)]
pub struct FolderFit {
    folder: RunFolder,
    config: Config,
    rows: PreparedRows,
    /// The hash of all rows.
    fingerprint: u64,
    /// From which the training begins.
    checkpoint: Option<Checkpoint>,
    /// D, the number of weights.
    weights: usize,
    start: Instant,
}

/// The models of a fit that was trained.
#[derive(Debug)]
pub struct TrainedRun {
    /// The model that the held-out rows are scored with.
    model: TrainedModel,
    /// The epoch that it is of, if not the last.
    best_epoch: Option<usize>,
    refitted: Option<Refitted>,
}

/// A model of all rows.
#[derive(Debug)]
struct Refitted {
    model: TrainedModel,
    rows: TrainingSet,
}

/// The summary of a finished fit.
#[derive(Debug, Serialize)]
pub struct FinishedFit {
    /// The folder.
    pub run: PathBuf,
    /// The name of the method.
    pub method: String,
    /// The network.
    pub model: String,
    /// Number of training rows.
    pub training_rows: usize,
    /// Whether the model was fitted again to all rows, after the one that was scored.
    #[serde(rename = "refitted")]
    pub is_refitted: bool,
    /// The epoch (from 1) with the best NLL of the held-out rows, whose model is kept; null if all epochs were made.
    pub best_epoch: Option<usize>,
    /// Whether the method exact would compute the posterior that this fit approximates.
    pub has_exact_posterior: bool,
    /// D, the number of weights.
    pub weights: usize,
    /// K; null for a point estimate and for samples.
    pub rank: Option<usize>,
    /// The columns that are predicted.
    pub targets: Vec<String>,
    /// 1/variance of the noise of every target, in its own unit; null for classes.
    pub noise_precision: Option<OneOrSeveral<f64>>,
    /// The learned precisions of the prior: one for all weights, or one for each layer; null if it was given.
    pub learned_prior: Option<Vec<f64>>,
    /// The learned kernel of a prior over functions.
    pub kernel: Option<String>,
    /// The number of members of an ensemble; null for a single fit.
    pub members: Option<usize>,
    /// Wall-clock time.
    pub seconds: f64,
    /// Whether the fit can be trusted.
    #[serde(flatten)]
    pub assessment: Assessment,
    /// Scores of the held-out rows; null without held-out rows.
    pub scores: Option<Validation>,
    /// The error, if the fit has diverged with finite numbers.
    #[serde(skip)]
    pub failure: Option<TabularError>,
}

impl FolderFit {
    /// Prepares a fit.
    ///
    /// # Errors
    /// If a setting is invalid for these rows, or the folder contains a run that would be overwritten, or
    /// no run to resume.
    pub fn new(
        out: &Path,
        mut config: Config,
        rows: PreparedRows,
        start: Start<'_>,
    ) -> Result<Self> {
        PredictionTable::check_kept(rows.train.target(), &config.data)?;
        let weights = engine::check(&rows.train, &config.fit)?;
        config.fit = engine::in_effect(&rows.train, config.fit);
        recalibration::check(&config.fit, &rows)?;
        let fingerprint = rows.fingerprint();
        let (folder, checkpoint) = match start {
            Start::New(command) => (RunFolder::create(out, &config, command)?, None),
            Start::Instead(command) => (RunFolder::replace(out, &config, command)?, None),
            Start::Resumed => {
                let folder = RunFolder::resume(out)?;
                // Before anything changes, which needs the same rows and settings.
                let checkpoint = folder.load_checkpoint(fingerprint, &config.fit)?;
                folder.reopen(&config)?;
                (folder, checkpoint)
            }
        };
        folder.remove_validation()?;
        Ok(Self {
            folder,
            config,
            fingerprint,
            checkpoint,
            rows,
            weights,
            start: Instant::now(),
        })
    }

    /// The settings in effect.
    pub fn settings(&self) -> &FitSettings {
        &self.config.fit
    }

    /// The command that continues the fit after an interruption.
    pub fn continuation(&self) -> String {
        self.folder.continuation()
    }

    /// Number of held-out rows.
    pub fn scored_rows(&self) -> usize {
        self.rows.validation.as_ref().map_or(0, Dataset::rows)
    }

    /// Trains from the start, or from the checkpoint in the folder if any, and again on all rows if the settings
    /// say so. Checkpoints and metrics are written to the folder, and `observer` is called at every epoch.
    ///
    /// # Errors
    /// As [`engine::fit`], and if a file cannot be written.
    pub fn train(&mut self, observer: &mut dyn Observer) -> Result<TrainedRun> {
        let checkpoint = self.checkpoint.take();
        self.reported(|| {
            let (train, settings) = (&self.rows.train, &self.config.fit);
            if self.config.data.class_order.0.is_empty()
                && let Some(warning) = engine::warning_of_order(settings, train.target())
            {
                observer.warn(&warning);
            }
            let trained = self.trained(checkpoint, observer)?;
            let all = match settings.refit {
                true => self.rows.all()?,
                false => None,
            };
            let refitted = all.map(|rows| {
                let model = self.stopped(&rows, trained.best_epoch, observer)?;
                Ok::<_, TabularError>(Refitted { model, rows })
            });
            Ok(TrainedRun {
                refitted: refitted.transpose()?,
                ..trained
            })
        })
    }

    /// Scores the held-out rows, and marks the run as finished. Without held-out rows, and after a second fit to all
    /// rows, the predictions of the training rows say whether the fit has diverged.
    ///
    /// # Errors
    /// If a prediction is not finite, or a file cannot be written.
    pub fn finish(self, trained: &TrainedRun) -> Result<FinishedFit> {
        let (folder, config) = (&self.folder, &self.config);
        let (model, train) = match &trained.refitted {
            Some(refitted) => (&refitted.model, &refitted.rows),
            None => (&trained.model, &self.rows.train),
        };
        let (scores, assessment, plain_models, diverged) = self.reported(|| {
            folder.save_model(model)?;
            let diagnosis = engine::diagnose(train, &config.fit, model)?;
            let epochs = folder.metrics()?;
            let losses: Vec<f64> = epochs.iter().map(|epoch| epoch.record.loss).collect();
            let process = engine::compare_with_process(train, &config.fit, model)?;
            let assessment = Assessment {
                diagnosis,
                process,
                trend: Trend::of(&losses),
                agreement: model.agreement,
                is_uncompared: model.agreement.is_none() && config.fit.method.is_sampled(),
                ..Assessment::default()
            };
            let mut plain_models = PlainModels::fit(&self.rows.train, &config.fit)?;
            let scores = validate(
                folder,
                config,
                &self.rows,
                |features| trained.model.predict(features, config.fit.draws),
                trained.model.posterior(),
                &mut plain_models,
                assessment.clone(),
            )?;
            // The held-out rows, if any, scored another model.
            let unscored = match scores.is_none() || trained.refitted.is_some() {
                true => training_divergence(model, train, &config.fit)?,
                false => None,
            };
            if let Some(refitted) = &trained.refitted {
                plain_models = PlainModels::fit(&refitted.rows, &config.fit)?;
            }
            let full = scores.as_ref().map(|scores| scores.assessment.clone());
            let diverged = scores.as_ref().and_then(|scores| scores.diverged.clone());
            let diverged = diverged.or(unscored);
            let assessment = assessment.completed(full, diverged.is_some());
            Ok((scores, assessment, plain_models, diverged))
        })?;
        self.rows.preprocessor.save(folder.preprocessor_file())?;
        let noise_precisions = model.noise_precisions().to_vec();
        let file = ModelFile {
            kernel: model.kernel.clone(),
            verdict: assessment.verdict,
            ..ModelFile::of(
                &self.rows,
                scores.as_ref(),
                diverged.clone(),
                noise_precisions,
                &plain_models,
            )
        };
        folder.finish(config, &plain_models, &folder.model_files(model), file)?;
        let agreement = trained.model.agreement;
        if !agreement.is_some_and(|agreement| agreement.can_go_on) {
            folder.remove_checkpoint()?;
        }
        Ok(FinishedFit {
            run: folder.path().into(),
            method: config.fit.method.to_string(),
            model: config.fit.shape().to_string(),
            training_rows: train.rows(),
            is_refitted: trained.refitted.is_some(),
            best_epoch: trained.best_epoch,
            has_exact_posterior: engine::has_exact_posterior(train, &config.fit),
            weights: model.weights(),
            rank: model.posterior().map(|posterior| posterior.rank()),
            targets: config.data.targets()?.to_vec(),
            noise_precision: model
                .noise_precisions_in_target_units()
                .map(OneOrSeveral::from),
            learned_prior: model.learned_prior.clone(),
            kernel: model.kernel.clone(),
            members: None,
            seconds: self.start.elapsed().as_secs_f64(),
            assessment,
            scores,
            failure: diverged.map(|reason| diverged_by(&reason, &config.fit)),
        })
    }

    /// Writes a report if the work fails with a non-finite number.
    fn reported<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let done = work();
        if let Err(TabularError::Numerical(reason)) = &done {
            let target = self.rows.train.target();
            report_failure(&self.folder, &self.config, target, reason)?;
        }
        done
    }

    fn trained(
        &self,
        checkpoint: Option<Checkpoint>,
        observer: &mut dyn Observer,
    ) -> Result<TrainedRun> {
        let (training_set, settings) = (&self.rows.train, &self.config.fit);
        let metrics = match &checkpoint {
            Some(checkpoint) => MetricsFile::resume(&self.folder, checkpoint.epochs)?,
            None => MetricsFile::create(&self.folder)?,
        };
        let watched = self.rows.validation.as_ref();
        let watched =
            watched.map(|rows| WatchedRows::new(rows, training_set, settings, self.weights));
        let patience = settings.patience.filter(|_| watched.is_some());
        let recorded = self.folder.metrics()?;
        let best = patience.map(|patience| BestEpoch::new(patience, &recorded));
        let mut keeper = RunRecorder {
            fit: self,
            watched,
            metrics,
            best,
            observer,
            failure: None,
        };
        let model = match checkpoint {
            Some(checkpoint) => engine::resume(training_set, settings, checkpoint, &mut keeper),
            None => engine::fit(training_set, settings, &mut keeper),
        };
        if let Some(failure) = keeper.failure {
            return Err(failure);
        }
        let last = model?;
        let best = keeper.best.and_then(BestEpoch::into_best);
        let (best_epoch, model) = match best {
            None => (None, last),
            Some((epoch, Some(model))) => {
                let model = engine::completed(training_set, settings, model)?;
                (Some(epoch), model)
            }
            // It was made before an interruption; the training is the same each time.
            Some((epoch, None)) => {
                let observer = &mut ();
                let model = self.stopped(training_set, Some(epoch), observer)?;
                (Some(epoch), model)
            }
        };
        Ok(TrainedRun {
            model,
            best_epoch,
            refitted: None,
        })
    }

    /// A training on these rows that ends after an epoch, if one is given.
    fn stopped(
        &self,
        rows: &TrainingSet,
        epoch: Option<usize>,
        observer: &mut dyn Observer,
    ) -> Result<TrainedModel> {
        let settings = &self.config.fit;
        let epoch = epoch.unwrap_or(usize::MAX);
        engine::fit(rows, settings, &mut StopAfter { epoch, observer })
    }
}

/// The divergence of a fit from its predictions of the training rows, or of some of many.
///
/// # Errors
/// If the NLL of a training row is not finite.
fn training_divergence(
    model: &TrainedModel,
    train: &TrainingSet,
    settings: &FitSettings,
) -> Result<Option<String>> {
    expect_finite(model, train, settings)?;
    let some = train.select(&train.some(MOST_COMPARED));
    let rows = some.features()?;
    let predictions = model.predict(&rows, settings.draws)?;
    let units = Units::rows(rows.rows());
    let found = divergence(train, &rows, &predictions, &some.true_targets(), &units)?;
    Ok(found.map(|found| found.of_rows("training")))
}

/// Checks that the NLL of the training rows is finite.
fn expect_finite(model: &TrainedModel, train: &TrainingSet, settings: &FitSettings) -> Result<()> {
    for piece in train.pieces() {
        let predictions = model.predict(&piece.features()?, CHECKED_DRAWS)?;
        let HoldoutScore { cost, .. } = HoldoutScore::of(&predictions, &piece.true_targets())?;
        if !cost.is_finite() {
            let reason = "the NLL of the training rows is not finite";
            return Err(diverged_by(reason, settings));
        }
    }
    Ok(())
}

/// Writes metrics and checkpoints to the folder, and forwards calls to another observer.
struct RunRecorder<'a> {
    fit: &'a FolderFit,
    watched: Option<WatchedRows>,
    metrics: MetricsFile,
    /// The best epoch, if the settings ask for it.
    best: Option<BestEpoch>,
    observer: &'a mut dyn Observer,
    /// The error that stopped the fit.
    failure: Option<TabularError>,
}

impl RunRecorder<'_> {
    /// Writes the metrics of an epoch; `Break` if no better epoch is expected.
    fn keep(
        &mut self,
        record: &EpochRecord,
        snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> Result<ControlFlow<()>> {
        let watched = self.watched.as_ref();
        let validation = watched
            .map(|rows| rows.score(record, snapshot))
            .transpose()?;
        let metrics = EpochMetrics {
            record: record.clone(),
            validation: validation.flatten(),
        };
        self.metrics.push(&metrics)?;
        match &mut self.best {
            Some(best) => best.add(&metrics, snapshot),
            None => Ok(ControlFlow::Continue(())),
        }
    }
}

impl Observer for RunRecorder<'_> {
    fn epoch(
        &mut self,
        record: &EpochRecord,
        snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        let asked = self.observer.epoch(record, snapshot);
        match self.keep(record, snapshot) {
            Ok(ControlFlow::Continue(())) => asked,
            Ok(ControlFlow::Break(())) => ControlFlow::Break(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn learns_noise(&mut self, training: usize, trainings: usize) {
        self.observer.learns_noise(training, trainings);
    }

    fn interrupts(&self) -> bool {
        self.observer.interrupts()
    }

    fn warn(&mut self, warning: &str) {
        self.observer.warn(warning);
    }

    fn keeps_checkpoints(&self) -> bool {
        true
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<()> {
        let fit = self.fit;
        fit.folder
            .save_checkpoint(&checkpoint, fit.fingerprint, &fit.config.fit)
    }
}
