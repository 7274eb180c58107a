//! Models shared by the benchmarks.
