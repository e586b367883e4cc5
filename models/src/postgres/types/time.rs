//! Moments and spans of time. The time zone is UTC throughout.

use crate::postgres::error::{PgError, Result};

/// From 1970 to 2000, in microseconds.
pub const EPOCH_2000: i64 = 946_684_800 * SECOND;
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A span as the server keeps it: months and days apart, as neither has a fixed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

impl Interval {
    /// For comparing: a month counts as 30 days, as in the server.
    fn span(&self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(DAY) + i128::from(self.micros)
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Interval) -> std::cmp::Ordering {
        self.span().cmp(&other.span())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Interval) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// `at` plus an interval; months go by the calendar, and the day is cut to the month's length.
pub fn add(at: i64, interval: Interval) -> Option<i64> {
    let (mut day, time) = (at.div_euclid(DAY), at.rem_euclid(DAY));
    if interval.months != 0 {
        let (year, month, dom) = civil(day);
        let months = year * 12 + (month - 1) + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let next = if month == 12 { days(year + 1, 1, 1) } else { days(year, month + 1, 1) };
        let length = next - days(year, month, 1);
        day = days(year, month, dom.min(length));
    }
    day = day.checked_add(i64::from(interval.days))?;
    day.checked_mul(DAY)?.checked_add(time)?.checked_add(interval.micros)
}

/// Days from 2000-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 730_425
}

/// Year, month and day of a number of days since 2000-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 730_425;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let m = (5 * of_year + 2) / 153;
    let day = of_year - (153 * m + 2) / 5 + 1;
    let month = if m < 10 { m + 3 } else { m - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn fraction(micros: i64) -> String {
    match micros {
        0 => String::new(),
        _ => format!(".{micros:06}").trim_end_matches('0').to_owned(),
    }
}

/// `2026-01-02 03:04:05.6+00`
pub(super) fn timestamptz_to_text(at: i64) -> String {
    let (year, month, day) = civil(at.div_euclid(DAY));
    let time = at.rem_euclid(DAY);
    let (seconds, micros) = (time / SECOND, fraction(time % SECOND));
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}{micros}+00")
}

/// ISO 8601, with `T` or a space, and an offset if it is not UTC.
pub(super) fn timestamptz_from_text(text: &str) -> Result<i64> {
    let invalid = || {
        let message = format!("invalid input syntax for type timestamp with time zone: \"{text}\"");
        PgError::new("22007", message)
    };
    let read = || -> Option<i64> {
        let text = text.trim();
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
        let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        let time = time.strip_suffix('Z').unwrap_or(time);
        let (time, offset) = match time.rfind(['+', '-']) {
            Some(at) => (&time[..at], clock(&time[at + 1..])? * sign(&time[at..])),
            None => (time, 0),
        };
        let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
        let at = days(year, month, day);
        (valid && civil(at) == (year, month, day)).then_some(())?;
        Some(at * DAY + clock(time.trim_end())? - offset)
    };
    read().ok_or_else(invalid)
}

fn sign(text: &str) -> i64 {
    if text.starts_with('-') { -1 } else { 1 }
}

/// `hh`, `hh:mm` or `hh:mm:ss.ffffff`, in microseconds.
fn clock(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let whole = |part: Option<&str>| part.map_or(Some(0), |part| part.parse::<i64>().ok());
    let (hours, minutes) = (whole(parts.next())?, whole(parts.next())?);
    let seconds = match parts.next() {
        None => 0,
        Some(part) => micros(part)?,
    };
    let valid = parts.next().is_none() && (0..60).contains(&minutes) && hours >= 0;
    valid.then_some((hours * 3600 + minutes * 60) * SECOND + seconds)
}

/// A decimal number of units, in millionths.
fn micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit()) && fraction.len() <= 6;
    let fraction: i64 = format!("{fraction:0<6}").parse().ok().filter(|_| digits)?;
    let (negative, whole) = match whole.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, whole),
    };
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let all = whole.checked_mul(SECOND)?.checked_add(fraction)?;
    Some(if negative { -all } else { all })
}

