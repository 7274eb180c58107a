//! Draws programs from the grammar: every step fits the shape that the one before leaves.

use super::features::{Family, Feature};
use super::pools::Builder;
use super::program::{
    Contraction, Function, Gating, Loss, Made, Masking, Pooling, Program, Read, Sizes, Spread,
    Start, Step, VOCABULARY, Weight,
};
use super::random::Random;

const SPREADS: [Spread; 3] = [Spread::Unsqueeze, Spread::Expand, Spread::Repeat];
const FUNCTIONS: [Function; 7] = [
    Function::Sigmoid,
    Function::Tanh,
    Function::Softplus,
    Function::Exp,
    Function::Relu,
    Function::Softmax,
    Function::Sine,
];
/// Those of a scalar.
const POSITIVE: [Function; 3] = [Function::Exp, Function::Sigmoid, Function::Softplus];

/// The program of a family and a seed.
pub(crate) fn program(family: Family, seed: u64) -> Program {
    let mut random = Random::new(seed ^ ((family as u64) << 56));
    let sizes = Sizes {
        examples: random.between(2, 7),
        time: random.between(2, 5),
        features: random.between(2, 6),
    };
    let (other_examples, draws) = (random.between(1, 7), random.between(2, 3));
    let is_training = random.chance(25);
    let mut builder = Builder::new(random, sizes);
    let start = builder.start();
    let mut steps = Vec::new();
    let count = builder.random.between(1, 4);
    let own = builder.random.between(0, count - 1);
    for place in 0..count {
        if place == own {
            steps.push(builder.step_of(family.features()));
        } else {
            let family = Family::ALL[builder.random.between(0, Family::ALL.len() - 2)];
            steps.push(builder.step_of(family.features()));
        }
    }
    let loss = builder.loss(&mut steps);
    Program {
        seed,
        sizes,
        other_examples,
        draws,
        is_training,
        pools: builder.pools,
        start,
        steps,
        loss,
        features: builder.found,
    }
}

impl Builder {
    fn start(&mut self) -> Start {
        match self.random.between(0, 9) {
            0..=4 => Start::Sequence,
            5..=7 => {
                self.time = None;
                Start::Flat
            }
            _ => {
                self.found.insert(Feature::Embedding);
                Start::Tokens(self.embedding(VOCABULARY, self.features))
            }
        }
    }

    /// A step with one of these features, after a step that makes it fit if need be.
    fn step_of(&mut self, features: &[Feature]) -> Step {
        loop {
            let feature = self.random.pick(features);
            if let Some(step) = self.step(feature) {
                self.found.insert(feature);
                return step;
            }
        }
    }

    /// Steps for a branch; they keep the shape if `is_same`.
    fn branch(&mut self, is_same: bool) -> Vec<Step> {
        let (time, features) = (self.time, self.features);
        let mut steps = Vec::new();
        for _ in 0..self.random.between(1, 2) {
            let feature = self.random.pick(&[
                Feature::Linear,
                Feature::Product,
                Feature::Gate,
                Feature::Activation,
                Feature::ScalarParameter,
                Feature::Memory,
                Feature::Factored,
                Feature::LayerNorm,
            ]);
            if let Some(step) = self.step(feature) {
                self.found.insert(feature);
                steps.push(step);
            }
        }
        if is_same && self.features != features {
            steps.push(self.linear_to(features));
        }
        debug_assert_eq!(self.time, time, "branches keep the axis of time");
        if is_same {
            self.features = features;
        }
        steps
    }

    fn linear_to(&mut self, features: usize) -> Step {
        let has_bias = self.random.chance(70);
        let step = Step::Linear(self.linear(self.features, features, has_bias));
        self.features = features;
        step
    }

