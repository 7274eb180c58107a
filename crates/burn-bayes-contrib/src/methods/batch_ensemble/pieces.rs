//! Where the numbers of each parameter are.

use burn::tensor::Tensor;
use burn_bayes::graph::Layout;

/// A parameter of the layout, and its places in `shared` and `own`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Its first weight in the layout.
    pub(super) offset: usize,
    pub(super) len: usize,
    /// a, b and the product of further axes of a matrix; `None` for a vector, which is not shared.
    pub(super) shape: Option<[usize; 3]>,
    /// The first number of a matrix in `shared`.
    pub(super) shared: usize,
    /// The first number in a row of `own`.
    pub(super) own: usize,
}

impl Piece {
    /// The number of r and s, or the length of a vector.
    pub(super) fn own_len(self) -> usize {
        self.shape
            .map_or(self.len, |[rows, columns, _]| rows + columns)
    }

    /// r and s, broadcastable to a matrix.
    pub(super) fn rank_one(
        self,
        row: &Tensor<1>,
        [rows, columns, _]: [usize; 3],
    ) -> [Tensor<3>; 2] {
        [
            row.clone().narrow(0, self.own, rows).reshape([rows, 1, 1]),
            row.clone()
                .narrow(0, self.own + rows, columns)
                .reshape([1, columns, 1]),
        ]
    }
}

pub(super) fn pieces(layout: &Layout) -> Vec<Piece> {
    let (mut shared, mut own) = (0, 0);
    let piece = layout.entries().iter().map(|entry| {
        let shape = match entry.shape[..] {
            [rows, columns, ref rest @ ..] => Some([rows, columns, rest.iter().product()]),
            _ => None,
        };
        let piece = Piece {
            offset: entry.offset,
            len: entry.len(),
            shape,
            shared,
            own,
        };
        shared += shape.map_or(0, |_| piece.len);
        own += piece.own_len();
        piece
    });
    piece.collect()
}
