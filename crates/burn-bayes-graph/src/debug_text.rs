//! A hash of the fields in a `Debug` output.

use std::hash::{Hash, Hasher};

/// Types of Burn whose `Debug` output is not hashed.
const OPAQUE: [&str; 2] = ["Tensor", "RunningState"];

/// Hashes the fields in a `Debug` output; returns whether one of them is a plain tensor.
pub(crate) fn hash_fields(text: &str, hasher: &mut impl Hasher) -> bool {
    let mut has_tensors = false;
    let mut rest = text;
    while let Some(start) = rest.find(['{', ':']) {
        let (before, after) = (&rest[..start], &rest[start..]);
        let word = before
            .trim_end()
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_');
        let word = word.into_iter().next().unwrap_or_default();
        before.hash(hasher);
        rest = if after.starts_with('{') && OPAQUE.contains(&word) {
            has_tensors |= word == "Tensor";
            after_block(after)
        } else if after.starts_with(": ") && word == "Param" {
            // "Param: 4hf7… - ParamMapper { load: false, save: false }"
            after
                .find('{')
                .map_or("", |start| after_block(&after[start..]))
        } else {
            after[..1].hash(hasher);
            &after[1..]
        };
    }
    rest.hash(hasher);
    has_tensors
}

/// The text after the block in braces that `text` begins with.
fn after_block(text: &str) -> &str {
    let mut depth = 0;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[index + 1..];
        }
    }
    ""
}
