//! The same as `ratios` with the allocator mimalloc for all variants, which reuses memory for large
//! tensors instead of requesting it from the system.
//!
//! ```text
//! cargo run --profile bench --bin ratios_mimalloc -- mlp
//! ```

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), String> {
    burn_bayes_benches::ratios::main("mimalloc")
}