    fn step(&mut self, feature: Feature) -> Option<Step> {
        let features = self.features;
        Some(match feature {
            Feature::Linear => {
                let to = self.width();
                self.linear_to(to)
            }
            Feature::Convolution => {
                let kernel = self.random.between(1, self.time?.min(3));
                let to = self.width();
                self.features = to;
                self.time = Some(self.time? + 1 - kernel);
                Step::Convolution(self.convolution([features, to, kernel]))
            }
            Feature::LayerNorm if features > 1 => Step::LayerNorm(self.layer_norm(features)),
            Feature::GroupNorm if self.time? > 1 => {
                let groups = if features.is_multiple_of(2) { 2 } else { 1 };
                Step::GroupNorm(self.group_norm([groups, features]))
            }
            Feature::BatchNorm => Step::BatchNorm(self.batch_norm(features)),
            Feature::NoiseLayer if self.random.chance(50) => Step::Dropout,
            Feature::NoiseLayer => Step::GaussianNoise,
            Feature::Residual => Step::Residual(self.branch(true)),
            Feature::Recurrent => {
                self.time.take()?;
                let to = self.width();
                self.features = to;
                Step::Recurrent {
                    input: self.matrix([features, to]),
                    state: self.matrix([to, to]),
                }
            }
            Feature::Product => {
                let to = self.width();
                self.features = to;
                let weight = Weight::Plain(self.matrix([features, to]));
                Step::Product(weight, self.random.pick(&SPREADS))
            }
            Feature::LeftProduct => self.left_product(),
            Feature::AttentionPool => {
                self.time.take()?;
                Step::AttentionPool(self.vector(features), self.random.pick(&SPREADS))
            }
            Feature::Memory => {
                let (slots, to) = (self.random.between(2, 4), self.width());
                self.features = to;
                Step::Memory {
                    keys: self.matrix([slots, features]),
                    values: self.matrix([slots, to]),
                    spread: self.random.pick(&SPREADS),
                }
            }
            Feature::Einsum => self.contraction(),
            Feature::Heads => {
                let heads = [2, 3, features].into_iter();
                let heads = heads
                    .filter(|heads| features.is_multiple_of(*heads))
                    .next()?;
                let to = self.random.between(1, 2);
                self.features = heads * to;
                let cube = self.cube([heads, features / heads, to]);
                Step::Heads(cube, self.random.pick(&SPREADS))
            }
            Feature::Gate => {
                let gating = self.random.pick(&[
                    Gating::Scale,
                    Gating::Shift,
                    Gating::Inner,
                    Gating::Repeated,
                ]);
                Step::Gate(
                    gating,
                    self.random.pick(&FUNCTIONS[..5]),
                    self.vector(features),
                )
            }
            Feature::ScalarParameter => Step::Scalar(self.random.pick(&POSITIVE), self.vector(1)),
            Feature::Activation => Step::Apply(self.random.pick(&FUNCTIONS)),
            Feature::Mask => {
                let masking = match self.random.between(0, 3) {
                    0 => Masking::Constant,
                    1 => Masking::Batch,
                    2 => Masking::Float,
                    _ => Masking::Where(self.vector(features)),
                };
                let needs_time = matches!(masking, Masking::Batch | Masking::Float);
                if needs_time && self.time.is_some_and(|time| time != self.sizes.time) {
                    return None;
                }
                Step::Mask(masking)
            }
            Feature::Join => {
                let steps = self.branch(false);
                self.features += features;
                Step::Join(steps)
            }
            Feature::Stack => Step::Stack(self.branch(true)),
            Feature::Slice => {
                let is_of_time = self.time.is_some() && self.random.chance(50);
                let axis = match &mut self.time {
                    Some(time) if is_of_time => time,
                    _ => &mut self.features,
                };
                let from = self.random.between(0, *axis - 1);
                let len = self.random.between(1, *axis - from);
                *axis = len;
                Step::Slice {
                    is_of_time,
                    from,
                    len,
                }
            }
            Feature::Flip => Step::Flip,
            Feature::Cumsum => Step::Cumsum,
            Feature::TimePool => {
                self.time.take()?;
                let pools = [Pooling::Mean, Pooling::Max, Pooling::Last];
                Step::Pool(self.random.pick(&pools))
            }
            Feature::MergedAxes => self.merged()?,
            Feature::Constant => self.made(),
            Feature::Transposed => {
                let to = self.width();
                self.features = to;
                self.derived(|builder| Weight::Transposed(builder.matrix([to, features])))
            }
            Feature::Sliced => {
                let (to, from) = (self.width(), self.random.between(0, 2));
                self.features = to;
                self.derived(|builder| Weight::Sliced(builder.matrix([features + 2, to]), from))
            }
            Feature::Factored => {
                let (to, rank) = (self.width(), self.random.between(1, 2));
                self.features = to;
                self.derived(|builder| {
                    let left = builder.matrix([features, rank]);
                    Weight::Factored(left, builder.matrix([rank, to]))
                })
            }
            Feature::WeightNorm => {
                let to = self.width();
                self.features = to;
                self.derived(|builder| {
                    let direction = builder.matrix([features, to]);
                    Weight::Normed(direction, builder.vector(to))
                })
            }
            Feature::Positive => {
                let to = self.width();
                self.features = to;
                self.derived(|builder| Weight::Positive(builder.matrix([features, to])))
            }
            Feature::Tied => {
                let to = self.width();
                let (first, second) = self.tied([features, to]);
                Step::Tied(first, second)
            }
            Feature::PlainNumber => Step::PlainNumber,
            Feature::PlainTensor => Step::PlainTensor,
            Feature::Embedding => {
                if self.time.is_some_and(|time| time != self.sizes.time) {
                    return None;
                }
                Step::AddEmbedding(self.embedding(VOCABULARY, features))
            }
            Feature::Select => Step::AddSelected(self.matrix([VOCABULARY, features])),
            Feature::Gather if self.random.chance(50) => Step::GatherOwn,
            Feature::Gather => {
                if self.time.is_some_and(|time| time != self.sizes.time) {
                    return None;
                }
                Step::AddGathered(self.matrix([VOCABULARY, features]))
            }
            Feature::OneHot => Step::AddOneHot(self.matrix([VOCABULARY, features])),
            Feature::Detach if self.random.chance(60) => Step::AddDetached(self.branch(true)),
            Feature::Detach => Step::DetachedParameter(self.vector(features)),
            Feature::WithoutAutodiff => Step::TimesWithoutAutodiff(self.branch(true)),
            Feature::Teacher => Step::MinusTeacher(self.branch(true)),
            Feature::StraightThrough => Step::StraightThrough,
            Feature::BatchRead => Step::Host(self.random.pick(&[
                Read::BatchMaximum,
                Read::FirstValue,
                Read::BranchOnBatch,
            ])),
            Feature::ParameterRead if self.random.chance(50) => {
                Step::Host(Read::Parameter(self.vector(1)))
            }
            Feature::ParameterRead => Step::Host(Read::BranchOnParameter(self.vector(1))),
            Feature::Batchwise if self.random.chance(50) => Step::CentreOverBatch,
            Feature::Batchwise => Step::NumberOfExample,
            Feature::Lengths if self.random.chance(50) => Step::LengthScale,
            Feature::Lengths => {
                if self.time? != self.sizes.time {
                    return None;
                }
                Step::LengthMask
            }
            Feature::Unmapped if self.random.chance(50) => Step::UnmappedRows,
            Feature::Unmapped => Step::UnmappedShared,
            _ => return None,
        })
    }

