//! Quantities in the format of Kubernetes.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use thiserror::Error;

const NANO: i128 = 1_000_000_000;

/// A quantity such as `500m`, `1.5Gi` or `2e3`, exact to a billionth. As in Kubernetes, it is formatted as it was
/// written, and compared by its value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nano: i128,
    form: Form,
}

/// The suffixes of a quantity.
#[derive(Debug, Clone, Copy, Default)]
enum Form {
    /// `m`, `k`, `M` …
    #[default]
    Decimal,
    /// `Ki`, `Mi` …
    Binary,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid quantity {text:?}: {why}; write a number with an optional suffix, such as 500m or \
     1.5Gi"
)]
pub struct QuantityError {
    text: String,
    why: &'static str,
}

impl Quantity {
    /// Creates a quantity from whole units: bytes, cores.
    pub fn from_units(units: i64) -> Self {
        Self {
            nano: i128::from(units) * NANO,
            form: Form::Decimal,
        }
    }

    /// Creates a quantity from bytes, formatted with suffixes such as `Mi`.
    pub fn from_bytes(bytes: i64) -> Self {
        Self {
            form: Form::Binary,
            ..Self::from_units(bytes)
        }
    }

    /// Creates a quantity from thousandths.
    pub fn from_milli(milli: i64) -> Self {
        Self {
            nano: i128::from(milli) * (NANO / 1000),
            form: Form::Decimal,
        }
    }

    /// Returns whole units, rounded up.
    pub fn units(self) -> i64 {
        self.in_parts_of(NANO)
    }

    /// Returns whole units, rounded up; `None` if negative or too large.
    pub fn count(self) -> Option<u64> {
        let up = self.nano.div_euclid(NANO) + i128::from(self.nano.rem_euclid(NANO) != 0);
        u64::try_from(up).ok().filter(|_| self.nano >= 0)
    }

    /// Returns thousandths, rounded up.
    pub fn milli(self) -> i64 {
        self.in_parts_of(NANO / 1000)
    }

    /// Returns whether the quantity is zero.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Returns the sum, limited to the largest quantity.
    pub fn plus(self, other: Self) -> Self {
        Self {
            nano: self.nano.saturating_add(other.nano),
            form: if self.is_zero() {
                other.form
            } else {
                self.form
            },
        }
    }

    /// Returns how many times `part` goes into it, rounded up.
    pub fn divided_up(self, part: Self) -> i64 {
        self.in_parts_of(part.nano.max(1))
    }

    /// Returns the larger of the two.
    pub fn or_more(self, other: Self) -> Self {
        self.max(other)
    }

    fn in_parts_of(self, part: i128) -> i64 {
        let up = self.nano.div_euclid(part) + i128::from(self.nano.rem_euclid(part) != 0);
        i64::try_from(up).unwrap_or(if up < 0 { i64::MIN } else { i64::MAX })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nano % NANO != 0 {
            let (part, suffix) = [(NANO / 1000, "m"), (NANO / 1_000_000, "u")]
                .into_iter()
                .find(|(part, _)| self.nano % part == 0)
                .unwrap_or((1, "n"));
            return write!(f, "{}{suffix}", self.nano / part);
        }
        let mut number = self.nano / NANO;
        let (step, suffixes) = match self.form {
            // Kubernetes has no binary format below the first suffix.
            Form::Binary if number.abs() >= 1024 => (1024, ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
            _ => (1000, ["k", "M", "G", "T", "P", "E"]),
        };
        let mut shown = "";
        for suffix in suffixes {
            if number == 0 || number % step != 0 {
                break;
            }
            number /= step;
            shown = suffix;
        }
        write!(f, "{number}{shown}")
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let fail = |why| QuantityError {
            text: text.to_owned(),
            why,
        };
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(fail("it has no digits"));
        }
        if fraction.contains('.') {
            return Err(fail("it has two decimal points"));
        }
        let digits: i128 = format!("{whole}{fraction}")
            .parse()
            .map_err(|_| fail("it is too large"))?;
        let (multiplier, exponent) = scale(suffix).ok_or_else(|| fail("its suffix is unknown"))?;
        let exponent = exponent + 9 - i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let nano = digits
            .checked_mul(multiplier)
            .and_then(|n| shift(n, exponent))
            .ok_or_else(|| fail("it is too large"))?;
        Ok(Self {
            nano: if negative { -nano } else { nano },
            form: if suffix.ends_with('i') {
                Form::Binary
            } else {
                Form::Decimal
            },
        })
    }
}

