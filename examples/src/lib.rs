//! Shared code of the example programs: models, generated data, settings and plain output.

mod batches;
#[allow(missing_docs, clippy::all, reason = "written by onnx2burn")]
#[path = "../data/digit_features.rs"]
pub mod digit_features;
mod digit_net;
mod glyphs;
mod image_net;
mod logit_variances;
mod models;
mod picture_net;
mod picture_sheet;
mod pictures;
mod progress;
mod resnet;
mod scores;
mod segmentation_net;
mod sentence_net;
mod sentences;
mod settings;
mod shapes;

pub use batches::{ClassBatch, ClassBatcher, ClassRow, RealBatch, ToBatch, class_loader};
pub use digit_net::DigitNet;
pub use glyphs::Glyphs;
pub use image_net::{Cnn, ImageBatch, ImageBatcher};
pub use logit_variances::LogitVariances;
pub use models::{Activation, Classifier, LinearRegressor, LogisticRegressor, Regressor};
pub use picture_net::PictureNet;
pub use picture_sheet::picture_sheet;
pub use pictures::{AugmentedPictures, PictureKind, Pictures, picture_batch};
pub use progress::EpochLines;
pub use resnet::ResNet;
pub use scores::{ClassScores, probabilities_of};
pub use segmentation_net::{SegmentationBatch, SegmentationBatcher, SegmentationNet};
pub use sentence_net::{SentenceBatch, SentenceNet, sentence_loader};
pub use sentences::{Domain, Sentence, Sentences};
pub use settings::{Arguments, is_smoke};
pub use shapes::{ShapeImage, Shapes};
