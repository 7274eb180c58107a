//! One row for each score: its key, title, direction and meaning, from which files, console, report, comparisons and the
//! book's tables take them.

use super::several_targets::{JointLabels, JointNumbers};
use super::{
    ClassificationScores, CountScores, CoverageScores, MemberScores, RegressionScores, Score,
    SeveralTargetsScores,
};
use crate::distinct::distinct;
use crate::text::shortened;

/// What the program says about a score, wherever it shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreSpec {
    /// Its name in JSON.
    pub key: &'static str,
    /// Its name in words.
    pub title: &'static str,
    /// Which values are better.
    pub better: Better,
    /// Whether comparisons of methods have it.
    pub is_compared: bool,
    /// Whether it is one more of several similar scores, which a report folds.
    pub is_further: bool,
    /// Its meaning, in a sentence.
    pub meaning: &'static str,
}

/// Which values of a score are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// High ones.
    Higher,
    /// Low ones.
    Lower,
    /// Those near the nominal level.
    AtLevel,
    /// It describes an ensemble.
    Neither,
}

impl ScoreSpec {
    /// The rows of all tasks.
    pub(crate) fn all() -> Vec<Self> {
        [
            ClassificationScores::specs(),
            RegressionScores::specs(),
            CountScores::specs(),
            SeveralTargetsScores::specs(),
            JointNumbers::specs(),
            JointLabels::specs(),
            CoverageScores::specs(),
            MemberScores::specs(),
        ]
        .concat()
    }

    /// The rows of comparisons, beginning with the NLL.
    pub(crate) fn compared() -> Vec<Self> {
        let compared = Self::all().into_iter().filter(|spec| spec.is_compared);
        let mut compared = distinct(compared, |spec| spec.key);
        compared.sort_by_key(|spec| spec.key != NLL);
        compared
    }

    /// The title, for F1 with the positive class.
    pub(crate) fn title_of(&self, positive: Option<&str>) -> String {
        match positive {
            Some(positive) if self.key == F1 => {
                format!("{} (positive: {})", self.title, shortened(positive, 24))
            }
            _ => self.title.into(),
        }
    }
}

/// The key of the negative log-likelihood.
pub(crate) const NLL: &str = "nll";
/// The key of the F1 score of the positive class.
pub(super) const F1: &str = "f1";

impl Better {
    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Higher => "higher is better",
            Self::Lower => "lower is better",
            Self::AtLevel => "best at the nominal level",
            Self::Neither => "says what the members add",
        }
    }
}

/// A score of some rows with its row; title and meaning may name a class, a level or a target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScoreLine {
    pub(crate) spec: ScoreSpec,
    pub(crate) title: String,
    pub(crate) meaning: String,
    pub(crate) score: Score,
}

impl ScoreLine {
    pub(super) fn new(spec: ScoreSpec, score: impl Into<Score>) -> Self {
        Self {
            spec,
            title: spec.title.into(),
            meaning: spec.meaning.into(),
            score: score.into(),
        }
    }
}

/// Scores in the order in which they are shown.
pub(crate) trait Lines {
    /// A line for each score.
    fn lines(&self) -> Vec<ScoreLine>;
}

impl<T: Lines> Lines for Option<T> {
    fn lines(&self) -> Vec<ScoreLine> {
        self.iter().flat_map(T::lines).collect()
    }
}

/// Defines a structure of scores with its table.
///
/// A field with a title, a direction and perhaps `compared` or `further` is a score, whose meaning is the documentation. A field with
/// `(each)` has several scores, its own [`Lines`]. Other fields are in files only.
macro_rules! scores {
    (
        $(#[$meta:meta])*
        $scores:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde($($serde:tt)+)])?
                $field:ident: $type:ty $(= $spec:tt)?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $scores {
            $($(#[doc = $doc])+ $(#[serde($($serde)+)])? pub $field: $type,)+
        }

        impl $scores {
            /// The rows of its scores, in the order of the fields.
            pub(crate) fn specs() -> Vec<$crate::scores::ScoreSpec> {
                [$(scores!(@spec $field [$($doc)+] [$($spec)?])),+].concat()
            }
        }

        impl $crate::scores::Lines for $scores {
            fn lines(&self) -> Vec<$crate::scores::ScoreLine> {
                let mut lines = Vec::new();
                $(scores!(@line lines, (self.$field) $field [$($doc)+] [$($spec)?]);)+
                lines
            }
        }
    };
    (@spec $field:ident [$($doc:literal)+] []) => { Vec::new() };
    (@spec $field:ident [$($doc:literal)+] [(each)]) => { Vec::new() };
    (@spec $field:ident [$($doc:literal)+] [$spec:tt]) => {
        vec![scores!(@row $field [$($doc)+] $spec)]
    };
    (@line $lines:ident, $value:tt $field:ident [$($doc:literal)+] []) => {};
    (@line $lines:ident, $value:tt $field:ident [$($doc:literal)+] [(each)]) => {
        $lines.extend($crate::scores::Lines::lines(&$value));
    };
    (@line $lines:ident, $value:tt $field:ident [$($doc:literal)+] [$spec:tt]) => {
        let spec = scores!(@row $field [$($doc)+] $spec);
        $lines.push($crate::scores::ScoreLine::new(spec, &$value));
    };
    (@row $field:ident [$($doc:literal)+] ($title:literal, $better:ident $(, $kind:ident)?)) => {
        $crate::scores::ScoreSpec {
            key: stringify!($field),
            title: $title,
            better: $crate::scores::Better::$better,
            is_compared: scores!(@compared $($kind)?),
            is_further: scores!(@further $($kind)?),
            meaning: concat!($($doc),+).trim_ascii_start(),
        }
    };
    (@compared) => { false };
    (@compared compared) => { true };
    (@compared further) => { false };
    (@further) => { false };
    (@further compared) => { false };
    (@further further) => { true };
}

pub(crate) use scores;
