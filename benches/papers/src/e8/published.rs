//! The columns of E8's table, and what the paper reports of other pictures.

use crate::experiment::{Column, Figure, Published, row};

use super::scores::{ACCURACY, AUROC, BALANCED, NLL};

const fn column(measure: &'static str, title: &'static str) -> Column {
    Column { measure, title }
}

pub(super) const COLUMNS: [Column; 20] = [
    column(ACCURACY, "accuracy"),
    column("entropy_90", "90 % by entropy"),
    column("entropy_80", "80 %"),
    column("entropy_70", "70 %"),
    column("entropy_60", "60 %"),
    column("entropy_50", "50 %"),
    column("disagreement_90", "90 % by disagreement"),
    column("disagreement_80", "80 %"),
    column("disagreement_70", "70 %"),
    column("disagreement_60", "60 %"),
    column("disagreement_50", "50 %"),
    column(BALANCED, "balanced accuracy"),
    column("balanced_entropy_50", "balanced, 50 % by entropy"),
    column("balanced_disagreement_50", "balanced, 50 % by disagreement"),
    column(AUROC, "AUROC"),
    column(NLL, "NLL"),
    column("foreign_auroc_entropy", "digits, AUROC by entropy"),
    column("foreign_fpr95_entropy", "FPR95"),
    column(
        "foreign_auroc_mutual_information",
        "digits, AUROC by information",
    ),
    column("foreign_fpr95_mutual_information", "FPR95"),
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
