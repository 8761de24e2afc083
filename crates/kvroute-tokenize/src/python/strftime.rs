//! `strftime_now`, by which some templates tell the model today's date.
//!
//! Engines use the local time of their host, which hardly ever differs from UTC on a server. Around midnight
//! router and engine may still disagree for one request; the comparison of prompt lengths shows that.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const DAY: u64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
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

/// A moment in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    year: u64,
    /// From 1.
    month: u64,
    /// From 1.
    day: u64,
    /// From 1.
    day_of_year: u64,
    /// From Monday = 0.
    weekday: u64,
    second_of_day: u64,
}

/// The current time in the given format.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::at(now.as_secs()).format(format)
}

// === impl Moment ===

impl Moment {
    fn at(unix_seconds: u64) -> Self {
        let days = unix_seconds / DAY;
        let (mut year, mut rest) = (1970, days);
        while rest >= days_of_year(year) {
            rest -= days_of_year(year);
            year += 1;
        }
        let day_of_year = rest + 1;
        let mut month = 1;
        while rest >= days_of_month(year, month) {
            rest -= days_of_month(year, month);
            month += 1;
        }
        // The first day of the epoch was a Thursday.
        let weekday = (days + 3) % 7;
        Self { year, month, day: rest + 1, day_of_year, weekday, second_of_day: unix_seconds % DAY }
    }

    fn format(self, format: &str) -> Result<String, Error> {
        let mut text = String::with_capacity(format.len() + 16);
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                text.push(character);
                continue;
            }
            let mut directive = characters.next();
            // glibc's flag for a number without leading zero.
            let is_bare = directive == Some('-');
            if is_bare {
                directive = characters.next();
            }
            let field = directive.and_then(|letter| self.field(letter)).ok_or_else(|| unknown(format))?;
            text.push_str(if is_bare { without_zeros(&field) } else { &field });
        }
        Ok(text)
    }

    fn field(self, directive: char) -> Option<String> {
        let hour = self.second_of_day / 3600;
        let minute = self.second_of_day / 60 % 60;
        let second = self.second_of_day % 60;
        let month_name = MONTHS[self.month as usize - 1];
        let weekday_name = WEEKDAYS[self.weekday as usize];
        Some(match directive {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year % 100),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'j' => format!("{:03}", self.day_of_year),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'A' => weekday_name.to_owned(),
            'a' => weekday_name[..3].to_owned(),
            'H' => format!("{hour:02}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'F' => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'Z' => "UTC".to_owned(),
            'z' => "+0000".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

fn without_zeros(field: &str) -> &str {
    let trimmed = field.trim_start_matches(['0', ' ']);
    if trimmed.is_empty() { "0" } else { trimmed }
}

fn unknown(format: &str) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("strftime_now does not know every directive of {format:?}"),
    )
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs made by CPython with `datetime.fromtimestamp(…, UTC).strftime(…)`.
    #[test]
    fn moments_are_written_as_python_writes_them() {
        let full = "%A %a %d %B %b %Y %y %m %j %H:%M:%S %I %p %F %T %% %-d %-m %e";
        for (seconds, expected) in [
            (0, "Thursday Thu 01 January Jan 1970 70 01 001 00:00:00 12 AM 1970-01-01 00:00:00 % 1 1  1"),
            (
                951_782_399,
                "Monday Mon 28 February Feb 2000 00 02 059 23:59:59 11 PM 2000-02-28 23:59:59 % 28 2 28",
            ),
            (
                951_782_400,
                "Tuesday Tue 29 February Feb 2000 00 02 060 00:00:00 12 AM 2000-02-29 00:00:00 % 29 2 29",
            ),
            (
                1_735_646_400,
                "Tuesday Tue 31 December Dec 2024 24 12 366 12:00:00 12 PM 2024-12-31 12:00:00 % 31 12 31",
            ),
            (
                4_102_444_800,
                "Friday Fri 01 January Jan 2100 00 01 001 00:00:00 12 AM 2100-01-01 00:00:00 % 1 1  1",
            ),
        ] {
            assert_eq!(Moment::at(seconds).format(full).unwrap(), expected);
        }
    }

    #[test]
    fn unknown_directives_are_refused_rather_than_guessed() {
        for format in ["%Q", "100%", "%-"] {
            let error = Moment::at(0).format(format).unwrap_err().to_string();
            assert!(error.contains("does not know"), "{error}");
        }
    }
}
