//! The largest eigenvalues of a symmetric matrix and their eigenvectors, by the Lanczos method.

use super::eigen::{SymmetricEigen, point_to_positive_side};
use super::error::AlgebraError;
use super::matrix::{SquareMatrix, add_scaled, dot};

/// Number of steps before the first convergence check.
const FIRST_LOOK: usize = 12;
/// Relative residual ‖M v − λ v‖/λ at convergence.
const RESIDUAL: f64 = 1e-11;
/// The fractional part of the golden ratio; its multiples fill the unit interval evenly.
const WEYL: f64 = 0.618_033_988_749_894_8;

/// The smallest eigenvalue found by deflation, relative to the largest. Below it the deflated
/// matrix consists of rounding errors.
const LEFT_OVER: f64 = 1e-8;
/// Rows per requested pair below which a full decomposition is as fast.
const ROWS_PER_PAIR: usize = 32;

/// An eigenvalue and its eigenvector of norm 1, whose entry of largest magnitude is positive.
#[derive(Debug, Clone, PartialEq)]
pub struct EigenPair {
    /// λ.
    pub value: f64,
    /// v.
    pub vector: Vec<f64>,
}

impl SymmetricEigen {
    /// The pairs with the `count` largest eigenvalues of a positive semi-definite matrix, largest first.
    ///
    /// A well separated eigenvalue costs about a dozen products with the matrix. If one is not well
    /// separated, or if many are requested, the cost is that of [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn leading(matrix: &SquareMatrix, count: usize) -> Result<Vec<EigenPair>, AlgebraError> {
        if ROWS_PER_PAIR * count <= matrix.size
            && let Some(pairs) = one_by_one(matrix, count)?
        {
            return Ok(pairs);
        }
        let all = Self::new(matrix)?;
        let values = all.values().iter().take(count).enumerate();
        Ok(values
            .map(|(k, &value)| EigenPair {
                value,
                vector: all.vectors().row(k).to_vec(),
            })
            .collect())
    }
}

/// Each pair is the largest of the matrix deflated by the previous pairs, so repeated eigenvalues
/// are found.
fn one_by_one(matrix: &SquareMatrix, count: usize) -> Result<Option<Vec<EigenPair>>, AlgebraError> {
    matrix.check_finite("symmetric eigen-decomposition")?;
    let mut rest = matrix.clone();
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        let mut krylov = Krylov::new(&rest);
        let looks = [FIRST_LOOK, 2 * FIRST_LOOK].into_iter();
        let mut looks = looks.take_while(|steps| 2 * steps <= matrix.size);
        let found = looks.find_map(|steps| krylov.largest(steps).transpose());
        let Some(pair) = found.transpose()? else {
            return Ok(None);
        };
        if pair.value < LEFT_OVER * pairs.first().unwrap_or(&pair).value {
            return Ok(None);
        }
        rest.add_outer(-pair.value, &pair.vector);
        pairs.push(pair);
    }
    Ok(Some(pairs))
}

/// An orthonormal basis Q of v, Mv, M²v, …, in which M is the tridiagonal QᵀMQ.
struct Krylov<'a> {
    matrix: &'a SquareMatrix,
    basis: Vec<Vec<f64>>,
    diagonal: Vec<f64>,
    /// The off-diagonal; its last entry is the norm of `next` before normalisation.
    beside: Vec<f64>,
    /// A unit vector; `None` if the basis is complete.
    next: Option<Vec<f64>>,
}

impl<'a> Krylov<'a> {
    /// Starts from a vector without special structure, weighted towards the rows with the largest
    /// diagonal entries.
    fn new(matrix: &'a SquareMatrix) -> Self {
        let entry = |row: usize| (0.5 + (row as f64 * WEYL).fract()) * matrix.get(row, row);
        let mut next: Vec<f64> = (0..matrix.size).map(entry).collect();
        let norm = make_unit(&mut next);
        Self {
            matrix,
            basis: Vec::new(),
            diagonal: Vec::new(),
            beside: Vec::new(),
            next: (norm > 0.0).then_some(next),
        }
    }

    /// The pair after `steps` steps, if it has converged.
    fn largest(&mut self, steps: usize) -> Result<Option<EigenPair>, AlgebraError> {
        while self.basis.len() < steps
            && let Some(next) = self.next.take()
        {
            self.step(next)?;
        }
        let steps = self.basis.len();
        if steps == 0 {
            return Ok(None); // a matrix of zeros
        }
        let tridiagonal = SquareMatrix::from_fn(steps, |row, column| match row.abs_diff(column) {
            0 => self.diagonal[row],
            1 => self.beside[row.min(column)],
            _ => 0.0,
        });
        let pairs = SymmetricEigen::new(&tridiagonal)?;
        let (value, shares) = (pairs.values()[0], pairs.vectors().row(0));
        let residual = self.beside[steps - 1] * shares[steps - 1].abs();
        Ok((residual <= RESIDUAL * value).then(|| {
            let mut vector = vec![0.0; self.matrix.size];
            for (share, direction) in shares.iter().zip(&self.basis) {
                add_scaled(&mut vector, *share, direction);
            }
            make_unit(&mut vector);
            point_to_positive_side(&mut vector);
            EigenPair { value, vector }
        }))
    }

