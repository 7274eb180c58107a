//! A fit of an ensemble into a folder: independent fits, the members, each a run in a folder of its own.
//!
//! The members differ in their seeds, so in the initial weights, the order of the rows and the draws. They are fitted
//! one after the other, or several at the same time in processes of their own, with the same results. A member that is
//! finished is kept, so an interrupted fit continues with those that are not.
//!
//! With `refit`, every member is fitted twice: to the training rows, for the scores, and then to all rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use burn_bayes::Noise;
use burn_bayes_data::{Dataset, OneOrSeveral};
use rand::RngExt;

use super::fit::{FinishedFit, FolderFit, Start};
use super::folder::RunFolder;
use super::members::{Ensemble, RunModel};
use super::model_file::ModelFile;
use super::recalibration;
use super::training_rows::fingerprint;
use super::validation::validate;
use super::wrong;
use crate::assessment::Assessment;
use crate::engine;
use crate::error::Result;
use crate::files::{read_text, write_whole};
use crate::plain_models::PlainModels;
use crate::predict::PredictionTable;
use crate::random::generator;
use crate::rows::PreparedRows;
use crate::scores::diverged_by;
use crate::settings::{Config, FitSettings, Method, refused};

/// The stream of the members' seeds.
const SEEDS: u64 = 0x6d65_6d62_6572;

/// A fit of an ensemble into a folder.
#[derive(Debug)]
pub struct EnsembleFit {
    pub(crate) folder: RunFolder,
    /// The fits of the members.
    pub fits: Arc<MemberFits>,
    /// D, the number of weights of a member.
    weights: usize,
    start: Instant,
}

/// The fits of the members of the ensemble in a folder.
#[derive(Debug)]
pub struct MemberFits {
    folder: RunFolder,
    pub(crate) config: Config,
    pub(crate) rows: PreparedRows,
    /// The rows of the members that are kept, if they are fitted again to all rows.
    all_rows: Option<PreparedRows>,
    command: String,
}

impl FitSettings {
    /// The settings of a member, the first of which has the seed of the ensemble.
    pub(crate) fn of_member(&self, index: usize) -> Self {
        let seed = match index {
            0 => self.seed,
            _ => {
                let noise = Noise::new(self.seed).fold(SEEDS).fold(index as u64);
                generator(noise).random::<u32>().into()
            }
        };
        Self {
            seed,
            patience: self.patience,
            ..self.of_one_training()
        }
    }
}

impl EnsembleFit {
    /// Prepares a fit.
    ///
    /// # Errors
    /// As [`FolderFit::new`], and if the settings do not suit an ensemble, or members in the folder are of other rows.
    pub fn new(
        out: &Path,
        mut config: Config,
        rows: PreparedRows,
        start: Start<'_>,
    ) -> Result<Self> {
        PredictionTable::check_kept(rows.train.target(), &config.data)?;
        let weights = engine::check(&rows.train, &config.fit)?;
        config.fit = engine::in_effect(&rows.train, config.fit);
        if engine::is_solved_directly(&rows.train, &config.fit) {
            let problem = "would be equal: a linear model that is solved directly does not depend on the seed; leave \
                           it out, or train the model with `--solver gradient`";
            return Err(refused("members", problem));
        }
        if config.fit.refit && config.fit.patience.is_some() {
            let problem = "is not possible with `members` and `patience`: the best epoch is another one for each \
                           member; leave out one of them";
            return Err(refused("refit", problem));
        }
        recalibration::check(&config.fit, &rows)?;
        let fingerprint = format!("{}\n", fingerprint(&rows));
        let folder = match start {
            Start::New(command) => RunFolder::create(out, &config, command)?,
            Start::Instead(command) => RunFolder::replace(out, &config, command)?,
            Start::Resumed => {
                let folder = RunFolder::resume(out)?;
                let path = folder.rows_file();
                if read_text(&path)? != fingerprint {
                    let problem = "the rows differ from those of the interrupted fit; restore them, or fit into \
                                   another folder";
                    return Err(wrong(&path, problem));
                }
                folder
            }
        };
        write_whole(&folder.rows_file(), fingerprint.as_bytes())?;
        folder.remove_validation()?;
        Ok(Self {
            fits: MemberFits::new(folder.clone(), config, rows)?.into(),
            folder,
            weights,
            start: Instant::now(),
        })
    }

    /// The settings in effect.
    pub fn settings(&self) -> &FitSettings {
        &self.fits.config.fit
    }

    /// The command that continues the fit after an interruption.
    pub fn continuation(&self) -> String {
        self.folder.continuation()
    }

    /// Number of held-out rows.
    pub fn scored_rows(&self) -> usize {
        self.fits.rows.validation.as_ref().map_or(0, Dataset::rows)
    }

