//! The next step that commands name where they show an error code.

use toolgate::Code;

/// A line that names `toolgate explain`; `None` for a code of another program.
pub(super) fn of_code(code: &str) -> Option<String> {
    Code::by_name(code)?;
    Some(format!("`toolgate explain {code}` describes the error and what to do"))
}
