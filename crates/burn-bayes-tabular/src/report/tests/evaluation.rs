//! The sections of an evaluation: groups, conformal sets and plain models.

use super::checked;
use super::figures::cells;
use crate::groups::Groups;
use crate::report::testing::{Sample, classification, regression};
use crate::rows::Units;
use crate::scores::{
    Baseline, BaselineModel, BaselineScores, ConformalScores, CoverageByPart, Interval,
    PartCoverage, ScoresByGroup,
};
use crate::text::number;

/// The rows in groups of 40, the rest and the missing values.
fn with_groups(mut sample: Sample) -> Sample {
    let rows = sample.targets.len();
    let groups: Vec<usize> = (0..rows).map(|row| (row / 40).min(2)).collect();
    let names = [Some("a & b".to_string()), None, Some("<rest>".into())];
    let (predictions, targets) = (&sample.predictions, &sample.targets);
    let groups = Groups {
        by: "w<rd".into(),
        names: names.to_vec(),
        of_rows: groups,
    };
    let units = Units::rows(targets.len());
    sample.by = ScoresByGroup::of_targets(&[groups], predictions, targets, &units).unwrap();
    sample
}

fn with_conformal(mut sample: Sample) -> Sample {
    let interval = Interval {
        lower: 0.25,
        upper: 0.875,
    };
    let part = |name: Option<&str>, adjusted_p_value| PartCoverage {
        part: name.map(String::from),
        rows: 7,
        coverage: 0.5,
        interval,
        adjusted_p_value,
    };
    sample.conformal = vec![ConformalScores {
        target: None,
        level: 0.9,
        calibration_rows: 100,
        guarantee: "the set of a new row contains its class".into(),
        coverage: 0.5,
        interval,
        mean_size: Some(1.5),
        mean_width: None,
        parts: vec![CoverageByPart {
            by: "size of the set".into(),
            parts: vec![part(Some("1"), 0.25), part(None, 1e-9)],
        }],
    }];
    sample
}

#[test]
fn groups_of_classes_have_their_scores_and_how_to_read_them() {
    let sample = with_groups(classification(&["x", "y"], 100, 3));
    let page = checked(&sample);
    assert!(page.contains("id=\"groups\"") && page.contains("href=\"#groups\""));
    let found = cells(&page, "Scores by w&#60;rd", "a &#38; b");
    let group = &sample.by[0].groups[0];
    assert_eq!(found[0], "40");
    let error = number(group.nll_standard_error.unwrap());
    assert_eq!(found[1], format!("{} ± {error}", number(group.nll)));
    assert_eq!(found[6], number(group.adjusted_p_value));
    // The rest has 20 rows.
    assert_eq!(
        cells(&page, "Scores by w&#60;rd", "&#60;rest&#62; *")[0],
        "20"
    );
    assert_eq!(cells(&page, "Scores by w&#60;rd", "(missing)")[0], "40");
    assert!(page.contains("fewer than 30 rows") && page.contains("its mean confidence"));
    assert!(!page.contains("With several tables"));
}

#[test]
fn groups_of_numbers_have_both_intervals() {
    let sample = with_groups(regression(120, 4));
    let page = checked(&sample);
    let found = cells(&page, "Scores by w&#60;rd", "(missing)");
    assert_eq!(found.len(), 8);
    assert!(page.contains("cover less than 90"));
    assert!(!page.contains("fewer than 30 rows"));
}

#[test]
fn conformal_sets_have_their_guarantee_and_the_coverage_of_parts() {
    let page = checked(&with_conformal(classification(&["x", "y"], 50, 1)));
    for words in [
        "id=\"conformal\"",
        "The set of a new row contains its class.",
        "coverage 0.5000 [0.2500, 0.8750], mean size 1.5000",
        "less than 0.9 of the rows",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let caption = "Coverage by size of the set";
    let limits = "[0.2500, 0.8750]";
    assert_eq!(
        cells(&page, caption, "1"),
        ["7", "0.5000", limits, "0.2500"]
    );
    let missing = cells(&page, caption, "(missing)");
    assert_eq!(missing[3], "&#60; 0.0001");
}

#[test]
fn plain_models_are_beside_the_fit() {
    let mut sample = classification(&["x", "y"], 50, 1);
    assert!(!checked(&sample).contains("id=\"baselines\""));
    sample.baselines = vec![Baseline {
        model: BaselineModel::Constant,
        name: "the class frequencies",
        scores: Some(BaselineScores {
            nll: 0.75,
            error: 0.5,
            difference: -0.25,
            standard_error: Some(0.125),
        }),
        absent: None,
    }];
    let page = checked(&sample);
    let found = cells(
        &page,
        "Held-out scores beside plain models",
        "The class frequencies",
    );
    assert_eq!(found, ["0.7500", "0.5000", "−0.2500 ± 0.1250"]);
}
