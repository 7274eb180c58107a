//! The parameters of a program while it is drawn.

use std::collections::BTreeSet;

use super::features::Feature;
use super::program::{Pools, Sizes};
use super::random::Random;

/// A program under construction.
pub(crate) struct Builder {
    pub(crate) random: Random,
    pub(crate) sizes: Sizes,
    /// The length of the activation's time axis, if any.
    pub(crate) time: Option<usize>,
    /// The number of features of the activation.
    pub(crate) features: usize,
    pub(crate) pools: Pools,
    pub(crate) found: BTreeSet<Feature>,
}

impl Builder {
    pub(crate) fn new(random: Random, sizes: Sizes) -> Self {
        Self {
            random,
            sizes,
            time: Some(sizes.time),
            features: sizes.features,
            pools: Pools::default(),
            found: BTreeSet::new(),
        }
    }

    /// The number of features after a step.
    pub(crate) fn width(&mut self) -> usize {
        self.random.between(2, 5)
    }

    /// Whether the activation has the batch's time axis, or none.
    pub(crate) fn fits_tokens(&self) -> bool {
        self.time.is_none_or(|time| time == self.sizes.time)
    }

    pub(crate) fn vector(&mut self, len: usize) -> usize {
        self.place(|pools| &mut pools.vectors, len)
    }

    pub(crate) fn matrix(&mut self, dims: [usize; 2]) -> usize {
        self.place(|pools| &mut pools.matrices, dims)
    }

    pub(crate) fn cube(&mut self, dims: [usize; 3]) -> usize {
        self.place(|pools| &mut pools.cubes, dims)
    }

    pub(crate) fn linear(&mut self, from: usize, to: usize, has_bias: bool) -> usize {
        self.place(|pools| &mut pools.linears, (from, to, has_bias))
    }

    pub(crate) fn convolution(&mut self, sizes: [usize; 3]) -> usize {
        self.place(|pools| &mut pools.convolutions, sizes)
    }

    pub(crate) fn layer_norm(&mut self, features: usize) -> usize {
        self.place(|pools| &mut pools.layer_norms, features)
    }

    pub(crate) fn group_norm(&mut self, sizes: [usize; 2]) -> usize {
        self.place(|pools| &mut pools.group_norms, sizes)
    }

    pub(crate) fn batch_norm(&mut self, features: usize) -> usize {
        self.place(|pools| &mut pools.batch_norms, features)
    }

    pub(crate) fn embedding(&mut self, rows: usize, features: usize) -> usize {
        self.place(|pools| &mut pools.embeddings, [rows, features])
    }

    /// One matrix with two paths.
    pub(crate) fn tied(&mut self, dims: [usize; 2]) -> (usize, usize) {
        let matrices = &mut self.pools.matrices;
        matrices.extend([dims, dims]);
        let pair = (matrices.len() - 2, matrices.len() - 1);
        self.pools.tied.push(pair);
        pair
    }

    /// The index of a parameter of this shape, which is sometimes used already.
    fn place<T: PartialEq>(&mut self, pool: fn(&mut Pools) -> &mut Vec<T>, shape: T) -> usize {
        let is_shared = self.random.chance(20);
        let pool = pool(&mut self.pools);
        let known = pool.iter().position(|known| *known == shape);
        match known.filter(|_| is_shared) {
            Some(place) => place,
            None => {
                pool.push(shape);
                pool.len() - 1
            }
        }
    }
}
