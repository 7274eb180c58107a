//! Steps that use parameters, as people write them.

use burn::tensor::activation::{relu, sigmoid, softmax, softplus};
use burn::tensor::{Int, Tensor, einsum};

use super::net::Net;
use super::program::{Contraction, Function, Gating, Made, Spread, Step, Weight};
use super::run::Activation::{self, Flat, Sequence};
use super::run::each;

impl Function {
    fn of<const R: usize>(self, x: Tensor<R>) -> Tensor<R> {
        match self {
            Self::Sigmoid => sigmoid(x),
            Self::Tanh => x.tanh(),
            Self::Softplus => softplus(x, 1.0),
            Self::Exp => (x * 0.5).exp(),
            Self::Relu => relu(x),
            Self::Softmax => softmax(x, R - 1),
            Self::Sine => x.sin(),
        }
    }
}

impl Spread {
    /// The matrix for each example.
    fn matrix(self, matrix: Tensor<2>, examples: usize) -> Tensor<3> {
        let [rows, columns] = matrix.dims();
        let matrix: Tensor<3> = matrix.unsqueeze();
        match self {
            Self::Unsqueeze => matrix,
            Self::Expand => matrix.expand([examples, rows, columns]),
            Self::Repeat => matrix.repeat_dim(0, examples),
        }
    }
}

impl Net {
    fn weight(&self, weight: Weight) -> Tensor<2> {
        let matrix = |place: usize| self.matrices[place].val();
        match weight {
            Weight::Plain(place) => matrix(place),
            Weight::Transposed(place) => matrix(place).transpose(),
            Weight::Sliced(place, from) => {
                let rows = matrix(place).dims()[0];
                matrix(place).narrow(0, from, rows - 2)
            }
            Weight::Factored(left, right) => matrix(left).matmul(matrix(right)),
            Weight::Normed(place, gain) => {
                let direction = matrix(place);
                let norm = direction.clone().square().sum_dim(0).sqrt();
                direction / norm * self.vectors[gain].val().unsqueeze()
            }
            Weight::Positive(place) => softplus(matrix(place), 1.0),
        }
    }

    pub(crate) fn weighted(&self, step: &Step, x: Activation) -> Activation {
        let examples = x.examples();
        match *step {
            Step::Linear(place) => each!(x, x => self.linears[place].forward(x)),
            Step::Product(weight, spread) => self.product(self.weight(weight), spread, x),
            Step::LeftProduct(weight, spread) => match x {
                Flat(x) => Flat(self.weight(weight).matmul(x.transpose()).transpose()),
                Sequence(x) => Sequence(spread.matrix(self.weight(weight), examples).matmul(x)),
            },
            Step::Tied(first, second) => {
                let [first, second] = [first, second].map(|place| self.matrices[place].val());
                each!(x, x => {
                    let hidden = x.matmul(first.unsqueeze()).tanh();
                    hidden.matmul(second.transpose().unsqueeze())
                })
            }
            Step::AttentionPool(query, spread) => {
                let x = x.sequence();
                let query = self.vectors[query].val().unsqueeze_dim::<2>(1);
                let scores = x.clone().matmul(spread.matrix(query, examples));
                let pooled = softmax(scores, 1).swap_dims(1, 2).matmul(x);
                Flat(pooled.squeeze_dim(1))
            }
            Step::Memory {
                keys,
                values,
                spread,
            } => {
                let [keys, values] = [keys, values].map(|place| self.matrices[place].val());
                let scores = self.product(keys.transpose(), spread, x);
                let attention = each!(scores, x => {
                    let last = x.dims().len() - 1;
                    softmax(x, last)
                });
                self.product(values, spread, attention)
            }
            Step::Contract(contraction, place) => self.contracted(contraction, place, x),
            Step::Heads(place, spread) => self.heads(place, spread, x),
            Step::Convolution(place) => {
                let x = x.sequence().swap_dims(1, 2);
                Sequence(self.convolutions[place].forward(x).swap_dims(1, 2))
            }
            Step::LayerNorm(place) => each!(x, x => self.layer_norms[place].forward(x)),
            Step::GroupNorm(place) => {
                let x = x.sequence().swap_dims(1, 2);
                Sequence(self.group_norms[place].forward(x).swap_dims(1, 2))
            }
            Step::BatchNorm(place) => {
                let norm = &self.batch_norms[place];
                match x {
                    Flat(x) => Flat(norm.forward(x)),
                    Sequence(x) => Sequence(norm.forward(x.swap_dims(1, 2)).swap_dims(1, 2)),
                }
            }
            Step::Dropout => each!(x, x => self.dropout.forward(x)),
            Step::GaussianNoise => each!(x, x => self.noise.forward(x)),
            Step::Recurrent { input, state } => self.recurrent(input, state, x.sequence()),
            Step::Gate(gating, function, place) => self.gated(gating, function, place, x),
            Step::Scalar(function, place) => {
                let factor = function.of(self.vectors[place].val());
                each!(x, x => x * factor.unsqueeze())
            }
            Step::Apply(function) => each!(x, x => function.of(x)),
            Step::Make(made) => self.made(made, x),
            _ => unreachable!("{step:?} uses no parameter alone"),
        }
    }

