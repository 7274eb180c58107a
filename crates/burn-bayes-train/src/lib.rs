//! Bayesian training of Burn models with Burn's own Learner, and uncertainty metrics.
