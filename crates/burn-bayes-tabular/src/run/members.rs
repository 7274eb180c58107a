//! What a finished run predicts with: a trained model, or the members of an ensemble.
//!
//! Each member is a run in a folder of its own, and is loaded when its predictions are needed, so that one member is
//! in memory at a time.

use burn_bayes::FactorPosterior;
use burn_bayes_data::Features;
use serde::{Deserialize, Serialize};

use super::folder::RunFolder;
use super::model_file::ModelFile;
use super::{Run, wrong};
use crate::engine::{TrainedModel, Verdict};
use crate::error::Result;
use crate::files::{at, checksum, read_text};
use crate::predict::Predictions;
use crate::rows::Target;
use crate::settings::DeviceName;

/// The model of a run.
#[derive(Debug)]
pub enum RunModel {
    /// One fit.
    Single(Box<TrainedModel>),
    /// Several fits.
    Ensemble(Ensemble),
}

/// A weighted mixture of the fits of an ensemble.
#[derive(Debug)]
pub struct Ensemble {
    folders: Vec<RunFolder>,
    members: Vec<Member>,
    target: Target,
    /// By default that of the fit.
    device: Option<DeviceName>,
}

/// A member, in the file of an ensemble.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    weight: f64,
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
    /// an ensemble are shared by its members: equally, rounded up, or in proportion to their weights.
    ///
    /// # Errors
    /// As [`TrainedModel::predict`], and if a file of a member was changed since the fit.
    pub(super) fn predict(&self, rows: &Features, draws: usize) -> Result<Predictions> {
        match self {
            Self::Single(model) => model.predict(rows, draws),
            Self::Ensemble(ensemble) => ensemble.predict(rows, draws),
        }
    }

    /// The number of draws if `draws` are requested.
    pub fn draws(&self, draws: usize) -> usize {
        match self {
            Self::Single(model) => model.draws(draws),
            Self::Ensemble(ensemble) => ensemble.shares(draws).iter().sum(),
        }
    }

    /// The weights of the members of an ensemble, which sum to 1.
    pub fn member_weights(&self) -> Option<Vec<f64>> {
        match self {
            Self::Single(_) => None,
            Self::Ensemble(ensemble) => {
                let weights = ensemble.members.iter().map(|member| member.weight);
                Some(weights.collect())
            }
        }
    }
}

impl Ensemble {
    /// The ensemble of the finished fits in these folders.
    pub(super) fn of(
        folders: Vec<RunFolder>,
        weights: &[f64],
        is_point: bool,
        target: Target,
    ) -> Result<Self> {
        let member = |(folder, &weight): (&RunFolder, &f64)| {
            Ok(Member {
                weight,
                checksum: model_checksum(folder)?,
                is_point,
            })
        };
        let members = folders.iter().zip(weights).map(member);
        Ok(Self {
            members: members.collect::<Result<_>>()?,
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
            target,
            device,
        })
    }

    /// The ensemble with these weights.
    pub(super) fn with_weights(mut self, weights: &[f64]) -> Self {
        for (member, &weight) in self.members.iter_mut().zip(weights) {
            member.weight = weight;
        }
        self
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
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
            let tests = [scores.diagnosis, scores.process].into_iter();
            verdicts.extend(tests.flatten().map(|test| test.verdict));
        }
        Ok(verdicts)
    }

    /// The inverse of the mean noise variance of every target, on the standardised scale.
    pub(super) fn noise_precisions(&self) -> Result<Vec<f64>> {
        let mut variances = Vec::new();
        for (folder, member) in self.folders.iter().zip(&self.members) {
            let model = ModelFile::load(folder)?;
            let precisions = model.noise_precision.as_slice();
            variances.resize(precisions.len(), 0.0);
            let sums = variances.iter_mut().zip(precisions);
            sums.for_each(|(variance, precision)| *variance += member.weight / precision);
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
        let shares = self.shares(draws).into_iter().enumerate();
        let predictions = shares
            .filter(|&(_, share)| share > 0)
            .map(|(index, share)| {
                let predictions = self.load(index)?.predict(rows, share)?;
                Ok(match self.members[index].is_point && share > 1 {
                    true => predictions.repeated(share),
                    false => predictions,
                })
            });
        Ok(Predictions::of_members(predictions.collect::<Result<_>>()?))
    }

    /// The number of draws of each member.
    fn shares(&self, draws: usize) -> Vec<usize> {
        let weights: Vec<f64> = self.members.iter().map(|member| member.weight).collect();
        let draws = draws.max(1);
        let is_equal = weights.iter().all(|weight| *weight == weights[0]);
        let is_point = self.members.iter().all(|member| member.is_point);
        match (is_equal, is_point) {
            (true, true) => vec![1; weights.len()],
            (true, false) => vec![draws.div_ceil(weights.len()); weights.len()],
            (false, _) => proportional(&weights, draws),
        }
    }
}

/// Whole numbers that sum to `total`, in proportion to weights that sum to 1, by the largest remainders.
fn proportional(weights: &[f64], total: usize) -> Vec<usize> {
    let exact: Vec<f64> = weights.iter().map(|weight| weight * total as f64).collect();
    let mut shares: Vec<usize> = exact.iter().map(|share| share.floor() as usize).collect();
    let left = total.saturating_sub(shares.iter().sum());
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
    order
        .iter()
        .take(left)
        .for_each(|&index| shares[index] += 1);
    shares
}

fn model_checksum(folder: &RunFolder) -> Result<String> {
    let path = folder.model_file();
    Ok(checksum(&std::fs::read(&path).map_err(at(&path))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_shared_by_weight() {
        assert_eq!(proportional(&[0.5, 0.3, 0.2], 10), [5, 3, 2]);
        assert_eq!(proportional(&[0.55, 0.0, 0.45], 10), [6, 0, 4]);
        assert_eq!(proportional(&[1.0 / 3.0, 2.0 / 3.0], 100), [33, 67]);
        assert_eq!(proportional(&[0.0, 1.0], 1), [0, 1]);
    }
}
