//! Decimal numbers that add up exactly, in whatever order they come.
//!
//! Several readers work at once, so the order of a key's rows is not always the same; a sum of
//! floating-point numbers would not be either.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// `units / 10^scale`. Text in every format, as in the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decimal {
    units: i128,
    scale: u32,
}

impl Decimal {
    /// The sum, with as many digits after the point as the longer of both; `None` if it is too long.
    pub(crate) fn checked_add(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let units = self.units_at(scale)?.checked_add(other.units_at(scale)?)?;
        Some(Self { units, scale })
    }

    fn units_at(self, scale: u32) -> Option<i128> {
        let factor = 10_i128.checked_pow(scale - self.scale)?;
        self.units.checked_mul(factor)
    }
}

impl FromStr for Decimal {
    type Err = String;

    /// Digits, with a sign and a point if need be. `NA` and nothing are 0.
    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        if matches!(trimmed, "" | "NA") {
            return Ok(Self::default());
        }
        let refused = || format!("{text:?} is no number; write -12.50, or NA or nothing for 0");
        let (is_negative, digits) = match trimmed.as_bytes()[0] {
            b'-' => (true, &trimmed[1..]),
            b'+' => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let all = [whole, part].concat();
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refused());
        }
        let units: i128 = all
            .parse()
            .map_err(|_| format!("{text:?} is too long: up to 38 digits can be added"))?;
        Ok(Self {
            units: if is_negative { -units } else { units },
            // As many digits as fit in an i128.
            scale: u32::try_from(part.len()).map_err(|_| refused())?,
        })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = self.scale as usize;
        let digits = format!("{:0>width$}", self.units.unsigned_abs(), width = scale + 1);
        let (whole, part) = digits.split_at(digits.len() - scale);
        let point = if part.is_empty() { "" } else { "." };
        f.pad_integral(self.units >= 0, "", &format!("{whole}{point}{part}"))
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    fn sum(of: &[&str]) -> String {
        let numbers = of.iter().map(|text| text.parse::<Decimal>().unwrap());
        let sum = numbers.fold(Decimal::default(), |sum, number| {
            sum.checked_add(number).unwrap()
        });
        sum.to_string()
    }

    #[test]
    fn a_sum_is_exact_and_as_fine_as_its_finest_part() {
        assert_eq!(sum(&["0.1", "0.2"]), "0.3");
        assert_eq!(sum(&["1", "-0.25", "2.5"]), "3.25");
        assert_eq!(sum(&["-0.5", "0.25"]), "-0.25");
        assert_eq!(sum(&["1.50", "-1.5"]), "0.00");
        assert_eq!(sum(&[" 7 ", "+1.", ".5"]), "8.5");
    }

    #[test]
    fn what_is_missing_is_zero() {
        assert_eq!(sum(&["NA", "", " "]), "0");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["x", "-", ".", "1,5", "1e5", "1.2.3", "--1", "٣", "nan"] {
            let error = text.parse::<Decimal>().unwrap_err();
            assert!(error.contains("is no number"), "{error}");
        }
        let long = "9".repeat(39);
        assert!(long.parse::<Decimal>().unwrap_err().contains("too long"));
    }

    #[test]
    fn a_sum_that_is_too_long_is_noticed() {
        let large: Decimal = i128::MAX.to_string().parse().unwrap();
        assert_eq!(large.checked_add("1".parse().unwrap()), None);
        assert_eq!(large.checked_add("0.1".parse().unwrap()), None);
    }
}
