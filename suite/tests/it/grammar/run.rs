//! Runs a program's steps and its loss on Burn tensors, as a user would write them.

use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Bool, Device, Int, Tensor};

use super::net::{Examples, Net};
use super::program::{Loss, Masking, Pooling, Start, Step, VOCABULARY};

/// The activation.
#[derive(Clone, Debug)]
pub(crate) enum Activation {
    /// `[M, F]`
    Flat(Tensor<2>),
    /// `[M, T, F]`
    Sequence(Tensor<3>),
}

use Activation::{Flat, Sequence};

/// An expression of a tensor of either rank.
macro_rules! each {
    ($activation:expr, $x:ident => $result:expr) => {
        match $activation {
            Flat($x) => Flat($result),
            Sequence($x) => Sequence($result),
        }
    };
}

/// An expression of two tensors of the same rank.
macro_rules! both {
    ($first:expr, $second:expr, ($x:ident, $y:ident) => $result:expr) => {
        match ($first, $second) {
            (Flat($x), Flat($y)) => Flat($result),
            (Sequence($x), Sequence($y)) => Sequence($result),
            _ => unreachable!("branches keep the rank"),
        }
    };
}

pub(crate) use each;

impl Activation {
    pub(crate) fn examples(&self) -> usize {
        match self {
            Flat(x) => x.dims()[0],
            Sequence(x) => x.dims()[0],
        }
    }

    pub(crate) fn device(&self) -> Device {
        match self {
            Flat(x) => x.device(),
            Sequence(x) => x.device(),
        }
    }

    /// `[M, T, F]`
    pub(crate) fn sequence(self) -> Tensor<3> {
        match self {
            Sequence(x) => x,
            Flat(_) => unreachable!("the step is drawn for sequences only"),
        }
    }

    /// All values of an example in one row.
    fn rows(self) -> Tensor<2> {
        match self {
            Flat(x) => x,
            Sequence(x) => x.flatten(1, 2),
        }
    }
}

impl Net {
    /// The output of the model, `[M, …]` as rows.
    pub(crate) fn forward(&self, batch: Examples) -> Tensor<2> {
        self.activation(&batch).rows()
    }

    /// The loss per example, `[M]`.
    pub(crate) fn losses(&self, batch: Examples) -> Tensor<1> {
        let output = self.activation(&batch);
        match self.program.loss {
            Loss::SquaredError => {
                let error = output.rows() - batch.targets;
                error.square().sum_dim(1).squeeze_dim(1)
            }
            Loss::CrossEntropy => {
                let logs = log_softmax(output.rows(), 1);
                let picked = logs.gather(1, batch.labels.unsqueeze_dim(1));
                picked.squeeze_dim::<1>(1).neg()
            }
            Loss::CrossEntropyOneHot => {
                let logs = log_softmax(output.rows(), 1);
                let picked = logs * batch.labels.one_hot::<2>(VOCABULARY).float();
                picked.sum_dim(1).squeeze_dim::<1>(1).neg()
            }
            Loss::Mean => match output {
                Flat(x) => (x.clone().tanh() + x.square()).mean_dim(1).squeeze_dim(1),
                Sequence(x) => {
                    let smooth = x.clone().tanh() + x.square();
                    smooth
                        .mean_dim(2)
                        .mean_dim(1)
                        .squeeze_dim::<2>(2)
                        .squeeze_dim(1)
                }
            },
        }
    }

    fn activation(&self, batch: &Examples) -> Activation {
        let start = match self.program.start {
            Start::Flat => Flat(batch.flat.clone()),
            Start::Sequence => Sequence(batch.sequence.clone()),
            Start::Tokens(table) => Sequence(self.embeddings[table].forward(batch.tokens.clone())),
        };
        self.run(&self.program.steps, start, batch)
    }

    pub(crate) fn run(&self, steps: &[Step], x: Activation, batch: &Examples) -> Activation {
        let apply = |x, step| self.apply(step, x, batch);
        steps.iter().fold(x, apply)
    }

