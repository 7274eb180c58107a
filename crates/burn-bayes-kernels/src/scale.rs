//! Whole buffers: multiplication, for clipping, and running averages.

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

/// values += weight · (current − values).
///
/// # Panics
///
/// If the lengths do not match.
pub fn approach(values: &mut [f32], current: &[f32], weight: f32) {
    let length = values.len();
    assert_eq!(
        current.len(),
        length,
        "the two buffers have other lengths than each other"
    );
    for_each_block((values, current), length, 2 * length, &|_,
                                                            (
        values,
        current,
    ): (
        &mut [f32],
        &[f32],
    )| {
        vectorise(
            #[inline(always)]
            || {
                for (value, &current) in values.iter_mut().zip(current) {
                    *value += (current - *value) * weight;
                }
            },
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

    #[test]
    fn values_approach_the_current_ones() {
        for length in LENGTHS {
            let (before, current) = (numbers(3, length), numbers(4, length));
            let output = on_any_thread_count(|| {
                let mut values = before.clone();
                approach(&mut values, &current, 0.3);
                values
            });
            for ((value, before), current) in output.iter().zip(&before).zip(&current) {
                assert_eq!(*value, before + (current - before) * 0.3);
            }
        }
    }
}