    fn product(&self, weight: Tensor<2>, spread: Spread, x: Activation) -> Activation {
        let examples = x.examples();
        match (x, spread) {
            (Flat(x), Spread::Unsqueeze) => Flat(x.matmul(weight)),
            (Flat(x), _) => {
                let product = x
                    .unsqueeze_dim::<3>(1)
                    .matmul(spread.matrix(weight, examples));
                Flat(product.squeeze_dim(1))
            }
            (Sequence(x), _) => Sequence(x.matmul(spread.matrix(weight, examples))),
        }
    }

    fn contracted(&self, contraction: Contraction, place: usize, x: Activation) -> Activation {
        let cube = || self.cubes[place].val();
        match (contraction, x) {
            (Contraction::Blocks, Sequence(x)) => Sequence(einsum!("mtf,tfg->mtg", x, cube())),
            (Contraction::PermutedBlocks, Sequence(x)) => {
                let product = x.permute([1, 0, 2]).matmul(cube());
                Sequence(product.permute([1, 0, 2]))
            }
            (Contraction::Whole, Sequence(x)) => {
                let [time, features, to] = cube().dims();
                let weight = cube().reshape([time * features, to]);
                Flat(x.flatten::<2>(1, 2).matmul(weight))
            }
            (Contraction::Time, Sequence(x)) => {
                let weight = self.matrices[place].val();
                Sequence(einsum!("mtf,gt->mgf", x, weight))
            }
            (Contraction::Bilinear, Flat(x)) => {
                let ([examples, _], [from, to, other]) = (x.dims(), cube().dims());
                let left = x.clone().matmul(cube().reshape([from, to * other]));
                let left = left.reshape([examples, to, other]);
                Flat(left.matmul(x.unsqueeze_dim(2)).squeeze_dim(2))
            }
            (contraction, x) => unreachable!("{contraction:?} is not drawn for {x:?}"),
        }
    }

    /// A matrix per head: `[H, F / H, G]`.
    fn heads(&self, place: usize, spread: Spread, x: Activation) -> Activation {
        let cube = self.cubes[place].val();
        let [heads, from, to] = cube.dims();
        match x {
            Flat(x) => {
                let examples = x.dims()[0];
                let x = x.reshape([examples, heads, from]).swap_dims(0, 1);
                let product = x.matmul(cube).swap_dims(0, 1);
                Flat(product.reshape([examples, heads * to]))
            }
            Sequence(x) => {
                let [examples, time, _] = x.dims();
                let cube: Tensor<4> = cube.unsqueeze();
                let cube = match spread {
                    Spread::Unsqueeze => cube,
                    Spread::Expand => cube.expand([examples, heads, from, to]),
                    Spread::Repeat => cube.repeat_dim(0, examples),
                };
                let x = x.reshape([examples, time, heads, from]).swap_dims(1, 2);
                let product = x.matmul(cube).swap_dims(1, 2);
                Sequence(product.reshape([examples, time, heads * to]))
            }
        }
    }

    fn recurrent(&self, input: usize, state: usize, x: Tensor<3>) -> Activation {
        let [examples, time, _] = x.dims();
        let [input, state] = [input, state].map(|place| self.matrices[place].val());
        let start = Tensor::zeros([examples, state.dims()[0]], &x.device());
        let steps = (0..time).map(|step| x.clone().narrow(1, step, 1).squeeze_dim::<2>(1));
        let next = |hidden: Tensor<2>, x: Tensor<2>| {
            (x.matmul(input.clone()) + hidden.matmul(state.clone())).tanh()
        };
        Flat(steps.fold(start, next))
    }

    fn gated(&self, gating: Gating, function: Function, place: usize, x: Activation) -> Activation {
        let vector = self.vectors[place].val();
        each!(x, x => match gating {
            Gating::Scale => x * function.of(vector).unsqueeze(),
            Gating::Shift => function.of(x + vector.unsqueeze()),
            Gating::Inner => x.clone() + function.of(x * vector.unsqueeze()),
            Gating::Repeated => {
                let examples = x.dims()[0];
                let vector = function.of(vector).unsqueeze();
                x * vector.repeat_dim(0, examples)
            }
        })
    }

    fn made(&self, made: Made, x: Activation) -> Activation {
        match made {
            Made::Rows(place) => each!(x, x => {
                let rows = Tensor::ones(x.dims(), &x.device());
                x + rows * self.vectors[place].val().unsqueeze()
            }),
            Made::Column(place) => each!(x, x => {
                let ones = Tensor::ones(with_last(x.dims(), 1), &x.device());
                x + ones.matmul(self.matrices[place].val().unsqueeze())
            }),
            Made::Bias => each!(x, x => {
                let ones = Tensor::ones(with_last(x.dims(), 1), &x.device());
                let last = x.dims().len() - 1;
                Tensor::cat(vec![x, ones], last)
            }),
            Made::Positions(place) => {
                let x = x.sequence();
                let [examples, time, _] = x.dims();
                let positions = Tensor::<1, Int>::arange(0..time as i64, &x.device());
                let positions = positions.unsqueeze::<2>().repeat_dim(0, examples);
                Sequence(x + self.embeddings[place].forward(positions))
            }
        }
    }
}

fn with_last<const R: usize>(mut dims: [usize; R], last: usize) -> [usize; R] {
    dims[R - 1] = last;
    dims
}
