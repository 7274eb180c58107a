//! The largest eigenvalue of a symmetric matrix with its vector, by Lanczos' method.

use super::eigen::{SymmetricEigen, point_to_positive_side};
use super::error::AlgebraError;
use super::matrix::{SquareMatrix, add_scaled, dot};

/// Steps after which the vector is looked at for the first time.
const FIRST_LOOK: usize = 12;
/// ‖M v − λ v‖ of a vector that is good enough, over λ.
const RESIDUAL: f64 = 1e-11;
/// Of a golden ratio: its multiples fill the unit interval evenly.
const WEYL: f64 = 0.618_033_988_749_894_8;

impl SymmetricEigen {
    /// The largest eigenvalue of a positive semi-definite matrix, and its vector of norm 1, whose entry
    /// of largest magnitude is positive.
    ///
    /// It takes a dozen products with the matrix if that eigenvalue stands out, and otherwise what
    /// [`new`](Self::new) takes.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn largest(matrix: &SquareMatrix) -> Result<(f64, Vec<f64>), AlgebraError> {
        matrix.check_finite("symmetric eigen-decomposition")?;
        // In as many steps as half the rows, decomposing is as fast.
        let looks = [FIRST_LOOK, 2 * FIRST_LOOK].into_iter();
        let looks = looks.take_while(|steps| 2 * steps <= matrix.size);
        let mut krylov = Krylov::new(matrix);
        for steps in looks {
            if let Some(pair) = krylov.largest(steps)? {
                return Ok(pair);
            }
        }
        let all = Self::new(matrix)?;
        let value = all.values().first().copied().unwrap_or(0.0);
        let vectors = all.vectors().as_slice();
        Ok((value, vectors[..matrix.size].to_vec()))
    }
}

/// An orthonormal basis Q of v, Mv, M²v, …, in which M is the tridiagonal QᵀMQ.
struct Krylov<'a> {
    matrix: &'a SquareMatrix,
    basis: Vec<Vec<f64>>,
    diagonal: Vec<f64>,
    /// Beside the diagonal; the last one is the norm that `next` had.
    beside: Vec<f64>,
    /// A unit vector; none if the basis is whole.
    next: Option<Vec<f64>>,
}

impl<'a> Krylov<'a> {
    /// From a vector that is orthogonal to no other in particular, and leans to the rows with the
    /// largest entries on the diagonal.
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

    /// The pair after so many steps, if it is good enough then.
    fn largest(&mut self, steps: usize) -> Result<Option<(f64, Vec<f64>)>, AlgebraError> {
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
            (value, vector)
        }))
    }

    fn step(&mut self, next: Vec<f64>) -> Result<(), AlgebraError> {
        let mut image = self.matrix.multiply_vector(&next)?;
        let length = dot(&image, &image).sqrt();
        self.diagonal.push(dot(&image, &next));
        self.basis.push(next);
        // Twice is enough for orthogonality to the last digit.
        for _ in 0..2 {
            for direction in &self.basis {
                let share = dot(&image, direction);
                add_scaled(&mut image, -share, direction);
            }
        }
        let norm = make_unit(&mut image);
        self.beside.push(norm);
        // What is left of a whole basis is rounding.
        self.next = (norm > 16.0 * f64::EPSILON * length).then_some(image);
        Ok(())
    }
}

/// Divides by the norm, which it returns.
fn make_unit(vector: &mut [f64]) -> f64 {
    let norm = dot(vector, vector).sqrt();
    vector.iter_mut().for_each(|entry| *entry /= norm);
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B Bᵀ for B of `size` rows and `rank` columns, the first of which is `lead` times as large.
    fn gram(size: usize, rank: usize, lead: f64) -> SquareMatrix {
        let entry = |row: usize, column: usize| {
            let value = ((row * 37 + column * 101 + 3) as f64).sin();
            if column == 0 { lead * value } else { value }
        };
        SquareMatrix::from_fn(size, |i, j| {
            (0..rank)
                .map(|column| entry(i, column) * entry(j, column))
                .sum()
        })
    }

    #[test]
    fn it_is_the_first_pair_of_all() {
        for (size, rank, lead) in [
            (0, 1, 1.0),
            (1, 1, 1.0),
            (5, 9, 1.0),
            (41, 60, 1.0),
            (41, 60, 4.0),
            (41, 3, 1.0),
            (41, 1, 1.0),
            (80, 90, 1.0),
            (80, 90, 30.0),
        ] {
            let matrix = gram(size, rank, lead);
            let all = SymmetricEigen::new(&matrix).unwrap();
            let (value, vector) = SymmetricEigen::largest(&matrix).unwrap();
            let Some(first) = all.values().first() else {
                assert!(vector.is_empty());
                continue;
            };
            assert!(
                (value - first).abs() <= 1e-12 * first,
                "{size}: {value} {first}"
            );
            let gap = match all.values() {
                [first, second, ..] => (first - second) / first,
                _ => 1.0,
            };
            for (found, expected) in vector.iter().zip(all.vectors().row(0)) {
                assert!(
                    (found - expected).abs() <= 1e-10 / gap,
                    "{size} {rank}: {found} {expected}"
                );
            }
        }
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
        assert_eq!(SymmetricEigen::largest(&zeros).unwrap().0, 0.0);
        let (value, vector) = SymmetricEigen::largest(&SquareMatrix::identity(40)).unwrap();
        assert!((value - 1.0).abs() < 1e-12 && (dot(&vector, &vector) - 1.0).abs() < 1e-12);
        let infinite = SquareMatrix::from_fn(40, |_, _| f64::INFINITY);
        assert!(SymmetricEigen::largest(&infinite).is_err());
    }
}
