//! The time of day as a number and in the format of the log.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the epoch.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64).saturating_mul(1_000_000_000) + now.tv_nsec as u64
}

/// Writes times as RFC 3339 with nanoseconds, in UTC. Computes a date once per second.
#[derive(Debug, Default)]
pub(crate) struct Stamp {
    second: u64,
    text: [u8; 20],
}

impl Stamp {
    /// Appends the time `ns`, as in `2006-01-02T15:04:05.123456789Z`.
    pub(crate) fn write(&mut self, ns: u64, out: &mut Vec<u8>) {
        let second = ns / 1_000_000_000;
        if second != self.second || self.text[0] == 0 {
            self.second = second;
            self.text = date(second);
        }
        out.extend_from_slice(&self.text);
        let mut digits = [b'0'; 10];
        digits[9] = b'Z';
        let mut rest = ns % 1_000_000_000;
        for digit in digits[..9].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&digits);
    }
}

/// Formats seconds since the epoch as `2006-01-02T15:04:05.`.
fn date(second: u64) -> [u8; 20] {
    let (days, time) = (second / 86_400, second % 86_400);
    // The calendar in eras of 400 years that begin on the 1st of March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year + era * 400 + carry;

    let mut text = *b"0000-00-00T00:00:00.";
    let mut put = |at: usize, width: usize, mut value: u64| {
        for place in text[at..at + width].iter_mut().rev() {
            *place = b'0' + (value % 10) as u8;
            value /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(11, 2, time / 3_600);
    put(14, 2, time / 60 % 60);
    put(17, 2, time % 60);
    text
}

#[cfg(test)]
mod tests {
    use super::Stamp;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        let mut stamp = Stamp::default();
        // As `date -u -d @N +%FT%TZ` prints them.
        for (ns, expected) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400_000_000_001, "2000-02-29T00:00:00.000000001Z"),
            (1_078_012_799_999_999_999, "2004-02-28T23:59:59.999999999Z"),
            (1_735_689_599_120_000_000, "2024-12-31T23:59:59.120000000Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
        ] {
            let mut out = Vec::new();
            stamp.write(ns, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
