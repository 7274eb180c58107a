//! Scores of rows that come in chunks and are not kept, such as the pixels of images.

mod classification;
mod pavpu;
mod ranking;

pub use classification::{ClassificationScores, ClassificationTotals};
pub use pavpu::PatchTotals;
pub use ranking::{BoundedAuroc, RankingTotals};
