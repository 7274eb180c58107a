//! What a finished run predicts with: a trained model, or the members of an ensemble.
//!
//! Each member is a run in a folder of its own, and is loaded when its predictions are needed, so that one member is
//! in memory at a time, unless many predictions are made.

use burn_bayes::FactorPosterior;
use burn_bayes_data::Features;
use serde::{Deserialize, Serialize};

use super::folder::RunFolder;
use super::model_file::ModelFile;
use super::{Run, wrong};
use crate::engine::TrainedModel;
use crate::error::Result;
use crate::files::{at, checksum, read_text};
use crate::predict::Predictions;
use crate::rows::Target;
use crate::scores::Verdict;
use crate::settings::DeviceName;

/// The model of a run.
#[derive(Debug)]
pub enum RunModel {
    /// One fit.
    Single(Box<TrainedModel>),
    /// Several fits.
    Ensemble(Ensemble),
}

/// The fits of an ensemble, which count equally.
#[derive(Debug)]
pub struct Ensemble {
    folders: Vec<RunFolder>,
    pub(super) members: Vec<Member>,
    /// The models of the members, if they are kept in memory.
    loaded: Vec<TrainedModel>,
    target: Target,
    /// By default that of the fit.
    device: Option<DeviceName>,
}

/// A member, in the file of an ensemble.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    /// The checksum of its model file, which has those of its other files.
    checksum: String,
    /// Whether its weights are a point.
    is_point: bool,
}

/// What is read of the scores of a member.
#[derive(Debug, Deserialize)]
struct ScoresFile {
    diagnosis: Option<MemberTest>,
    process: Option<MemberTest>,
    agreement: Option<MemberTest>,
}

#[derive(Debug, Deserialize)]
struct MemberTest {
    verdict: Verdict,
}

impl RunModel {
    /// The type of the target.
    pub fn target(&self) -> &Target {
        match self {
            Self::Single(model) => model.target(),
            Self::Ensemble(ensemble) => &ensemble.target,
        }
    }

    /// The posterior over the weights; `None` for a point estimate and for an ensemble.
    pub fn posterior(&self) -> Option<&FactorPosterior> {
        match self {
            Self::Single(model) => model.posterior(),
            Self::Ensemble(_) => None,
        }
    }

    /// Predicts rows under `draws` draws of the weights, without recalibration; see [`TrainedModel::predict`]. Those of
    /// an ensemble are shared equally by its members, rounded up.
    ///
    /// # Errors
    /// As [`TrainedModel::predict`], and if a file of a member was changed since the fit.
    pub(super) fn predict(&self, rows: &Features, draws: usize) -> Result<Predictions> {
        match self {
            Self::Single(model) => model.predict(rows, draws),
            Self::Ensemble(ensemble) => ensemble.predict(rows, draws),
        }
    }

    /// The same with everything in memory that predictions under `draws` draws need.
    pub(super) fn with_drawn_networks(self, draws: usize) -> Result<Self> {
        Ok(match self {
            Self::Single(model) => Self::Single(Box::new(model.with_drawn_networks(draws)?)),
            Self::Ensemble(ensemble) => {
                let share = ensemble.share(draws);
                let members = 0..ensemble.members.len();
                let members = members.map(|index| ensemble.load(index)?.with_drawn_networks(share));
                let loaded = members.collect::<Result<_>>()?;
                Self::Ensemble(Ensemble { loaded, ..ensemble })
            }
        })
    }

    /// The number of draws if `draws` are requested.
    pub fn draws(&self, draws: usize) -> usize {
        match self {
            Self::Single(model) => model.draws(draws),
            Self::Ensemble(ensemble) => ensemble.share(draws) * ensemble.members.len(),
        }
    }

    /// The number of different draws if `draws` are requested: chains have a fixed number of draws, which come again.
    ///
    /// # Errors
    /// If a file of a member was changed since the fit.
    pub(crate) fn distinct_draws(&self, draws: usize) -> Result<usize> {
        Ok(match self {
            Self::Single(model) => model.distinct_draws(draws),
            Self::Ensemble(ensemble) => {
                let share = ensemble.share(draws);
                let of_member = match ensemble.loaded.first() {
                    Some(model) => model.distinct_draws(share),
                    None => ensemble.load(0)?.distinct_draws(share),
                };
                of_member * ensemble.members.len()
            }
        })
    }
}

