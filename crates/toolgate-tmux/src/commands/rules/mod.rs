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

/// Applies all rules.
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

/// A call of a program.
struct ProgramCall<'a> {
    /// The program's name without its folder.
    name: &'a str,
    /// The name and the arguments.
    line: &'a [Arg],
    args: &'a [Arg],
}

impl ProgramCall<'_> {
    fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.name)
    }

    /// The texts of the operands.
    fn words(&self) -> Vec<&str> {
        super::argv::texts(&super::argv::operands(self.args))
    }

    /// Whether the operands begin with these words.
    fn says(&self, words: &[&str]) -> bool {
        self.words().starts_with(words)
    }

    fn has(&self, short: &str, long: &[&str]) -> bool {
        super::argv::has(self.args, short, long)
    }
}
