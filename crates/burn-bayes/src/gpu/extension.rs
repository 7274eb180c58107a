//! The kernels as operations of Burn's backends, and their launches.

use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, TensorMetadata, backend_extension};
use burn::cubecl::prelude::*;
use burn::tensor::{DType, Shape};
use burn_bayes_kernels::generator::{COUNTERS, GROUP};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_dtype;
use burn_cubecl::tensor::CubeTensor;

use super::normal::StreamLaunch;
use super::{Stream, gaussian, inner_products, mix, normal};

/// The most cubes of a launch along an axis: a limit of WebGPU.
const MOST_CUBES: usize = 65_535;
/// Cubes that fill any GPU, if each has more than one piece of work.
const ENOUGH_CUBES: usize = 1024;
/// Units of a cube, for kernels that do not need another number.
const UNITS: usize = 256;

/// The results of a gradient, before anything is read. Results of all kernels have one axis, which has no gaps.
#[derive(ExtensionType)]
#[extension_type(fusion)]
pub(crate) struct Gradient<B: Backend> {
    pub(crate) mean: FloatTensor<B>,
    /// `[K · D]`
    pub(crate) factors: FloatTensor<B>,
    pub(crate) log_variance: FloatTensor<B>,
    /// `[cubes · SUMS]`
    pub(crate) sums: FloatTensor<B>,
}

#[backend_extension(Cube, Fusion)]
pub(crate) trait KernelOps: Backend {
    #[fusion(dtype = like, shape = Shape::from([*len]))]
    fn normal(like: FloatTensor<Self>, stream: Stream, len: usize) -> FloatTensor<Self>;

    #[fusion(dtype = mean, shape = Shape::from([*count * mean[0]]))]
    fn draws(
        mean: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        diagonal: FloatTensor<Self>,
        rank: usize,
        stream: Stream,
        count: usize,
        units: [bool; 2],
    ) -> FloatTensor<Self>;

    #[fusion(dtype = left, shape = Shape::from([left[0] * right[0]]))]
    fn inner_products(left: FloatTensor<Self>, right: FloatTensor<Self>) -> FloatTensor<Self>;

    #[fusion(dtype = rows, shape = Shape::from([*count * rows[1]]))]
    fn mix(rows: FloatTensor<Self>, weights: FloatTensor<Self>, count: usize) -> FloatTensor<Self>;

    #[fusion(meta = gradient_specs)]
    #[allow(
        clippy::too_many_arguments,
        reason = "the macro takes no structures of tensors and numbers"
    )]
    fn objective_gradient(
        mean: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        log_variance: FloatTensor<Self>,
        gradients: FloatTensor<Self>,
        inner_inverse: FloatTensor<Self>,
        prior: FloatTensor<Self>,
        words: IntTensor<Self>,
        factors_of_terms: [f32; 2],
        is_relative: bool,
    ) -> Gradient<Self>;
}

#[allow(clippy::too_many_arguments, reason = "the arguments of the operation")]
fn gradient_specs(
    mean: &TensorSpec,
    factors: &TensorSpec,
    log_variance: &TensorSpec,
    _gradients: &TensorSpec,
    _inner_inverse: &TensorSpec,
    _prior: &TensorSpec,
    _words: &TensorSpec,
    _factors_of_terms: &[f32; 2],
    _is_relative: &bool,
) -> GradientMetadata {
    let cubes = gradient_cubes(mean.shape.num_elements());
    GradientMetadata {
        mean: mean.clone(),
        factors: TensorSpec::new([factors.shape.num_elements()].into(), mean.dtype),
        log_variance: log_variance.clone(),
        sums: TensorSpec::new([cubes * gaussian::SUMS].into(), mean.dtype),
    }
}

/// Counters whose normals cover this many weights.
fn counters(len: usize) -> usize {
    len.div_ceil(GROUP) * COUNTERS
}

fn gradient_cubes(len: usize) -> usize {
    counters(len)
        .div_ceil(gaussian::UNITS)
        .clamp(1, ENOUGH_CUBES)
}

impl Stream {
    fn launch(self) -> StreamLaunch {
        self.launch_with(self.seed)
    }

    fn launch_latent(self) -> StreamLaunch {
        self.launch_with(self.latent_seed)
    }

    fn launch_with(self, seed: u64) -> StreamLaunch {
        let sign = if self.is_negated { -1.0 } else { 1.0 };
        StreamLaunch::new(
            seed as u32,
            (seed >> 32) as u32,
            self.stream as u32,
            (self.stream >> 32) as u32,
            sign,
        )
    }

    /// As [`gaussian::stream_of`] reads it.
    pub(super) fn words(self) -> [i32; gaussian::WORDS_OF_DRAW] {
        let halves = |word: u64| [word as i32, (word >> 32) as i32];
        let [seed_low, seed_high] = halves(self.seed);
        let [latent_low, latent_high] = halves(self.latent_seed);
        let [low, high] = halves(self.stream);
        let sign = i32::from(self.is_negated);
        [
            seed_low,
            seed_high,
            latent_low,
            latent_high,
            low,
            high,
            sign,
        ]
    }
}

fn empty_like(like: &CubeTensor, shape: impl Into<Shape>) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_dtype(client, device, shape.into(), DType::F32)
}

/// A matrix whose rows are contiguous; between them may be a gap.
fn rows_of(matrix: CubeTensor) -> CubeTensor {
    match matrix.meta.strides()[1] == 1 && !matrix.meta.is_tiled() {
        true => matrix,
        false => into_contiguous(matrix),
    }
}

