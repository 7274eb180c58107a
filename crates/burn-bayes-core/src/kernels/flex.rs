//! The fused kernels, where the tensors are contiguous `f32` on Burn's CPU backend.

use burn::tensor::Tensor;

use super::*;

pub(super) fn draw(_: &CovarianceParts, _: Noise) -> Option<Tensor<1>> {
    None
}
pub(super) fn draws(_: &CovarianceParts, _: Noise, _: usize) -> Option<Tensor<2>> {
    None
}
pub(super) fn gram(_: &CovarianceParts) -> Option<Vec<f64>> {
    None
}
pub(super) fn draw_and_gram(_: &CovarianceParts, _: Noise) -> Option<(Tensor<1>, Vec<f64>)> {
    None
}
pub(super) fn covariance_gradient(
    _: &CovarianceParts,
    _: &[DrawGradient],
    _: Objective<'_>,
) -> Option<CovarianceGradient> {
    None
}
pub(super) fn adam<const R: usize>(
    v: AdamValues<R>,
    g: Tensor<R>,
    _: AdamStep,
) -> std::result::Result<AdamValues<R>, Box<(AdamValues<R>, Tensor<R>)>> {
    Err(Box::new((v, g)))
}
pub(super) fn sgd<const R: usize>(
    v: SgdValues<R>,
    g: Tensor<R>,
    _: SgdStep,
) -> std::result::Result<SgdValues<R>, Box<(SgdValues<R>, Tensor<R>)>> {
    Err(Box::new((v, g)))
}
