//! Bad input is an error that says what, where and the cure, and never a number.

use burn_bayes_eval::{
    BinaryScores, ClassProbabilities, ConformalSets, DrawProbabilities, EvalError,
    LabelledProbabilities, PitUniformity, SetScore, adaptive_calibration_error, equal_mass_groups,
    winkler_scores,
};

#[track_caller]
fn assert_error(error: &EvalError, place: (Option<usize>, Option<usize>), parts: &[&str]) {
    let message = error.to_string();
    assert!(error.is_data(), "{message}");
    assert_eq!((error.row(), error.column()), place, "{message}");
    assert!(message.contains("likely cause: "), "{message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn sums_other_than_one_say_by_how_much_and_where() {
    let error = ClassProbabilities::new(&[0.5, 0.5, 0.75, 0.5], 2, 2).unwrap_err();
    assert_error(
        &error,
        (Some(1), None),
        &["row 1", "the sum 1.25", "2.5e-1 too much", "softmax"],
    );
    let error = DrawProbabilities::new(&[0.5, 0.5, 0.25, 0.5], 2, 1, 2).unwrap_err();
    assert_error(&error, (Some(0), None), &["draw 1", "2.5e-1 too little"]);
}

#[test]
fn nan_and_labels_out_of_range_name_their_row() {
    let error = ClassProbabilities::new(&[0.5, 0.5, f64::NAN, 1.0], 2, 2).unwrap_err();
    assert_error(&error, (Some(1), Some(0)), &["NaN"]);
    let table = ClassProbabilities::binary(&[0.5, 0.5]).unwrap();
    let error = LabelledProbabilities::new(&table, &[1, 2]).unwrap_err();
    assert_error(
        &error,
        (Some(1), None),
        &["found 2", "below 2", "start at one"],
    );
    let error = PitUniformity::new(&[0.5, f64::NAN]).unwrap_err();
    assert_error(&error, (Some(1), None), &["NaN"]);
}

#[test]
fn one_class_cannot_be_ranked() {
    let error = BinaryScores::new(&[0.1, 0.2], &[true, true]).unwrap_err();
    assert_error(&error, (None, None), &["2 positive and 0 negative"]);
    let error = BinaryScores::separating(&[0.1], &[]).unwrap_err();
    assert_error(&error, (None, None), &["out-of-distribution scores"]);
}

#[test]
fn fewer_rows_than_bins_are_refused() {
    let table = ClassProbabilities::binary(&[0.5, 0.4]).unwrap();
    let labelled = LabelledProbabilities::new(&table, &[1, 0]).unwrap();
    let error = adaptive_calibration_error(&labelled, 3).unwrap_err();
    assert_error(&error, (None, None), &["2 for 3 bins", "use fewer bins"]);
    let error = equal_mass_groups(&[0.1], 2).unwrap_err();
    assert_error(&error, (None, None), &["1 for 2 bins"]);
}

#[test]
fn calibrated_for_other_classes_or_lengths() {
    let table = ClassProbabilities::binary(&[0.5, 0.4]).unwrap();
    let labelled = LabelledProbabilities::new(&table, &[1, 0]).unwrap();
    let sets = ConformalSets::calibrate(&labelled, 0.5, SetScore::Lac).unwrap();
    let three = ClassProbabilities::new(&[0.2, 0.3, 0.5], 1, 3).unwrap();
    assert_error(
        &sets.sets(&three).unwrap_err(),
        (None, None),
        &["3 classes", "the 2 classes"],
    );
    let intervals = burn_bayes_eval::PredictionIntervals::new(&[0.0], &[1.0]).unwrap();
    let error = winkler_scores(&intervals, &[0.5, 0.5], 0.9).unwrap_err();
    assert_error(&error, (None, None), &["targets", "2 values"]);
}
