# The commands of the book's chapter "Choosing a method and its settings"; `book.rs` runs them.

# ANCHOR: compare
burn-bayes compare --data known.csv --target ill --task classification --methods map,vifa,vadam --repeats 1 --folds 5 --out compared
# ANCHOR_END: compare

# ANCHOR: tune
burn-bayes tune --data known.csv --target ill --task classification --method vifa --trials 12 --survivors 4 --out tuned
# ANCHOR_END: tune

burn-bayes tune --data known.csv --target ill --task classification --ranges ranges.toml --trials 2 --folds 2 --out tried

# ANCHOR: fit
burn-bayes fit --config tuned/config.toml --out run
burn-bayes evaluate run new.csv
# ANCHOR_END: fit

# ANCHOR: ensemble
burn-bayes fit --data known.csv --target ill --task classification --method swag --members 5 --out ensemble
burn-bayes predict ensemble new.csv --output disagreements.csv
burn-bayes evaluate ensemble new.csv
# ANCHOR_END: ensemble

# ANCHOR: variants
burn-bayes compare --data known.csv --target ill --task classification --methods vadam --variant model=linear --variant prior-precision=10 --variant method=map --repeats 1 --out variants
# ANCHOR_END: variants

# ANCHOR: intervals
burn-bayes data generate gap --rows 150 --seed 1 --output curve.csv
burn-bayes data generate gap --rows 500 --seed 2 --output new-curve.csv
burn-bayes compare --data curve.csv --target y --task regression --methods map,vifa --repeats 1 --predict new-curve.csv --conformal 0.9 --out intervals
# ANCHOR_END: intervals
