//! The integration suite: each test is written once, for any device.
//!
//! `BURN_BAYES_TEST_DEVICE` selects the device: `flex` (the default), `ndarray`, `wgpu`, `vulkan` or `cuda`, if
//! compiled in.

mod example_batch;
mod grammar;
mod graph;
mod graph_gradients;
mod kernels;
mod layout;
mod posterior;
mod posterior_laws;
mod spoilt_posteriors;
mod storage;
mod support;

#[cfg(feature = "train")]
mod conformance;
#[cfg(feature = "train")]
mod fits;
#[cfg(feature = "train")]
mod laplace;
#[cfg(feature = "train")]
mod learner;
#[cfg(feature = "train")]
mod likelihood;
#[cfg(feature = "train")]
mod model_state;
#[cfg(feature = "train")]
mod one_pass;
#[cfg(feature = "train")]
mod predictor;
#[cfg(feature = "train")]
mod recovery;
#[cfg(feature = "train")]
mod silent_training;
#[cfg(feature = "train")]
mod stages;
#[cfg(feature = "train")]
mod trainer;
#[cfg(feature = "train")]
mod verdict;
#[cfg(feature = "train")]
mod warnings;

#[global_allocator]
static ALLOCATOR: burn_bayes_testing::CountingAllocator = burn_bayes_testing::CountingAllocator;
