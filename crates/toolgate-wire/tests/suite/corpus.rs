//! The properties on every file of the fuzz corpus, and on what mutation makes of them: the same
//! twenty thousand inputs on each run.

use std::fs;
use std::path::Path;

use toolgate_wire::properties::{
    Dice, check_lines, check_message, check_single_line, check_splice,
};

type Check = fn(&[u8]) -> Result<(), String>;

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert!(files.len() >= 15, "{target} has a corpus");
    files
}

/// Bytes that change what a text means, more often than any byte would.
const TELLING: &[u8] = b"\"\\{}[]:,0-.eu \n\r\tidMN\xc5\xbf\xff\0";

fn mutate(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(6) {
            0 => bytes.insert(at, TELLING[dice.below(TELLING.len())]),
            1 if at < bytes.len() => bytes[at] = TELLING[dice.below(TELLING.len())],
            2 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 => {
                let end = (at + dice.below(12)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = dice.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            _ => {
                let from = dice.below(other.len() + 1);
                let end = (from + dice.below(24)).min(other.len());
                bytes.splice(at..at, other[from..end].iter().copied());
            }
        }
    }
}

fn run(target: &str, check: Check, rounds: usize) {
    let files = corpus(target);
    for (name, bytes) in &files {
        check(bytes).unwrap_or_else(|broken| panic!("{name}: {broken}"));
    }
    let mut dice = Dice::new(0x7001_6a7e);
    for _ in 0..rounds {
        let mut bytes = files[dice.below(files.len())].1.clone();
        let other = &files[dice.below(files.len())].1;
        mutate(&mut bytes, other, &mut dice);
        check(&bytes).unwrap_or_else(|broken| panic!("{}: {broken}", bytes.escape_ascii()));
    }
}

#[test]
fn messages() {
    run("message", check_message, 9_000);
}

#[test]
fn lines() {
    run("lines", check_lines, 2_000);
}

#[test]
fn single_lines() {
    run("single_line", check_single_line, 5_000);
}

#[test]
fn splices() {
    run("splice", check_splice, 9_000);
}
