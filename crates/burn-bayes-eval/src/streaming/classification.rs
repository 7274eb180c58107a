//! Scores of class probabilities from chunks of rows, without keeping them.
//!
//! A row is an example, or a pixel of a segmentation. Rows may come in chunks of any size; each is
//! averaged over its draws and added to sums, so memory does not grow with the rows. The scores are
//! those of all rows at once, up to rounding; the reliability diagram has bins of equal width. Sums
//! of several threads are joined by [`ClassificationTotals::merge`].

use crate::Bounded;
use crate::calibration::{BinSums, ReliabilityDiagram, confidence_sums};
use crate::check;
use crate::classification::{ConfusionMatrix, brier_losses, log_losses};
use crate::error::{EvalError, Place};
use crate::uncertainty::{expected_entropy, model_disagreement, predictive_entropy};
use crate::views::{ClassProbabilities, DrawProbabilities, LabelledProbabilities, check_labels};

/// Sums over rows.
///
/// ```
/// use burn_bayes_eval::{ClassificationTotals, DrawProbabilities};
///
/// let mut totals = ClassificationTotals::new(2, 10)?.ignoring(255);
/// // One image of four pixels, the last without a label, as two draws.
/// let draws = [0.9, 0.2, 0.7, 0.5, 0.7, 0.4, 0.9, 0.5];
/// totals.add(&DrawProbabilities::binary(&draws, 2, 4)?, &[1, 0, 0, 255])?;
/// let scores = totals.scores()?;
/// assert_eq!(scores.rows, 3);
/// assert!((scores.accuracy - 2.0 / 3.0).abs() < 1e-15);
/// assert!((scores.confusion.mean_intersection_over_union() - 0.5).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ClassificationTotals {
    classes: usize,
    ignored: Option<usize>,
    rows: usize,
    nll: f64,
    brier: f64,
    predictive_entropy: f64,
    expected_entropy: f64,
    model_disagreement: f64,
    confusion: Option<ConfusionMatrix>,
    bins: Vec<BinSums>,
}

/// The scores of all rows of [`ClassificationTotals`].
#[derive(Debug, Clone, PartialEq)]
pub struct ClassificationScores {
    /// Number of rows with a label.
    pub rows: usize,
    /// Mean negative log-probability of the true class, in nats.
    pub nll: f64,
    /// Multi-class Brier score, in [0, 2].
    pub brier: f64,
    /// Fraction of correctly predicted rows.
    pub accuracy: f64,
    /// Mean entropy of the average over draws, in nats.
    pub predictive_entropy: f64,
    /// Mean over rows and draws of the entropy, in nats.
    pub expected_entropy: f64,
    /// Mean mutual information, the difference of the two.
    pub mutual_information: f64,
    /// Mean disagreement of the draws.
    pub model_disagreement: f64,
    /// Counts of true and predicted classes, with F1 and mean IoU.
    pub confusion: ConfusionMatrix,
    /// The reliability of the confidence, in bins of equal width.
    pub reliability: ReliabilityDiagram,
}

impl ClassificationTotals {
    /// No rows yet.
    ///
    /// # Errors
    /// A config error if there are no classes, or `bins` is zero or above a million.
    pub fn new(classes: usize, bins: usize) -> Result<Self, EvalError> {
        check::at_least_one("classes", classes)?;
        check::count("bins", bins, 1..=check::MOST_BINS)?;
        Ok(Self {
            classes,
            ignored: None,
            rows: 0,
            nll: 0.0,
            brier: 0.0,
            predictive_entropy: 0.0,
            expected_entropy: 0.0,
            model_disagreement: 0.0,
            confusion: None,
            bins: vec![BinSums::default(); bins],
        })
    }

    /// Leaves out rows with this label, such as the unlabelled pixels of an image.
    #[must_use]
    pub fn ignoring(mut self, label: usize) -> Self {
        self.ignored = Some(label);
        self
    }

    /// Adds a chunk of rows. After an error nothing of the chunk is added.
    ///
    /// # Errors
    /// A data error if the number of classes is another one, there is not one label per row, or a
    /// label is neither a class nor ignored.
    pub fn add(
        &mut self,
        draws: &DrawProbabilities<'_>,
        labels: &[usize],
    ) -> Result<(), EvalError> {
        check::same_length("classes", draws.classes(), self.classes)?;
        check::same_length("labels", labels.len(), draws.rows())?;
        let is_used = |label: &usize| Some(*label) != self.ignored;
        if labels.iter().all(is_used) {
            return self.add_used(draws, labels);
        }
        let used: Vec<usize> = (0..labels.len())
            .filter(|&row| is_used(&labels[row]))
            .collect();
        let of_used: Vec<usize> = used.iter().map(|&row| labels[row]).collect();
        if let Some(&row) = used.iter().find(|&&row| labels[row] >= self.classes) {
            return Err(EvalError::data(
                "labels",
                Place::row(row),
                labels[row],
                format!("a class below {} or the ignored label", self.classes),
                "another code for unlabelled rows, or labels that start at one",
            ));
        }
        if used.is_empty() {
            return Ok(());
        }
        let mut values = Vec::with_capacity(draws.draws() * used.len() * self.classes);
        for draw in 0..draws.draws() {
            used.iter()
                .for_each(|&row| values.extend_from_slice(draws.row(draw, row)));
        }
        let chosen = DrawProbabilities::new(values, draws.draws(), used.len(), self.classes)?;
        self.add_used(&chosen, &of_used)
    }

