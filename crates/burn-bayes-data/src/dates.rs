//! Dates and times as numbers.

use jiff::civil::{Date, DateTime, Time};
use serde::{Deserialize, Serialize};

/// The order of year, month and day in the texts of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DateOrder {
    YearMonthDay,
    DayMonthYear,
    MonthDayYear,
}

impl DateOrder {
    /// The order in which all texts are dates, if there are any and there is one. Where days and months could be exchanged, a
    /// date with slashes begins with the month, and others with the day.
    pub(crate) fn of(texts: &[&str]) -> Option<Self> {
        let first = texts.first()?;
        let orders = match first.contains('/') {
            true => [Self::YearMonthDay, Self::MonthDayYear, Self::DayMonthYear],
            false => [Self::YearMonthDay, Self::DayMonthYear, Self::MonthDayYear],
        };
        let is_order = |order: &Self| texts.iter().all(|text| order.moment(text).is_some());
        orders.into_iter().find(is_order)
    }

    /// The date of a text such as 2024-03-01, 1.3.2024 or 03/01/2024 10:30, at midnight if it has no time.
    pub(crate) fn moment(self, text: &str) -> Option<Moment> {
        let (day, time) = match text.split_once(['T', ' ']) {
            Some((day, time)) => (day, time.trim().trim_end_matches('Z')),
            None => (text, "00:00"),
        };
        let separator = day.find(['-', '.', '/'])?;
        let separator = day[separator..].chars().next()?;
        let is_digits = |part: &str| {
            (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let parts: Vec<&str> = day.split(separator).collect();
        let &[first, second, third] = parts.as_slice() else {
            return None;
        };
        let (year, month, day) = match self {
            Self::YearMonthDay => (first, second, third),
            Self::DayMonthYear => (third, second, first),
            Self::MonthDayYear => (third, first, second),
        };
        if year.len() != 4 || ![year, month, day].into_iter().all(is_digits) {
            return None;
        }
        let [month, day] = [month, day].map(|part| part.parse::<i8>().ok());
        let date = Date::new(year.parse().ok()?, month?, day?).ok()?;
        // The hour may have one digit.
        let hour = time.find(':')?;
        let time: Time = format!("{time:0>width$}", width = time.len() + 2 - hour.min(2))
            .parse()
            .ok()?;
        Some(Moment(date.to_datetime(time)))
    }
}

/// A date and time of day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moment(DateTime);

impl Moment {
    /// Days since the beginning of 1970.
    pub(crate) fn days(self) -> f64 {
        self.0.duration_since(START).as_secs_f64() / SECONDS_OF_DAY
    }

    /// Which part of a year has passed.
    pub(crate) fn season(self) -> f64 {
        f64::from(self.0.day_of_year() - 1) / f64::from(self.0.days_in_year())
    }

    /// The day of the week, from Monday as 0.
    pub(crate) fn weekday(self) -> usize {
        self.0.weekday().to_monday_zero_offset() as usize
    }

    /// Which part of a day has passed.
    pub(crate) fn time(self) -> f64 {
        self.days().rem_euclid(1.0)
    }
}

/// The names of the days of a week.
pub(crate) const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// The beginning of 1970.
const START: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const SECONDS_OF_DAY: f64 = 86_400.0;

/// The moment of a number of days since the beginning of 1970.
pub(crate) fn moment_of(days: f64) -> Option<DateTime> {
    let span = jiff::SignedDuration::from_secs((days * SECONDS_OF_DAY).round() as i64);
    START.checked_add(span).ok()
}

/// The date of a number of days since the beginning of 1970.
pub(crate) fn date_of(days: f64) -> String {
    moment_of(days).map_or_else(|| format!("day {days}"), |moment| moment.date().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_one_in_which_all_are_dates() {
        use DateOrder::{DayMonthYear, MonthDayYear, YearMonthDay};
        for (texts, order) in [
            (&["2024-03-01", "1999-12-31"][..], Some(YearMonthDay)),
            (
                &["2024-03-01T10:00:00", "2024-03-01 08:30"],
                Some(YearMonthDay),
            ),
            (&["01.03.2024", "1.3.2024 8:00"], Some(DayMonthYear)),
            (&["03/01/2024", "1/2/2024"], Some(MonthDayYear)),
            (&["03/01/2024", "31/01/2024"], Some(DayMonthYear)),
            (&["03-01-2024", "03-31-2024"], Some(MonthDayYear)),
            (&["03/31/2024", "31/03/2024"], None),
            (&["2024-02-30"], None),
            (&["2024-13-01"], None),
            (&["2024-01"], None),
            (&["555-1234-99"], None),
            (&["1.2.10"], None),
            (&["a-b-c"], None),
            (&["2024-01-01 noon"], None),
            (&[""], None),
            (&[], None),
        ] {
            assert_eq!(DateOrder::of(texts), order, "{texts:?}");
        }
    }

    #[test]
    fn a_moment_has_its_place_in_the_year_the_week_and_the_day() {
        let of = |text| DateOrder::YearMonthDay.moment(text).unwrap();
        assert_eq!(of("1970-01-02").days(), 1.0);
        assert_eq!(of("1969-12-31T12:00:00Z").days(), -0.5);
        assert_eq!(of("2024-07-01").season(), 182.0 / 366.0);
        assert_eq!(WEEKDAYS[of("2024-03-01").weekday()], "Friday");
        assert_eq!(of("2024-03-01 18:00").time(), 0.75);
        assert_eq!(date_of(of("2024-03-01").days()), "2024-03-01");
        assert_eq!(date_of(1e300), format!("day {}", 1e300));
    }
}
