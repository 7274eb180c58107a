cargo run --example image_model
cargo run --example image_predict
