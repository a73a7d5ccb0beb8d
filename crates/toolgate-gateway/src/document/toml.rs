//! TOML, by the same parser as toolgate.toml.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Node, NodeMember, NodeValue, Parsed};

pub(super) fn parse(text: &str) -> Parsed {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let place = |error: &toml::de::Error| {
            (error.span().unwrap_or_default(), error.message().to_owned())
        };
        return Err(errors.iter().map(place).collect());
    }
    let span = table.span();
    Ok(Some(Node { span, value: map(table.into_inner()) }))
}

fn node(value: Spanned<DeValue<'_>>) -> Node {
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::String(text) => NodeValue::String(text.into_owned()),
        DeValue::Integer(number) => NodeValue::Number(number.to_string()),
        DeValue::Float(number) => NodeValue::Number(number.to_string()),
        DeValue::Boolean(value) => NodeValue::Bool(value),
        DeValue::Datetime(time) => NodeValue::Number(time.to_string()),
        DeValue::Array(array) => NodeValue::List(array.into_iter().map(node).collect()),
        DeValue::Table(table) => map(table),
    };
    Node { span, value }
}

fn map(table: DeTable<'_>) -> NodeValue {
    let members = table.into_iter().map(|(key, value)| {
        let key_span = key.span();
        NodeMember { key: key.into_inner().into_owned(), key_span, node: node(value) }
    });
    let mut members: Vec<NodeMember> = members.collect();
    // The parser sorts tables by key.
    members.sort_by_key(|member| member.key_span.start);
    NodeValue::Map(members)
}
