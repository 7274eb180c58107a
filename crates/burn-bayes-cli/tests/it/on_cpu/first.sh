# The commands of the book's chapters "Getting started" and "Reading uncertainty"; `book.rs` runs
# those of the program.

# ANCHOR: install
cargo install --locked --path crates/burn-bayes-cli
# ANCHOR_END: install

# ANCHOR: data
burn-bayes data generate patients --output patients.csv
# ANCHOR_END: data

# ANCHOR: fit
burn-bayes fit --data patients.csv --target ill --task classification --method mclmc --out first
# ANCHOR_END: fit

# ANCHOR: predict
burn-bayes data generate patients --rows 100 --seed 2 --output new.csv
burn-bayes predict first new.csv --keep temperature,crp --output predictions.csv
# ANCHOR_END: predict

# ANCHOR: evaluate
burn-bayes evaluate first new.csv
# ANCHOR_END: evaluate

# ANCHOR: curve
burn-bayes data generate gap --rows 200 --output curve.csv
burn-bayes fit --data curve.csv --target y --task regression --out curve
# ANCHOR_END: curve

# ANCHOR: interval
burn-bayes predict curve inputs.csv --quantiles 0.05,0.95
# ANCHOR_END: interval

# ANCHOR: odd
burn-bayes predict first odd.csv
# ANCHOR_END: odd
