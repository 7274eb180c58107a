//! Posteriors over the weights of Burn models: layout, factor posterior, priors, noise, kernels.
