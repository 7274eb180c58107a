//! The folder of a run and its file names.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use burn_bayes_data::shell::command_of;

use crate::error::{Result, TabularError};
use crate::files::{lock, make_folder, read_text, remove, would_overwrite, write_whole};
use crate::report::remove_drawings;
use crate::settings::{Config, DataSettings, refused};

/// A folder of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Held during a fit.
    _lock: Option<Arc<File>>,
}

macro_rules! files {
    ($($(#[$doc:meta])* $visibility:vis $file:ident $name:literal)*) => {
        impl RunFolder {
            /// All files of a run, existing or not, without those of the members of an ensemble.
            pub fn files(&self) -> [PathBuf; [$($name),*].len()] {
                [$(self.$file()),*]
            }

            $($(#[$doc])* $visibility fn $file(&self) -> PathBuf {
                self.path.join($name)
            })*
        }
    };
}

files! {
    pub(super) config_file "config.toml"
    command_file "command.txt"
    /// The preprocessor.
    pub(crate) preprocessor_file "preprocessor.toml"
    /// The posterior over the weights.
    pub(crate) posterior_file "posterior.safetensors"
    /// The weights of a point estimate.
    pub(crate) weights_file "weights.bpk"
    /// The rest of the trained model, and the checksums of all files.
    pub(crate) model_file "model.toml"
    /// The metrics of every epoch.
    pub(crate) metrics_file "metrics.jsonl"
    /// The state of an unfinished fit, or of one whose chains can go on.
    pub(super) checkpoint_file "checkpoint.bin"
    /// The scores of the held-out rows.
    pub(crate) scores_file "scores.json"
    /// The report.
    pub(crate) report_file "report.html"
    /// The predictions of the held-out rows.
    pub(crate) validation_file "validation.csv"
    /// The hash of the rows of an ensemble.
    pub(super) rows_file "rows.txt"
    /// The weights of the linear model beside the fit.
    pub(super) linear_file "linear.bpk"
}

impl RunFolder {
    /// Creates the folder of a new run, with settings and command.
    ///
    /// # Errors
    /// If it cannot be written, or contains a run, which would be overwritten.
    pub(crate) fn create(path: &Path, config: &Config, command: &str) -> Result<Self> {
        let mut folder = Self::at(path);
        folder.expect_free()?;
        make_folder(path)?;
        folder._lock = lock(path)?.map(Arc::new);
        // Another process may have finished its run before the lock was taken.
        folder.expect_free()?;
        // Written first, because it distinguishes the settings of a run from other settings.
        write_whole(&folder.command_file(), format!("{command}\n").as_bytes())?;
        write_whole(&folder.config_file(), config.to_toml()?.as_bytes())?;
        Ok(folder)
    }

    /// The same in the place of the run in the folder, if there is one. Of what else is there, nothing changes.
    ///
    /// # Errors
    /// If another process is fitting there, or a file cannot be removed or written.
    pub(crate) fn replace(path: &Path, config: &Config, command: &str) -> Result<Self> {
        if Self::open(path).is_ok() {
            Self::resume(path)?.clear()?;
        }
        Self::create(path, config, command)
    }

    /// Removes all files of a run, and those of its members.
    fn clear(&self) -> Result<()> {
        // Without the first it is not finished, and without the last two no run.
        remove(&self.model_file())?;
        for folder in self.members() {
            Self::at(&folder).clear()?;
            // Left if there is anything else in it.
            let _ = std::fs::remove_dir(folder);
        }
        remove(&self.members_file())?;
        remove_drawings(&self.report_file())?;
        self.files().iter().rev().try_for_each(|file| remove(file))
    }

    /// The folders of all members.
    fn members(&self) -> impl Iterator<Item = PathBuf> {
        let members = (0..).map(|index| [self.member(index), self.scored_member(index)]);
        let members = members.take_while(|folders| folders.iter().any(|folder| folder.exists()));
        members.flatten()
    }

    /// Opens a folder with a run, finished or not.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = Self::at(path);
        for file in [folder.config_file(), folder.command_file()] {
            if !file.is_file() {
                return Err(TabularError::Data(format!(
                    "{}: there is no run in it (no {}); name a folder created by `burn-bayes fit --out`",
                    path.display(),
                    file.file_name().unwrap_or_default().display()
                )));
            }
        }
        Ok(folder)
    }

    /// Opens the folder of an unfinished run, to continue it.
    pub(crate) fn resume(path: &Path) -> Result<Self> {
        let mut folder = Self::open(path)?;
        folder._lock = lock(path)?.map(Arc::new);
        Ok(folder)
    }

    /// Makes a run that is finished an unfinished one again, with these settings.
    pub(super) fn reopen(&self, config: &Config) -> Result<()> {
        // Without it, the run is not finished, whatever happens from here on.
        remove(&self.model_file())?;
        write_whole(&self.config_file(), config.to_toml()?.as_bytes())
    }

    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.into(),
            _lock: None,
        }
    }

    /// The command that continues the fit.
    pub(crate) fn continuation(&self) -> String {
        let words = ["fit", "--resume", "--out"].map(OsStr::new);
        command_of(
            "burn-bayes",
            words.into_iter().chain([self.path.as_os_str()]),
        )
    }

    /// Fails if there is a run in the folder, which a new fit would replace.
    ///
    /// # Errors
    /// If there is one; the message says what to do.
    pub fn check_free(path: &Path) -> Result<()> {
        Self::at(path).expect_free()
    }

    /// Fails if one of these files, which a fit reads, has the name of a file of a run in the folder, which the fit would remove.
    ///
    /// # Errors
    /// If there is one; the message says what to do.
    pub fn expect_no_input(path: &Path, data: &DataSettings) -> Result<()> {
        let folder = Self::at(path);
        let members = folder.members().map(|member| Self::at(&member));
        let folders = [folder.clone()].into_iter().chain(members);
        let mut files = folders.flat_map(|folder| folder.files());
        let inputs: Vec<&PathBuf> = data.path.iter().chain(&data.validation_file).collect();
        match files.find(|file| inputs.iter().any(|input| would_overwrite(file, input))) {
            None => Ok(()),
            Some(file) => {
                let (path, file) = (path.display(), file.display());
                let problem = format!(
                    "is {path}, where {file}, which is read, would be removed; name another folder"
                );
                Err(refused("out", problem))
            }
        }
    }

    fn expect_free(&self) -> Result<()> {
        let path = self.path.display();
        if self.is_finished() {
            let problem = format!(
                "is {path}, which contains a finished run; name another folder, or replace it with `--overwrite`"
            );
            return Err(refused("out", problem));
        }
        let members = [self.scored_member(0), self.member(0)];
        if self.checkpoint_file().exists() || members.iter().any(|member| member.exists()) {
            let problem = format!(
                "is {path}, which contains an interrupted run; continue it with `--resume`, replace it with \
                 `--overwrite`, or name another folder"
            );
            return Err(refused("out", problem));
        }
        let files = self.files();
        let other = files.iter().find(|file| file.exists());
        if let Some(file) = other.filter(|_| !self.command_file().exists()) {
            let name = file.file_name().unwrap_or_default().display();
            let problem = format!(
                "is {path}, whose {name} does not belong to a run and would be overwritten; name another folder"
            );
            return Err(refused("out", problem));
        }
        Ok(())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The settings in effect.
    ///
    /// # Errors
    /// If the file is damaged; the message names it.
    pub fn config(&self) -> Result<Config> {
        let config = Config::read(&self.config_file())?;
        let usable = config.validate();
        usable.map_err(|failure| self.unusable_settings(&failure))?;
        Ok(config)
    }

    /// The device of the fit.
    ///
    /// # Errors
    /// If the program was built without it.
    pub(super) fn device(&self, config: &Config) -> Result<Device> {
        config.fit.device.device().map_err(|failure| {
            let path = self.config_file();
            let cure = "or name another device with `--device`";
            TabularError::Usage(format!("{}: {failure}, {cure}", path.display()))
        })
    }

    /// The command that started the run.
    pub(super) fn command(&self) -> Result<String> {
        Ok(read_text(&self.command_file())?.trim_end().into())
    }

    /// An error about the settings in the folder.
    fn unusable_settings(&self, failure: &TabularError) -> TabularError {
        TabularError::Usage(format!("{}: {failure}", self.config_file().display()))
    }

    /// Whether the run is finished.
    pub fn is_finished(&self) -> bool {
        self.model_file().is_file()
    }

    /// Whether the run, if it is finished, can go on.
    pub fn can_go_on(&self) -> bool {
        self.checkpoint_file().is_file()
    }

    /// Removes the state of a fit that is finished.
    pub(super) fn remove_checkpoint(&self) -> Result<()> {
        remove(&self.checkpoint_file())
    }

    /// The folder of a member of an ensemble, from 0.
    pub(crate) fn member(&self, index: usize) -> PathBuf {
        self.path.join(format!("member-{}", index + 1))
    }

    /// The folder of the fit of a member, from 0, that the held-out rows score, if the member is fitted again to all rows.
    pub(crate) fn scored_member(&self, index: usize) -> PathBuf {
        self.path.join(format!("scored-{}", index + 1))
    }

    /// The list of the jobs of an ensemble, while its members are fitted in parallel.
    pub(crate) fn members_file(&self) -> PathBuf {
        self.path.join("members.jsonl")
    }
}
