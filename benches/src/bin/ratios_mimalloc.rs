//! The same as `ratios` with another allocator, for every variant: large tensors are taken from
//! memory that is kept instead of from the system anew.
//!
//! ```text
//! cargo run --profile bench --bin ratios_mimalloc -- mlp
//! ```

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), String> {
    burn_bayes_benches::ratios::main("mimalloc")
}
