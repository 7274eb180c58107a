//! Selective prediction: keep the most certain rows and refer the others.

mod bounds;
mod costs;
mod referral;
mod risk_coverage;
mod sparsification;

pub use bounds::{BoundedPoint, SelectiveBounds};
pub use costs::{Action, CostedAction, DecisionCosts};
pub use referral::{
    ReferralRow, ReferralScore, SelectedRow, Selection, referral_scores, referral_table,
    referral_table_of_class,
};
pub use risk_coverage::{OperatingPoint, RiskCoverage, RiskCoveragePoint};
pub use sparsification::{SparsificationError, ause};
