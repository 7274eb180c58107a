//! Flat vectors stored in pieces, such as one tensor per parameter.

/// A vector given as the concatenation of slices.
#[derive(Debug)]
pub(crate) struct Concatenation<'a> {
    pieces: &'a [&'a [f32]],
    ends: Vec<usize>,
}

impl<'a> Concatenation<'a> {
    /// From the pieces in order.
    pub(crate) fn new(pieces: &'a [&'a [f32]]) -> Self {
        Self {
            pieces,
            ends: running_sum(pieces.iter().map(|piece| piece.len())),
        }
    }

    /// Total number of elements.
    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Copies the elements from `start`.
    #[inline(always)]
    pub(crate) fn copy_to(&self, start: usize, out: &mut [f32]) {
        for_each_piece(&self.ends, start, out, |piece, skip, out| {
            out.copy_from_slice(&self.pieces[piece][skip..skip + out.len()]);
        });
    }
}

/// A piecewise constant vector, given as (length, value).
#[derive(Debug)]
pub(crate) struct ConstantRuns<'a> {
    stretches: &'a [(usize, f32)],
    ends: Vec<usize>,
}

impl<'a> ConstantRuns<'a> {
    /// From the pieces in order.
    pub(crate) fn new(stretches: &'a [(usize, f32)]) -> Self {
        Self {
            stretches,
            ends: running_sum(stretches.iter().map(|stretch| stretch.0)),
        }
    }

    /// Total number of elements.
    pub(crate) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Writes the elements from `start`.
    #[inline(always)]
    pub(crate) fn copy_to(&self, start: usize, out: &mut [f32]) {
        for_each_piece(&self.ends, start, out, |piece, _, out| {
            out.fill(self.stretches[piece].1)
        });
    }
}

fn running_sum(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    lengths
        .scan(0, |sum, length| {
            *sum += length;
            Some(*sum)
        })
        .collect()
}

/// Calls `write(piece, elements to skip in it, part of out)` for every piece that overlaps
/// `start..start + out.len()`.
#[inline(always)]
fn for_each_piece(
    ends: &[usize],
    start: usize,
    mut out: &mut [f32],
    mut write: impl FnMut(usize, usize, &mut [f32]),
) {
    let mut piece = ends.partition_point(|end| *end <= start);
    let mut position = start;
    while !out.is_empty() {
        let begin = if piece == 0 { 0 } else { ends[piece - 1] };
        let (head, rest) = out.split_at_mut((ends[piece] - position).min(out.len()));
        write(piece, position - begin, head);
        position += head.len();
        piece += 1;
        out = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_of_pieces_is_copied() {
        let data: Vec<f32> = (0..40).map(|value| value as f32).collect();
        let pieces = [
            &data[0..7],
            &data[7..7],
            &data[7..8],
            &data[8..30],
            &data[30..40],
        ];
        let whole = Concatenation::new(&pieces);
        assert_eq!(whole.len(), 40);
        for start in 0..40 {
            for end in start..=40 {
                let mut out = vec![f32::NAN; end - start];
                whole.copy_to(start, &mut out);
                assert_eq!(out, data[start..end]);
            }
        }
    }

    #[test]
    fn any_range_of_steps_is_written() {
        let stretches = [(3, 1.0), (0, 9.0), (4, 2.0), (1, 3.0)];
        let flat = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0];
        let steps = ConstantRuns::new(&stretches);
        assert_eq!(steps.len(), 8);
        for start in 0..8 {
            for end in start..=8 {
                let mut out = vec![f32::NAN; end - start];
                steps.copy_to(start, &mut out);
                assert_eq!(out, flat[start..end]);
            }
        }
    }

    #[test]
    fn nothing_has_no_elements() {
        assert_eq!(Concatenation::new(&[]).len(), 0);
        ConstantRuns::new(&[]).copy_to(0, &mut []);
    }
}
