//! The held-out rows of a run, for guarantees about new rows.
//!
//! The guarantees hold if the held-out rows are exchangeable with new rows, so the fit must not have used them. By
//! default it only records their scores. With early stopping, a second fit to all rows or a recalibration it
//! uses them, and such a run is refused.

use std::path::PathBuf;

use super::{Run, RunFolder};
use crate::error::Result;
use crate::predict::{
    Conformal, ConformalRequest, ConformalTargets, HALF_LIFE, HeldOutColumns, Known,
};
use crate::settings::{LikelihoodName, refused};

impl Run {
    /// Prediction sets or intervals with a coverage guarantee, calibrated on the held-out rows, and on `recent` ones, which
    /// are given for each target.
    ///
    /// # Errors
    /// If the request does not suit the target or how rows were held out, or as [`Run::calibration_file`].
    pub(crate) fn conformal(
        &self,
        folder: &RunFolder,
        request: &ConformalRequest,
        draws: Option<usize>,
        recent: Option<Vec<Known>>,
    ) -> Result<ConformalTargets> {
        let target = self.model.target();
        let name = self.preprocessor.targets()[0].name();
        request.validate(target, name)?;
        // The latest rows are held out in the order of time, those of a file in the order of the file.
        let data = &self.config.data;
        if request.half_life.is_some() && (data.time.is_none() || data.validation_file.is_some()) {
            let problem = "needs held-out rows in the order of time; fit with `--time COLUMN`, and without \
                           `--validation-file`";
            return Err(refused(HALF_LIFE, problem));
        }
        let of_rows = [
            ("conformal-by", request.by.is_some()),
            ("conformal-recent", request.recent.is_some()),
        ];
        for (option, _) in of_rows.iter().filter(|(_, is_given)| *is_given) {
            self.expect_independent_rows(option)?;
        }
        let file = self.calibration_file(folder, "conformal", draws, "")?;
        let options = self.config.data.csv_options();
        let is_ordered = self.config.fit.likelihood == Some(LikelihoodName::Ordinal);
        let mut recent = recent.into_iter().flatten();
        let targets = target.of_targets().into_iter().map(|(of, target)| {
            let columns = HeldOutColumns {
                target: of,
                rules: &self.file.kept_columns,
                options: &options,
                group_by: data.group_by.as_deref(),
            };
            let name = of.unwrap_or(name);
            let found =
                Conformal::calibrate(&file, target, name, request, &columns, recent.next())?;
            let found = match is_ordered {
                true => found.of_ordered_classes(),
                false => found,
            };
            Ok((of.map(String::from), found))
        });
        targets.collect::<Result<_>>().map(ConformalTargets::new)
    }

    /// Refuses an option whose guarantee counts rows, if whole groups were held out.
    ///
    /// # Errors
    /// If the rows of a group are alike.
    pub(crate) fn expect_independent_rows(&self, option: &str) -> Result<()> {
        let Some(group_by) = &self.config.data.group_by else {
            return Ok(());
        };
        let problem = format!(
            "is for independent rows, and those of a group of `{group_by}` (`--group-by`) are alike; leave it out"
        );
        Err(refused(option, problem))
    }

    /// The file with the predictions of held-out rows that the fit has not used, for an option of a command. The
    /// predictions of new rows must be made in the same way, so `draws` must not be given. `otherwise` says what to do
    /// instead, or is empty.
    ///
    /// # Errors
    /// If there are no such rows, or new rows are predicted in another way.
    pub(crate) fn calibration_file(
        &self,
        folder: &RunFolder,
        option: &str,
        draws: Option<usize>,
        otherwise: &str,
    ) -> Result<PathBuf> {
        if let Some(draws) = draws {
            let problem = format!(
                "is {draws}, but the guarantee of `--{option}` holds for the {} draws of the fit; leave it out",
                self.config.fit.draws
            );
            return Err(refused("draws", problem));
        }
        let file = self.validation_file(folder)?.ok_or_else(|| {
            let problem = format!(
                "needs validation rows, but the run has none; fit with `--validation 0.2`{otherwise}"
            );
            refused(option, problem)
        })?;
        let settings = &self.config.fit;
        let used = if settings.refit {
            Some(("refit", "trained the model"))
        } else if settings.recalibrate.is_some() {
            Some(("recalibrate", "fitted the recalibration"))
        } else if settings.patience.is_some() {
            Some(("patience", "chose the epoch"))
        } else {
            None
        };
        match used {
            None => Ok(file),
            Some((setting, use_of_rows)) => {
                let problem = format!(
                    "needs rows that the fit has not seen, but with `{setting}` the held-out rows {use_of_rows}; fit \
                     without it{otherwise}"
                );
                Err(refused(option, problem))
            }
        }
    }
}
