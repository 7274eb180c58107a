//! A step of VIFA.

use super::{Settings, Vifa, curvature};
use crate::algebra::{IdentityPlus, SquareMatrix};
use crate::error::{Error, Result};
use crate::kernels::{self, Objective};
use crate::methods::algorithm::{
    Algorithm, Draw, FromGradients, GradientPieces, Proposal, Stage, StepId, Update,
};
use crate::methods::average::Iterate;
use crate::methods::stages::{StageSignal, Stages};

impl FromGradients for Vifa {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let (parts, config, setup) = (self.parts(), self.config(), self.setup());
        if let Some(proposal) = self.stages.mean_proposal(setup, id, parts.mean.clone()) {
            return Ok(proposal);
        }
        let noises = self
            .stages
            .noises(setup, id, config.draws, config.antithetic);
        let (weights, gram) = kernels::draws_and_gram(&parts, &noises, &self.settings.scratch);
        let draws = Draw::all(weights, noises);
        let proposal = Proposal::new(id, draws).with_gram(gram);
        Ok(proposal.with_gaussian(parts))
    }

    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<Self::ClosedForm>> {
        let Settings {
            config,
            setup,
            scratch,
        } = self.settings.as_ref();
        let mut parts = self.parts();
        if self.stage() == Stage::Mean {
            parts.factors = None;
        }
        let rank = parts.rank();
        let inner_inverse = SquareMatrix::from_row_major(rank, proposal.gram.clone())
            .and_then(|gram| IdentityPlus::new(&gram))
            .map_err(Error::from)?
            .inverse();
        let share = 1.0 / config.accumulation as f64;
        let objective = Objective {
            scale: share * setup.ess / proposal.draws.len() as f64,
            temperature: share * config.temperature,
            prior: self.stages.prior(),
            inner_inverse: inner_inverse.as_slice(),
            scratch,
        };
        let gradient =
            curvature::gradient(setup, &parts, &proposal, (gradients, batch_size), objective);
        let function = proposal.function.as_ref();
        let gradient = match function.and_then(|terms| terms.divergence.as_ref()) {
            Some(divergence) => curvature::with_divergence(gradient, &parts, divergence, share),
            None => gradient,
        };
        if let Some(index) = gradient.first_non_finite {
            let path = setup.layout.path_at(index).unwrap_or("?");
            return Err(Error::non_finite(proposal.id.step + 1, path));
        }
        let signal = (self.stage() == Stage::Scale).then(|| {
            // Without a divergence of the weights, that of the functions takes its place.
            let divergence = if config.temperature > 0.0 {
                config.temperature
            } else {
                1.0
            };
            let growth = -2.0 / (share * divergence);
            let growth = gradient.log_variance.clone().mul_scalar(growth);
            StageSignal::Scale(Stages::sums(&setup.layout, growth))
        });
        let mut gradients = self.clipped(gradient);
        if let Some(signal) = signal {
            self.stages.register_average(signal, share, &mut gradients);
        }
        Ok(Update::Gradients(gradients))
    }

    fn after_step(mut self, step: u64) -> Self {
        let parts = self.parts();
        let (stages, is_over) = self.stages.with_mean(step, &parts.mean);
        self.stages = match is_over || step <= stages.posterior_since() {
            true => stages,
            false => stages.with_iterate(step, || Iterate::of_gaussian(parts)),
        };
        self
    }
}
