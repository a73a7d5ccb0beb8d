//! tmux commands, and batches of them that run in one round trip.

use super::{
    error::TmuxError,
    quote::{argument, check, no_format, quoted},
};

/// One tmux command with its arguments. Arguments are data: tmux receives exactly their text.
#[derive(Clone, Debug)]
pub struct Command {
    words: Vec<String>,
}

impl Command {
    /// A command by its full name, as `list-sessions`.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { words: vec![name.to_owned()] }
    }

    /// Adds a constant flag, as `-d`.
    #[must_use]
    pub fn flag(mut self, flag: &'static str) -> Self {
        self.words.push(flag.to_owned());
        self
    }

    /// Adds a flag if `holds` is true.
    #[must_use]
    pub fn flag_if(self, holds: bool, flag: &'static str) -> Self {
        if holds { self.flag(flag) } else { self }
    }

    /// Adds a flag with a value, which tmux takes as it is.
    #[must_use]
    pub fn option(mut self, flag: &'static str, value: impl Into<String>) -> Self {
        self.words.extend([flag.to_owned(), value.into()]);
        self
    }

    /// Adds a flag with a value where tmux would expand a format: the value is escaped.
    #[must_use]
    pub fn text_option(self, flag: &'static str, value: &str) -> Self {
        self.option(flag, no_format(value))
    }

    /// Adds `-t` with an id, as `%1`, `@1` or `$1`.
    #[must_use]
    pub fn target(self, id: impl Into<String>) -> Self {
        self.option("-t", id)
    }

    /// Ends the flags: an argument after this is no flag even if it begins with `-`.
    #[must_use]
    pub fn end(self) -> Self {
        self.flag("--")
    }

    /// Adds an argument, which tmux takes as it is. Call [`end`](Self::end) before the first one.
    #[must_use]
    pub fn argument(mut self, value: impl Into<String>) -> Self {
        self.words.push(value.into());
        self
    }

    /// Adds an argument where tmux would expand a format: the text is escaped.
    #[must_use]
    pub fn text(self, value: &str) -> Self {
        self.argument(no_format(value))
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    /// The command's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// Commands that run in order, in one round trip. The first that fails ends the batch.
#[derive(Clone, Debug)]
pub struct Batch {
    commands: Vec<Command>,
    replays: bool,
}

impl Batch {
    /// Commands that only read. If the connection breaks, they are sent again.
    #[must_use]
    pub fn read(commands: impl IntoIterator<Item = Command>) -> Self {
        Self { commands: commands.into_iter().collect(), replays: true }
    }

    /// Commands that change something. They are never sent twice.
    #[must_use]
    pub fn write(commands: impl IntoIterator<Item = Command>) -> Self {
        Self { commands: commands.into_iter().collect(), replays: false }
    }

    /// Adds a command at the end.
    #[must_use]
    pub fn and(mut self, command: Command) -> Self {
        self.commands.push(command);
        self
    }

    /// Whether the batch may be sent again.
    #[must_use]
    pub fn replays(&self) -> bool {
        self.replays
    }

    /// How many commands there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub(crate) fn name(&self) -> &str {
        self.commands.first().map_or("", Command::name)
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter()
    }

    /// Batches with one command each.
    pub(crate) fn singles(&self) -> impl Iterator<Item = Self> {
        let replays = self.replays;
        self.commands.iter().map(move |command| Self { commands: vec![command.clone()], replays })
    }

    fn checked(&self) -> Result<(), TmuxError> {
        self.commands.iter().flat_map(|command| &command.words).try_for_each(|word| check(word))
    }

    /// The batch as one line of control mode.
    pub(crate) fn line(&self) -> Result<String, TmuxError> {
        self.checked()?;
        let mut line = String::new();
        for (at, command) in self.commands.iter().enumerate() {
            if at > 0 {
                line.push_str(" ; ");
            }
            for (at, word) in command.words.iter().enumerate() {
                if at > 0 {
                    line.push(' ');
                }
                quoted(word, &mut line);
            }
        }
        Ok(line)
    }

    /// The batch as the arguments of a process.
    pub(crate) fn arguments(&self) -> Result<Vec<String>, TmuxError> {
        self.checked()?;
        let mut all = Vec::new();
        for (at, command) in self.commands.iter().enumerate() {
            if at > 0 {
                all.push(";".to_owned());
            }
            all.extend(command.words.iter().map(|word| argument(word)));
        }
        Ok(all)
    }
}

impl From<Command> for Batch {
    /// A batch of one command that changes something.
    fn from(command: Command) -> Self {
        Self::write([command])
    }
}
