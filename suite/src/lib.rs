//! The integration suite of `burn-bayes` and `burn-bayes-contrib`, in `tests`.
