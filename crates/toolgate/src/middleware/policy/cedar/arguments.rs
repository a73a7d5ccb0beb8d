//! Converts a call's arguments to Cedar values. Ambiguous values are an error, and the call is denied.

use std::{borrow::Cow, collections::HashSet};

use cedar_policy::RestrictedExpression as Expression;
use toolgate_wire::{Json, Kind};

use super::inspect::Members;

/// Largest depth, as in the JSON parser's limits.
const MAX_DEPTH: usize = 128;

/// The arguments that the rules read. A call without arguments has an empty record.
pub(super) fn record(arguments: Option<&Json>, wanted: &Members) -> Result<Expression, String> {
    match arguments {
        Some(arguments) => members(arguments, wanted, MAX_DEPTH),
        None => built([]),
    }
}

fn members(json: &Json, wanted: &Members, depth: usize) -> Result<Expression, String> {
    let object = json.object().ok_or("the arguments are no object")?;
    let mut seen = HashSet::new();
    let mut fields = Vec::new();
    for (key, value) in object.iter().filter(|(key, _)| wanted.has(key)) {
        // It is unknown which of two equal keys the tool will use. This counts members that are dropped below, too.
        if !seen.insert(key.clone()) {
            return Err(format!("`{key}` occurs twice"));
        }
        if key.contains(char::REPLACEMENT_CHARACTER) {
            return Err(format!("the name `{key}` is no text"));
        }
        if let Some(field) = expression(&value, depth)? {
            fields.push((Cow::into_owned(key), field));
        }
    }
    built(fields)
}

fn built(fields: impl IntoIterator<Item = (String, Expression)>) -> Result<Expression, String> {
    Expression::new_record(fields).map_err(|fault| fault.to_string())
}

/// One value; `None` for `null`, which Cedar does not have.
fn expression(json: &Json, depth: usize) -> Result<Option<Expression>, String> {
    let deeper = || depth.checked_sub(1).ok_or("the arguments are nested too deeply");
    Ok(Some(match json.kind() {
        Kind::Null => return Ok(None),
        Kind::Bool => Expression::new_bool(json.bool().unwrap_or_default()),
        Kind::Number => number(json),
        Kind::String => {
            let text = json.text().ok_or("a string holds half of a surrogate pair")?;
            Expression::new_string(text.into_owned())
        }
        Kind::Array => {
            let depth = deeper()?;
            let elements = json.array().ok_or("an array cannot be read")?;
            let elements = elements.iter().filter_map(|json| expression(json, depth).transpose());
            Expression::new_set(elements.collect::<Result<Vec<_>, _>>()?)
        }
        Kind::Object => members(json, &Members::All, deeper()?)?,
    }))
}

/// Converts a number by its value, so that `5`, `5.0` and `50e-1` are equal: to a long if it is a whole number in
/// range, to a decimal if four decimal places are enough, otherwise to a string of digits and exponent.
fn number(json: &Json) -> Expression {
    if let Some(whole) = json.i64() {
        return Expression::new_long(whole);
    }
    let spelling = json.as_str();
    match Parts::of(spelling) {
        Some(parts) => parts.decimal().map_or_else(
            || Expression::new_string(format!("{}{}e{}", parts.sign, parts.digits, parts.exponent)),
            Expression::new_decimal,
        ),
        None => Expression::new_string(spelling.to_owned()),
    }
}

/// A number as digits without leading and trailing zeros, and a power of ten.
struct Parts<'a> {
    sign: &'a str,
    digits: String,
    exponent: i64,
}

impl<'a> Parts<'a> {
    /// `None` if the exponent is out of range.
    fn of(spelling: &'a str) -> Option<Self> {
        let (mantissa, exponent) = spelling.split_once(['e', 'E']).unwrap_or((spelling, "0"));
        let unsigned = mantissa.trim_start_matches('-');
        let sign = mantissa.get(..mantissa.len() - unsigned.len())?;
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all = [whole, fraction].concat();
        let cut = all.trim_end_matches('0');
        let exponent = exponent.parse::<i64>().ok()?;
        let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let exponent = exponent.checked_add(i64::try_from(all.len() - cut.len()).ok()?)?;
        Some(Self { sign, digits: cut.trim_start_matches('0').to_owned(), exponent })
    }

