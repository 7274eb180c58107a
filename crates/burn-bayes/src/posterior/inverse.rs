//! (RᵀR + diag w)⁻¹ for K rows R and a diagonal w > 0, in double precision on the host.
//!
//! With V = R w^-½, its columns vⱼ, B = V Vᵀ, A = (I + B)⁻¹ and ĝ = w^-½ ⊙ g:
//!
//! ```text
//! log|RᵀR + diag w|      = Σ log w + log|I + B|
//! (RᵀR + diag w)⁻¹ g     = w^-½ ⊙ y,  y = ĝ − Vᵀ A V ĝ,  then once more for ĝ − y − Vᵀ V y
//! [(RᵀR + diag w)⁻¹]ⱼⱼ  = (1 − hⱼ)/wⱼ,  hⱼ = vⱼᵀ A vⱼ                          where hⱼ ≤ ½
//!                        = 1/[wⱼ (1 + vⱼᵀ (I + Σ_{i≠j} vᵢvᵢᵀ)⁻¹ vⱼ)]           elsewhere
//! ```
//!
//! 1 − hⱼ is the share of a variance 1/wⱼ that the rows leave. In single precision it has no digits from Rⱼ²/wⱼ = 10⁷ on, and
//! neither has it if B was rounded to single precision. The first line loses a bit at most, and the second is a sum of
//! positive terms. hⱼ exceeds ½ for fewer than 2K of the j, because Σⱼ hⱼ = K − tr A: so their sums over i ≠ j cost as
//! much as the sums over all i. What is left are errors of ε times the condition of I + B, in double precision.
//!
//! References: Golub and Van Loan, *Matrix Computations*, 4th ed., §2.1.4 (Woodbury) and §3.5.3 (the second solve).

use burn::tensor::Tensor;

use crate::algebra::{IdentityPlus, SquareMatrix, dot};
use crate::error::Result;
use crate::kernels::composed::{from_host, to_host};

/// The columns of the rows that are in double precision at a time.
const BLOCK: usize = 1 << 14;

/// (RᵀR + diag w)⁻¹.
#[derive(Debug)]
pub(super) struct LowRankInverse {
    /// R, `[K, D]`.
    rows: Option<Tensor<2>>,
    /// w.
    diagonal: Vec<f64>,
    /// I + B.
    inner: IdentityPlus,
}

/// Some columns of V, K rows one after the other.
struct Block {
    start: usize,
    rows: Vec<f64>,
    width: usize,
}

impl LowRankInverse {
    pub(super) fn new(rows: Option<&Tensor<2>>, diagonal: &Tensor<1>) -> Result<Self> {
        let mut inverse = Self {
            rows: rows.cloned(),
            diagonal: to_host(diagonal.clone()),
            inner: IdentityPlus::new(&SquareMatrix::identity(0))?,
        };
        inverse.inner = IdentityPlus::new(&inverse.gram(&[])?)?;
        Ok(inverse)
    }

    /// I + B.
    pub(super) fn inner(&self) -> &IdentityPlus {
        &self.inner
    }

    /// log|RᵀR + diag w|.
    pub(super) fn log_determinant(&self) -> f64 {
        let logs = self.diagonal.iter().map(|value| value.ln());
        logs.sum::<f64>() + self.inner.log_determinant()
    }

    /// The diagonal of the inverse.
    pub(super) fn diagonal(&self) -> Result<Vec<f64>> {
        let mut result: Vec<f64> = self.diagonal.iter().map(|value| value.recip()).collect();
        let mut settled: Vec<(usize, Vec<f64>)> = Vec::new();
        for Block { start, rows, width } in self.blocks() {
            let mut whitened = rows.clone();
            self.inner.whiten(&mut whitened);
            let mut shares = vec![0.0; width];
            for row in whitened.chunks_exact(width) {
                let sums = shares.iter_mut().zip(row);
                sums.for_each(|(sum, entry)| *sum += entry * entry);
            }
            for (at, share) in shares.into_iter().enumerate() {
                if share <= 0.5 {
                    result[start + at] *= 1.0 - share;
                } else {
                    let column = rows.iter().skip(at).step_by(width).copied();
                    settled.push((start + at, column.collect()));
                }
            }
        }
        if settled.is_empty() {
            return Ok(result);
        }
        let places: Vec<usize> = settled.iter().map(|column| column.0).collect();
        let rest = self.gram(&places)?;
        for (at, column) in &settled {
            let mut others = rest.clone();
            for (_, other) in settled.iter().filter(|other| other.0 != *at) {
                others.add_outer(1.0, other);
            }
            let mut whitened = column.clone();
            IdentityPlus::new(&others)?.whiten(&mut whitened);
            result[*at] /= 1.0 + dot(&whitened, &whitened);
        }
        Ok(result)
    }

