//! Warnings about numbers that are far from all others of their column: wrong cells, and codes such as −999 for a missing value.
//!
//! Let d₁ > d₂ > … be the distances of the different numbers from the median. The first j are far if dⱼ is more than 20 times
//! dⱼ₊₁, and such a gap is improbable: above a tail with dᵢ ~ Pareto(1/ξ), j ln(dⱼ/dⱼ₊₁) is exponential with mean ξ, and the
//! next m distances estimate ξ by Hill's mean of ln(dᵢ/dⱼ₊ₘ₊₁). The probability of a larger gap is then
//! p = (1 + j ln(dⱼ/dⱼ₊₁) / (mξ))⁻ᵐ. Log-normal tails are lighter.
//!
//! A. Rényi: On the theory of order statistics. Acta Mathematica Hungarica 4 (1953). B. M. Hill: A simple general approach to
//! inference about the tail of a distribution. Annals of Statistics 3 (1975).

use crate::suspicion::{FEWEST_ROWS, Suspicion};
use crate::table::{Column, Table, number_label};

/// How many times as far from the median far numbers are as all others, in a column with enough different ones; in one with few,
/// such as counts; and codes of nines, such as −999.
const FARTHEST: f64 = 20.0;
const FARTHEST_OF_FEW: f64 = 1e6;
const FARTHEST_OF_NINES: f64 = 3.0;
/// The probability of a gap below which numbers are far.
const IMPROBABLE: f64 = 1e-3;
/// The tail is estimated from a tenth of the different numbers, and from at least these.
const TAIL: usize = 10;
/// Wrong cells are at most these, or a hundredth of all, and at most a twentieth.
const MOST_WRONG: usize = 5;
/// A column has few codes.
const MOST_CODES: usize = 3;
/// How many cells are named.
const NAMED: usize = 3;

/// Equal numbers of a column, with their rows.
struct Equal {
    value: f64,
    distance: f64,
    rows: Vec<usize>,
}

impl Equal {
    /// Whether the number occurs more than once, as measurements far from all others do not.
    fn is_code(&self) -> bool {
        self.rows.len() > 1
    }

    /// Whether it is a code that is often written for a missing value, such as 999 or −99.
    fn is_of_nines(&self) -> bool {
        let digits = self.value.abs().to_string();
        let least = if self.value < 0.0 { 2 } else { 3 };
        digits.len() >= least && digits.bytes().all(|digit| digit == b'9')
    }
}

/// Finds numbers far away from all others.
pub(crate) fn far_cells(table: &Table, column: &Column) -> Vec<Suspicion> {
    let values = by_distance(column);
    let Some((far, times)) = far_values(&values) else {
        return Vec::new();
    };
    let (codes, wrong): (Vec<&Equal>, Vec<&Equal>) = far.iter().partition(|value| value.is_code());
    let place = |value: &Equal| table.place(value.rows[0]).column(column.name());
    let finding = |found: Vec<String>| {
        let verb = match (found.len(), far.len()) {
            (1, 1) => "is",
            (1, _) => "is at least",
            _ => "are at least",
        };
        let (found, times) = (enumerated(&found), short(times.round()));
        format!("{found} {verb} {times} times as far from the median as all others")
    };
    let of_codes = codes.first().map(|first| {
        let labels: Vec<String> = codes.iter().map(|code| number_label(code.value)).collect();
        let rows = |code: &&Equal| format!("{} in {} rows", short(code.value), code.rows.len());
        let cure = format!(
            "correct the cells, or, if it stands for a missing value, list it (`--na-values {}`)",
            labels.join(",")
        );
        Suspicion::new(
            place(first),
            finding(codes.iter().map(rows).collect()),
            cure,
        )
    });
    let of_wrong = wrong.split_first().map(|(first, others)| {
        let mut found = vec![short(first.value)];
        let named = others.iter().take(NAMED - 1);
        found.extend(
            named.map(|other| format!("{} ({})", short(other.value), place(other).row_alone())),
        );
        if wrong.len() > NAMED {
            found.push(format!("{} more", wrong.len() - NAMED));
        }
        let cure = match others.is_empty() {
            true => "correct the cell, or leave the row out",
            false => "correct the cells, or leave the rows out",
        };
        Suspicion::new(place(first), finding(found), cure.into())
    });
    of_wrong.into_iter().chain(of_codes).collect()
}

/// The words with commas, and `and` before the last one.
fn enumerated(words: &[String]) -> String {
    match words {
        [first @ .., before, last] => {
            let first: String = first.iter().map(|word| format!("{word}, ")).collect();
            format!("{first}{before} and {last}")
        }
        _ => words.concat(),
    }
}