/// A number of elements as the kernels count them.
fn count(elements: usize) -> u32 {
    u32::try_from(elements).expect("the callers compare it with what kernels count")
}

impl KernelOps for CubeBackend {
    fn normal(like: FloatTensor<Self>, stream: Stream, len: usize) -> FloatTensor<Self> {
        let out = empty_like(&like, [len]);
        if len == 0 {
            return out;
        }
        let cubes = counters(len).div_ceil(UNITS).min(MOST_CUBES);
        normal::normal_kernel::launch(
            &like.client,
            CubeCount::Static(cubes as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            out.clone().into_buffer_arg(),
            stream.launch(),
            count(len),
        );
        out
    }

    fn draws(
        mean: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        diagonal: FloatTensor<Self>,
        rank: usize,
        stream: Stream,
        rows: usize,
        [is_log, is_relative]: [bool; 2],
    ) -> FloatTensor<Self> {
        let [len] = mean.shape().dims();
        let out = empty_like(&mean, [rows * len]);
        if rows * len == 0 {
            return out;
        }
        let form = gaussian::Form {
            rank,
            is_log,
            is_relative,
            draws: 1,
            is_isotropic: true,
        };
        let cubes = counters(len).div_ceil(UNITS).min(MOST_CUBES);
        gaussian::draws_kernel::launch(
            &mean.client.clone(),
            CubeCount::Static(cubes as u32, rows as u32, 1),
            CubeDim::new_1d(UNITS as u32),
            into_contiguous(mean).into_buffer_arg(),
            rows_of(factors).into_tensor_arg(),
            into_contiguous(diagonal).into_buffer_arg(),
            out.clone().into_buffer_arg(),
            stream.launch(),
            stream.launch_latent(),
            u32::from(stream.is_paired),
            count(len),
            form,
        );
        out
    }

    fn inner_products(left: FloatTensor<Self>, right: FloatTensor<Self>) -> FloatTensor<Self> {
        let [rows, len] = left.shape().dims();
        let [columns, _] = right.shape().dims();
        let form = inner_products::Form::new(rows, columns).expect("checked by the caller");
        let cubes = len.div_ceil(form.width()).clamp(1, ENOUGH_CUBES / 4);
        let client = left.client.clone();
        let sums = empty_like(&left, [cubes * rows * columns]);
        let out = empty_like(&left, [rows * columns]);
        inner_products::partial_kernel::launch(
            &client,
            CubeCount::Static(cubes as u32, 1, 1),
            CubeDim::new_1d(inner_products::UNITS as u32),
            rows_of(left).into_tensor_arg(),
            rows_of(right).into_tensor_arg(),
            sums.clone().into_buffer_arg(),
            count(len),
            form,
        );
        let units = (rows * columns).min(UNITS);
        inner_products::total_kernel::launch(
            &client,
            CubeCount::Static((rows * columns).div_ceil(units) as u32, 1, 1),
            CubeDim::new_1d(units as u32),
            sums.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            cubes as u32,
            form,
        );
        out
    }

    fn mix(
        rows: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        targets: usize,
    ) -> FloatTensor<Self> {
        let [rank, len] = rows.shape().dims();
        let out = empty_like(&rows, [targets * len]);
        if targets * len == 0 {
            return out;
        }
        mix::mix_kernel::launch(
            &rows.client.clone(),
            CubeCount::Static(len.div_ceil(UNITS).min(MOST_CUBES) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            rows_of(rows).into_tensor_arg(),
            into_contiguous(weights).into_buffer_arg(),
            out.clone().into_buffer_arg(),
            count(len),
            count(targets),
            rank,
        );
        out
    }

    fn objective_gradient(
        mean: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        log_variance: FloatTensor<Self>,
        gradients: FloatTensor<Self>,
        inner_inverse: FloatTensor<Self>,
        prior: FloatTensor<Self>,
        words: IntTensor<Self>,
        [scale, temperature]: [f32; 2],
        is_relative: bool,
    ) -> Gradient<Self> {
        let [rank, len] = factors.shape().dims();
        let [draws, _] = gradients.shape().dims();
        let cubes = gradient_cubes(len);
        let out: Gradient<Self> = Gradient {
            mean: empty_like(&mean, [len]),
            factors: empty_like(&mean, [rank * len]),
            log_variance: empty_like(&mean, [len]),
            sums: empty_like(&mean, [cubes * gaussian::SUMS]),
        };
        let form = gaussian::Form {
            rank,
            is_log: true,
            is_relative,
            draws,
            is_isotropic: prior.shape().num_elements() == 1,
        };
        gaussian::gradient_kernel::launch(
            &mean.client.clone(),
            CubeCount::Static(cubes as u32, 1, 1),
            CubeDim::new_1d(gaussian::UNITS as u32),
            into_contiguous(mean).into_buffer_arg(),
            rows_of(factors).into_tensor_arg(),
            into_contiguous(log_variance).into_buffer_arg(),
            rows_of(gradients).into_tensor_arg(),
            into_contiguous(inner_inverse).into_buffer_arg(),
            into_contiguous(prior).into_buffer_arg(),
            into_contiguous(words).into_buffer_arg(),
            out.mean.clone().into_buffer_arg(),
            out.factors.clone().into_buffer_arg(),
            out.log_variance.clone().into_buffer_arg(),
            out.sums.clone().into_buffer_arg(),
            scale,
            temperature,
            count(len),
            form,
        );
        out
    }
}
