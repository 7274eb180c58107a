//! The parameters of VIFA as groups, for learning rates and optimisers of their own.

use burn::module::ParamGroup;

/// A parameter of [`Vifa`](crate::methods::Vifa), as the optimiser and the schedule of a
/// [`Bayesian`](super::Bayesian) model see it.
///
/// ```
/// use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
/// use burn_bayes::train::VifaPart;
///
/// let rates = ModuleLrScheduler::new(1e-3).with_group(VifaPart::LogVariance.group(), 1e-2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VifaPart {
    /// c, the mean.
    Mean,
    /// F, the factors; absent at rank 0.
    Factors,
    /// γ, the log-variance of the diagonal.
    LogVariance,
}

impl VifaPart {
    /// The group that contains this parameter alone.
    pub fn group(self) -> ParamGroup {
        ParamGroup::from_path(self.path())
    }

    /// The path of the parameter in a [`Bayesian`](super::Bayesian) model.
    pub fn path(self) -> &'static str {
        match self {
            Self::Mean => "algorithm.mean",
            Self::Factors => "algorithm.state.factors",
            Self::LogVariance => "algorithm.state.log_variance",
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, ModuleVisitor, Param};
    use burn::nn::LinearConfig;
    use burn::tensor::{Device, Tensor};
    use burn_bayes_graph::ModulePath;

    use super::*;
    use crate::BayesianConfig;
    use crate::methods::VifaConfig;

    #[derive(Default)]
    struct Paths {
        here: ModulePath,
        found: Vec<String>,
    }

    impl ModuleVisitor for Paths {
        burn_bayes_graph::track_path!(here);

        fn visit_float<const R: usize>(&mut self, _param: &Param<Tensor<R>>) {
            self.found.push(self.here.as_str().into());
        }
    }

    #[test]
    fn the_paths_are_those_of_a_wrapped_model() {
        let layer = LinearConfig::new(2, 1).init(&Device::default().autodiff());
        let mut paths = Paths::default();
        BayesianConfig::new(4, VifaConfig::new())
            .init(layer)
            .visit(&mut paths);
        // The others belong to the stages.
        let is_trained =
            |path: &String| path == "algorithm.mean" || path.starts_with("algorithm.state");
        paths.found.retain(is_trained);
        let parts = [VifaPart::Mean, VifaPart::Factors, VifaPart::LogVariance];
        assert_eq!(paths.found, parts.map(VifaPart::path));
    }
}
