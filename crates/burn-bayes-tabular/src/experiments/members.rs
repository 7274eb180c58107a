//! The fits of the members of an ensemble as jobs, several at the same time.

use std::fs;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::jobs::{self, Computed, Job, Key, Progress, ResultCache};
use crate::error::Result;
use crate::files::write_whole;
use crate::run::{EnsembleFit, MemberFits};

impl EnsembleFit {
    /// Fits all members that are not finished, several at the same time.
    ///
    /// # Errors
    /// The first error of a fit, after which no further one is started.
    pub fn fit_in_parallel(&self, threads: usize, progress: &dyn Progress) -> Result<()> {
        let jobs = of_fits(&self.fits)?;
        // The members' folders say what is finished; the list of jobs starts empty.
        let list = self.folder.members_file();
        write_whole(&list, b"")?;
        jobs::run(&jobs, &ResultCache::open(&list)?, threads, progress)?;
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
        let key = Key::new(name, fits.config.fit.method.to_string(), place as u64);
        let fits = fits.clone();
        Job::of(key, MemberFit { fits, place }, |member| {
            if let Some(mut fit) = member.fits.fit(member.place)? {
                let trained = fit.train(&mut ())?;
                fit.finish(&trained)?;
            }
            Ok(Computed::default())
        })
    });
    jobs.collect()
}
