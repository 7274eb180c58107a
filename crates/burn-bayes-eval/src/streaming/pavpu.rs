//! Patch accuracy versus patch uncertainty (PAvPU) of segmentations.
//!
//! Images are divided into patches of w × w pixels; those at the right and lower edges are smaller.
//! A patch is accurate if at least the fraction a of its labelled pixels is right, and certain if
//! its mean uncertainty is at most t:
//!
//!   PAvPU = (accurate and certain + inaccurate and uncertain)/all patches
//!
//! Higher is better. Better than pixel scores if mistakes and uncertainty cover regions: it asks
//! whether the uncertainty finds the wrong regions. It depends on w, a and t, so compare models at
//! several t.
//!
//! Reference: J. Mukhoti and Y. Gal, "Evaluating Bayesian deep learning methods for semantic
//! segmentation" (2018), with a = 0.5.

use crate::check;
use crate::error::{EvalError, Place};

/// Counts of patches over images.
///
/// ```
/// use burn_bayes_eval::PatchTotals;
///
/// let mut totals = PatchTotals::new(1, 0.5, 0.3)?;
/// // One image of two by two pixels: right and certain, right and unsure, wrong and certain, wrong
/// // and unsure.
/// let (right, uncertainty) = ([Some(true), Some(true), Some(false), Some(false)], [0.1, 0.9, 0.1, 0.9]);
/// totals.add(&right, &uncertainty, 2)?;
/// assert_eq!(totals.pavpu()?, 0.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PatchTotals {
    side: usize,
    least_accuracy: f64,
    most_uncertainty: f64,
    /// Patches by (accurate, certain).
    counts: [[u64; 2]; 2],
}

impl PatchTotals {
    /// No images yet: patches of `side` × `side` pixels, which are accurate from `least_accuracy`
    /// on and certain up to `most_uncertainty`.
    ///
    /// # Errors
    /// A config error if `side` is zero, the accuracy is not above 0 and at most 1, or the
    /// uncertainty is not finite.
    pub fn new(side: usize, least_accuracy: f64, most_uncertainty: f64) -> Result<Self, EvalError> {
        check::at_least_one("side", side)?;
        check::fraction("least_accuracy", least_accuracy)?;
        check::finite_setting("most_uncertainty", most_uncertainty)?;
        Ok(Self {
            side,
            least_accuracy,
            most_uncertainty,
            counts: [[0; 2]; 2],
        })
    }

    /// Adds an image, row-major: whether each pixel is right (`None` without a label) and its
    /// uncertainty. Patches without a label are left out.
    ///
    /// # Errors
    /// A data error if the lengths differ or are not a multiple of the width, or an uncertainty is
    /// NaN.
    pub fn add(
        &mut self,
        right: &[Option<bool>],
        uncertainty: &[f64],
        width: usize,
    ) -> Result<(), EvalError> {
        let height = right.len().checked_div(width).unwrap_or(0);
        check::shape(
            "pixels",
            right.len(),
            &[("rows", height), ("columns", width)],
        )?;
        check::same_length("uncertainty", uncertainty.len(), right.len())?;
        check::comparable("uncertainty", uncertainty)?;
        for top in (0..height).step_by(self.side) {
            for left in (0..width).step_by(self.side) {
                let (mut labelled, mut hits, mut sum) = (0.0, 0.0, 0.0);
                for row in top..(top + self.side).min(height) {
                    for pixel in row * width + left..row * width + (left + self.side).min(width) {
                        if let Some(is_right) = right[pixel] {
                            labelled += 1.0;
                            hits += f64::from(u8::from(is_right));
                            sum += uncertainty[pixel];
                        }
                    }
                }
                if labelled > 0.0 {
                    let is_accurate = hits / labelled >= self.least_accuracy;
                    let is_certain = sum / labelled <= self.most_uncertainty;
                    self.counts[usize::from(is_accurate)][usize::from(is_certain)] += 1;
                }
            }
        }
        Ok(())
    }

    /// The fraction of patches that are accurate and certain, or neither.
    ///
    /// # Errors
    /// A data error if there is no patch with a label.
    pub fn pavpu(&self) -> Result<f64, EvalError> {
        let [[unsure_wrong, sure_wrong], [unsure_right, sure_right]] = self.counts;
        let expected = sure_right + unsure_wrong;
        let all = expected + sure_wrong + unsure_right;
        if all == 0 {
            let cause = "no image was added, or only unlabelled ones";
            return Err(EvalError::data(
                "patches",
                Place::WHOLE,
                "0 with a label",
                "at least 1",
                cause,
            ));
        }
        Ok(expected as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_at_the_edges_are_smaller_and_unlabelled_pixels_do_not_count() {
        // Three by three pixels in patches of two: sizes 4, 2, 2, 1.
        let (yes, no) = (Some(true), Some(false));
        let right = [yes, no, None, no, yes, None, no, no, yes];
        let uncertainty = [0.0, 0.0, 9.0, 1.0, 1.0, 9.0, 0.9, 0.9, 0.2];
        let mut totals = PatchTotals::new(2, 0.5, 0.5).unwrap();
        totals.add(&right, &uncertainty, 3).unwrap();
        // Half right at mean .5: accurate and certain. No label. Wrong and unsure. Right and
        // certain.
        assert_eq!(totals.pavpu().unwrap(), 1.0);
    }

    #[test]
    fn bad_images_and_settings_are_refused() {
        let mut totals = PatchTotals::new(2, 0.5, 0.5).unwrap();
        assert!(totals.pavpu().unwrap_err().is_data());
        assert!(totals.add(&[None; 3], &[0.0; 3], 2).unwrap_err().is_data());
        assert!(totals.add(&[None; 2], &[0.0], 2).unwrap_err().is_data());
        assert!(totals.add(&[], &[], 0).unwrap_err().is_data());
        assert_eq!(
            totals.add(&[None], &[f64::NAN], 1).unwrap_err().row(),
            Some(0)
        );
        assert!(PatchTotals::new(0, 0.5, 0.5).unwrap_err().is_config());
        assert!(PatchTotals::new(1, 0.0, 0.5).unwrap_err().is_config());
    }
}