/// `1 year 2 mons 3 days 04:05:06.7`, the server's default style.
pub(super) fn interval_to_text(interval: Interval) -> String {
    let mut parts = Vec::new();
    let mut part = |n: i32, one: &str| {
        if n != 0 {
            parts.push(format!("{n} {one}{}", if n == 1 { "" } else { "s" }));
        }
    };
    part(interval.months / 12, "year");
    part(interval.months % 12, "mon");
    part(interval.days, "day");
    if interval.micros != 0 || parts.is_empty() {
        let (sign, all) = match interval.micros {
            n if n < 0 => ("-", -n),
            n => ("", n),
        };
        let (seconds, rest) = (all / SECOND, fraction(all % SECOND));
        let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        parts.push(format!("{sign}{h:02}:{m:02}:{s:02}{rest}"));
    }
    parts.join(" ")
}

/// `30 seconds`, `1 day 02:00:00`, `-1.5 hours`.
pub(super) fn interval_from_text(text: &str) -> Result<Interval> {
    let invalid =
        || PgError::new("22007", format!("invalid input syntax for type interval: \"{text}\""));
    let read = || -> Option<Interval> {
        let mut interval = Interval::default();
        let mut words = text.split_ascii_whitespace().peekable();
        words.peek()?;
        while let Some(word) = words.next() {
            if word.contains(':') {
                let (sign, word) = match word.strip_prefix('-') {
                    Some(rest) => (-1, rest),
                    None => (1, word),
                };
                interval.micros += sign * clock(word)?;
                continue;
            }
            let millionths = micros(word)?;
            let unit = words.next().unwrap_or("seconds");
            add_units(&mut interval, millionths, &unit.to_ascii_lowercase())?;
        }
        Some(interval)
    };
    read().ok_or_else(invalid)
}

fn add_units(interval: &mut Interval, millionths: i64, unit: &str) -> Option<()> {
    let whole = || (millionths % SECOND == 0).then(|| i32::try_from(millionths / SECOND).ok());
    let scaled = |by: i64| millionths.checked_mul(by);
    match unit.strip_suffix('s').filter(|unit| unit.len() > 1).unwrap_or(unit) {
        "year" | "y" => interval.months += whole()?? * 12,
        "month" | "mon" => interval.months += whole()??,
        "week" | "w" => interval.days += whole()?? * 7,
        "day" | "d" => interval.days += whole()??,
        "hour" | "hr" | "h" => interval.micros += scaled(3600)?,
        "minute" | "min" | "m" => interval.micros += scaled(60)?,
        "second" | "sec" | "s" => interval.micros += millionths,
        "millisecond" | "msec" | "ms" => interval.micros += millionths / 1_000,
        "microsecond" | "usec" | "us" => interval.micros += millionths / SECOND,
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked with PostgreSQL 15 in time zone UTC.
    #[test]
    fn moments_and_spans_read_and_show_as_the_server_has_them() {
        for (text, shown) in [
            ("2026-01-02 03:04:05.6+00", "2026-01-02 03:04:05.6+00"),
            ("1999-12-31T23:59:59Z", "1999-12-31 23:59:59+00"),
            ("2024-02-29 12:00:00+02:30", "2024-02-29 09:30:00+00"),
        ] {
            assert_eq!(timestamptz_to_text(timestamptz_from_text(text).unwrap()), shown);
        }
        assert!(timestamptz_from_text("2023-02-29").is_err());
        for (text, shown) in [
            ("30 seconds", "00:00:30"),
            ("1 day 02:00:00", "1 day 02:00:00"),
            ("1.5 hours", "01:30:00"),
            ("-90 min", "-01:30:00"),
            ("14 mons", "1 year 2 mons"),
            ("0", "00:00:00"),
        ] {
            assert_eq!(interval_to_text(interval_from_text(text).unwrap()), shown);
        }
    }

    #[test]
    fn a_month_goes_by_the_calendar() {
        let january = timestamptz_from_text("2026-01-31 00:00:00+00").unwrap();
        let month = Interval { months: 1, ..Interval::default() };
        let added = add(january, month).unwrap();
        assert_eq!(timestamptz_to_text(added), "2026-02-28 00:00:00+00");
    }
}
