//! The fits of the members of an ensemble as jobs, several at the same time.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::jobs::{self, Computed, Job, Key, Progress, ResultCache, Task, WorkerPool};
use crate::engine::Unobserved;
use crate::error::Result;
use crate::files::write_whole;
use crate::rows::{PreparedRows, SplitTable, read_table};
use crate::run::{EnsembleFit, MemberFits, RunFolder};
use crate::settings::Config;

/// The fits of members, from which a worker process creates the same jobs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Members {
    folder: PathBuf,
    config: Config,
}

impl Members {
    /// The fits, on the rows of the data file.
    pub(super) fn jobs(&self) -> Result<Vec<Job>> {
        let Config { data, fit } = &self.config;
        let rows = SplitTable::deal(read_table(data)?, data, fit.seed)?;
        let rows = PreparedRows::prepare(rows, data)?;
        let folder = RunFolder::open(&self.folder)?;
        of_fits(&MemberFits::new(folder, self.config.clone(), rows)?.into())
    }
}

impl EnsembleFit {
    /// Fits all members that are not finished, several at the same time. Worker processes create the same jobs from
    /// `task`.
    ///
    /// # Errors
    /// The first error of a fit, after which no further one is started.
    pub fn fit_in_parallel<T: Task>(
        &self,
        task: impl FnOnce(Members) -> T,
        pool: &WorkerPool,
        progress: &dyn Progress,
    ) -> Result<()> {
        let task = task(Members {
            folder: self.folder.path().into(),
            config: self.fits.config.clone(),
        });
        let jobs = of_fits(&self.fits)?;
        // The members' folders say what is finished; the list of jobs starts empty.
        let list = self.folder.members_file();
        write_whole(&list, b"")?;
        jobs::run(&task, &jobs, &ResultCache::open(&list)?, pool, progress)?;
        Ok(fs::remove_file(&list)?)
    }
}

/// A fit at a place in the list of an ensemble.
#[derive(Serialize)]
struct MemberFit {
    #[serde(serialize_with = "as_key")]
    fits: Arc<MemberFits>,
    place: usize,
}

fn as_key<S: Serializer>(fits: &Arc<MemberFits>, serializer: S) -> Result<S::Ok, S::Error> {
    (fits.config.fit.key(), fits.rows.fingerprint()).serialize(serializer)
}

/// A job for every fit, without results: those are in the members' folders.
fn of_fits(fits: &Arc<MemberFits>) -> Result<Vec<Job>> {
    let names = fits.names().into_iter().enumerate();
    let jobs = names.map(|(place, name)| {
        let key = Key {
            case: name,
            method: fits.config.fit.method.to_string(),
            seed: place as u64,
        };
        let fits = fits.clone();
        Job::of(key, MemberFit { fits, place }, |member| {
            if let Some(fit) = member.fits.fit(member.place)? {
                let trained = fit.train(&mut Unobserved)?;
                fit.finish(&trained)?;
            }
            Ok(Computed::default())
        })
    });
    jobs.collect()
}
