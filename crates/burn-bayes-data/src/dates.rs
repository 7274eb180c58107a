//! Dates and times as numbers.

use jiff::civil::{Date, DateTime, Time};
use serde::{Deserialize, Serialize};

/// What the texts of a column are: the order of year, month and day, or times without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DateOrder {
    YearMonthDay,
    DayMonthYear,
    MonthDayYear,
    TimeOfDay,
}

impl DateOrder {
    /// The order in which all texts are dates, if there are any and there is one. Where days and months could be exchanged, a
    /// date with slashes begins with the month, and others with the day.
    pub(crate) fn of(texts: &[&str]) -> Option<Self> {
        let first = texts.first()?;
        let is_order = |order: &Self| texts.iter().all(|text| order.moment(text).is_some());
        Self::in_turn(first).into_iter().find(is_order)
    }

    /// The order in which the most texts are dates, if any is one.
    pub(crate) fn of_most(texts: &[&str]) -> Option<Self> {
        let first = texts.iter().find(|text| Self::is_date(text))?;
        let is_date = |order: Self| move |text: &&&str| order.moment(text).is_some();
        let others = |order: &Self| texts.len() - texts.iter().filter(is_date(*order)).count();
        Self::in_turn(first).into_iter().min_by_key(others)
    }

    /// Whether a text is a date in any order.
    pub(crate) fn is_date(text: &str) -> bool {
        let mut orders = Self::in_turn(text).into_iter();
        orders.any(|order| order.moment(text).is_some())
    }

    /// The orders, from the most probable one of a column with this date.
    fn in_turn(date: &str) -> [Self; 4] {
        let [second, third] = match date.contains('/') {
            true => [Self::MonthDayYear, Self::DayMonthYear],
            false => [Self::DayMonthYear, Self::MonthDayYear],
        };
        [Self::YearMonthDay, second, third, Self::TimeOfDay]
    }

    /// The date of a text such as 2024-03-01, 1.3.2024, 03/01/24 3:30 PM, 1 March 2024 or 2024-03; at midnight if it has no
    /// time, the first of the month if it has no day, and the first of 1970 if it is a time of day. It is that of the clock
    /// there: what follows the time, such as +02:00, is not used.
    pub(crate) fn moment(self, text: &str) -> Option<Moment> {
        // A time begins with the number before the first colon.
        let (day, time) = match text.find(':') {
            Some(colon) => {
                let hour = text[..colon].trim_end_matches(|mark: char| mark.is_ascii_digit());
                let day = text[..hour.len()].trim_end_matches([' ', 'T', ',']);
                (day, time_of_day(&text[hour.len()..])?)
            }
            None => (text, Time::midnight()),
        };
        let day = match self {
            Self::TimeOfDay => (day.is_empty() && !text.is_empty()).then_some(START.date()),
            _ => self.numeric_day(day).or_else(|| named_day(day)),
        };
        Some(Moment(day?.to_datetime(time)))
    }

    /// The date, or the time of day, of a number of days since the beginning of 1970.
    pub(crate) fn shown(self, days: f64) -> String {
        let Some(moment) = moment_of(days) else {
            return format!("day {days}");
        };
        match self {
            Self::TimeOfDay => moment.time().to_string(),
            _ => moment.date().to_string(),
        }
    }

    /// A day of two or three numbers with one separator.
    fn numeric_day(self, text: &str) -> Option<Date> {
        let separator = text.chars().find(|mark| ['-', '.', '/'].contains(mark))?;
        let parts: Vec<&str> = text.split(separator).collect();
        let (year, month, day) = match (self, parts.as_slice()) {
            (Self::YearMonthDay, &[year, month, day])
            | (Self::DayMonthYear, &[day, month, year])
            | (Self::MonthDayYear, &[month, day, year]) => (year, month, day),
            (Self::YearMonthDay, &[year, month]) | (Self::MonthDayYear, &[month, year])
                if separator != '.' && is_likely_year(year) =>
            {
                (year, month, "1")
            }
            _ => return None,
        };
        let has_short_year = year.len() == 2 && separator == '/' && self != Self::YearMonthDay;
        match has_short_year || year.len() == 4 {
            true => date(year, number(month)?, day),
            false => None,
        }
    }
}

/// A day with the name of its month, such as 1 March 2024, Mar 1, 2024, 1-Mar-24, March 2024 or Mar-24, perhaps after that of
/// the weekday.
fn named_day(text: &str) -> Option<Date> {
    let parts = text.split(['-', '.', '/', ' ', ',']);
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    let parts = match parts.as_slice() {
        [first, rest @ ..] if place(&WEEKDAYS, first).is_some() => rest,
        all => all,
    };
    let month = |name: &str| i8::try_from(place(&MONTHS, name)? + 1).ok();
    match *parts {
        [day, name, year] if month(name).is_some() => date(year, month(name)?, day),
        [name, day, year] if year.len() == 4 => date(year, month(name)?, day),
        // 24 is a day in Mar 24.
        [name, year] if year.len() == 4 || text.contains('-') => date(year, month(name)?, "1"),
        _ => None,
    }
}

/// Which of the names this is, or the first three letters or more of.
fn place(names: &[&str], text: &str) -> Option<usize> {
    let begins = |name: &&str| {
        let beginning = name.get(..text.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(text))
    };
    names.iter().position(begins).filter(|_| text.len() >= 3)
}

/// A number of at most four digits, without a sign.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_number = text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Whether a number beside that of a month is rather a year than anything else.
fn is_likely_year(text: &str) -> bool {
    text.len() == 4 && number(text).is_some_and(|year: i16| (1800..2200).contains(&year))
}

