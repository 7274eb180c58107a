//! Draws programs from the grammar: each step fits the shape of the previous one.

use super::features::{Family, Feature};
use super::pools::Builder;
use super::program::{Loss, Pooling, Program, Sizes, Start, Step, VOCABULARY};
use super::random::Random;

/// The program of a family and a seed.
pub(crate) fn program(family: Family, seed: u64) -> Program {
    let mut random = Random::new(seed ^ ((family as u64) << 56));
    let sizes = Sizes {
        examples: random.between(2, 7),
        time: random.between(2, 5),
        features: random.between(2, 6),
    };
    let mut other_examples = random.between(1, 6);
    other_examples += usize::from(other_examples >= sizes.examples);
    let draws = random.between(2, 3);
    let is_training = random.chance(25);
    let mut builder = Builder::new(random, sizes);
    let start = builder.start();
    let mut steps = Vec::new();
    let count = builder.random.between(1, 4);
    let own = builder.random.between(0, count - 1);
    for place in 0..count {
        if place == own {
            let features = family.features();
            let turn = features[seed as usize % features.len()];
            let step = builder.step_of(&[turn]);
            steps.push(step.unwrap_or_else(|| builder.any_step_of(features)));
        } else {
            let family = builder.random.pick(&Family::ORDINARY);
            steps.push(builder.any_step_of(family.features()));
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

    /// A step with one of these features.
    fn any_step_of(&mut self, features: &[Feature]) -> Step {
        loop {
            if let Some(step) = self.step_of(features) {
                return step;
            }
        }
    }

    /// The same, if the chosen step fits the shape.
    fn step_of(&mut self, features: &[Feature]) -> Option<Step> {
        let feature = self.random.pick(features);
        let step = self.step(feature)?;
        self.found.insert(feature);
        Some(step)
    }

    /// Steps of a branch; they keep the shape if `is_same`.
    pub(crate) fn branch(&mut self, is_same: bool) -> Vec<Step> {
        let (time, features) = (self.time, self.features);
        let mut steps = Vec::new();
        for _ in 0..self.random.between(1, 2) {
            steps.extend(self.step_of(&[
                Feature::Linear,
                Feature::Product,
                Feature::Gate,
                Feature::Activation,
                Feature::ScalarParameter,
                Feature::Memory,
                Feature::Factored,
                Feature::LayerNorm,
            ]));
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

    pub(crate) fn linear_to(&mut self, features: usize) -> Step {
        let has_bias = self.random.chance(70);
        let step = Step::Linear(self.linear(self.features, features, has_bias));
        self.features = features;
        step
    }

    /// The loss. Layers that it needs are added to the steps.
    fn loss(&mut self, steps: &mut Vec<Step>) -> Loss {
        let loss = match self.random.between(0, 19) {
            0..=7 => Loss::SquaredError,
            8..=13 => Loss::CrossEntropy,
            14 => Loss::CrossEntropyOneHot,
            _ => Loss::Mean,
        };
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