/// Returns a suffix as a factor and a power of ten.
fn scale(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            (1, exponent.parse().ok().filter(|e| (-30..=30).contains(e))?)
        }
    })
}

/// Returns `n` times ten to the `exponent`, rounded up if digits are lost.
fn shift(n: i128, exponent: i32) -> Option<i128> {
    if exponent >= 0 {
        return 10_i128
            .checked_pow(exponent.unsigned_abs())
            .and_then(|p| n.checked_mul(p));
    }
    Some(match 10_i128.checked_pow(exponent.unsigned_abs()) {
        Some(p) => n / p + i128::from(n % p != 0),
        None => i128::from(n != 0),
    })
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Int(i64),
            Float(f64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Int(units) => Ok(Self::from_units(units)),
            Written::Float(units) => units.to_string().parse().map_err(serde::de::Error::custom),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_give_the_amounts_kubernetes_gives() {
        for (text, milli, units) in [
            ("0", 0, 0),
            ("1", 1000, 1),
            ("500m", 500, 1),
            ("0.5", 500, 1),
            (".5", 500, 1),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("128Mi", 134_217_728_000, 134_217_728),
            ("2e3", 2_000_000, 2000),
            ("1k", 1_000_000, 1000),
            ("100u", 1, 1),
            ("1n", 1, 1),
            ("-1", -1000, -1),
            ("8E", i64::MAX, 8_000_000_000_000_000_000),
        ] {
            let q: Quantity = text.parse().unwrap();
            assert_eq!((q.milli(), q.units()), (milli, units), "{text}");
        }
    }

    #[test]
    fn amounts_are_shown_as_kubernetes_shows_them() {
        for (text, shown) in [
            ("64Mi", "64Mi"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("1000Ki", "1000Ki"),
            ("67108864", "67108864"),
            ("500000000", "500M"),
            ("1000Mi", "1000Mi"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("0.5", "500m"),
            ("2000m", "2"),
            ("1500m", "1500m"),
            ("2000", "2k"),
            ("100u", "100u"),
            ("1n", "1n"),
            ("0", "0"),
            ("-2Ki", "-2Ki"),
        ] {
            let q: Quantity = text.parse().unwrap();
            assert_eq!(q.to_string(), shown, "{text}");
        }
        assert_eq!(Quantity::from_bytes(64 << 20).to_string(), "64Mi");
        let same: Quantity = "65536Ki".parse().unwrap();
        assert_eq!(Quantity::from_units(64 << 20), same);
    }

    #[test]
    fn a_count_is_never_negative_nor_cut() {
        for (text, count) in [
            ("1.5k", Some(1500)),
            ("1m", Some(1)),
            ("18446744073709551615", Some(u64::MAX)),
            ("16Ei", None),
            ("-1m", None),
        ] {
            let q: Quantity = text.parse().unwrap();
            assert_eq!(q.count(), count, "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "m", "1 Gi", "1.2.3", "1gi", "0x10", "--1", "1e99", "1e"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_and_texts_mean_the_same() {
        for (json, text) in [("1", "1"), ("0.25", "250m"), ("\"250m\"", "250m")] {
            let q: Quantity = serde_json::from_str(json).unwrap();
            assert_eq!(q, text.parse().unwrap(), "{json}");
        }
    }
}
