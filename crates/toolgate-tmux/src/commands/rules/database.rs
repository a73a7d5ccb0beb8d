//! Commands that drop or empty a database.

use super::ProgramCall;
use crate::commands::{
    Class,
    arg::Arg,
    judge::{Judge, PipeData},
};

const SQL: &[&str] = &[
    "psql",
    "pgcli",
    "mysql",
    "mariadb",
    "mycli",
    "sqlite3",
    "sqlite",
    "duckdb",
    "sqlcmd",
    "clickhouse-client",
    "clickhouse",
    "cockroach",
    "sqlplus",
    "isql",
    "bq",
    "snowsql",
    "litecli",
    "usql",
];

pub(super) fn check(judge: &mut Judge<'_>, call: &ProgramCall<'_>, input: &PipeData) {
    let words = call.words();
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let texts = || call.args.iter().map(|arg: &Arg| arg.text.as_str()).chain(input.text.as_deref());
    let drops = match (call.name, lower.as_slice()) {
        (name, _) if SQL.contains(&name) => texts().any(is_destructive),
        ("dropdb", _) => true,
        ("mysqladmin", words) => words.contains(&"drop"),
        ("redis-cli" | "valkey-cli", words) => {
            words.iter().any(|word| matches!(*word, "flushall" | "flushdb"))
                || input
                    .text
                    .as_ref()
                    .is_some_and(|text| text.to_ascii_lowercase().contains("flush"))
        }
        ("mongo" | "mongosh", _) => texts().any(|text| {
            ["dropDatabase", ".drop()", "deleteMany({})"].iter().any(|bad| text.contains(bad))
        }),
        ("rails" | "rake", words) => words.iter().any(|word| {
            matches!(*word, "db:drop" | "db:reset" | "db:purge" | "db:schema:load" | "db:drop:all")
        }),
        ("prisma", ["migrate", "reset", ..] | ["db", "push", ..]) => {
            lower.first() == Some(&"migrate") || call.has("", &["force-reset"])
        }
        ("php", ["artisan", verb, ..]) | ("artisan", [verb, ..]) => {
            matches!(*verb, "migrate:fresh" | "migrate:reset" | "db:wipe" | "migrate:refresh")
        }
        (_, words) => {
            words.contains(&"flush") && call.line.iter().any(|arg| arg.text.ends_with("manage.py"))
        }
    };
    if drops {
        judge.find(Class::Database, call.line, "it drops or empties a database or a table");
    }
}

/// Whether SQL drops, truncates, or deletes without a condition. Quotes and comments are skipped.
fn is_destructive(sql: &str) -> bool {
    let sql = bare(sql);
    sql.split(';').any(|statement| {
        let words: Vec<String> = statement
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_uppercase)
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let drops = words.windows(2).any(|pair| {
            matches!(
                pair,
                [
                    "DROP",
                    "DATABASE"
                        | "TABLE"
                        | "SCHEMA"
                        | "KEYSPACE"
                        | "TABLESPACE"
                        | "COLUMN"
                        | "OWNED"
                        | "VIEW"
                        | "USER"
                        | "ROLE"
                ]
            )
        });
        let starts = |verb: &str| words.first() == Some(&verb);
        drops
            || starts("TRUNCATE")
            || (starts("DELETE") && words.get(1) == Some(&"FROM") && !words.contains(&"WHERE"))
    })
}

fn bare(sql: &str) -> String {
    let mut out = String::new();
    let mut chars = sql.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '`') => {
                quote = Some(c);
                out.push('x');
            }
            (None, '-') if chars.peek() == Some(&'-') => {
                while chars.next().is_some_and(|c| c != '\n') {}
            }
            (None, '/') if chars.peek() == Some(&'*') => {
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                out.push(' ');
            }
            (None, c) => out.push(c),
        }
    }
    out
}
