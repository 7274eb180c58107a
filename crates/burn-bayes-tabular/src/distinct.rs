//! Removal of duplicates.

/// The items in order, without those with the same key as an earlier one.
pub fn distinct<T, K: PartialEq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if kept.iter().all(|earlier| key(earlier) != key(&item)) {
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_key_is_kept_in_its_place() {
        let items = ["b1", "a1", "b2", "c1", "a2"];
        let kept = distinct(items, |item| item.chars().next());
        assert_eq!(kept, ["b1", "a1", "c1"]);
    }
}
