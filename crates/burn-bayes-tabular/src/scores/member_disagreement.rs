//! How much the draws of an ensemble disagree within its members and between them.

use burn_bayes::eval::MemberDisagreement;

use super::score::{Intervals, Score};
use super::spec::scores;

scores! {
    /// The epistemic uncertainty of an ensemble, averaged over rows, in two parts.
    MemberScores {
        /// Disagreement of the draws of one member: of classes, the mutual information of label and weights, in nats; of
        /// numbers, the standard deviation of the means, in the unit of the target.
        within: Score = ("Disagreement within members", Neither);
        /// Disagreement of the members' averages, in the same unit.
        between: Score = ("Disagreement between members", Neither);
    }
}

impl MemberScores {
    /// The averages of the parts of every row.
    pub(super) fn of(parts: &MemberDisagreement, intervals: Intervals<'_>) -> Self {
        let [within, between] = intervals.of_means([&parts.within, &parts.between]);
        Self { within, between }
    }

    /// The roots of both parts.
    pub(super) fn root(self) -> Self {
        Self {
            within: self.within.root(),
            between: self.between.root(),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::Targets;

    use crate::predict::{ClassPredictions, NoiseDeviations, Predictions, RealPredictions};
    use crate::scores::{Intervals, Scores};

    #[test]
    fn the_parts_of_an_ensemble_are_averages_over_rows() {
        let reals = |members| {
            Predictions::Reals(RealPredictions {
                // Two rows: the members are at ±1 and at ±2, their draws half a unit around them.
                kind: NoiseDeviations::PerMember(vec![1.0, 1.0]).into(),
                draws: 4,
                members,
                values: vec![0.5, 1.5, 1.5, 2.5, -1.5, -2.5, -0.5, -1.5],
            })
        };
        let targets = Targets::Real(vec![0.0, 1.0]);
        let scores = Scores::of(&reals(vec![2, 2]), &targets, Intervals::Omitted).unwrap();
        let Scores::Regression(scores) = scores else {
            panic!("numbers were scored");
        };
        let parts = scores.members.unwrap();
        assert_eq!(parts.within.value, Some(0.5));
        assert!((parts.between.value.unwrap() - 2.5_f64.sqrt()).abs() < 1e-15);

        let classes = Predictions::Classes(ClassPredictions {
            kind: vec!["a".into(), "b".into()],
            draws: 2,
            members: vec![1, 1],
            values: vec![1.0, 0.0, 0.5, 0.5, 0.0, 1.0, 0.5, 0.5],
        });
        let scores =
            Scores::of(&classes, &Targets::Classes(vec![0, 1]), Intervals::Omitted).unwrap();
        let Scores::Classification(scores) = scores else {
            panic!("classes were scored");
        };
        let parts = scores.members.unwrap();
        assert_eq!(parts.within.value, Some(0.0));
        // The members are certain of different classes in one of two rows.
        let expected = 0.5 * 2.0_f64.ln();
        assert!((parts.between.value.unwrap() - expected).abs() < 1e-15);
    }
}
