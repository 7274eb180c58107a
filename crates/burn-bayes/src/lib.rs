//! Bayesian training for any Burn model: wrap it, train it with Burn's Learner, get a posterior over its weights.
