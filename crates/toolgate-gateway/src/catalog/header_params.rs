//! Header parameters (2026-07-28): arguments that a request must repeat in HTTP headers, because the tool's input schema
//! has the annotation `x-mcp-header`.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use toolgate_wire::{Json, Kind, headers, mcp::member};

/// The schema annotation with the name of the header.
const ANNOTATION: &str = "x-mcp-header";
/// Annotations nested deeper are ignored.
const MAX_DEPTH: usize = 16;

/// An argument and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderParam {
    path: Vec<String>,
    header: HeaderName,
}

/// Why the annotations of a tool cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadHeaderParam(pub(crate) String);

/// The header parameters of a tool; an error if an annotation is not valid.
pub(crate) fn of(definition: &Json) -> Result<Vec<HeaderParam>, BadHeaderParam> {
    // Nearly all tools have none, so search the text before parsing it.
    if memchr::memmem::find(definition.as_bytes(), ANNOTATION.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    if let Some(schema) = definition.get(member::INPUT_SCHEMA) {
        collect(&schema, &mut Vec::new(), &mut found)?;
    }
    Ok(found)
}

fn collect(
    schema: &Json,
    path: &mut Vec<String>,
    found: &mut Vec<HeaderParam>,
) -> Result<(), BadHeaderParam> {
    if path.len() > MAX_DEPTH {
        return Ok(());
    }
    let Some(properties) = schema.get("properties").and_then(|json| json.object()) else {
        return Ok(());
    };
    for (name, property) in properties.iter() {
        path.push(name.into_owned());
        if let Some(annotation) = property.get(ANNOTATION) {
            found.push(HeaderParam {
                path: path.clone(),
                header: header(&annotation, &property, found)?,
            });
        }
        collect(&property, path, found)?;
        path.pop();
    }
    Ok(())
}

fn header(
    annotation: &Json,
    property: &Json,
    found: &[HeaderParam],
) -> Result<HeaderName, BadHeaderParam> {
    let bad = |why: &str| BadHeaderParam(format!("`{ANNOTATION}`: {why}"));
    let name = annotation.text().ok_or_else(|| bad("a name is a text"))?;
    let kind = property.get("type");
    let kind = kind.as_ref().and_then(Json::text).unwrap_or_default();
    if !matches!(kind.as_ref(), "string" | "integer" | "boolean") {
        return Err(bad("only strings, integers and booleans have headers"));
    }
    if name.is_empty() {
        return Err(bad("a name is not empty"));
    }
    let header = format!("{}{}", headers::PARAM, name.to_ascii_lowercase());
    let header = HeaderName::from_bytes(header.as_bytes())
        .map_err(|_| bad("a name is of letters, digits and few other characters"))?;
    if found.iter().any(|param| param.header == header) {
        return Err(bad("a name stands for one argument only"));
    }
    Ok(header)
}

impl HeaderParam {
    fn value(&self, arguments: Option<&Json>) -> Option<Json> {
        let mut value = arguments.cloned()?;
        for name in &self.path {
            value = value.get(name)?;
        }
        (value.kind() != Kind::Null).then_some(value)
    }

    /// Checks that the header of a request repeats its argument. The error says what is wrong.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        arguments: Option<&Json>,
    ) -> Result<(), String> {
        let header = &self.header;
        let mut values = headers.get_all(header).iter();
        let (value, more) = (values.next(), values.next());
        if more.is_some() {
            return Err(format!("the header `{header}` occurs twice"));
        }
        let argument = self.value(arguments);
        match (value, argument) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(format!("the header `{header}` is missing")),
            (Some(_), None) => {
                Err(format!("the header `{header}` stands for an argument that is not there"))
            }
            (Some(value), Some(argument)) => {
                let decoded = headers::decode(value.as_bytes().trim_ascii())
                    .ok_or_else(|| format!("the header `{header}` cannot be read"))?;
                let is_same = match argument.kind() {
                    Kind::String => argument.text().is_some_and(|text| text == decoded),
                    Kind::Number => is_same_number(&argument, &decoded),
                    _ => argument.as_str() == decoded,
                };
                let differs =
                    || format!("the header `{header}` does not say what the argument says");
                is_same.then_some(()).ok_or_else(differs)
            }
        }
    }

    /// The header for these arguments.
    pub(crate) fn header(&self, arguments: Option<&Json>) -> Option<(HeaderName, HeaderValue)> {
        let value = self.value(arguments)?;
        let text = match value.kind() {
            Kind::String => value.text()?.into_owned(),
            _ => value.as_str().to_owned(),
        };
        Some((self.header.clone(), HeaderValue::from_str(&headers::encode(&text)).ok()?))
    }
}

fn is_same_number(argument: &Json, decoded: &str) -> bool {
    argument.as_str() == decoded
        || argument
            .i64()
            .is_some_and(|number| decoded.parse::<i64>().is_ok_and(|decoded| decoded == number))
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned(), &Limits::default()).unwrap()
    }

    fn tool(properties: &str) -> Result<Vec<HeaderParam>, BadHeaderParam> {
        of(&json(&format!(r#"{{"name":"t","inputSchema":{{"properties":{properties}}}}}"#)))
    }

    #[test]
    fn annotations_are_found_wherever_properties_lead_to_them() {
        let found = tool(
            r#"{"a":{"type":"string","x-mcp-header":"Region"},
                "b":{"properties":{"c":{"type":"integer","x-mcp-header":"N"}}},"d":{"type":"string"}}"#,
        )
        .unwrap();
        assert_eq!(found.len(), 2);
        let arguments = json(r#"{"a":"für","b":{"c":5}}"#);
        let headers: HeaderMap =
            found.iter().filter_map(|param| param.header(Some(&arguments))).collect();
        assert_eq!(headers["mcp-param-region"], "=?base64?ZsO8cg==?=");
        assert_eq!(headers["mcp-param-n"], "5");
        for param in &found {
            assert_eq!(param.check(&headers, Some(&arguments)), Ok(()));
            assert!(param.check(&HeaderMap::new(), Some(&arguments)).is_err());
            assert!(param.check(&headers, Some(&json(r#"{"a":"x","b":{"c":6}}"#))).is_err());
            assert!(param.check(&headers, None).is_err());
            assert_eq!(param.check(&HeaderMap::new(), None), Ok(()));
        }
    }

    #[test]
    fn annotations_that_make_no_header_are_refused() {
        for bad in [
            r#"{"a":{"type":"number","x-mcp-header":"A"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":""}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"a b"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":7}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}"#,
        ] {
            assert!(tool(bad).is_err(), "{bad}");
        }
        assert_eq!(tool(r#"{"a":{"type":"string"}}"#), Ok(Vec::new()));
    }
}
