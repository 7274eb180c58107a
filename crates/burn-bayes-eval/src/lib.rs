//! Scores of probabilistic predictions on plain slices: proper scores, calibration, selective prediction.
