# The commands of the book's chapter "Ten tables, ten traps"; `traps.rs` runs them.

# ANCHOR: claims
burn-bayes data generate claims --rows 300 --output claims.csv
burn-bayes fit --data claims.csv --target amount --out claims
burn-bayes fit --data claims.csv --target amount --ignore invoice --out claims-2
# ANCHOR_END: claims

# ANCHOR: clinic
burn-bayes data generate clinic --rows 300 --output clinic.csv
burn-bayes fit --data clinic.csv --target sepsis --missing drop --out clinic
burn-bayes fit --data clinic.csv --target sepsis --out clinic-2
# ANCHOR_END: clinic

# ANCHOR: countries
burn-bayes data generate countries --rows 300 --output countries.csv
burn-bayes fit --data countries.csv --target life --out countries
burn-bayes fit --data countries.csv --target life --group-by country --out countries-2
# ANCHOR_END: countries

# ANCHOR: gap
burn-bayes data generate gap --rows 300 --output gap.csv
burn-bayes fit --data gap.csv --target y --out gap
burn-bayes predict gap far.csv
# ANCHOR_END: gap

# ANCHOR: grades
burn-bayes data generate grades --rows 300 --output grades.csv
burn-bayes fit --data grades.csv --target grade --out grades
burn-bayes fit --data grades.csv --target grade --likelihood ordinal --out grades-2
# ANCHOR_END: grades

# ANCHOR: hourly
burn-bayes data generate hourly --rows 300 --output hourly.csv
burn-bayes fit --data hourly.csv --target rides --task counts --out hourly
burn-bayes fit --data hourly.csv --target rides --task counts --time time --out hourly-2
# ANCHOR_END: hourly

# ANCHOR: loans
burn-bayes data generate loans --rows 300 --output loans.csv
burn-bayes fit --data loans.csv --target rate --rare 1 --out loans
burn-bayes fit --data loans.csv --target rate --out loans-2
# ANCHOR_END: loans

# ANCHOR: patients
burn-bayes data generate patients --rows 300 --output patients.csv
burn-bayes fit --data patients.csv --target ill --out patients
burn-bayes data generate patients --rows 300 --seed 2 --output new.csv
burn-bayes evaluate patients new.csv --cost fp=1,fn=20
# ANCHOR_END: patients

# ANCHOR: sensor
burn-bayes data generate sensor --rows 300 --output sensor.csv
burn-bayes fit --data sensor.csv --target flow --out sensor
burn-bayes fit --data sensor.csv --target flow --time hour --out sensor-2
# ANCHOR_END: sensor

# ANCHOR: shop
burn-bayes data generate shop --rows 300 --output shop.csv
burn-bayes fit --data shop.csv --target price --out shop
burn-bayes fit --data corrected.csv --target price --out shop-2
# ANCHOR_END: shop
