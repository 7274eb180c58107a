//! Steps that index with integers, and steps that read what a recording does not contain.

use burn::tensor::{Int, Tensor, TensorData};

use super::net::{Examples, Net};
use super::program::{Read, Step, VOCABULARY};
use super::run::Activation::{self, Flat, Sequence};
use super::run::{each, only_axis};

impl Net {
    pub(crate) fn looked_up(&self, step: &Step, x: Activation, batch: &Examples) -> Activation {
        let tokens = batch.tokens.clone();
        match *step {
            Step::AddEmbedding(place) => {
                let embedded = self.embeddings[place].forward(tokens);
                match x {
                    Flat(x) => Flat(x + embedded.mean_dim(1).squeeze_dim::<2>(1)),
                    Sequence(x) => Sequence(x + embedded),
                }
            }
            Step::AddSelected(place) => {
                let rows = self.matrices[place].val().select(0, batch.labels.clone());
                self.add_rows(rows, x)
            }
            Step::AddOneHot(place) => {
                let labels = batch.labels.clone().one_hot::<2>(VOCABULARY).float();
                self.add_rows(labels.matmul(self.matrices[place].val()), x)
            }
            Step::AddGathered(place) => {
                let table = self.matrices[place].val();
                match x {
                    Flat(x) => {
                        let [_, features] = x.dims();
                        let places = tokens.narrow(1, 0, 1).repeat_dim(1, features);
                        Flat(x + table.gather(0, places))
                    }
                    Sequence(x) => {
                        let [examples, time, features] = x.dims();
                        let places = tokens.reshape([examples * time, 1]);
                        let rows = table.gather(0, places.repeat_dim(1, features));
                        Sequence(x + rows.reshape([examples, time, features]))
                    }
                }
            }
            Step::GatherOwn => match x {
                Flat(x) => {
                    let places = tokens.remainder_scalar(x.dims()[1] as i64);
                    let picked = x.clone().gather(1, places.narrow(1, 0, 1));
                    Flat(x * picked)
                }
                Sequence(x) => {
                    let [examples, time, features] = x.dims();
                    let places = tokens.narrow(1, 0, 1).remainder_scalar(time as i64);
                    let places = places.unsqueeze_dim::<3>(2).expand([examples, 1, features]);
                    Sequence(x.clone() + x.gather(1, places))
                }
            },
            _ => unreachable!("{step:?} looks nothing up"),
        }
    }

    /// Adds a row per example.
    fn add_rows(&self, rows: Tensor<2>, x: Activation) -> Activation {
        match x {
            Flat(x) => Flat(x + rows),
            Sequence(x) => Sequence(x + rows.unsqueeze_dim::<3>(1)),
        }
    }

    pub(crate) fn read(&self, step: &Step, x: Activation, batch: &Examples) -> Activation {
        match *step {
            Step::Host(read) => {
                let factor = self.factor(read, batch);
                each!(x, x => x * factor)
            }
            Step::CentreOverBatch => each!(x, x => x.clone() - x.mean_dim(0)),
            Step::NumberOfExample => {
                let numbers = Tensor::<1, Int>::arange(0..x.examples() as i64, &x.device());
                let factors = numbers.float() + 1.0;
                per_example(factors, x)
            }
            Step::LengthMask => {
                let x = x.sequence();
                let time = x.dims()[1];
                let lengths = &batch.lengths;
                let row = |&length: &usize| (0..time).map(move |step| f32::from(step < length));
                let mask: Vec<f32> = lengths.iter().flat_map(row).collect();
                let mask = TensorData::new(mask, [lengths.len(), time, 1]);
                let mask = Tensor::<3>::from_data(mask, &x.device());
                Sequence(x * mask)
            }
            Step::LengthScale => {
                let factors: Vec<f32> = batch
                    .lengths
                    .iter()
                    .take(x.examples())
                    .map(|&length| 1.0 / length as f32)
                    .collect();
                let factors = TensorData::new(factors.clone(), [factors.len()]);
                let factors = Tensor::from_data(factors, &x.device());
                per_example(factors, x)
            }
            Step::UnmappedRows => {
                let rows = batch.unmapped_rows.clone();
                match x {
                    Flat(x) => {
                        let rows = rows.to_device(&x.device());
                        Flat(x * rows)
                    }
                    Sequence(x) => {
                        let rows = rows.to_device(&x.device());
                        Sequence(x * rows.unsqueeze_dim::<3>(1))
                    }
                }
            }
            Step::UnmappedShared => {
                let shared = batch.unmapped_shared.clone();
                each!(x, x => {
                    let shared = shared.to_device(&x.device());
                    x * shared.unsqueeze()
                })
            }
            _ => unreachable!("{step:?} reads nothing"),
        }
    }

    /// A number computed on the host.
    fn factor(&self, read: Read, batch: &Examples) -> f32 {
        let first = |place: usize| self.vectors[place].val().into_scalar::<f32>();
        match read {
            Read::BatchMaximum => {
                let values = batch.flat.to_data();
                let largest = values
                    .iter::<f32>()
                    .fold(0.5, |max: f32, x| max.max(x.abs()));
                1.0 / largest
            }
            Read::FirstValue => batch.flat.to_data().iter::<f32>().next().unwrap_or(1.0),
            Read::BranchOnBatch => {
                let total: f32 = batch.targets.clone().sum().into_scalar();
                if total > 0.0 { 1.0 } else { -2.0 }
            }
            Read::Parameter(place) => first(place),
            Read::BranchOnParameter(place) => {
                if first(place) > 0.0 {
                    1.0
                } else {
                    -2.0
                }
            }
        }
    }
}

/// Multiplies by a factor per example.
fn per_example(factors: Tensor<1>, x: Activation) -> Activation {
    let [count] = factors.dims();
    each!(x, x => x * factors.reshape(only_axis(0, count)))
}
