//! The steps of each feature, for the shape that the previous step returns.

use super::features::Feature;
use super::pools::Builder;
use super::program::{
    Contraction, Function, Gating, Made, Masking, Pooling, Read, Spread, Step, VOCABULARY, Weight,
};

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
/// Functions of a scalar.
const POSITIVE: [Function; 3] = [Function::Exp, Function::Sigmoid, Function::Softplus];

impl Builder {
    pub(crate) fn step(&mut self, feature: Feature) -> Option<Step> {
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
                let heads = [2, 3, features];
                let mut heads = heads.into_iter();
                let heads = heads.find(|heads| features.is_multiple_of(*heads))?;
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
                if needs_time && !self.fits_tokens() {
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
                if !self.fits_tokens() {
                    return None;
                }
                Step::AddEmbedding(self.embedding(VOCABULARY, features))
            }
            Feature::Select => Step::AddSelected(self.matrix([VOCABULARY, features])),
            Feature::Gather if self.random.chance(50) => Step::GatherOwn,
            Feature::Gather => {
                if !self.fits_tokens() {
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
            Feature::Lengths if self.time == Some(self.sizes.time) && self.random.chance(50) => {
                Step::LengthMask
            }
            Feature::Lengths => Step::LengthScale,
            Feature::Unmapped if self.random.chance(50) => Step::UnmappedRows,
            Feature::Unmapped => Step::UnmappedShared,
            _ => return None,
        })
    }

    fn derived(&mut self, weight: impl FnOnce(&mut Self) -> Weight) -> Step {
        let weight = weight(self);
        Step::Product(weight, self.random.pick(&SPREADS))
    }

    /// A product with the parameter on the left, over time or, without a time axis, over features.
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

    /// Merges examples and time into one axis, or splits the features in two.
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
}
