//! The rules, one file for each kind of harm.

mod database;
mod delete;
mod disk;
mod git;
mod publish;
mod remote;
mod system;
mod write;

use super::{
    arg::Arg,
    judge::{Judge, PipeData},
};

/// Asks every rule.
pub(super) fn check(
    judge: &mut Judge<'_>,
    name: &str,
    line: &[Arg],
    args: &[Arg],
    input: &PipeData,
) {
    let call = ProgramCall { name, line, args };
    delete::check(judge, &call);
    git::check(judge, &call);
    publish::check(judge, &call);
    disk::check(judge, &call);
    system::check(judge, &call);
    database::check(judge, &call, input);
    remote::check(judge, &call, input);
    write::check(judge, &call);
}

/// A program that is called.
struct ProgramCall<'a> {
    /// Without its folder.
    name: &'a str,
    /// Name and arguments.
    line: &'a [Arg],
    args: &'a [Arg],
}

impl ProgramCall<'_> {
    fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.name)
    }

    /// The operands, as texts.
    fn words(&self) -> Vec<&str> {
        super::argv::texts(&super::argv::operands(self.args))
    }

    /// Whether the operands begin so.
    fn says(&self, words: &[&str]) -> bool {
        self.words().starts_with(words)
    }

    fn has(&self, short: &str, long: &[&str]) -> bool {
        super::argv::has(self.args, short, long)
    }
}
