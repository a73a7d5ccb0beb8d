//! `display_message`: evaluates tmux variables, and nothing that could run a program.

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::Failure;

use crate::{
    call::ToolContext,
    engine::{Batch, Command, not_found, text},
    target::PaneArgs,
    tool::{Tool, invalid_arguments},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::readonly("display_message", "Evaluate tmux Format String", display_message).about(
        "Use for single facts of tmux as text, as `#{pane_current_path} #{history_size}`.\n\
             Only literal text and #{name} of tmux's plain variables; nothing is shown to anybody.",
    )]
}

/// The allowed variables. tmux looks up modifiers, jobs, options, environment variables, clients and buffers by the
/// same syntax, so any other name is refused.
const VARIABLES: &[&str] = &[
    "active_window_index",
    "alternate_on",
    "alternate_saved_x",
    "alternate_saved_y",
    "config_files",
    "copy_cursor_x",
    "copy_cursor_y",
    "cursor_character",
    "cursor_flag",
    "cursor_x",
    "cursor_y",
    "history_bytes",
    "history_limit",
    "history_size",
    "host",
    "host_short",
    "insert_flag",
    "keypad_cursor_flag",
    "keypad_flag",
    "last_window_index",
    "mouse_all_flag",
    "mouse_any_flag",
    "mouse_button_flag",
    "mouse_sgr_flag",
    "mouse_standard_flag",
    "origin_flag",
    "pane_active",
    "pane_at_bottom",
    "pane_at_left",
    "pane_at_right",
    "pane_at_top",
    "pane_bg",
    "pane_bottom",
    "pane_current_command",
    "pane_current_path",
    "pane_dead",
    "pane_dead_signal",
    "pane_dead_status",
    "pane_dead_time",
    "pane_fg",
    "pane_height",
    "pane_id",
    "pane_in_mode",
    "pane_index",
    "pane_input_off",
    "pane_last",
    "pane_left",
    "pane_marked",
    "pane_marked_set",
    "pane_mode",
    "pane_path",
    "pane_pid",
    "pane_pipe",
    "pane_right",
    "pane_search_string",
    "pane_start_command",
    "pane_start_path",
    "pane_synchronized",
    "pane_tabs",
    "pane_title",
    "pane_top",
    "pane_tty",
    "pane_width",
    "pid",
    "scroll_position",
    "scroll_region_lower",
    "scroll_region_upper",
    "search_match",
    "search_present",
    "selection_active",
    "selection_end_x",
    "selection_end_y",
    "selection_present",
    "selection_start_x",
    "selection_start_y",
    "session_activity",
    "session_alerts",
    "session_created",
    "session_format",
    "session_group",
    "session_group_list",
    "session_group_size",
    "session_grouped",
    "session_id",
    "session_last_attached",
    "session_marked",
    "session_name",
    "session_path",
    "session_stack",
    "session_windows",
    "socket_path",
    "start_time",
    "uid",
    "user",
    "version",
    "window_active",
    "window_active_sessions",
    "window_active_sessions_list",
    "window_activity",
    "window_activity_flag",
    "window_bell_flag",
    "window_bigger",
    "window_cell_height",
    "window_cell_width",
    "window_end_flag",
    "window_flags",
    "window_height",
    "window_id",
    "window_index",
    "window_last_flag",
    "window_layout",
    "window_linked",
    "window_linked_sessions",
    "window_linked_sessions_list",
    "window_marked_flag",
    "window_name",
    "window_panes",
    "window_raw_flags",
    "window_silence_flag",
    "window_stack_index",
    "window_start_flag",
    "window_visible_layout",
    "window_width",
    "window_zoomed_flag",
    "wrap_flag",
];

/// tmux's short names for variables.
const SHORT_NAMES: &[(char, &str)] = &[
    ('D', "pane_id"),
    ('F', "window_flags"),
    ('H', "host"),
    ('I', "window_index"),
    ('P', "pane_index"),
    ('S', "session_name"),
    ('T', "pane_title"),
    ('W', "window_name"),
    ('h', "host_short"),
];

