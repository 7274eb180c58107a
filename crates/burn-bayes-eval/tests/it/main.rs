//! Integration tests of `burn-bayes-eval` in one binary: reference values of other libraries, and properties.

mod bad_input;
mod golden;
mod golden_decisions;
mod golden_diagnostics;
mod golden_groups;
mod golden_peers;
mod golden_torch_uncertainty;
mod guarantees;
mod nan;
mod properties;
mod properties_decisions;
mod properties_fitted;
mod properties_tests;
mod properties_unusual;
