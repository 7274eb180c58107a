# The commands of the book's chapter "From a CSV to a decision"; `book.rs` runs them.

# ANCHOR: data
burn-bayes data generate patients --rows 1000 --seed 1 --output known.csv
burn-bayes data generate patients --rows 500 --seed 2 --output new.csv
# ANCHOR_END: data

# ANCHOR: plan
burn-bayes plan --data known.csv --target ill --task classification --method mclmc
# ANCHOR_END: plan

# ANCHOR: fit
burn-bayes fit --data known.csv --target ill --task classification --method mclmc --validation 0.5 --keep sex --out run
# ANCHOR_END: fit

# ANCHOR: predict
burn-bayes predict run new.csv --target-risk 0.05 --output decisions.csv
# ANCHOR_END: predict

# ANCHOR: row
burn-bayes predict run --row age=60,sex=female,crp=12,temperature=38.5
# ANCHOR_END: row

# ANCHOR: lines
burn-bayes predict run --json-lines < patients.jsonl
# ANCHOR_END: lines

# ANCHOR: cost
burn-bayes predict run new.csv --cost fp=1,fn=20,abstain=0.5 --output costs.csv
burn-bayes evaluate run new.csv --cost fp=1,fn=20,abstain=0.5
# ANCHOR_END: cost

# ANCHOR: evaluate
burn-bayes evaluate run new.csv
# ANCHOR_END: evaluate

# ANCHOR: by
burn-bayes evaluate run new.csv --by sex,age --baseline
# ANCHOR_END: by

# ANCHOR: explain
burn-bayes explain run new.csv --pair crp,cough --out explained
# ANCHOR_END: explain

# ANCHOR: conformal
burn-bayes predict run new.csv --conformal 0.98 --output sets.csv
burn-bayes evaluate run new.csv --conformal 0.98
# ANCHOR_END: conformal

# ANCHOR: conformal_by
burn-bayes evaluate run new.csv --conformal 0.95 --conformal-by sex
burn-bayes evaluate run new.csv --conformal 0.95 --conformal-by ill
# ANCHOR_END: conformal_by