    /// As Cedar writes decimals: at most four decimal places, within the range of an `i64`.
    fn decimal(&self) -> Option<String> {
        const PLACES: i64 = 4;
        let scale = u32::try_from(self.exponent.checked_add(PLACES)?).ok()?;
        let digits: i128 = self.digits.parse().ok()?;
        let scaled = digits.checked_mul(10_i128.checked_pow(scale)?)?;
        i64::try_from(if self.sign.is_empty() { scaled } else { -scaled }).ok()?;
        Some(format!("{}{}.{:04}", self.sign, scaled / 10_000, scaled % 10_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    fn converted(text: &str) -> String {
        let text = format!("{{\"x\":{text}}}");
        let context = [("a".to_owned(), record(Some(&json(text)), &Members::All).unwrap())];
        let context = cedar_policy::Context::from_pairs(context).unwrap();
        format!("{:?}", context.get("a").unwrap())
    }

    fn fault(text: &str) -> String {
        record(Some(&json(text)), &Members::All).unwrap_err()
    }

    #[test]
    fn numbers_are_told_by_value() {
        for (spellings, expected) in [
            (&["5", "5.0", "50e-1"][..], "Long(5)"),
            (&["-0", "0.0"], "Long(0)"),
            (&["9223372036854775807", "-9223372036854775808"], "Long("),
            (&["1.5", "15e-1", "0.150E+1", "1.50000"], "1.5"),
            (&["-0.0001", "-1e-4"], "-0.0001"),
            (&["922337203685477.5807"], "922337203685477.5807"),
            (&["922337203685477.5808", "9223372036854775808e-4"], "9223372036854775808e-4"),
            (&["0.00001", "1e-5", "0.10e-4"], "1e-5"),
            (&["1e30", "10e29", "1000000000000000000000000000000"], "1e30"),
            (&["1e99999999999999999999"], "1e99999999999999999999"),
        ] {
            for spelling in spellings {
                let converted = converted(spelling);
                assert!(converted.contains(expected), "{spelling}: {converted}, not {expected}");
                assert_eq!(
                    converted.contains("Long"),
                    expected.contains("Long"),
                    "{spelling}: {converted}"
                );
            }
        }
    }

    #[test]
    fn nulls_are_dropped_and_lists_are_sets() {
        assert_eq!(converted("null"), "Record(Record({}))");
        assert_eq!(converted("[1,null,1]"), converted("[1]"));
        assert_eq!(converted(r#"{"a":null,"b":true}"#), converted(r#"{"b":true}"#));
        // Cedar's `__entity` escapes have no effect here, so arguments cannot create entities.
        let escaped = converted(r#"{"__entity":{"type":"Principal","id":"local:root"}}"#);
        assert!(escaped.contains("__entity"), "{escaped}");
    }

    #[test]
    fn what_is_in_doubt_is_a_fault() {
        assert_eq!(fault(r#"{"a":1,"a":2}"#), "`a` occurs twice");
        assert_eq!(fault(r#"{"a":1,"\u0061":null}"#), "`a` occurs twice");
        assert_eq!(fault(r#"{"a":{"b":null,"b":2}}"#), "`b` occurs twice");
        assert!(fault(r#"{"a":"\ud800"}"#).contains("surrogate"));
        assert!(fault(r#"{"\ud800":1}"#).contains("is no text"));
        for no_object in ["[]", "1", "null", "\"x\""] {
            assert_eq!(fault(no_object), "the arguments are no object");
        }
    }

    #[test]
    fn members_that_no_rule_names_are_not_read() {
        let wanted = Members::Named(["a".to_owned()].into());
        let odd = json(r#"{"a":1,"b":"\ud800","c":1,"c":2}"#);
        assert_eq!(record(Some(&odd), &wanted), record(Some(&json(r#"{"a":1}"#)), &wanted));
        assert_eq!(record(None, &wanted), record(Some(&json("{}")), &Members::All));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested =
            |depth: usize| json(format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth)));
        let deep = record(Some(&nested(120)), &Members::All).unwrap();
        assert!(cedar_policy::Context::from_pairs([("x".to_owned(), deep)]).is_ok());
        let limits = toolgate_wire::Limits { max_depth: 1000, ..Default::default() };
        let deeper = format!("{{\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let deeper = Json::parse(deeper, &limits).unwrap();
        assert!(record(Some(&deeper), &Members::All).unwrap_err().contains("too deeply"));
    }
}