    fn add_used(
        &mut self,
        draws: &DrawProbabilities<'_>,
        labels: &[usize],
    ) -> Result<(), EvalError> {
        check_labels("labels", labels, self.classes)?;
        let average: ClassProbabilities<'_> = draws.average();
        let labelled = LabelledProbabilities::new(&average, labels)?;
        self.rows += labels.len();
        self.nll += log_losses(&labelled).iter().sum::<f64>();
        self.brier += brier_losses(&labelled).iter().sum::<f64>();
        self.predictive_entropy += predictive_entropy(&average).iter().sum::<f64>();
        self.expected_entropy += expected_entropy(draws).iter().sum::<f64>();
        self.model_disagreement += model_disagreement(draws).iter().sum::<f64>();
        let confusion = ConfusionMatrix::from_probabilities(&labelled);
        match &mut self.confusion {
            Some(sum) => sum.merge(&confusion)?,
            None => self.confusion = Some(confusion),
        }
        let sums = confidence_sums(&labelled, self.bins.len());
        self.bins
            .iter_mut()
            .zip(sums)
            .for_each(|(bin, sums)| bin.merge(sums));
        Ok(())
    }

    /// Adds the rows of other sums.
    ///
    /// # Errors
    /// A data error if the numbers of classes or bins differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), EvalError> {
        check::same_length("classes", other.classes, self.classes)?;
        check::same_length("bins", other.bins.len(), self.bins.len())?;
        self.rows += other.rows;
        self.nll += other.nll;
        self.brier += other.brier;
        self.predictive_entropy += other.predictive_entropy;
        self.expected_entropy += other.expected_entropy;
        self.model_disagreement += other.model_disagreement;
        match (&mut self.confusion, &other.confusion) {
            (Some(sum), Some(more)) => sum.merge(more)?,
            (None, more) => self.confusion.clone_from(more),
            (Some(_), None) => {}
        }
        self.bins
            .iter_mut()
            .zip(&other.bins)
            .for_each(|(bin, sums)| bin.merge(*sums));
        Ok(())
    }

    /// The scores of the rows so far.
    ///
    /// # Errors
    /// A data error if there are none.
    pub fn scores(&self) -> Result<ClassificationScores, EvalError> {
        let Some(confusion) = &self.confusion else {
            return Err(EvalError::data(
                "rows",
                Place::WHOLE,
                "0 with a label",
                "at least 1",
                "an empty split, or only ignored labels",
            ));
        };
        let mean = |sum: f64| sum / self.rows as f64;
        Ok(ClassificationScores {
            rows: self.rows,
            nll: mean(self.nll),
            brier: mean(self.brier),
            accuracy: confusion.accuracy(),
            predictive_entropy: mean(self.predictive_entropy),
            expected_entropy: mean(self.expected_entropy),
            mutual_information: mean(self.predictive_entropy - self.expected_entropy).at_least(0.0),
            model_disagreement: mean(self.model_disagreement),
            confusion: confusion.clone(),
            reliability: ReliabilityDiagram::of_sums(&self.bins),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{brier, mutual_information, nll, uniforms};

    #[test]
    fn chunks_and_merged_sums_are_the_whole() {
        let (draws, rows) = (3, 40);
        let values = uniforms(draws * rows, 1);
        let labels: Vec<usize> = (0..rows).map(|row| usize::from(row % 3 == 0)).collect();
        let mut parts = [(); 2].map(|()| ClassificationTotals::new(2, 5).unwrap());
        for (index, start) in (0..rows).step_by(8).enumerate() {
            let chunk: Vec<f64> = values
                .chunks(rows)
                .flat_map(|table| table[start..start + 8].to_vec())
                .collect();
            let chunk = DrawProbabilities::binary(&chunk, draws, 8).unwrap();
            parts[index % 2]
                .add(&chunk, &labels[start..start + 8])
                .unwrap();
        }
        let [mut sum, other] = parts;
        sum.merge(&other).unwrap();
        let found = sum.scores().unwrap();

        let all = DrawProbabilities::binary(&values, draws, rows).unwrap();
        let average = all.average();
        let labelled = LabelledProbabilities::new(&average, &labels).unwrap();
        let information = mutual_information(&all).iter().sum::<f64>() / rows as f64;
        for (found, expected) in [
            (found.nll, nll(&labelled)),
            (found.brier, brier(&labelled)),
            (found.mutual_information, information),
        ] {
            assert!((found - expected).abs() < 1e-14, "{found} {expected}");
        }
        assert_eq!(
            found.confusion,
            ConfusionMatrix::from_probabilities(&labelled)
        );
        let diagram = ReliabilityDiagram::equal_width(&labelled, 5).unwrap();
        let error = diagram.expected_calibration_error();
        assert!((found.reliability.expected_calibration_error() - error).abs() < 1e-14);
    }

    #[test]
    fn bad_chunks_add_nothing_and_no_rows_have_no_scores() {
        let mut totals = ClassificationTotals::new(2, 5).unwrap().ignoring(9);
        assert!(totals.scores().unwrap_err().is_data());
        let chunk = DrawProbabilities::binary(&[0.5, 0.5], 1, 2).unwrap();
        assert_eq!(totals.add(&chunk, &[0, 2]).unwrap_err().row(), Some(1));
        assert_eq!(totals.add(&chunk, &[9, 2]).unwrap_err().row(), Some(1));
        assert!(totals.add(&chunk, &[0]).unwrap_err().is_data());
        totals.add(&chunk, &[9, 9]).unwrap();
        assert!(totals.scores().unwrap_err().is_data());
        let other = ClassificationTotals::new(3, 5).unwrap();
        assert!(totals.merge(&other).unwrap_err().is_data());
        assert!(ClassificationTotals::new(0, 5).unwrap_err().is_config());
        assert!(ClassificationTotals::new(2, 0).unwrap_err().is_config());
    }
}