    fn apply(&self, step: &Step, x: Activation, batch: &Examples) -> Activation {
        let branch = |steps| self.run(steps, x.clone(), batch);
        match step {
            Step::Residual(steps) => both!(branch(steps), x, (y, x) => x + y),
            Step::Join(steps) => match (branch(steps), x) {
                (Flat(y), Flat(x)) => Flat(Tensor::cat(vec![x, y], 1)),
                (Sequence(y), Sequence(x)) => Sequence(Tensor::cat(vec![x, y], 2)),
                _ => unreachable!("branches keep the rank"),
            },
            Step::Stack(steps) => match (branch(steps), x) {
                (Flat(y), Flat(x)) => {
                    let stacked: Tensor<3> = Tensor::stack(vec![x, y], 1);
                    Flat(stacked.max_dim(1).squeeze_dim(1))
                }
                (Sequence(y), Sequence(x)) => {
                    let stacked: Tensor<4> = Tensor::stack(vec![x, y], 3);
                    Sequence(stacked.mean_dim(3).squeeze_dim(3))
                }
                _ => unreachable!("branches keep the rank"),
            },
            Step::AddDetached(steps) => both!(branch(steps), x, (y, x) => x + y.detach()),
            Step::DetachedParameter(vector) => {
                let factor = self.vectors[*vector].val().detach();
                each!(x, x => x * factor.unsqueeze())
            }
            Step::TimesWithoutAutodiff(steps) => {
                both!(branch(steps), x, (y, x) => x * y.without_autodiff())
            }
            Step::MinusTeacher(steps) => {
                let teacher = self.clone().no_grad();
                let taught = teacher.run(steps, x.clone(), batch);
                both!(taught, x, (y, x) => x - y)
            }
            Step::StraightThrough => each!(x, x => x.clone() + (x.clone().round() - x).detach()),
            Step::Mask(masking) => self.masked(*masking, x, batch),
            Step::Slice {
                is_of_time,
                from,
                len,
            } => match x {
                Flat(x) => Flat(x.narrow(1, *from, *len)),
                Sequence(x) if *is_of_time => Sequence(x.narrow(1, *from, *len)),
                Sequence(x) => Sequence(x.narrow(2, *from, *len)),
            },
            Step::Flip => each!(x, x => x.flip([1])),
            Step::Cumsum => each!(x, x => x.cumsum(1)),
            Step::Pool(pooling) => Flat(pooled(*pooling, x.sequence())),
            Step::Flatten => Flat(x.rows()),
            Step::Split(parts) => match x {
                Flat(x) => {
                    let [examples, features] = x.dims();
                    Sequence(x.reshape([examples, *parts, features / parts]))
                }
                Sequence(_) => unreachable!("only flat activations are split"),
            },
            Step::Merge {
                is_time_first,
                steps,
            } => self.merged(*is_time_first, steps, x.sequence(), batch),
            Step::PlainNumber => each!(x, x => x * self.number),
            Step::PlainTensor => each!(x, x => x * self.tensor.clone().unsqueeze()),
            Step::AddEmbedding(_)
            | Step::AddSelected(_)
            | Step::AddGathered(_)
            | Step::GatherOwn
            | Step::AddOneHot(_) => self.looked_up(step, x, batch),
            Step::Host(_)
            | Step::CentreOverBatch
            | Step::NumberOfExample
            | Step::LengthMask
            | Step::LengthScale
            | Step::UnmappedRows
            | Step::UnmappedShared => self.read(step, x, batch),
            _ => self.weighted(step, x),
        }
    }

    fn masked(&self, masking: Masking, x: Activation, batch: &Examples) -> Activation {
        match masking {
            Masking::Constant => each!(x, x => {
                let odd = odd_places(&x);
                x.mask_fill(odd, 0.0)
            }),
            Masking::Batch => match x {
                Flat(x) => {
                    let shape = x.dims();
                    Flat(x.mask_fill(batch.mask.clone().narrow(1, 0, 1).expand(shape), -1.0))
                }
                Sequence(x) => {
                    let shape = x.dims();
                    let mask = batch.mask.clone().unsqueeze_dim::<3>(2);
                    Sequence(x.mask_fill(mask.expand(shape), 0.0))
                }
            },
            Masking::Float => match x {
                Flat(x) => Flat(x * batch.mask.clone().narrow(1, 0, 1).float()),
                Sequence(x) => Sequence(x * batch.mask.clone().float().unsqueeze_dim::<3>(2)),
            },
            Masking::Where(vector) => each!(x, x => {
                let other = x.clone() * self.vectors[vector].val().unsqueeze();
                x.clone().mask_where(x.greater_elem(0.0), other)
            }),
        }
    }

    /// Runs steps on positions as rows, `[M·T, F]` or `[T·M, F]`.
    fn merged(
        &self,
        is_time_first: bool,
        steps: &[Step],
        x: Tensor<3>,
        batch: &Examples,
    ) -> Activation {
        let [examples, time, features] = x.dims();
        let run = |rows| match self.run(steps, Flat(rows), batch) {
            Flat(rows) => rows,
            Sequence(_) => unreachable!("branches keep the rank"),
        };
        let rows = [examples * time, features];
        Sequence(if is_time_first {
            let rows = run(x.swap_dims(0, 1).reshape(rows));
            let width = rows.dims()[1];
            rows.reshape([time, examples, width]).swap_dims(0, 1)
        } else {
            let rows = run(x.reshape(rows));
            let width = rows.dims()[1];
            rows.reshape([examples, time, width])
        })
    }
}

/// Every second index of the second axis.
fn odd_places<const R: usize>(x: &Tensor<R>) -> Tensor<R, Bool> {
    let len = x.dims()[1];
    let places = Tensor::<1, Int>::arange(0..len as i64, &x.device());
    let odd = places.remainder_scalar(2).equal_elem(1);
    odd.reshape(only_axis::<R>(1, len)).expand(x.dims())
}

/// A shape with one axis that is longer than one.
pub(crate) fn only_axis<const R: usize>(axis: usize, len: usize) -> [usize; R] {
    let mut dims = [1; R];
    dims[axis] = len;
    dims
}

fn pooled(pooling: Pooling, x: Tensor<3>) -> Tensor<2> {
    let last = x.dims()[1] - 1;
    match pooling {
        Pooling::Mean => x.mean_dim(1),
        Pooling::Max => x.max_dim(1),
        Pooling::Last => x.narrow(1, last, 1),
    }
    .squeeze_dim(1)
}