impl Ensemble {
    /// The ensemble of the finished fits in these folders.
    pub(super) fn of(folders: Vec<RunFolder>, is_point: bool, target: Target) -> Result<Self> {
        let member = |folder| {
            Ok(Member {
                checksum: model_checksum(folder)?,
                is_point,
            })
        };
        let members = folders.iter().map(member);
        Ok(Self {
            members: members.collect::<Result<_>>()?,
            loaded: Vec::new(),
            folders,
            target,
            device: None,
        })
    }

    /// The members in the folder of a finished ensemble.
    pub(super) fn open(
        folder: &RunFolder,
        members: Vec<Member>,
        target: Target,
        device: Option<DeviceName>,
    ) -> Result<Self> {
        let folders = (0..members.len()).map(|index| RunFolder::open(&folder.member(index)));
        Ok(Self {
            folders: folders.collect::<Result<_>>()?,
            members,
            loaded: Vec::new(),
            target,
            device,
        })
    }

    /// Why the first diverged member diverged.
    pub(super) fn divergence(&self) -> Result<Option<String>> {
        for (index, folder) in self.folders.iter().enumerate() {
            if let Some(reason) = ModelFile::load(folder)?.diverged {
                return Ok(Some(format!("member {}: {reason}", index + 1)));
            }
        }
        Ok(None)
    }

    /// The verdicts of the tests of the members' posteriors, from the scores of their held-out rows; empty for point
    /// estimates, and without held-out rows.
    pub(super) fn verdicts(&self) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        for folder in self
            .folders
            .iter()
            .filter(|folder| folder.scores_file().exists())
        {
            let path = folder.scores_file();
            let scores: ScoresFile =
                serde_json::from_str(&read_text(&path)?).map_err(|error| wrong(&path, error))?;
            let tests = [scores.diagnosis, scores.process, scores.agreement].into_iter();
            verdicts.extend(tests.flatten().map(|test| test.verdict));
        }
        Ok(verdicts)
    }

    /// The inverse of the mean noise variance of every target, on the standardised scale.
    pub(super) fn noise_precisions(&self) -> Result<Vec<f64>> {
        let mut variances = Vec::new();
        let weight = (self.folders.len() as f64).recip();
        for folder in &self.folders {
            let model = ModelFile::load(folder)?;
            let precisions = model.noise_precision.as_slice();
            variances.resize(precisions.len(), 0.0);
            let sums = variances.iter_mut().zip(precisions);
            sums.for_each(|(variance, precision)| *variance += weight / precision);
        }
        Ok(variances.into_iter().map(f64::recip).collect())
    }

    /// The model of a member, read from its folder.
    pub(super) fn load(&self, index: usize) -> Result<TrainedModel> {
        let folder = &self.folders[index];
        if model_checksum(folder)? != self.members[index].checksum {
            let problem =
                "it is not the member that the ensemble was made of; restore it, or fit again";
            return Err(wrong(folder.path(), problem));
        }
        match Run::load(folder, self.device)?.model {
            RunModel::Single(model) => Ok(*model),
            RunModel::Ensemble(_) => Err(wrong(folder.path(), "it is an ensemble itself")),
        }
    }

    fn predict(&self, rows: &Features, draws: usize) -> Result<Predictions> {
        let share = self.share(draws);
        let members = 0..self.members.len();
        let predictions = members.map(|index| match self.loaded.get(index) {
            Some(model) => model.predict(rows, share),
            None => self.load(index)?.predict(rows, share),
        });
        Ok(Predictions::of_members(predictions.collect::<Result<_>>()?))
    }

    /// The number of draws of each member.
    fn share(&self, draws: usize) -> usize {
        match self.members.iter().all(|member| member.is_point) {
            true => 1,
            false => draws.max(1).div_ceil(self.members.len()),
        }
    }
}

fn model_checksum(folder: &RunFolder) -> Result<String> {
    let path = folder.model_file();
    Ok(checksum(&std::fs::read(&path).map_err(at(&path))?))
}
