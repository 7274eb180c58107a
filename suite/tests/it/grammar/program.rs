//! Programs: small models and losses as plain data that prints in a few lines.

use std::collections::BTreeSet;
use std::fmt;

use super::features::Feature;

/// The sizes of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) examples: usize,
    pub(crate) time: usize,
    pub(crate) features: usize,
}

/// An upper bound of tokens and labels.
pub(crate) const VOCABULARY: usize = 5;

/// The input of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// `[M, F]`
    Flat,
    /// `[M, T, F]`
    Sequence,
    /// The embeddings `[M, T, E]` of tokens.
    Tokens(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Sigmoid,
    Tanh,
    Softplus,
    Exp,
    Relu,
    Softmax,
    Sine,
}

/// How a parameter is combined with an axis of examples.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    Unsqueeze,
    Expand,
    Repeat,
}

/// A matrix as the program uses it. Numbers are indices into the pools of parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Weight {
    Plain(usize),
    Transposed(usize),
    Sliced(usize, usize),
    Factored(usize, usize),
    Normed(usize, usize),
    Positive(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Gating {
    /// x · f(v)
    Scale,
    /// f(x + v)
    Shift,
    /// x + f(x · v)
    Inner,
    /// x · v, with v from the parameter repeated over the examples
    Repeated,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Contraction {
    /// `mtf,tfg->mtg` of a cube
    Blocks,
    /// The same with the axes permuted by hand
    PermutedBlocks,
    /// `mtf,tfg->mg`
    Whole,
    /// `mtf,gt->mgf` of a matrix
    Time,
    /// `mf,fgh,mh->mg` of a cube
    Bilinear,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Masking {
    Constant,
    Batch,
    Float,
    Where(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pooling {
    Mean,
    Max,
    Last,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    /// ones `[M, …]` · v
    Rows(usize),
    /// ones `[M, …, 1]` × a matrix with one row
    Column(usize),
    /// ones `[M, …, 1]` concatenated to the features
    Bias,
    /// an embedding of the positions, repeated over the examples
    Positions(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    BatchMaximum,
    FirstValue,
    BranchOnBatch,
    Parameter(usize),
    BranchOnParameter(usize),
}

/// One operation of a program.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Linear(usize),
    Product(Weight, Spread),
    LeftProduct(Weight, Spread),
    Tied(usize, usize),
    AttentionPool(usize, Spread),
    Memory {
        keys: usize,
        values: usize,
        spread: Spread,
    },
    Contract(Contraction, usize),
    Heads(usize, Spread),
    Convolution(usize),
    LayerNorm(usize),
    GroupNorm(usize),
    BatchNorm(usize),
    Dropout,
    GaussianNoise,
    Recurrent {
        input: usize,
        state: usize,
    },
    Gate(Gating, Function, usize),
    Scalar(Function, usize),
    Apply(Function),
    AddEmbedding(usize),
    AddSelected(usize),
    AddGathered(usize),
    GatherOwn,
    AddOneHot(usize),
    Mask(Masking),
    Make(Made),
    Residual(Vec<Step>),
    Join(Vec<Step>),
    Stack(Vec<Step>),
    Slice {
        is_of_time: bool,
        from: usize,
        len: usize,
    },
    Flip,
    Cumsum,
    Pool(Pooling),
    Flatten,
    Split(usize),
    Merge {
        is_time_first: bool,
        steps: Vec<Step>,
    },
    PlainNumber,
    PlainTensor,
    AddDetached(Vec<Step>),
    DetachedParameter(usize),
    TimesWithoutAutodiff(Vec<Step>),
    MinusTeacher(Vec<Step>),
    StraightThrough,
    Host(Read),
    CentreOverBatch,
    NumberOfExample,
    /// A mask computed from a list of all lengths.
    LengthMask,
    /// A factor computed from the lengths of the examples.
    LengthScale,
    /// A tensor of the batch, `[M, 1]`, that is not mapped.
    UnmappedRows,
    /// A tensor of the batch, `[1]`, that is not mapped.
    UnmappedShared,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    SquaredError,
    CrossEntropy,
    /// By a product with one-hot labels.
    CrossEntropyOneHot,
    /// The mean of a smooth function over time and features.
    Mean,
}

/// The shapes of a program's parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    pub(crate) vectors: Vec<usize>,
    pub(crate) matrices: Vec<[usize; 2]>,
    pub(crate) cubes: Vec<[usize; 3]>,
    /// The first matrix is the second with another path.
    pub(crate) tied: Vec<(usize, usize)>,
    pub(crate) linears: Vec<(usize, usize, bool)>,
    /// Inputs, outputs and kernel size.
    pub(crate) convolutions: Vec<[usize; 3]>,
    pub(crate) layer_norms: Vec<usize>,
    /// Groups and channels.
    pub(crate) group_norms: Vec<[usize; 2]>,
    pub(crate) batch_norms: Vec<usize>,
    pub(crate) embeddings: Vec<[usize; 2]>,
}

impl Pools {
    fn shapes(&self) -> [(&str, String, usize); 10] {
        macro_rules! shapes {
            ($($name:ident)+) => {
                [$((stringify!($name), format!("{:?}", self.$name), self.$name.len())),+]
            };
        }
        shapes!(vectors matrices cubes tied linears convolutions layer_norms group_norms
            batch_norms embeddings)
    }

    /// Whether there are no parameters.
    pub(crate) fn is_empty(&self) -> bool {
        self.shapes().iter().all(|(.., count)| *count == 0)
    }
}

impl fmt::Display for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shapes = self.shapes();
        let used = shapes.iter().filter(|(.., count)| *count > 0);
        let used: Vec<_> = used
            .map(|(name, shapes, _)| format!("{name} {shapes}"))
            .collect();
        f.write_str(&used.join(", "))
    }
}

/// A model and a loss.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    pub(crate) sizes: Sizes,
    /// The number of examples of another batch.
    pub(crate) other_examples: usize,
    pub(crate) draws: usize,
    /// Whether the model and the batch are on a device with autodiff.
    pub(crate) is_training: bool,
    pub(crate) pools: Pools,
    pub(crate) start: Start,
    pub(crate) steps: Vec<Step>,
    pub(crate) loss: Loss,
    pub(crate) features: BTreeSet<Feature>,
}

impl Program {
    /// The length of the program's description.
    pub(crate) fn size(&self) -> usize {
        format!("{:?}", self.steps).len()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sizes {
            examples,
            time,
            features,
        } = self.sizes;
        writeln!(
            f,
            "seed {}: M = {examples} (then {}), T = {time}, F = {features}, {} draws{}",
            self.seed,
            self.other_examples,
            self.draws,
            if self.is_training {
                ", autodiff device"
            } else {
                ""
            }
        )?;
        writeln!(f, "  pools   {}", self.pools)?;
        writeln!(f, "  start   {:?}", self.start)?;
        for step in &self.steps {
            writeln!(f, "  step    {step:?}")?;
        }
        write!(f, "  loss    {:?}", self.loss)
    }
}
