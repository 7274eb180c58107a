# The commands of the book's chapter "Calibration"; `book.rs` runs them.

# ANCHOR: recalibrate
burn-bayes data generate patients --rows 1000 --seed 1 --output known.csv
burn-bayes data generate patients --rows 4000 --seed 2 --output new.csv
burn-bayes fit --data known.csv --target ill --task classification --validation 0.4 --method map --recalibrate temperature --out run
burn-bayes evaluate run new.csv
# ANCHOR_END: recalibrate
