//! Tables of invented things, each with a trap of tables as people keep them; the book's chapter "Ten tables, ten traps" walks
//! into all of them. The first rows of a table do not depend on the number of rows.

use std::f64::consts::TAU;

use crate::dates::moment_of;
use crate::error::DataError;
use crate::generated_rows::{generated, rounded};
use crate::random::{Generator, generator, normal, uniform};
use crate::table::Table;

/// Claims of car owners. `invoice` is the target with a tax: it is known only when the target is.
pub(crate) fn claims(rows: usize, seed: u64) -> Result<Table, DataError> {
    let names = ["age", "region", "value", "speed", "invoice", "amount"];
    generated(names, rows, generator(seed, "claims"), |_, generator| {
        let age = between(18.0, 80.0, generator).floor();
        let value = rounded(exp(9.5 + 0.4 * normal(generator)), 0);
        let speed = between(10.0, 120.0, generator).floor();
        let region = of(["north", "south", "coast"], generator);
        let shift = if region == "coast" { 0.3 } else { 0.0 };
        let amount = exp(4.5 + 0.25 * log(value) + 0.015 * speed + shift + 0.3 * normal(generator));
        let amount = rounded(amount, 2);
        [
            age.into(),
            region.into(),
            value.into(),
            speed.into(),
            rounded(1.19 * amount, 2).into(),
            amount.into(),
        ]
    })
}

/// Patients of a clinic, of whom one in twelve has a sepsis. Lactate is measured of those who look ill.
pub(crate) fn clinic(rows: usize, seed: u64) -> Result<Table, DataError> {
    let names = ["age", "pulse", "pressure", "lactate", "ward", "sepsis"];
    generated(names, rows, generator(seed, "clinic"), |_, generator| {
        let has_sepsis = uniform(generator) < 1.0 / 12.0;
        let illness = f64::from(u8::from(has_sepsis));
        let is_measured = uniform(generator) < 0.25 + 0.6 * illness;
        let lactate = rounded(exp(0.3 + 0.6 * illness + 0.4 * normal(generator)), 1);
        [
            between(18.0, 95.0, generator).floor().into(),
            (82.0 + 14.0 * illness + 13.0 * normal(generator))
                .round()
                .into(),
            (125.0 - 12.0 * illness + 16.0 * normal(generator))
                .round()
                .into(),
            is_measured.then_some(lactate).into(),
            of(["surgery", "medicine", "emergency"], generator).into(),
            if has_sepsis { "yes" } else { "no" }.into(),
        ]
    })
}

/// Countries in fifteen years each. What they differ in is hardly among the features.
pub(crate) fn countries(rows: usize, seed: u64) -> Result<Table, DataError> {
    const YEARS: usize = 15;
    let names = ["country", "year", "income", "doctors", "life"];
    let (mut income, mut shift) = (0.0, 0.0);
    let draw = generator(seed, "countries");
    generated(names, rows, draw, |row, generator| {
        let (country, year) = (row / YEARS, row % YEARS);
        if year == 0 {
            (income, shift) = (9.0 + 0.9 * normal(generator), 3.0 * normal(generator));
        }
        let income = income + 0.02 * year as f64 + 0.05 * normal(generator);
        let doctors = (0.9 * income - 6.0 + 0.5 * normal(generator)).max(0.1);
        let life = 70.0 + 2.5 * (income - 9.0) + shift + 0.15 * year as f64;
        [
            format!("country {}", country + 1).into(),
            (2005.0 + year as f64).into(),
            rounded(exp(income), 0).into(),
            rounded(doctors, 1).into(),
            rounded(life + 0.4 * normal(generator), 1).into(),
        ]
    })
}

/// Grades from A to F, which are a rounded number.
pub(crate) fn grades(rows: usize, seed: u64) -> Result<Table, DataError> {
    let names = ["hours", "attended", "slept", "course", "grade"];
    generated(names, rows, generator(seed, "grades"), |_, generator| {
        let hours = rounded(between(0.0, 30.0, generator), 1);
        let attended = between(0.3, 1.0, generator);
        let slept = rounded(7.0 + normal(generator), 1);
        let course = of(["algebra", "history", "physics"], generator);
        let shift = if course == "physics" { 0.6 } else { 0.0 };
        let grade = 4.2 - 0.12 * hours - 2.0 * (attended - 0.65) + shift - 0.2 * (slept - 7.0)
            + 0.7 * normal(generator);
        let grade = ["A", "B", "C", "D", "E", "F"][grade.round().clamp(0.0, 5.0) as usize];
        let attended = format!("{:.0} %", 100.0 * attended);
        [
            hours.into(),
            attended.into(),
            slept.into(),
            course.into(),
            grade.into(),
        ]
    })
}