/// The years of two digits are those from 1969 to 2068.
fn date(year: &str, month: i8, day: &str) -> Option<Date> {
    let century = match (year.len(), number(year)?) {
        (4, _) => 0,
        (2, 0..69) => 2000,
        (2, _) => 1900,
        _ => return None,
    };
    Date::new(century + number::<i16>(year)?, month, number(day)?).ok()
}

/// The time of a text such as 8:00, 10:30:05.5Z or 3:45 pm, without its zone.
fn time_of_day(text: &str) -> Option<Time> {
    let is_clock = |mark: char| mark.is_ascii_digit() || [':', '.'].contains(&mark);
    let end = text.find(|mark| !is_clock(mark)).unwrap_or(text.len());
    let (clock, rest) = text.split_at(end);
    // The hour may have one digit.
    let hour = clock.find(':')?;
    let clock: Time = format!("{clock:0>width$}", width = clock.len() + 2 - hour.min(2))
        .parse()
        .ok()?;
    let rest = rest.trim().to_ascii_lowercase();
    let hour = match (rest.as_str(), clock.hour()) {
        ("am" | "a.m.", 12) => 0,
        ("am" | "a.m.", hour @ 1..12) | ("pm" | "p.m.", hour @ 12) => hour,
        ("pm" | "p.m.", hour @ 1..12) => hour + 12,
        ("am" | "a.m." | "pm" | "p.m.", _) => return None,
        (_, hour) if is_zone(&rest) => hour,
        _ => return None,
    };
    clock.with().hour(hour).build().ok()
}

/// Whether a text in small letters is empty or a zone such as z, utc, +02:00 or -0500.
fn is_zone(text: &str) -> bool {
    let offset = text.strip_prefix(['+', '-']).map(|offset| {
        let digits = offset.replacen(':', "", 1);
        (2..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    offset.unwrap_or_else(|| ["", "z", "utc", "gmt"].contains(&text))
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

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The beginning of 1970.
const START: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const SECONDS_OF_DAY: f64 = 86_400.0;

/// The moment of a number of days since the beginning of 1970.
pub(crate) fn moment_of(days: f64) -> Option<DateTime> {
    let span = jiff::SignedDuration::from_secs((days * SECONDS_OF_DAY).round() as i64);
    START.checked_add(span).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_one_in_which_all_are_dates() {
        use DateOrder::{DayMonthYear, MonthDayYear, TimeOfDay, YearMonthDay};
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
            (&["2024-01", "1999/12"], Some(YearMonthDay)),
            (&["01/2024"], Some(MonthDayYear)),
            (&["3-1000"], None),
            (&["2024.01"], None),
            (&["31/12/99", "1/2/24"], Some(DayMonthYear)),
            (&["1-2-24"], None),
            (&["1 March 2024", "31 Dec 1999"], Some(YearMonthDay)),
            (&["Jan 2014", "Sept 2015"], Some(YearMonthDay)),
            (&["Jan 14"], None),
            (&["2 May"], None),
            (&["30 February 2024"], None),
            (&["Ma 2024"], None),
            (&["13:00", "8:05:30", "11:30 pm"], Some(TimeOfDay)),
            (&["13:00", "2024-03-01"], None),
            (&["13:00", ""], None),
            (&["25:10"], None),
            (&["2024-01-01 13:00 PM"], None),
            (&["2024-01-01 10:00 CET"], None),
            (&["2024-01-01 24:00"], None),
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
    fn texts_of_one_moment_are_equal() {
        let of = |text: &str| DateOrder::MonthDayYear.moment(text);
        let days = [
            "03/01/2024",
            "3/1/24",
            "1 March 2024",
            "Mar 1, 2024",
            "1-Mar-24",
            "Fri, 01 MAR 2024",
            "Mar-24",
            "March 2024",
            "3/2024",
        ];
        for day in days {
            assert_eq!(of(day), of("3/1/2024 0:00"), "{day}");
        }
        assert_eq!(of("1-Mar-69"), of("3/1/1969"));
        let times = [
            "3:30 PM",
            "03:30pm",
            "15:30",
            "15:30:00.000Z",
            "15:30+02:00",
            "15:30 -0500",
            "15:30 UTC",
        ];
        for time in times {
            let text = format!("3/1/2024 {time}");
            assert_eq!(of(&text), of("3/1/2024 15:30:00"), "{time}");
        }
        assert_eq!(of("3/1/2024, 12:30 a.m."), of("3/1/2024 0:30"));
        assert_eq!(of("3/1/2024 12:30 PM"), of("3/1/2024 12:30"));
        assert_eq!(
            DateOrder::YearMonthDay.moment("2024-03-01T15:30"),
            of("1 Mar 2024 15:30")
        );
    }

    #[test]
    fn a_moment_has_its_place_in_the_year_the_week_and_the_day() {
        let of = |text| DateOrder::YearMonthDay.moment(text).unwrap();
        assert_eq!(of("1970-01-02").days(), 1.0);
        assert_eq!(of("1969-12-31T12:00:00Z").days(), -0.5);
        assert_eq!(of("2024-07-01").season(), 182.0 / 366.0);
        assert_eq!(WEEKDAYS[of("2024-03-01").weekday()], "Friday");
        assert_eq!(of("2024-03-01 18:00").time(), 0.75);
        let time = DateOrder::TimeOfDay.moment("18:00").unwrap();
        assert_eq!((time.days(), time.time()), (0.75, 0.75));
        let shown = |days| DateOrder::YearMonthDay.shown(days);
        assert_eq!(shown(of("2024-03-01").days()), "2024-03-01");
        assert_eq!(shown(1e300), format!("day {}", 1e300));
        assert_eq!(DateOrder::TimeOfDay.shown(0.75), "18:00:00");
    }
}
