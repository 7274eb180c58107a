//! Multiplication of a whole buffer, for clipping.

use crate::parallel::{for_each_block, vectorise};

/// Multiplies every element by `factor`.
pub fn scale(buffer: &mut [f32], factor: f32) {
    let length = buffer.len();
    for_each_block(buffer, length, length, &|_, block: &mut [f32]| {
        vectorise(
            #[inline(always)]
            || block.iter_mut().for_each(|value| *value *= factor),
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{LENGTHS, numbers, on_any_thread_count};

    #[test]
    fn every_element_is_scaled() {
        for length in LENGTHS {
            let input = numbers(3, length);
            let output = on_any_thread_count(|| {
                let mut buffer = input.clone();
                scale(&mut buffer, 0.3);
                buffer
            });
            assert!(
                input
                    .iter()
                    .zip(&output)
                    .all(|(input, output)| input * 0.3 == *output)
            );
        }
    }
}
