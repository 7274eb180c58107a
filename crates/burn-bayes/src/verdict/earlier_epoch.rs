//! The network of an earlier epoch beside the average over draws, on validation rows: whether a training has overfitted.

use std::fmt;

use super::PairedDifference;

/// The standard errors by which the best of many epochs must be better: by chance one of them is by two.
const BEYOND: f64 = 3.0;

/// The network of the epoch that predicted the validation rows best.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EarlierEpoch {
    /// From 1.
    epoch: usize,
    /// The loss of every validation row.
    losses: Vec<f64>,
    /// The losses of the average over draws at the end minus these.
    difference: PairedDifference,
}

impl EarlierEpoch {
    /// The epoch with these losses, if they are less than those of the best one before it.
    pub(crate) fn or_better(best: Option<Self>, epoch: usize, losses: Vec<f64>) -> Self {
        let sum = |losses: &[f64]| losses.iter().sum::<f64>();
        // Losses that are not finite are not less, and any others are less than they.
        let is_better = |least: f64| !least.is_finite() || sum(&losses) < least;
        match best {
            Some(best) if !is_better(sum(&best.losses)) => best,
            _ => Self {
                epoch,
                losses,
                difference: PairedDifference::default(),
            },
        }
    }

    /// Compares it with the average over draws at the end.
    #[must_use]
    pub(crate) fn beside(mut self, average: &[f64]) -> Self {
        let differences = average.iter().zip(&self.losses);
        self.difference
            .add(differences.map(|(average, earlier)| average - earlier));
        self
    }

    /// What is wrong, if it is much better than the average.
    pub(super) fn problem(&self) -> Option<String> {
        self.difference.is_above(BEYOND).then(|| self.to_string())
    }
}

impl fmt::Display for EarlierEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mean, error) = (self.difference.mean(), self.difference.standard_error());
        write!(
            f,
            "the training has overfitted: on {} validation rows the average over draws at the end is worse than the network of \
             epoch {}, by {mean:.3} ± {error:.3} nats per row; train for fewer epochs, or with a larger prior precision or \
             more rows",
            self.difference.rows(),
            self.epoch
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_that_was_much_better_is_named() {
        let losses = |mean: f64| (0..50).map(|row| mean + f64::from(row % 2)).collect();
        let of_epochs = [(1, 0.9), (2, f64::NAN), (3, 0.4), (4, 0.6)];
        let best = of_epochs.into_iter().fold(None, |best, (epoch, mean)| {
            Some(EarlierEpoch::or_better(best, epoch, losses(mean)))
        });
        let best = best.unwrap();
        assert_eq!(best.epoch, 3);
        let none = EarlierEpoch::or_better(None, 1, losses(f64::NAN));
        assert_eq!(EarlierEpoch::or_better(Some(none), 2, losses(0.9)).epoch, 2);
        // By .1 exactly.
        let average: Vec<f64> = (0..50).map(|row| 0.5 + f64::from(row % 2)).collect();
        let found = best.clone().beside(&average).problem().unwrap();
        assert!(found.contains("epoch 3, by 0.100 ± 0.000"), "{found}");
        // By .1 ± .07.
        let noise = |row: u32| f64::from(row / 2 % 2) - 0.5;
        let noisy: Vec<f64> = (0..52)
            .map(|row| 0.5 + f64::from(row % 2) + noise(row))
            .collect();
        assert_eq!(best.clone().beside(&noisy).problem(), None);
        assert_eq!(best.clone().beside(&losses(0.4)).problem(), None);
    }
}