    /// Scores the held-out rows by the finished members, and marks the ensemble as finished.
    ///
    /// # Errors
    /// If a member is not finished, a prediction is not finite, or a file cannot be written.
    pub fn finish(self) -> Result<FinishedFit> {
        let (folder, config, rows) = (&self.folder, &self.fits.config, &self.fits.rows);
        let target = rows.train.target();
        let scored = match self.fits.all_rows {
            None => self.ensemble(RunFolder::member)?,
            Some(_) => self.ensemble(RunFolder::scored_member)?,
        };
        let member_verdicts = scored.verdicts()?;
        let kept = self.ensemble(RunFolder::member)?;
        let divergence = scored.divergence()?.or(kept.divergence()?);
        let noise_precisions = kept.noise_precisions()?;
        let model = RunModel::Ensemble(scored);
        let mut plain_models = PlainModels::fit(&rows.train, &config.fit)?;
        let assessment = Assessment {
            member_verdicts,
            ..Assessment::default()
        };
        let scores = validate(
            folder,
            config,
            rows,
            |features| model.predict(features, config.fit.draws),
            None,
            &mut plain_models,
            assessment.clone(),
        )?;
        let train = match &self.fits.all_rows {
            None => &rows.train,
            Some(all) => {
                plain_models = PlainModels::fit(&all.train, &config.fit)?;
                &all.train
            }
        };
        let diverged = scores.as_ref().and_then(|scores| scores.diverged.clone());
        let diverged = divergence.or(diverged);
        rows.preprocessor.save(folder.preprocessor_file())?;
        let full = scores.as_ref().map(|scores| scores.assessment.clone());
        let assessment = assessment.completed(full, diverged.is_some());
        let file = ModelFile {
            verdict: assessment.verdict,
            members: kept.members,
            ..ModelFile::of(
                rows,
                scores.as_ref(),
                diverged.clone(),
                noise_precisions.clone(),
                &plain_models,
            )
        };
        folder.finish(config, &plain_models, &[], file)?;
        for index in 0..config.fit.members {
            for member in [folder.member(index), folder.scored_member(index)] {
                RunFolder::at(&member).remove_checkpoint()?;
            }
        }
        Ok(FinishedFit {
            run: folder.path().into(),
            method: config.fit.method.to_string(),
            model: config.fit.shape().to_string(),
            training_rows: train.rows(),
            is_refitted: self.fits.all_rows.is_some(),
            best_epoch: None,
            has_exact_posterior: engine::has_exact_posterior(train, &config.fit),
            weights: self.weights,
            rank: engine::rank(&config.fit, self.weights)?,
            targets: config.data.targets()?.to_vec(),
            noise_precision: match engine::is_simple(&config.fit, target) {
                true => engine::in_target_units(&noise_precisions, target).map(OneOrSeveral::from),
                false => None,
            },
            learned_prior: None,
            kernel: None,
            members: Some(config.fit.members),
            seconds: self.start.elapsed().as_secs_f64(),
            assessment,
            scores,
            failure: diverged.map(|reason| diverged_by(&reason, &config.fit)),
        })
    }

    /// The finished members in these folders.
    fn ensemble(&self, folder: fn(&RunFolder, usize) -> PathBuf) -> Result<Ensemble> {
        let settings = &self.fits.config.fit;
        let folders =
            (0..settings.members).map(|index| RunFolder::open(&folder(&self.folder, index)));
        let folders = folders.collect::<Result<Vec<_>>>()?;
        let target = self.fits.rows.train.target().clone();
        Ensemble::of(folders, settings.method == Method::Map, target)
    }
}

impl MemberFits {
    pub(crate) fn new(folder: RunFolder, config: Config, rows: PreparedRows) -> Result<Self> {
        Ok(Self {
            command: folder.command()?,
            all_rows: all_rows(&config.fit, &rows)?,
            folder,
            config,
            rows,
        })
    }

    /// The names of all fits, in order: of the members, or with `refit` of the scored fits and then of the members.
    pub fn names(&self) -> Vec<String> {
        let members = self.config.fit.members;
        let names = |what: &str| {
            let name = |member| format!("member {member} of {members}{what}");
            (1..=members).map(name).collect::<Vec<_>>()
        };
        match self.all_rows {
            None => names(""),
            Some(_) => [names(", to be scored"), names(", fitted to all rows")].concat(),
        }
    }

    /// The fit at a place in [`names`](Self::names), from 0; `None` if it is finished.
    ///
    /// # Errors
    /// If its folder has a fit with other settings, and as [`FolderFit::new`].
    pub fn fit(&self, place: usize) -> Result<Option<FolderFit>> {
        let (members, folder) = (self.config.fit.members, &self.folder);
        let index = place % members;
        let (path, rows) = match &self.all_rows {
            None => (folder.member(index), &self.rows),
            Some(_) if place < members => (folder.scored_member(index), &self.rows),
            Some(all) => (folder.member(index), all),
        };
        let config = Config {
            fit: self.config.fit.of_member(index),
            ..self.config.clone()
        };
        let start = match RunFolder::open(&path) {
            Err(_) => Start::New(&self.command),
            Ok(folder) => {
                if folder.config()?.fit.training_key() != config.fit.training_key() {
                    let problem = "it was fitted with other settings than those in the config.toml of the ensemble; \
                                   restore them, or fit into another folder";
                    return Err(wrong(&path, problem));
                }
                if folder.is_finished() {
                    return Ok(None);
                }
                Start::Resumed
            }
        };
        FolderFit::new(&path, config, rows.clone(), start).map(Some)
    }
}

/// All rows as training rows, if the settings ask for a second fit and there are held-out rows.
fn all_rows(settings: &FitSettings, rows: &PreparedRows) -> Result<Option<PreparedRows>> {
    let all = match settings.refit {
        true => rows.all()?,
        false => None,
    };
    Ok(all.map(|train| PreparedRows {
        train,
        validation: None,
        ..rows.clone()
    }))
}