/// A number with few digits.
fn short(value: f64) -> String {
    match (1e-6..1e12).contains(&value.abs()) || value == 0.0 {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// The different numbers of a column, from the farthest from its median; none of a column with few rows.
fn by_distance(column: &Column) -> Vec<Equal> {
    let mut cells = column.present_numbers();
    if cells.len() < FEWEST_ROWS {
        return Vec::new();
    }
    cells.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let median = cells[cells.len() / 2].1;
    let equal = cells.chunk_by(|(_, one), (_, other)| one == other);
    let mut values: Vec<Equal> = equal
        .map(|cells| Equal {
            value: cells[0].1,
            distance: (cells[0].1 - median).abs(),
            rows: cells.iter().map(|&(row, _)| row).collect(),
        })
        .collect();
    let farther = |one: &Equal, other: &Equal| other.distance.total_cmp(&one.distance);
    values.sort_by(|one, other| farther(one, other).then(one.rows[0].cmp(&other.rows[0])));
    values
}

/// The far numbers, and how many times as far as the others they are at least.
fn far_values(values: &[Equal]) -> Option<(&[Equal], f64)> {
    let rows: usize = values.iter().map(|value| value.rows.len()).sum();
    let most_wrong = MOST_WRONG.max(rows / 100).min(rows / 20);
    let (mut codes, mut wrong) = (0, 0);
    let mut far = None;
    for (last, value) in values.iter().enumerate() {
        match value.is_code() {
            true => codes += 1,
            false => wrong += 1,
        }
        if codes > MOST_CODES || wrong > most_wrong {
            break;
        }
        let (first, others) = values.split_at(last + 1);
        let Some(next) = others.first().filter(|next| next.distance > 0.0) else {
            break;
        };
        let times = value.distance / next.distance;
        let are_of_nines = first
            .iter()
            .all(|value| value.is_code() && value.is_of_nines());
        let has_few = values.len() < FEWEST_ROWS;
        let least = match (has_few, are_of_nines) {
            (true, false) => FARTHEST_OF_FEW,
            (false, true) => FARTHEST_OF_NINES,
            (true, true) | (false, false) => FARTHEST,
        };
        let is_far =
            times > least && (has_few || probability(first.len(), times, others) < IMPROBABLE);
        if times.is_finite() && is_far {
            far = Some((first, times));
        }
    }
    far
}

/// The probability p of a larger gap than `times` between the first `far` and the others.
fn probability(far: usize, times: f64, others: &[Equal]) -> f64 {
    let distances = others.iter().map(|other| other.distance);
    let distances: Vec<f64> = distances.filter(|&distance| distance > 0.0).collect();
    let count = TAIL.max(distances.len() / 10);
    let Some(end) = distances.get(count) else {
        return 1.0;
    };
    let sum: f64 = distances[..count]
        .iter()
        .map(|distance| (distance / end).ln())
        .sum();
    (1.0 + far as f64 * times.ln() / sum).powf(-(count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Generator, generator, normal, uniform};

    /// The findings in a column of these numbers.
    fn found(values: impl IntoIterator<Item = f64>) -> Vec<String> {
        let table = Table::new(vec![Column::numbers("x", values.into_iter().collect())]).unwrap();
        let found = far_cells(&table, &table.columns()[0]);
        found.iter().map(ToString::to_string).collect()
    }

    fn numbers(value: impl Fn(usize) -> f64, rows: usize) -> Vec<String> {
        found((0..rows).map(value))
    }

    #[test]
    fn a_lone_cell_is_found_and_a_heavy_tail_is_not() {
        for far in [1e9, 100.0, -30.0] {
            let lone = numbers(|row| if row == 7 { far } else { (row as f64).sin() }, 50);
            let told = [
                format!("column `x`: {far} is"),
                "row 7".into(),
                "times as far".into(),
            ];
            assert!(told.iter().all(|part| lone[0].contains(part)), "{lone:?}");
        }
        for found in [
            numbers(|row| if row == 7 { 90.0 } else { (row % 3) as f64 }, 50),
            numbers(|row| if row == 7 { 15.0 } else { (row as f64).sin() }, 50),
            numbers(|row| f64::from(u8::from(row == 7)) * 1e9 + 0.5, 50),
            numbers(|row| (row as f64 / 2.0).exp() + 0.5, 80),
        ] {
            assert_eq!(found, Vec::<String>::new());
        }
    }

    #[test]
    fn several_far_cells_are_found_together() {
        let wave = |row: usize| (row as f64).sin();
        let huge = [1e39, -1e39, 300.0];
        let huge = numbers(|row| huge.get(row).copied().unwrap_or(wave(row)), 60);
        let told =
            "1e39, -1e39 (row 1, counted from 0) and 300 (row 2, counted from 0) are at least";
        assert!(huge.len() == 1 && huge[0].contains(told), "{huge:?}");
        let slips = numbers(
            |row| [1599.0, 302.0].get(row).copied().unwrap_or(wave(row)),
            60,
        );
        let told =
            "row 0 (counted from 0), column `x`: 1599 and 302 (row 1, counted from 0) are at least";
        assert!(slips[0].contains(told), "{slips:?}");
        // A tenth of the cells is a part of the data.
        assert!(
            numbers(
                |row| if row % 10 == 0 {
                    300.0 + row as f64
                } else {
                    wave(row)
                },
                60
            )
            .is_empty()
        );
    }

    #[test]
    fn repeated_codes_are_found() {
        let wave = |row: usize| (row as f64).sin();
        for (code, least) in [
            (-999.0, 1.0),
            (9999.0, 1.0),
            (-99.0, 10.0),
            (999.0, 100.0),
            (1e6, 1000.0),
        ] {
            let found = numbers(
                |row| {
                    if row % 4 == 1 {
                        code
                    } else {
                        least * wave(row)
                    }
                },
                100,
            );
            let told = [
                format!("{code} in 25 rows is"),
                format!("(`--na-values {code}`)"),
            ];
            assert!(
                told.iter().all(|part| found[0].contains(part)),
                "{code}: {found:?}"
            );
        }
        let two = numbers(
            |row| {
                [-999.0, -888.0][..]
                    .get(row % 10)
                    .copied()
                    .unwrap_or(wave(row))
            },
            100,
        );
        assert!(two[0].contains("`--na-values -999,-888`"), "{two:?}");
        let both = numbers(
            |row| {
                if row == 7 {
                    1e9
                } else if row % 4 == 1 {
                    -999.0
                } else {
                    wave(row)
                }
            },
            100,
        );
        assert_eq!(both.len(), 2, "{both:?}");
        // Counts with a code, and without one.
        assert_eq!(
            numbers(
                |row| if row % 9 == 0 {
                    999.0
                } else {
                    (row % 7) as f64
                },
                100
            )
            .len(),
            1
        );
        for found in [
            numbers(
                |row| if row % 9 == 0 { 90.0 } else { (row % 3) as f64 },
                100,
            ),
            numbers(
                |row| {
                    if row % 9 == 0 {
                        99.0
                    } else {
                        (row % 50) as f64 + wave(row)
                    }
                },
                100,
            ),
            // Limits of what was measured.
            numbers(|row| (2.0 * wave(row)).clamp(-1.0, 1.0), 100),
            numbers(|row| f64::from(u8::from(row % 4 == 0)) * 999.0, 100),
        ] {
            assert_eq!(found, Vec::<String>::new());
        }
    }

    #[test]
    fn tails_are_named_in_few_of_a_hundred_columns() {
        let mut generator = generator(5, "tails");
        fn pareto(generator: &mut Generator) -> f64 {
            (1.0 - uniform(generator)).powf(-1.0 / 1.5)
        }
        fn student(generator: &mut Generator) -> f64 {
            let squares: f64 = (0..3).map(|_| normal(generator).powi(2)).sum();
            normal(generator) / (squares / 3.0).sqrt()
        }
        type Law = fn(&mut Generator) -> f64;
        let laws: [(&str, Law); 7] = [
            ("normal", normal),
            ("log-normal, σ = 1.5", |random| {
                (1.5 * normal(random)).exp()
            }),
            ("log-normal, σ = 2", |random| (2.0 * normal(random)).exp()),
            ("Student with 3 degrees", student),
            ("Cauchy", |random| normal(random) / normal(random)),
            ("Pareto, α = 1.5", pareto),
            ("rounded Pareto, α = 1.5", |random| pareto(random).round()),
        ];
        for (law, value) in laws {
            for rows in [100, 500, 5000] {
                let columns = 60_000 / rows;
                let named = (0..columns)
                    .filter(|_| !found((0..rows).map(|_| value(&mut generator))).is_empty());
                let share = named.count() as f64 / columns as f64;
                assert!(share < 0.01, "{law}, {rows} rows: {share}");
            }
        }
    }
}
