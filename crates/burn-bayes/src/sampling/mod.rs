//! Samples from the posterior of a network by microcanonical Langevin Monte Carlo (MCLMC; Robnik and Seljak 2022; Sommer et
//! al. 2025).
//!
//! A chain has a place z, the weights in units of the prior's deviations (of 1 where these are larger), and a direction u of
//! unit length. With the log density l, its gradient and a diagonal metric p, one step of size ε evaluates the gradient once:
//!
//! | part | what it does |
//! |---|---|
//! | B(ε/2) | turns u towards e = p⊙∇l/‖p⊙∇l‖: with q = exp(−ε‖p⊙∇l‖/2(d−1)) and c = u·e, u ∝ e(1−q)(1+q+c(1−q)) + 2qu |
//! | A(ε) | z ← z + εp⊙u |
//! | B(ε/2) | the same at the new place |
//! | O | refreshes the direction: u ∝ u + νn with n ~ N(0, I) and ν² = (exp(2ε/L) − 1)/d |
//!
//! Without errors of integration the energy would stay, and the chain would be exact. Its error in a step, ΔE, has a
//! variance that the step size keeps at a given number v per weight: a smaller v is more exact, and takes more steps.
//!
//! Chains start at the weights of models of their own, and have three phases: a warm start by Adam towards a mode, with a step
//! for every batch of the data; tuning, in which v falls to its value, the deviations of the weights become the metric, and L is
//! chosen; and sampling. Chains that started elsewhere and do not agree have not converged, which is asked of their predictions
//! ([`Samples::agreement`]) and not of their weights: networks have many equal modes.
//!
//! [`SamplingConfig::hmc`] is Hamiltonian Monte Carlo, the reference. Both sample from any [`LogDensity`].

mod budget;
mod chain;
mod climb;
mod density;
mod hmc;
mod mclmc;
mod microcanonical;
mod moments;
mod run;
mod samples;
mod settings;
mod step_size;
#[cfg(test)]
mod testing;

#[doc(hidden)]
pub use budget::Budget;
pub use chain::ChainSummary;
pub(crate) use density::placed;
#[doc(hidden)]
pub use density::some_rows;
pub use density::{LogDensity, batches_of_rows};
pub use hmc::HmcConfig;
pub use mclmc::MclmcConfig;
pub use run::Sampling;
pub use samples::{Agreement, Samples};
pub use settings::{Dynamics, SamplingConfig};
