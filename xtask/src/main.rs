//! The projects own tasks.
fn main() {}