/// Rides of every hour, with a day's course and more from week to week.
pub(crate) fn hourly(rows: usize, seed: u64) -> Result<Table, DataError> {
    /// The first of March 2024.
    const FIRST_DAY: f64 = 19_783.0;
    let names = ["time", "temperature", "rides"];
    generated(names, rows, generator(seed, "hourly"), |row, generator| {
        let hours = row as f64;
        let season = 8.0 + 6.0 * libm::sin(TAU * (hours % 24.0 - 9.0) / 24.0);
        let temperature = rounded(season + 2.0 * normal(generator), 1);
        let course = 0.9 * libm::cos(TAU * (hours - 17.0) / 24.0);
        let rate = exp(2.6 + 0.0025 * hours + course + 0.02 * temperature);
        [
            moment_of(FIRST_DAY + hours / 24.0)
                .map(|moment| moment.strftime("%Y-%m-%d %H:%M").to_string())
                .into(),
            temperature.into(),
            poisson(rate, generator).into(),
        ]
    })
}

/// Loans with amounts and shares as text, employers that differ, and purposes of which some are rare.
pub(crate) fn loans(rows: usize, seed: u64) -> Result<Table, DataError> {
    let names = ["employer", "purpose", "amount", "income", "debt", "rate"];
    generated(names, rows, generator(seed, "loans"), |row, generator| {
        let common = ["car", "home", "debts", "moving"];
        let rare = ["boat", "wedding", "horse", "piano", "garden", "wine"];
        let is_rare = uniform(generator) < 0.06;
        let (of_common, of_rare) = (of(common, generator), of(rare, generator));
        let purpose = if is_rare { of_rare } else { of_common };
        let income = rounded(exp(10.8 + 0.5 * normal(generator)), 0);
        let amount = rounded(exp(9.2 + 0.7 * normal(generator)), 2);
        let debt = between(0.0, 0.5, generator);
        let shift = if is_rare { 3.0 } else { 0.0 };
        let rate =
            9.0 + 14.0 * debt + 1.5 * (log(amount) - 9.2) - 1.5 * (log(income) - 10.8) + shift;
        [
            format!("employer {}", 1 + row * 7919 % 4001).into(),
            purpose.into(),
            dollars(amount).into(),
            dollars(income).into(),
            format!("{:.1}%", 100.0 * debt).into(),
            format!("{:.2}%", (rate + normal(generator)).max(1.0)).into(),
        ]
    })
}

/// Readings of a sensor that shows more and more of what flows.
pub(crate) fn sensor(rows: usize, seed: u64) -> Result<Table, DataError> {
    let names = ["hour", "reading", "temperature", "flow"];
    generated(names, rows, generator(seed, "sensor"), |row, generator| {
        let hour = row as f64;
        let flow = 5.0 + 2.0 * libm::sin(TAU * hour / 97.0) + 0.8 * normal(generator);
        let temperature = rounded(20.0 + 4.0 * normal(generator), 1);
        let drift = 1.0 + 0.25 * (hour / 300.0).powi(2);
        let reading = drift * flow + 0.05 * (temperature - 20.0) + 0.1 * normal(generator);
        [
            hour.into(),
            rounded(reading, 2).into(),
            temperature.into(),
            rounded(flow, 2).into(),
        ]
    })
}

/// Products of a shop, of which one weighs grams instead of kilograms, and kinds with slips of the pen.
pub(crate) fn shop(rows: usize, seed: u64) -> Result<Table, DataError> {
    const GRAMS: usize = 19;
    let names = ["product", "kind", "weight", "stars", "price"];
    generated(names, rows, generator(seed, "shop"), |row, generator| {
        let kind = of(["tools", "toys", "kitchen"], generator);
        let shift = if kind == "tools" { 0.5 } else { 0.0 };
        let is_slip = uniform(generator) < 0.01;
        let weight = rounded(exp(0.5 + 0.6 * normal(generator)), 2);
        let stars = rounded(between(1.0, 5.0, generator), 1);
        let price = exp(2.5 + 0.6 * log(weight) + 0.1 * stars + shift + 0.15 * normal(generator));
        let weight = if row == GRAMS {
            1000.0 * weight
        } else {
            weight
        };
        let kind = if is_slip {
            kind[..kind.len() - 1].to_string()
        } else {
            kind.to_string()
        };
        [
            format!("no. {}", row * 37 % 10_007).into(),
            kind.into(),
            weight.into(),
            stars.into(),
            dollars(price).into(),
        ]
    })
}

fn exp(value: f64) -> f64 {
    libm::exp(value)
}

fn log(value: f64) -> f64 {
    libm::log(value)
}

fn between(low: f64, high: f64, generator: &mut Generator) -> f64 {
    low + (high - low) * uniform(generator)
}

/// One of the names, each as probable.
fn of<const N: usize>(names: [&'static str; N], generator: &mut Generator) -> &'static str {
    names[((N as f64 * uniform(generator)) as usize).min(N - 1)]
}

/// A Poisson number, from its inverse distribution function.
fn poisson(rate: f64, generator: &mut Generator) -> f64 {
    let mut left = uniform(generator);
    let (mut count, mut probability) = (0.0, exp(-rate));
    while left > probability && count < 10.0 * rate + 100.0 {
        left -= probability;
        count += 1.0;
        probability *= rate / count;
    }
    count
}

/// An amount of money, as `$1,234.50`.
fn dollars(amount: f64) -> String {
    let cents = (100.0 * amount).round() as u64;
    let (whole, cents) = (cents / 100, cents % 100);
    let digits = whole.to_string();
    let mut text = String::from("$");
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text}.{cents:02}")
}
