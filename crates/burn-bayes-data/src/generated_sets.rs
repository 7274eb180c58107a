//! Generated tables by name, for examples without a download.

use crate::error::{DataError, shown};
use crate::generators::{gap_regression, two_moons};
use crate::patients::patients;
use crate::table::{Column, Table};
use crate::traps::{claims, clinic, countries, grades, hourly, loans, sensor, shop};

/// Standard deviation of the noise in `gap` and `two-moons`.
const NOISE: f64 = 0.1;

/// A generated data set.
#[derive(Debug)]
pub struct GeneratedSet {
    /// The name.
    pub name: &'static str,
    /// A description.
    pub about: &'static str,
    /// The column to predict.
    pub target: &'static str,
    table: fn(usize, u64) -> Result<Table, DataError>,
}

/// All generated data sets, sorted by name.
pub const GENERATED_SETS: &[GeneratedSet] = &[
    GeneratedSet {
        name: "claims",
        about: "Claims of car owners, and what was paid with tax, regression",
        target: "amount",
        table: claims,
    },
    GeneratedSet {
        name: "clinic",
        about: "Patients of whom some have a laboratory value, 2 classes of which one is rare",
        target: "sepsis",
        table: clinic,
    },
    GeneratedSet {
        name: "countries",
        about: "Countries in fifteen years each, regression",
        target: "life",
        table: countries,
    },
    GeneratedSet {
        name: "gap",
        about: "Noisy curve with a gap in the inputs, regression",
        target: "y",
        table: gap,
    },
    GeneratedSet {
        name: "grades",
        about: "Grades from A to F, 6 ordered classes",
        target: "grade",
        table: grades,
    },
    GeneratedSet {
        name: "hourly",
        about: "Rides of every hour with a trend, counts",
        target: "rides",
        table: hourly,
    },
    GeneratedSet {
        name: "loans",
        about: "Loans with amounts and shares as text, regression",
        target: "rate",
        table: loans,
    },
    GeneratedSet {
        name: "patients",
        about: "Invented patients with missing values, 2 classes",
        target: "ill",
        table: patients,
    },
    GeneratedSet {
        name: "sensor",
        about: "Readings of a sensor that drifts, regression",
        target: "flow",
        table: sensor,
    },
    GeneratedSet {
        name: "shop",
        about: "Products with slips of the pen, regression",
        target: "price",
        table: shop,
    },
    GeneratedSet {
        name: "two-moons",
        about: "Points on two half circles, 2 classes",
        target: "moon",
        table: moons,
    },
];

/// More would fill the memory.
const MOST_ROWS: usize = 10_000_000;

impl GeneratedSet {
    /// The data set with this name.
    ///
    /// # Errors
    /// If there is none; the message lists all names.
    pub fn find(name: &str) -> Result<&'static Self, DataError> {
        let found = GENERATED_SETS.iter().find(|set| set.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = GENERATED_SETS.iter().map(|set| set.name).collect();
            DataError::config("set", shown(name), format!("one of {}", names.join(", ")))
        })
    }

    /// Generates rows; equal seeds give equal rows on every machine.
    ///
    /// ```
    /// let curve = burn_bayes_data::GeneratedSet::find("gap")?.table(50, 1)?;
    /// assert_eq!(curve.rows(), 50);
    /// # Ok::<(), burn_bayes_data::DataError>(())
    /// ```
    ///
    /// # Errors
    /// If there are no rows, or too many for the memory.
    pub fn table(&self, rows: usize, seed: u64) -> Result<Table, DataError> {
        if rows > MOST_ROWS {
            let expected = format_args!("at most {MOST_ROWS}");
            return Err(DataError::config("rows", rows, expected));
        }
        (self.table)(rows, seed)
    }
}

/// [`gap_regression`] as a table.
fn gap(rows: usize, seed: u64) -> Result<Table, DataError> {
    let data = gap_regression(rows, NOISE, seed)?;
    let targets = data.targets().as_real().unwrap_or_default();
    Table::new(vec![
        Column::numbers("x", data.features().values().to_vec()),
        Column::numbers("y", targets.to_vec()),
    ])
}

/// [`two_moons`] as a table.
fn moons(rows: usize, seed: u64) -> Result<Table, DataError> {
    let data = &two_moons(rows, NOISE, seed)?;
    let coordinate = |column: usize| (0..rows).map(move |row| data.features().row(row)[column]);
    let classes = data.targets().as_classes().unwrap_or_default();
    let names = classes.iter().map(|&class| Some(["upper", "lower"][class]));
    Table::new(vec![
        Column::numbers("x", coordinate(0).collect()),
        Column::numbers("y", coordinate(1).collect()),
        Column::categories("moon", names),
    ])
}
