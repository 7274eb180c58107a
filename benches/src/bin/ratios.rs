//! Training steps with and without a posterior, timed in turns, with the system's allocator.
//!
//! ```text
//! cargo run --profile bench --bin ratios -- resnet64 learner
//! ```

fn main() -> Result<(), String> {
    burn_bayes_benches::ratios::main("the system's")
}
