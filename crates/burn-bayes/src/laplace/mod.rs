//! Laplace approximations of trained models.
//!
//! At the trained weights θ*, with the curvature G of the N examples' losses and the prior precisions α, the
//! posterior is
//!
//! ```text
//! q = N(θ*, (G + diag α)⁻¹)
//! GGN               G = Σᵢ JᵢᵀΛᵢJᵢ,  Jᵢ = ∂fᵢ/∂θ, Λᵢ = ∂²ℓᵢ/∂fᵢ²     Laplace::gauss_newton
//! empirical Fisher  G = Σᵢ gᵢgᵢᵀ,   gᵢ = ∂ℓᵢ/∂θ                     Laplace::empirical_fisher
//! ```
//!
//! G is the diagonal, low rank plus diagonal, full, or the Kronecker product of a last layer ([`Structure`]).
//!
//! | symbol | here |
//! |---|---|
//! | N | [`Laplace::train_len`] |
//! | α | [`Laplace::prior_choice`] |
//! | G | [`LaplaceFit`] |
//! | fᵢ, Λᵢ | [`ModelOutputs`], [`Likelihood`](crate::likelihood::Likelihood) |
//!
//! The steps, from batches to predictions:
//!
//! * `outputs.rs` has the trait of models with outputs, the roots of Λ and the gradients of outputs;
//! * `structure.rs` and `kronecker.rs` sum G in each structure;
//! * `fit.rs` makes the pass over the training data, of which `fitted.rs` has the result;
//! * `evidence.rs` has the log marginal likelihood and the best α;
//! * `near_draws.rs` compares the loss at draws with its quadratic approximation, and raises α until they agree;
//! * `linearized.rs` predicts;
//! * `gauss_newton.rs` uses G as the curvature of a training step.

mod evidence;
mod fit;
mod fitted;
mod gauss_newton;
mod kronecker;
mod linearized;
mod near_draws;
mod outputs;
mod structure;

pub use evidence::PriorSharing;
#[doc(hidden)]
pub use fit::check_train_len;
pub use fit::{Laplace, PriorChoice, Structure};
pub use fitted::LaplaceFit;
pub use linearized::{Linearized, LinearizedOutputs};
pub use outputs::ModelOutputs;
#[doc(hidden)]
pub use outputs::{OutputGradients, examples, not_finite, without_autodiff};
