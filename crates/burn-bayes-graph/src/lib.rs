//! Captured graphs of Burn models: factored per-example gradients, and many weight draws in one pass.
