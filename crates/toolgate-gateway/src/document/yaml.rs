//! YAML: the part of it that config files use. Aliases are not followed.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::{Node, NodeMember, NodeValue, Parsed};

/// How deep lists and maps may be nested.
const MAX_DEPTH: usize = 128;

pub(super) fn parse(text: &str) -> Parsed {
    let places = Places { text, lines: line_starts(text) };
    let mut reader = Reader { parser: Parser::new_from_str(text), places, depth: 0 };
    reader.document().map_err(|fault| vec![fault])
}

type Fault = (std::ops::Range<usize>, String);

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// Converts lines and columns, which count characters, to bytes.
struct Places<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl Places<'_> {
    fn byte(&self, marker: Marker) -> usize {
        let Some(&start) = self.lines.get(marker.line().saturating_sub(1)) else {
            return self.text.len();
        };
        let line = self.text.get(start..).unwrap_or_default();
        let column = line.char_indices().nth(marker.col()).map_or(line.len(), |(at, _)| at);
        start + column
    }

    fn bytes(&self, span: Span) -> std::ops::Range<usize> {
        let start = self.byte(span.start);
        start..self.byte(span.end).max(start)
    }
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    places: Places<'a>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let at = self.places.byte(*error.marker());
                Err((at..at, format!("invalid YAML: {}", error.info())))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The first document of the stream.
    fn document(&mut self) -> Result<Option<Node>, Fault> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(None),
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
                event => {
                    let node = self.node(event, span)?;
                    let is_empty = matches!(node.value, NodeValue::Null);
                    return Ok((!is_empty).then_some(node));
                }
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Fault> {
        let place = self.places.bytes(span);
        if self.depth > MAX_DEPTH {
            return Err((place, "the file is nested too deeply".to_owned()));
        }
        self.depth += 1;
        let node = match event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => {
                Node { span: place, value: plain(&text) }
            }
            Event::Scalar(text, ..) => {
                Node { span: place, value: NodeValue::String(text.into_owned()) }
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                let end = loop {
                    match self.next()? {
                        (Event::SequenceEnd, end) => break self.places.bytes(end).end,
                        (event, span) => items.push(self.node(event, span)?),
                    }
                };
                Node { span: place.start..end.max(place.start), value: NodeValue::List(items) }
            }
            Event::MappingStart(..) => {
                let mut members = Vec::new();
                let end = loop {
                    let key = match self.next()? {
                        (Event::MappingEnd, end) => break self.places.bytes(end).end,
                        (event, span) => self.node(event, span)?,
                    };
                    let (event, span) = self.next()?;
                    let node = self.node(event, span)?;
                    let written = self.places.text.get(key.span.clone()).unwrap_or_default();
                    let name = key.as_str().unwrap_or(written).to_owned();
                    members.push(NodeMember { key: name, key_span: key.span, node });
                };
                Node { span: place.start..end.max(place.start), value: NodeValue::Map(members) }
            }
            Event::Alias(_) => {
                return Err((place, "toolgate follows no aliases: write the value itself".into()));
            }
            _ => return Err((place, "invalid YAML: the file ends too early".to_owned())),
        };
        self.depth -= 1;
        Ok(node)
    }
}

/// A scalar without quotes, by the core schema.
fn plain(text: &str) -> NodeValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeValue::Null,
        "true" | "True" | "TRUE" => NodeValue::Bool(true),
        "false" | "False" | "FALSE" => NodeValue::Bool(false),
        _ if text.parse::<f64>().is_ok() && text.contains(|c: char| c.is_ascii_digit()) => {
            NodeValue::Number(text.to_owned())
        }
        _ => NodeValue::String(text.to_owned()),
    }
}
