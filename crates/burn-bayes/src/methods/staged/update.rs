//! From the gradients of a step to its update, in every stage and for every way to learn.

use burn::optim::GradientsParams;

use super::{Staged, StagedUpdate};
use crate::error::Result;
use crate::methods::algorithm::Stage;
use crate::methods::method_state::{Context, Learns, MethodState};
use crate::methods::proposal::{GradientPieces, Proposal, Update};
use crate::methods::stages::StageSignal;

impl<S: MethodState> Staged<S> {
    /// The update of the first two stages.
    pub(super) fn stage_update(
        &self,
        proposal: &Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<Update<StagedUpdate<S::Step>>> {
        let (step, mean) = (proposal.id.step + 1, self.mean());
        let prior = &self.stages.prior_in_step(step);
        let context = Context {
            prior,
            ..self.context()
        };
        let signal = match context.stage {
            Stage::Mean => S::mean_signal,
            _ => S::scale_signal,
        };
        let signal = signal(&self.state, context, mean, proposal, gradients, examples)?;
        self.update_of(signal, step, examples)
    }

    fn update_of(
        &self,
        signal: StageSignal,
        step: u64,
        examples: usize,
    ) -> Result<Update<StagedUpdate<S::Step>>> {
        let setup = &self.settings.setup;
        let mut gradients = GradientsParams::new();
        match S::LEARNS {
            Learns::AtOnce => {
                let (mean, examples) = (self.mean(), examples as u64);
                return match self.stages.update(setup, step, signal, &mean, examples) {
                    Ok(update) => Ok(Update::ClosedForm(StagedUpdate::Stage(update))),
                    Err(error) if error.is_numerical() => Ok(Update::Rejected(error)),
                    Err(error) => Err(error),
                };
            }
            Learns::FromSums => {
                self.stages
                    .register(Some(signal), examples, &self.mean, &mut gradients);
            }
            Learns::ByOptimizer => {
                let share = self.state.share();
                self.stages
                    .register_average(signal, share, &self.mean, &mut gradients);
            }
        }
        Ok(Update::Gradients(gradients))
    }

    /// The update of the last stage.
    pub(super) fn posterior_update(
        &self,
        proposal: Proposal,
        gradients: S::Signal,
        examples: usize,
    ) -> Result<Update<StagedUpdate<S::Step>>> {
        let step = proposal.id.step + 1;
        let context = self.context();
        let update = self
            .state
            .update(context, &self.mean, proposal, gradients, examples)?;
        Ok(match update {
            Update::Gradients(mut sums) => {
                if S::LEARNS == Learns::FromSums {
                    self.stages.register(None, examples, &self.mean, &mut sums);
                }
                Update::Gradients(sums)
            }
            Update::ClosedForm(update) => {
                Update::ClosedForm(StagedUpdate::Posterior { step, update })
            }
            Update::Rejected(error) => Update::Rejected(error),
        })
    }
}
