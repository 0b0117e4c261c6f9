//! Numbers as people read them.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

/// An empty table with these columns.
pub(crate) fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(columns);
    table
}

/// A number, to the right.
pub(crate) fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// `1.5 MiB`, `17 B`.
pub(crate) fn bytes(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// `1.20 s`, `3.4 ms`, `17 µs`, `0`.
pub(crate) fn duration(duration: Duration) -> String {
    match duration.as_micros() {
        0 => "0".to_owned(),
        micros if micros < 1_000 => format!("{micros} µs"),
        micros if micros < 1_000_000 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", duration.as_secs_f64()),
    }
}

/// `2026-11-29 19:45:57.123Z`, from milliseconds since 1970.
pub(crate) fn time(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The date so many days after 1970-01-01, by counting years and months: a few hundred steps.
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // Every 400 years have equally many days, which bounds the steps for any input.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_gregorian_calendar() {
        assert_eq!(time(0), "1970-01-01 00:00:00.000Z");
        assert_eq!(time(951_782_400_000), "2000-02-29 00:00:00.000Z");
        assert_eq!(time(951_868_800_000), "2000-03-01 00:00:00.000Z");
        assert_eq!(time(1_795_981_557_123), "2026-11-29 19:45:57.123Z");
        assert_eq!(time(4_107_542_400_000), "2100-03-01 00:00:00.000Z");
        assert!(time(u64::MAX).ends_with('Z'));
    }

    #[test]
    fn durations_keep_two_digits_or_more() {
        let text = |micros| duration(Duration::from_micros(micros));
        assert_eq!(text(0), "0");
        assert_eq!(text(999), "999 µs");
        assert_eq!(text(1_250), "1.2 ms");
        assert_eq!(text(61_000_000), "61.00 s");
    }
}