    fn derived(&mut self, weight: impl FnOnce(&mut Self) -> Weight) -> Step {
        let weight = weight(self);
        Step::Product(weight, self.random.pick(&SPREADS))
    }

    /// A product with the parameter on the left, over time or, without it, over the features.
    fn left_product(&mut self) -> Step {
        let to = self.width();
        let from = match self.time.as_mut() {
            Some(time) => std::mem::replace(time, to),
            None => std::mem::replace(&mut self.features, to),
        };
        let weight = Weight::Plain(self.matrix([to, from]));
        Step::LeftProduct(weight, self.random.pick(&SPREADS))
    }

    fn contraction(&mut self) -> Step {
        let (features, to) = (self.features, self.width());
        let Some(time) = self.time else {
            self.features = to;
            return Step::Contract(Contraction::Bilinear, self.cube([features, to, features]));
        };
        match self.random.between(0, 3) {
            0 | 1 => {
                self.features = to;
                let contraction = self
                    .random
                    .pick(&[Contraction::Blocks, Contraction::PermutedBlocks]);
                Step::Contract(contraction, self.cube([time, features, to]))
            }
            2 => {
                (self.time, self.features) = (None, to);
                Step::Contract(Contraction::Whole, self.cube([time, features, to]))
            }
            _ => {
                (self.time, self.features) = (Some(to), features);
                Step::Contract(Contraction::Time, self.matrix([to, time]))
            }
        }
    }

    /// Examples and time as one axis, or the features in two.
    fn merged(&mut self) -> Option<Step> {
        let features = self.features;
        let Some(time) = self.time else {
            let parts = [2, 3]
                .into_iter()
                .find(|parts| features.is_multiple_of(*parts))?;
            (self.time, self.features) = (Some(parts), features / parts);
            return Some(Step::Split(parts));
        };
        if self.random.chance(30) {
            (self.time, self.features) = (None, time * features);
            return Some(Step::Flatten);
        }
        self.time = None;
        let mut steps = self.branch(false);
        if self.random.chance(40) {
            self.found.insert(Feature::Constant);
            steps.push(self.made());
        }
        self.time = Some(time);
        let is_time_first = self.random.chance(40);
        Some(Step::Merge {
            is_time_first,
            steps,
        })
    }

    fn made(&mut self) -> Step {
        let features = self.features;
        Step::Make(match self.random.between(0, 3) {
            0 => Made::Rows(self.vector(features)),
            1 => Made::Column(self.matrix([1, features])),
            2 => {
                self.features += 1;
                Made::Bias
            }
            _ if self.time.is_some() => {
                let time = self.time.expect("this is a sequence");
                Made::Positions(self.embedding(time, features))
            }
            _ => Made::Rows(self.vector(features)),
        })
    }

    /// The loss; layers that it needs are added to the steps.
    fn loss(&mut self, steps: &mut Vec<Step>) -> Loss {
        let loss = self.random.pick(&[
            Loss::SquaredError,
            Loss::SquaredError,
            Loss::CrossEntropy,
            Loss::CrossEntropyOneHot,
            Loss::Mean,
        ]);
        self.found.insert(match loss {
            Loss::SquaredError => Feature::SquaredError,
            Loss::CrossEntropy | Loss::CrossEntropyOneHot => Feature::CrossEntropy,
            Loss::Mean => Feature::MeanLoss,
        });
        if matches!(loss, Loss::CrossEntropyOneHot) {
            self.found.insert(Feature::OneHot);
        }
        if matches!(loss, Loss::CrossEntropy | Loss::CrossEntropyOneHot) {
            if self.time.take().is_some() {
                steps.push(Step::Pool(Pooling::Mean));
            }
            if self.features != VOCABULARY {
                steps.push(self.linear_to(VOCABULARY));
            }
        }
        if self.pools.is_empty() {
            let features = self.sizes.features;
            steps.insert(0, Step::Linear(self.linear(features, features, true)));
        }
        loss
    }
}
