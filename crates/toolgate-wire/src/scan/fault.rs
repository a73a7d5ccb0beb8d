//! Syntax errors of one byte, so that the scanner's results stay in registers.

use crate::error::{Reason, WireError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Object,
    Array,
    Key,
    Colon,
    Value,
    MemberEnd,
    ElementEnd,
    TextEnd,
    Digit,
    Escape,
    HexDigits,
    ControlCharacter,
    StringEnd,
    Depth,
}

impl Fault {
    /// The public error.
    #[cold]
    pub(super) fn at(self, position: usize, max_depth: usize) -> WireError {
        let reason = match self {
            Self::Depth => Reason::TooDeep { limit: max_depth },
            grammar => Reason::Syntax(grammar.wording()),
        };
        WireError::new(position, reason)
    }

    fn wording(self) -> &'static str {
        match self {
            Self::Object => "expected `{`",
            Self::Array => "expected `[`",
            Self::Key => "expected a key",
            Self::Colon => "expected `:`",
            Self::Value => "expected a value",
            Self::MemberEnd => "expected `,` or `}`",
            Self::ElementEnd => "expected `,` or `]`",
            Self::TextEnd => "expected the end of the text",
            Self::Digit => "expected a digit",
            Self::Escape => "unknown escape",
            Self::HexDigits => "expected four hex digits",
            Self::ControlCharacter => "control character in a string",
            Self::StringEnd => "string without an end",
            Self::Depth => "nested too deep",
        }
    }
}