    /// The inverse times a vector.
    pub(super) fn product(&self, vector: &[f64]) -> Vec<f64> {
        let deviations: Vec<f64> = self.deviations().collect();
        let scaled: Vec<f64> = vector.iter().zip(&deviations).map(|(v, s)| v * s).collect();
        let mut solution = self.unexplained(&scaled);
        if self.rows.is_some() {
            let image = self.combined(&self.projected(&solution));
            let entries = scaled.iter().zip(&solution).zip(image);
            let rest: Vec<f64> = entries.map(|((g, y), image)| g - y - image).collect();
            let corrections = solution.iter_mut().zip(self.unexplained(&rest));
            corrections.for_each(|(entry, correction)| *entry += correction);
        }
        let entries = solution.iter_mut().zip(deviations);
        entries.for_each(|(entry, deviation)| *entry *= deviation);
        solution
    }

    /// A V, `[K, D]`.
    pub(super) fn solved_rows(&self) -> Option<Tensor<2>> {
        self.mapped(|inner, block| inner.solve(&mut block.rows))
    }

    /// W V w^-½ with WᵀW = A, `[K, D]`.
    pub(super) fn whitened_rows(&self) -> Option<Tensor<2>> {
        let deviations: Vec<f64> = self.deviations().collect();
        self.mapped(|inner, block| {
            inner.whiten(&mut block.rows);
            for row in block.rows.chunks_exact_mut(block.width) {
                let entries = row.iter_mut().zip(&deviations[block.start..]);
                entries.for_each(|(entry, deviation)| *entry *= deviation);
            }
        })
    }

    /// V after a change of its blocks.
    fn mapped(&self, mut change: impl FnMut(&IdentityPlus, &mut Block)) -> Option<Tensor<2>> {
        let rows = self.rows.as_ref()?;
        let rank = rows.dims()[0];
        let blocks = self.blocks().map(|mut block| {
            change(&self.inner, &mut block);
            from_host(block.rows, [rank, block.width], &rows.device())
        });
        Some(Tensor::cat(blocks.collect(), 1))
    }

    /// w^-½.
    fn deviations(&self) -> impl Iterator<Item = f64> {
        self.diagonal.iter().map(|value| value.sqrt().recip())
    }

    /// The blocks of V; none without rows.
    fn blocks(&self) -> impl Iterator<Item = Block> {
        let len = self.diagonal.len();
        let blocks = self.rows.iter().flat_map(move |rows| {
            let starts = (0..len).step_by(BLOCK);
            starts.map(move |start| (rows.clone(), start))
        });
        blocks.map(move |(rows, start)| {
            let end = len.min(start + BLOCK);
            let mut rows = to_host(rows.slice_dim(1, start..end));
            let width = end - start;
            for row in rows.chunks_exact_mut(width) {
                let entries = row.iter_mut().zip(&self.diagonal[start..end]);
                entries.for_each(|(entry, value)| *entry /= value.sqrt());
            }
            Block { start, rows, width }
        })
    }

    /// B without the columns at `left_out`.
    fn gram(&self, left_out: &[usize]) -> Result<SquareMatrix> {
        let rank = self.rows.as_ref().map_or(0, |rows| rows.dims()[0]);
        let mut sum = vec![0.0; rank * rank];
        for Block {
            start,
            mut rows,
            width,
        } in self.blocks()
        {
            let inside = left_out.iter().filter_map(|at| at.checked_sub(start));
            for at in inside.filter(|at| *at < width) {
                rows.iter_mut()
                    .skip(at)
                    .step_by(width)
                    .for_each(|entry| *entry = 0.0);
            }
            let gram = SquareMatrix::gram(rank, &rows)?;
            let entries = sum.iter_mut().zip(gram.as_slice());
            entries.for_each(|(sum, entry)| *sum += entry);
        }
        Ok(SquareMatrix::from_row_major(rank, sum)?)
    }

    /// ĝ − Vᵀ A V ĝ.
    fn unexplained(&self, vector: &[f64]) -> Vec<f64> {
        let mut weights = self.projected(vector);
        self.inner.solve(&mut weights);
        let explained = self.combined(&weights).into_iter();
        vector.iter().zip(explained).map(|(v, e)| v - e).collect()
    }

