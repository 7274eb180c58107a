//! How uncertain the prediction for a row is, and how much draws or members disagree.

mod classes;
mod members;

pub(crate) use classes::entropy;
pub use classes::{
    expected_entropy, least_confidence, max_probability, model_disagreement, mutual_information,
    predictive_entropy, variation_ratio,
};
pub use members::MemberDisagreement;