    fn step(&mut self, next: Vec<f64>) -> Result<(), AlgebraError> {
        let mut image = self.matrix.multiply_vector(&next)?;
        let length = dot(&image, &image).sqrt();
        self.diagonal.push(dot(&image, &next));
        self.basis.push(next);
        // Two passes give orthogonality to machine precision.
        for _ in 0..2 {
            for direction in &self.basis {
                let share = dot(&image, direction);
                add_scaled(&mut image, -share, direction);
            }
        }
        let norm = make_unit(&mut image);
        self.beside.push(norm);
        // If the basis is complete, the remainder is rounding.
        self.next = (norm > 16.0 * f64::EPSILON * length).then_some(image);
        Ok(())
    }
}

/// Normalises the vector and returns its norm.
fn make_unit(vector: &mut [f64]) -> f64 {
    let norm = dot(vector, vector).sqrt();
    vector.iter_mut().for_each(|entry| *entry /= norm);
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B Bᵀ for B with `size` rows and `rank` columns, the first scaled by `lead`.
    fn gram(size: usize, rank: usize, lead: f64) -> SquareMatrix {
        let entry = |row: usize, column: usize| {
            let value = (((row * 37 + column * 101 + 3) as f64).sin() * 4e4).fract();
            if column == 0 { lead * value } else { value }
        };
        SquareMatrix::from_fn(size, |i, j| {
            (0..rank)
                .map(|column| entry(i, column) * entry(j, column))
                .sum()
        })
    }

    #[test]
    fn they_are_the_first_of_all() {
        for (size, rank, lead) in [
            (0, 1, 1.0),
            (1, 1, 1.0),
            (5, 9, 1.0),
            (41, 60, 1.0),
            (41, 60, 4.0),
            (41, 1, 1.0),
            (80, 90, 30.0),
            (100, 120, 1.0),
            (100, 2, 1.0),
            (130, 6, 3.0),
        ] {
            let matrix = gram(size, rank, lead);
            let all = SymmetricEigen::new(&matrix).unwrap();
            for count in [0, 1, 3, size.min(8)] {
                let pairs = SymmetricEigen::leading(&matrix, count).unwrap();
                assert_eq!(pairs.len(), count.min(size));
                let scale = all.values().first().copied().unwrap_or_default();
                for (k, EigenPair { value, vector }) in pairs.iter().enumerate() {
                    let error = (value - all.values()[k]).abs();
                    assert!(error <= 1e-12 * scale, "{size} {rank} {k}: {error:e}");
                    let image = matrix.multiply_vector(vector).unwrap();
                    let residuals = image
                        .iter()
                        .zip(vector)
                        .map(|(m, v)| (m - value * v).powi(2));
                    let residual = residuals.sum::<f64>().sqrt();
                    assert!(residual <= 1e-10 * scale, "{size} {rank} {k}: {residual:e}");
                    assert!((dot(vector, vector) - 1.0).abs() <= 1e-12);
                }
            }
        }
    }

    #[test]
    fn equal_eigenvalues_have_vectors_of_their_own() {
        let matrix = SquareMatrix::from_fn(64, |i, j| match (i == j, i) {
            (true, 5 | 40) => 3.0,
            (true, _) => 1.0 / (1 + i) as f64,
            _ => 0.0,
        });
        let pairs = one_by_one(&matrix, 3).unwrap().unwrap();
        let values: Vec<f64> = pairs.iter().map(|pair| pair.value).collect();
        for (found, expected) in values.iter().zip([3.0, 3.0, 1.0]) {
            assert!((found - expected).abs() < 1e-10, "{values:?}");
        }
        assert!(dot(&pairs[0].vector, &pairs[1].vector).abs() < 1e-9);
    }

    #[test]
    fn it_stops_early_where_it_can() {
        let matrix = gram(60, 80, 8.0);
        assert!(Krylov::new(&matrix).largest(FIRST_LOOK).unwrap().is_some());
        let flat =
            SquareMatrix::from_fn(60, |i, j| if i == j { 1.0 + i as f64 * 1e-3 } else { 0.0 });
        assert!(Krylov::new(&flat).largest(FIRST_LOOK).unwrap().is_none());
    }

    #[test]
    fn zeros_ones_and_infinities() {
        let zeros = SquareMatrix::from_fn(40, |_, _| 0.0);
        assert_eq!(SymmetricEigen::leading(&zeros, 1).unwrap()[0].value, 0.0);
        for EigenPair { value, vector } in
            SymmetricEigen::leading(&SquareMatrix::identity(40), 2).unwrap()
        {
            assert!((value - 1.0).abs() < 1e-12 && (dot(&vector, &vector) - 1.0).abs() < 1e-12);
        }
        let infinite = SquareMatrix::from_fn(40, |_, _| f64::INFINITY);
        assert!(SymmetricEigen::leading(&infinite, 1).is_err());
    }
}
