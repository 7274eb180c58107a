//! The integration suite: each test is written once, for any device.
//!
//! `BURN_BAYES_TEST_DEVICE` selects the device: `flex` (the default), `ndarray`, `wgpu`, `vulkan` or `cuda`, if
//! compiled in.

mod conformance;
mod contrib;
mod example_batch;
mod fits;
mod grammar;
mod graph;
mod graph_gradients;
mod kernels;
mod laplace;
mod layout;
mod learner;
mod likelihood;
mod model_state;
mod one_pass;
mod onnx;
mod posterior;
mod posterior_laws;
mod predictor;
mod recovery;
mod sampling;
mod sampling_exactness;
mod silent_training;
mod spoilt_posteriors;
mod stages;
mod storage;
mod support;
mod trainer;
mod verdict;
mod warnings;

#[global_allocator]
static ALLOCATOR: burn_bayes_testing::CountingAllocator = burn_bayes_testing::CountingAllocator;
