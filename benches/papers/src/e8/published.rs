//! The columns of E8's table, and what the paper reports of other pictures.

use crate::experiment::{Column, Figure, Published, row};

use super::scores::{ACCURACY, AUROC, BALANCED, NLL};

pub(super) const COLUMNS: [Column; 20] = [
    Column::mean(ACCURACY, "accuracy"),
    Column::mean("entropy_90", "90 % by entropy"),
    Column::mean("entropy_80", "80 %"),
    Column::mean("entropy_70", "70 %"),
    Column::mean("entropy_60", "60 %"),
    Column::mean("entropy_50", "50 %"),
    Column::mean("disagreement_90", "90 % by disagreement"),
    Column::mean("disagreement_80", "80 %"),
    Column::mean("disagreement_70", "70 %"),
    Column::mean("disagreement_60", "60 %"),
    Column::mean("disagreement_50", "50 %"),
    Column::mean(BALANCED, "balanced accuracy"),
    Column::mean("balanced_entropy_50", "balanced, 50 % by entropy"),
    Column::mean("balanced_disagreement_50", "balanced, 50 % by disagreement"),
    Column::mean(AUROC, "AUROC"),
    Column::mean(NLL, "NLL"),
    Column::mean("foreign_auroc_entropy", "digits, AUROC by entropy"),
    Column::mean("foreign_fpr95_entropy", "FPR95"),
    Column::mean(
        "foreign_auroc_mutual_information",
        "digits, AUROC by information",
    ),
    Column::mean("foreign_fpr95_mutual_information", "FPR95"),
];

const fn figure(measure: &'static str, value: f64, standard_error: f64) -> Figure {
    Figure {
        measure,
        value,
        standard_error: Some(standard_error),
    }
}

/// A residual network on photographs of other eyes: to be read beside our figures, not against them.
pub(super) const PUBLISHED: [Published; 2] = [
    row(
        "retinamnist",
        "published: plain ResNet-18, APTOS",
        &[figure(ACCURACY, 0.927, 0.004), figure(AUROC, 0.979, 0.002)],
    ),
    row(
        "retinamnist",
        "published: VIFA ResNet-18, APTOS",
        &[
            figure(ACCURACY, 0.928, 0.003),
            figure(AUROC, 0.980, 0.002),
            figure("entropy_90", 0.957, 0.005),
            figure("entropy_80", 0.973, 0.004),
            figure("entropy_70", 0.983, 0.002),
            figure("entropy_60", 0.991, 0.002),
            figure("entropy_50", 0.994, 0.001),
            figure("disagreement_90", 0.956, 0.005),
            figure("disagreement_80", 0.975, 0.003),
            figure("disagreement_70", 0.984, 0.002),
            figure("disagreement_60", 0.990, 0.002),
            figure("disagreement_50", 0.994, 0.001),
        ],
    ),
];
