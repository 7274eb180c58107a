//! The cache of results: a file with one line per finished job.
//!
//! If the process was killed while writing, the incomplete last line is removed when the file is opened
//! again. The file is locked while it is open, so that a second process does not take a line that the first one is
//! writing for an incomplete one.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Result, TabularError};
use crate::files::{at, lock_open, make_folder, whole_lines};
use crate::settings::refused;

use super::{Computed, Job, Key};

/// A finished job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The name of the job.
    #[serde(flatten)]
    pub key: Key,
    /// Everything that the result depends on.
    pub settings: Value,
    /// The results.
    #[serde(flatten)]
    pub computed: Computed,
    /// Wall-clock time.
    pub seconds: f64,
}

/// What becomes of the results that a folder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// They are an error.
    Refused,
    /// They are used.
    Resumed,
    /// They are removed.
    Replaced,
}

/// The finished jobs of a command.
#[derive(Debug)]
pub struct ResultCache {
    path: PathBuf,
    file: Mutex<File>,
    records: Vec<Record>,
}

impl ResultCache {
    /// Opens the cache file of a command in its folder, which is created if needed.
    ///
    /// # Errors
    /// If the file exists and shall not.
    pub fn begin(folder: &Path, name: &str, existing: Existing) -> Result<Self> {
        let path = folder.join(name);
        if path.exists() && existing == Existing::Refused {
            let problem = format!(
                "is {}, which contains {name}; give `--resume` and the same options, replace it with \
                 `--overwrite`, or name another folder",
                folder.display()
            );
            return Err(refused("out", problem));
        }
        make_folder(folder)?;
        let mut cache = Self::open(&path)?;
        if existing == Existing::Replaced {
            let file = cache.file.get_mut().unwrap_or_else(PoisonError::into_inner);
            file.set_len(0).map_err(at(&path))?;
            cache.records.clear();
        }
        Ok(cache)
    }

    /// Opens the file, and creates it if needed.
    ///
    /// # Errors
    /// If another process has it open, or a line is damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)
            .map_err(at(path))?;
        lock_open(&file, path.parent().unwrap_or(path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at(path))?;
        let length = bytes.len();
        let whole = whole_lines(bytes);
        if whole.len() < length {
            file.set_len(whole.len() as u64).map_err(at(path))?;
        }
        let lines = whole.split_inclusive(|&byte| byte == b'\n');
        let records = lines.enumerate().map(|(index, line)| {
            serde_json::from_slice(line).map_err(|error| {
                TabularError::Data(format!(
                    "{}:{}: {error}; delete the line to compute its job again",
                    path.display(),
                    index + 1
                ))
            })
        });
        Ok(Self {
            path: path.to_path_buf(),
            file: Mutex::new(file),
            records: records.collect::<Result<_>>()?,
        })
    }

    /// The result of a job with the same settings, if it was in the file when opened.
    pub fn find(&self, job: &Job) -> Option<&Record> {
        // Parsing may change the last bit of a number, so both sides must be parsed.
        let settings: Value = serde_json::from_str(&job.settings.to_string()).ok()?;
        let mut newest = self.records.iter().rev();
        newest.find(|record| record.key == job.key && record.settings == settings)
    }

    /// Appends a result, and returns it as it will be read.
    pub(crate) fn append(&self, record: &Record) -> Result<Record> {
        let mut line = serde_json::to_string(record)
            .map_err(|error| TabularError::Data(format!("{}: {error}", record.key)))?;
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
            .and_then(|()| file.flush())
            .map_err(at(&self.path))?;
        serde_json::from_str(&line)
            .map_err(|error| TabularError::Data(format!("{}: {error}", record.key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::jobs::LeftOut;
    use crate::scores::Measures;

    fn job(seed: u64, epochs: u64) -> Job {
        let key = Key::new("case", "method", seed);
        Job::new(key, &epochs, || Ok(Measures::new())).unwrap()
    }

    fn record(job: &Job, value: f64) -> Record {
        Record {
            key: job.key.clone(),
            settings: job.settings.clone(),
            computed: Computed {
                measures: [("measure".to_string(), value)].into(),
                row_costs: vec![value; 2],
                left_out: Some(LeftOut {
                    errors: vec![-value],
                    new_means: Vec::new(),
                }),
            },
            seconds: 1.5,
        }
    }

    #[test]
    fn a_result_is_found_by_name_and_settings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.jsonl");
        let cache = ResultCache::open(&path).unwrap();
        for (value, job) in [(0.1, job(0, 10)), (0.2, job(1, 10)), (0.3, job(0, 10))] {
            cache.append(&record(&job, value)).unwrap();
        }
        drop(cache);
        let cache = ResultCache::open(&path).unwrap();
        let newest = record(&job(0, 10), 0.3);
        assert_eq!(cache.find(&job(0, 10)), Some(&newest));
        assert_eq!(cache.find(&job(2, 10)), None);
        assert_eq!(cache.find(&job(0, 20)), None);
    }

    #[test]
    fn every_number_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.jsonl");
        let numbers: Vec<f64> = (1..500).map(|n| (f64::from(n) / 7.0).exp()).collect();
        let key = job(0, 0).key;
        let job = Job::new(key, &numbers, || Ok(Measures::new())).unwrap();
        let written = {
            let cache = ResultCache::open(&path).unwrap();
            cache.append(&record(&job, (0.3f64).exp()))
        };
        let cache = ResultCache::open(&path).unwrap();
        assert_eq!(cache.find(&job), Some(&written.unwrap()));
    }

    #[test]
    fn a_second_process_cannot_cut_the_line_that_the_first_is_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.jsonl");
        let cache = ResultCache::open(&path).unwrap();
        cache.append(&record(&job(0, 10), 0.1)).unwrap();
        std::fs::write(&path, "half a li").unwrap();
        let error = ResultCache::open(&path).unwrap_err();
        assert!(matches!(error, TabularError::Usage(_)), "{error:?}");
        let (error, name) = (error.to_string(), folder.path().display().to_string());
        assert!(
            error.contains(&name) && error.contains("another process"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "half a li");
        drop(cache);
        ResultCache::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn half_a_line_is_cut_off_and_a_broken_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cells.jsonl");
        let whole = serde_json::to_string(&record(&job(0, 10), 0.1)).unwrap();
        // The last byte is the first of a two-byte character.
        let half = [whole.as_bytes(), b"\n", &whole.as_bytes()[..20], b"\xc3"].concat();
        std::fs::write(&path, half).unwrap();
        let cache = ResultCache::open(&path).unwrap();
        assert!(cache.find(&job(0, 10)).is_some());
        cache.append(&record(&job(1, 10), 0.2)).unwrap();
        drop(cache);
        assert!(
            ResultCache::open(&path)
                .unwrap()
                .find(&job(1, 10))
                .is_some()
        );

        std::fs::write(&path, format!("{whole}\n{{\n")).unwrap();
        let error = ResultCache::open(&path).unwrap_err().to_string();
        assert!(error.contains("cells.jsonl:2"), "{error}");
    }
}
