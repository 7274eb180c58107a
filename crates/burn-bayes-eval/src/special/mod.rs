//! Special functions, root finding and the distributions behind tests and bounds.

pub(crate) mod beta;
pub(crate) mod binomial;
pub(crate) mod gamma;
pub(crate) mod negative_binomial;
pub(crate) mod normal;
pub(crate) mod poisson;
pub(crate) mod roots;
pub(crate) mod uniform_counts;
