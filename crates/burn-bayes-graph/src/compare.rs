//! Differences between two computations of the same numbers.

use burn::tensor::Tensor;

/// Norms of one piece of a vector that was computed twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norms {
    /// The norm of the difference.
    pub(crate) difference: f64,
    /// The norm of the expected piece.
    pub(crate) expected: f64,
}

/// The norms of consecutive pieces of the given lengths.
pub(crate) fn norms(
    found: &Tensor<1>,
    expected: &Tensor<1>,
    lens: impl IntoIterator<Item = usize>,
) -> Vec<Norms> {
    let (found, expected) = (found.to_data(), expected.to_data());
    let mut pairs = found.iter::<f64>().zip(expected.iter::<f64>());
    let of_piece = |len| {
        let (mut difference, mut size) = (0.0, 0.0);
        for (found, expected) in pairs.by_ref().take(len) {
            difference += (found - expected).powi(2);
            size += expected.powi(2);
        }
        Norms {
            difference: difference.sqrt(),
            expected: size.sqrt(),
        }
    };
    lens.into_iter().map(of_piece).collect()
}

/// The norm of the whole vector.
pub(crate) fn whole(norms: &[Norms]) -> f64 {
    let squares = norms.iter().map(|norms| norms.expected.powi(2));
    squares.sum::<f64>().sqrt()
}

/// The norm of a vector in pieces.
pub(crate) fn norm(pieces: &[Tensor<1>]) -> f64 {
    let squares = |piece| values(piece).into_iter().map(|value| value * value);
    pieces.iter().flat_map(squares).sum::<f64>().sqrt()
}

pub(crate) fn values<const R: usize>(tensor: &Tensor<R>) -> Vec<f64> {
    tensor.to_data().iter::<f64>().collect()
}

pub(crate) fn largest(values: &[f64]) -> f64 {
    values
        .iter()
        .fold(0.0, |largest, value| largest.max(value.abs()))
}

/// The largest absolute difference, element by element.
pub(crate) fn largest_difference(found: &[f64], expected: &[f64]) -> f64 {
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // A NaN is kept.
    differences.fold(
        0.0,
        |largest, value| if value <= largest { largest } else { value },
    )
}
