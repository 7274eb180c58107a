//! Integration tests of `burn-bayes-eval`, one binary: values of other libraries, and properties.

mod golden;
mod golden_decisions;
mod golden_diagnostics;
mod properties;
