//! Reads what tmux writes in control mode, line by line: blocks that answer commands, and notifications between them.

use std::sync::Arc;

/// The answer to one command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Whether tmux refused the command.
    pub(crate) failed: bool,
    /// Whether it answers a command that came over this connection, and not a command of a hook.
    pub(crate) ours: bool,
    /// What the command printed, without the last newline.
    pub(crate) text: Vec<u8>,
}

/// A notification about the session that the client is attached to, or about the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Notification {
    /// A pane's program wrote something.
    Output {
        /// The pane's id, as `%1`.
        pane: Arc<str>,
        /// The bytes, as the program wrote them.
        bytes: Arc<[u8]>,
    },
    /// A pane entered or left a mode.
    Mode {
        /// The pane's id.
        pane: Arc<str>,
    },
    /// tmux stopped sending a pane's output, because it was read too slowly.
    Paused {
        /// The pane's id.
        pane: Arc<str>,
    },
    /// A window was closed, or its panes changed.
    WindowsChanged,
    /// A session, a window or a client was created, removed or renamed.
    ObjectsChanged,
    /// The client is now attached to this session.
    Attached {
        /// The session's id, as `$1`.
        session: Arc<str>,
    },
    /// tmux closed the client.
    Exit,
    /// Any other notification.
    Other,
}

/// What a line means, with the lines before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineMeaning {
    /// Part of a block that has not ended.
    Nothing,
    /// The end of a block.
    Block(Block),
    /// A notification.
    Notification(Notification),
    /// The end of a block that never began.
    Stray,
}

/// Reads lines and keeps the block that has begun.
#[derive(Debug, Default)]
pub(crate) struct BlockParser {
    open: Option<OpenBlock>,
}

#[derive(Debug)]
struct OpenBlock {
    /// Time, number and flags of the line that began the block: the line that ends it has the same ones.
    guard: Vec<u8>,
    text: Vec<u8>,
    lines: usize,
}

impl BlockParser {
    /// How many bytes the open block holds.
    pub(crate) fn held(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.text.len())
    }

    /// Takes one line, without its newline.
    pub(crate) fn line(&mut self, line: &[u8]) -> LineMeaning {
        if let Some(open) = &mut self.open {
            let ended = ends(line, &open.guard);
            let Some(failed) = ended else {
                if open.lines > 0 {
                    open.text.push(b'\n');
                }
                open.text.extend_from_slice(line);
                open.lines += 1;
                return LineMeaning::Nothing;
            };
            let ours = open.guard.ends_with(b" 1");
            let text = std::mem::take(&mut open.text);
            self.open = None;
            return LineMeaning::Block(Block { failed, ours, text });
        }
        if let Some(guard) = line.strip_prefix(b"%begin ") {
            self.open = Some(OpenBlock { guard: guard.to_vec(), text: Vec::new(), lines: 0 });
            return LineMeaning::Nothing;
        }
        if line.starts_with(b"%end ") || line.starts_with(b"%error ") {
            return LineMeaning::Stray;
        }
        news(line).map_or(LineMeaning::Nothing, LineMeaning::Notification)
    }
}

/// Whether the line ends the block, and whether the command failed.
fn ends(line: &[u8], guard: &[u8]) -> Option<bool> {
    let (rest, failed) = match line.strip_prefix(b"%end ") {
        Some(rest) => (rest, false),
        None => (line.strip_prefix(b"%error ")?, true),
    };
    (rest == guard).then_some(failed)
}

fn news(line: &[u8]) -> Option<Notification> {
    let line = line.strip_prefix(b"%")?;
    let (kind, rest) = split(line);
    let (first, after) = split(rest);
    let id = || Arc::from(String::from_utf8_lossy(first));
    Some(match kind {
        b"output" => Notification::Output { pane: id(), bytes: unescaped(after).into() },
        b"extended-output" => {
            // `%1 AGE : BYTES`; later versions of tmux may add fields before the colon.
            let start = after.windows(2).position(|pair| pair == b": ").map(|at| at + 2)?;
            Notification::Output { pane: id(), bytes: unescaped(after.get(start..)?).into() }
        }
        b"pane-mode-changed" => Notification::Mode { pane: id() },
        b"pause" => Notification::Paused { pane: id() },
        b"session-changed" => Notification::Attached { session: id() },
        b"window-close" | b"unlinked-window-close" | b"layout-change" | b"window-pane-changed" => {
            Notification::WindowsChanged
        }
        b"sessions-changed"
        | b"session-renamed"
        | b"session-window-changed"
        | b"window-add"
        | b"window-renamed"
        | b"unlinked-window-add"
        | b"unlinked-window-renamed"
        | b"client-session-changed"
        | b"client-detached" => Notification::ObjectsChanged,
        b"exit" => Notification::Exit,
        _ => Notification::Other,
    })
}

fn split(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(at) => {
            let (first, rest) = line.split_at(at);
            (first, rest.get(1..).unwrap_or_default())
        }
        None => (line, &[]),
    }
}

/// tmux writes control characters and backslashes of output as three octal digits.
fn unescaped(escaped: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\'
            && let Some((digits, after)) = after.split_at_checked(3)
            && let Some(value) = octal(digits)
        {
            out.push(value);
            rest = after;
        } else {
            out.push(byte);
        }
    }
    out
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<LineMeaning> {
        let mut parser = BlockParser::default();
        let parsed = text.lines().map(|line| parser.line(line.as_bytes()));
        parsed.filter(|parsed| *parsed != LineMeaning::Nothing).collect()
    }

    fn block(failed: bool, ours: bool, text: &str) -> LineMeaning {
        LineMeaning::Block(Block { failed, ours, text: text.into() })
    }

    #[test]
    fn blocks_hold_lines_and_end_with_their_own_guard() {
        let text =
            "%begin 1 2 1\na\n%end 1 3 1\n\n%output %0 x\n%end 1 2 1\n%begin 1 5 0\n%error 1 5 0";
        assert_eq!(
            all(text),
            [block(false, true, "a\n%end 1 3 1\n\n%output %0 x"), block(true, false, "")]
        );
    }

    #[test]
    fn an_end_without_a_beginning_is_noticed() {
        assert_eq!(all("%end 1 2 1"), [LineMeaning::Stray]);
    }

    #[test]
    fn output_comes_as_the_program_wrote_it() {
        let output = |text: &str| {
            let (pane, bytes) = ("%7".into(), text.as_bytes().into());
            LineMeaning::Notification(Notification::Output { pane, bytes })
        };
        assert_eq!(all("%output %7 a\\134\\015\\012é\\9"), [output("a\\\r\né\\9")]);
        assert_eq!(all("%extended-output %7 12 : a : b"), [output("a : b")]);
        assert_eq!(
            all("%session-changed $3 my name"),
            [LineMeaning::Notification(Notification::Attached { session: "$3".into() })]
        );
    }
}
