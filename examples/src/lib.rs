//! Models and data shared by the examples.