#[derive(Deserialize, JsonSchema)]
struct DisplayMessage {
    /// Text with variables, as `#{session_name}:#{window_index}`.
    #[schemars(length(max = 4096))]
    format_string: String,
    #[serde(flatten)]
    pane: PaneArgs,
}

#[derive(Debug, PartialEq, Eq)]
enum FormatPart {
    Text(String),
    Variable(&'static str),
}

async fn display_message(cx: ToolContext, args: DisplayMessage) -> Result<String, Failure> {
    let parts = parse(&args.format_string)?;
    let (server, pane) = args.pane.find(&cx).await?;
    // Only allowed names are sent to tmux, one at a time; the text around them is not. So tmux expands nothing else,
    // not even `%H`. The first answer shows whether the pane exists: for one that does not, tmux prints empty values.
    let mut names = vec!["pane_id"];
    names.extend(parts.iter().filter_map(|part| match part {
        FormatPart::Variable(name) => Some(*name),
        FormatPart::Text(_) => None,
    }));
    let ask = |name: &&str| {
        let target = Command::new("display-message").flag("-p").target(&*pane);
        target.argument(format!("#{{{name}}}"))
    };
    let mut values = server.run(Batch::read(names.iter().map(ask))).await?.into_iter().map(text);
    if values.next().as_deref() != Some(&*pane) {
        return Err(not_found::pane(&pane));
    }
    let whole: String = parts
        .into_iter()
        .map(|part| match part {
            FormatPart::Text(text) => text,
            FormatPart::Variable(_) => values.next().unwrap_or_default(),
        })
        .collect();
    Ok(cx.shown(&whole).into_owned())
}

/// Splits a format into text and variables; refuses other variables.
fn parse(format: &str) -> Result<Vec<FormatPart>, Failure> {
    if format.contains("#(") {
        return Err(invalid_arguments(
            "tmux format jobs (#(...)) are not allowed in display_message",
        ));
    }
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = format;
    while let Some((before, from)) = rest.split_once('#') {
        text.push_str(before);
        rest = from;
        let mut chars = from.chars();
        let name = match chars.next() {
            Some('{') => {
                let (name, after) = from
                    .strip_prefix('{')
                    .and_then(|from| from.split_once('}'))
                    .ok_or_else(|| invalid_arguments("format_string has a `#{` without its `}`"))?;
                rest = after;
                Some(variable(name)?)
            }
            Some(char) => {
                let short = SHORT_NAMES.iter().find(|(short, _)| *short == char);
                if short.is_some() || matches!(char, '#' | ',' | '}') {
                    rest = chars.as_str();
                }
                if short.is_none() {
                    // `##`, `#,` and `#}` stand for their second character; any other `#` for itself.
                    text.push(if matches!(char, ',' | '}') { char } else { '#' });
                }
                short.map(|(_, name)| *name)
            }
            None => {
                text.push('#');
                None
            }
        };
        if let Some(name) = name {
            parts.push(FormatPart::Text(std::mem::take(&mut text)));
            parts.push(FormatPart::Variable(name));
        }
    }
    text.push_str(rest);
    parts.push(FormatPart::Text(text));
    Ok(parts)
}

fn variable(name: &str) -> Result<&'static str, Failure> {
    VARIABLES.iter().copied().find(|known| *known == name).ok_or_else(|| {
        invalid_arguments(format!("display_message does not evaluate `#{{{name}}}`")).suggest(
            "Use literal text and plain variables, as #{pane_id}, #{pane_current_command} or #{window_name}. \
             Options are told by show_option, variables of the environment by show_environment.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_variables_are_evaluated() {
        let text = |text: &str| FormatPart::Text(text.to_owned());
        let parts = parse("a%H ##{x} #S #[b] ##[c] #,#{pid}#").unwrap();
        let expected = [
            text("a%H #{x} "),
            FormatPart::Variable("session_name"),
            text(" #[b] #[c] ,"),
            FormatPart::Variable("pid"),
            text("#"),
        ];
        assert_eq!(parts, expected);
        for bad in [
            "#(id)",
            "##(id)",
            "#{E:@x}",
            "#{@x}",
            "#{PATH}",
            "#{l:x}",
            "#{",
            "#{status-left}",
            "#{?pid,a,b}",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