    /// V ĝ.
    fn projected(&self, vector: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.inner.size()];
        for Block { start, rows, width } in self.blocks() {
            let pairs = sums.iter_mut().zip(rows.chunks_exact(width));
            pairs.for_each(|(sum, row)| *sum += dot(row, &vector[start..start + width]));
        }
        sums
    }

    /// Vᵀ w.
    fn combined(&self, weights: &[f64]) -> Vec<f64> {
        let mut result = vec![0.0; self.diagonal.len()];
        for Block { start, rows, width } in self.blocks() {
            for (row, weight) in rows.chunks_exact(width).zip(weights) {
                let entries = result[start..start + width].iter_mut().zip(row);
                entries.for_each(|(entry, value)| *entry += weight * value);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};
    use proptest::prelude::*;

    use super::*;
    use crate::noise::Noise;
    use crate::posterior::DenseGaussian;

    fn wide(values: &[f32]) -> Vec<f64> {
        values.iter().copied().map(f64::from).collect()
    }

    fn tensors(rows: &[f32], diagonal: &[f32]) -> (Option<Tensor<2>>, Tensor<1>) {
        let (device, len) = (Device::default(), diagonal.len());
        let rank = rows.len() / len;
        let rows = (rank > 0)
            .then(|| Tensor::from_data(TensorData::new(rows.to_vec(), [rank, len]), &device));
        let diagonal = Tensor::from_data(TensorData::new(diagonal.to_vec(), [len]), &device);
        (rows, diagonal)
    }

    /// D numbers, K rows whose sizes are spread over many decades, and a diagonal.
    fn problems() -> impl Strategy<Value = (Vec<f32>, Vec<f32>)> {
        (1_usize..=7, 0_usize..=20, any::<u32>(), 0_f32..=10.0).prop_flat_map(
            |(len, rank, seed, most)| {
                (0..=rank).prop_map(move |flat| {
                    let noise = Noise::new(seed.into());
                    let sizes = noise.row(1).latent(rank);
                    let mut rows = noise.latent(rank * len);
                    for (row, (entries, size)) in rows.chunks_exact_mut(len).zip(sizes).enumerate()
                    {
                        // A row is large, or of any size down to that of the diagonal.
                        let share = if row < flat { 1.0 } else { size.abs().fract() };
                        let size = 10_f32.powf(0.5 * most * share);
                        entries.iter_mut().for_each(|entry| *entry *= size);
                    }
                    let logs = noise.row(2).latent(len).into_iter();
                    (rows, logs.map(|log| (0.5 * log).exp()).collect())
                })
            },
        )
    }

    proptest! {
        #[test]
        fn nothing_is_lost_up_to_ten_decades((rows, diagonal) in problems()) {
            let (tensor, weights) = tensors(&rows, &diagonal);
            let inverse = LowRankInverse::new(tensor.as_ref(), &weights).unwrap();
            let len = diagonal.len();
            let dense =
                DenseGaussian::from_precision_factors(vec![0.0; len], &wide(&rows), &wide(&diagonal));
            let dense = dense.unwrap();
            let condition = 1.0 + wide(&rows)
                .iter()
                .zip(wide(&diagonal).iter().cycle())
                .map(|(row, weight)| row * row / weight)
                .sum::<f64>();
            // Both sides lose the condition: at ten decades, about 1e-5.
            let allowed = 8.0 * f64::EPSILON * condition;
            for (found, expected) in inverse.diagonal().unwrap().iter().zip(dense.variances()) {
                prop_assert!((found / expected - 1.0).abs() < allowed, "{found} {expected} {allowed}");
            }
            let determinant = -inverse.log_determinant();
            prop_assert!((determinant - dense.log_determinant()).abs() < len as f64 * allowed);

            let vector = wide(&Noise::new(1).latent(len));
            let expected = dense.covariance().multiply_vector(&vector).unwrap();
            let size = dot(&expected, &expected).sqrt();
            for (found, expected) in inverse.product(&vector).iter().zip(&expected) {
                prop_assert!((found - expected).abs() < allowed * size, "{found} {expected} {size}");
            }
        }
    }

    #[test]
    fn columns_of_several_blocks_are_those_of_one() {
        // Two columns share a large row, and every other has its own part of a small one.
        let len = 2 * BLOCK + 5;
        let mut rows = vec![1e-2_f32; 2 * len];
        rows[..len].fill(0.0);
        let places = [7, BLOCK + 3];
        places.iter().for_each(|&at| rows[at] = 1e5);
        let (tensor, diagonal) = tensors(&rows, &vec![1.0; len]);
        let inverse = LowRankInverse::new(tensor.as_ref(), &diagonal).unwrap();
        let found = inverse.diagonal().unwrap();
        let total = 1e-4 * (len - 2) as f64;
        for (at, variance) in found.iter().enumerate() {
            let (expected, allowed) = match places.contains(&at) {
                // No row measures the difference of both numbers, which is half of the variance of each.
                true => (0.5, 1e-5),
                false => (1.0 - 1e-4 / (1.0 + total), 1e-9),
            };
            let error = (variance - expected).abs();
            assert!(error < allowed, "{at}: {variance} {expected}");
        }
    }
}
