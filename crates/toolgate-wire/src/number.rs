//! Numbers compared by value: `5`, `5.0` and `50e-1` are equal.

/// The value of a number, in a form that is equal if the values are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Number {
    Integer(i128),
    /// Fractions and numbers that do not fit: sign, digits without zeros at either end, exponent.
    Other(Box<str>),
}

impl Number {
    /// The value of a valid JSON number.
    pub(crate) fn of(spelling: &[u8]) -> Self {
        let spelling = std::str::from_utf8(spelling).unwrap_or_default();
        match spelling.parse() {
            Ok(integer) => Self::Integer(integer),
            Err(_) => Self::normalized(spelling),
        }
    }

    fn normalized(spelling: &str) -> Self {
        let (mantissa, exponent) = spelling.split_once(['e', 'E']).unwrap_or((spelling, "0"));
        let (sign, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        let significant = digits.trim_end_matches('0');
        let exponent = exponent_of(exponent, fraction.len(), digits.len() - significant.len());
        let significant = significant.trim_start_matches('0');
        if significant.is_empty() {
            return Self::Integer(0);
        }
        // The exponent does not fit an i64. Two such numbers count as equal only if they are spelt the same.
        let Some(exponent) = exponent else {
            return Self::Other(spelling.into());
        };
        match integer(sign, significant, exponent) {
            Some(value) => Self::Integer(value),
            None => Self::Other(format!("{sign}{significant}e{exponent}").into()),
        }
    }
}

/// The exponent if the point is placed after the last digit that is not zero.
fn exponent_of(spelled: &str, fraction_digits: usize, trailing_zeros: usize) -> Option<i64> {
    let spelled: i64 = spelled.parse().ok()?;
    spelled
        .checked_sub_unsigned(u64::try_from(fraction_digits).ok()?)?
        .checked_add_unsigned(u64::try_from(trailing_zeros).ok()?)
}

fn integer(sign: &str, digits: &str, exponent: i64) -> Option<i128> {
    let scale = 10_i128.checked_pow(u32::try_from(exponent).ok()?)?;
    let digits: i128 = [sign, digits].concat().parse().ok()?;
    digits.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spelling: &str) -> Number {
        Number::of(spelling.as_bytes())
    }

    #[test]
    fn integers_are_equal_however_they_are_written() {
        for spelling in ["5", "5.0", "5.000", "5e0", "50e-1", "0.5E+1", "0.05e2", "500.0e-2"] {
            assert_eq!(of(spelling), Number::Integer(5), "{spelling}");
        }
        for zero in ["0", "-0", "0.0", "-0e5", "0e99999999999999999999", "0.000e-7"] {
            assert_eq!(of(zero), Number::Integer(0), "{zero}");
        }
        assert_eq!(of("-1e3"), Number::Integer(-1000));
        assert_eq!(of("1e38"), Number::Integer(10_i128.pow(38)));
    }

    #[test]
    fn other_numbers_are_equal_by_value() {
        assert_eq!(of("0.10"), of("1e-1"));
        assert_eq!(of("1e400"), of("10.0e399"));
        assert_eq!(of("-1.50"), of("-15e-1"));
        assert_ne!(of("1.5"), of("-1.5"));
        assert_ne!(of("1e400"), of("1e401"));
        assert_ne!(of("1e99999999999999999999"), of("1e99999999999999999998"));
        let big = "170141183460469231731687303715884105728"; // i128::MAX + 1
        assert_eq!(of(big), of(&format!("{big}.0")));
        assert_eq!(of("-170141183460469231731687303715884105728"), Number::Integer(i128::MIN));
    }
}
