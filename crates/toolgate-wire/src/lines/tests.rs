//! Tests of lines: framing, limits and memory.

use super::*;

fn whole(text: &str) -> Line {
    Line::Whole(Bytes::copy_from_slice(text.as_bytes()))
}

fn feed(lines: &mut Lines, text: &[u8]) -> Vec<Line> {
    lines.buffer().extend_from_slice(text);
    std::iter::from_fn(|| lines.next()).collect()
}

#[test]
fn lines_come_when_they_are_whole() {
    let mut lines = Lines::new(100);
    assert_eq!(feed(&mut lines, b"{\"a\""), []);
    assert_eq!(feed(&mut lines, b":1}\n\r\n \n{}\r\n1"), [whole("{\"a\":1}\n"), whole("{}\r\n")]);
    assert_eq!(feed(&mut lines, b"2"), []);
    assert_eq!(lines.finish(), Some(whole("12")));
    assert_eq!(lines.finish(), None);
}

#[test]
fn a_line_of_exactly_the_limit_is_whole() {
    let mut lines = Lines::new(3);
    let found = feed(&mut lines, b"abc\nabcd\nabc");
    assert_eq!(found[0], whole("abc\n"));
    assert!(
        matches!(&found[1], Line::TooLong { head, tail, length: 4 } if head == "abcd" && tail == "abcd")
    );
    assert_eq!(lines.finish(), Some(whole("abc")));
}

#[test]
fn an_over_long_line_is_skipped_and_the_next_one_found() {
    let mut lines = Lines::new(10_000);
    let mut long = vec![b'x'; 1_000_000];
    long[..3].copy_from_slice(b"abc");
    long[999_997..].copy_from_slice(b"end");
    for piece in long.chunks(7_000) {
        assert_eq!(feed(&mut lines, piece), []);
        assert!(lines.buffer.len() <= 10_000, "nothing is kept");
    }
    let found = feed(&mut lines, b"\n{}\n");
    let Line::TooLong { head, tail, length } = &found[0] else {
        panic!("{found:?}");
    };
    assert_eq!((head.len(), tail.len(), *length), (4096, 4096, 1_000_000));
    assert!(head.starts_with(b"abcx") && tail.ends_with(b"xend"));
    assert_eq!(found[1], whole("{}\n"));
}

#[test]
fn an_over_long_line_may_end_with_the_stream() {
    let mut lines = Lines::new(2);
    assert_eq!(feed(&mut lines, b"abc"), []);
    assert!(matches!(lines.finish(), Some(Line::TooLong { length: 3, .. })));
    assert_eq!(lines.finish(), None);
}

#[test]
fn finish_gives_all_that_is_left() {
    let mut lines = Lines::new(10);
    lines.buffer().extend_from_slice(b"a\nb\nc");
    let left: Vec<_> = std::iter::from_fn(|| lines.finish()).collect();
    assert_eq!(left, [whole("a\n"), whole("b\n"), whole("c")]);
}

#[test]
fn there_is_always_room_and_it_shrinks_back() {
    let mut lines = Lines::new(64 << 20);
    let mut sent = 0;
    while sent < (8 << 20) {
        let buffer = lines.buffer();
        let room = buffer.capacity() - buffer.len();
        assert!(room >= READ_CAPACITY);
        buffer.extend_from_slice(&vec![b'x'; room]);
        sent += room;
        assert_eq!(lines.next(), None);
    }
    lines.buffer().extend_from_slice(b"\nnext");
    assert!(matches!(lines.next(), Some(Line::Whole(line)) if line.len() == sent + 1));
    assert!(lines.buffer().capacity() <= MAX_IDLE_CAPACITY);
    assert_eq!(lines.finish(), Some(whole("next")));
}

#[test]
fn lines_are_not_copied() {
    let mut lines = Lines::new(100);
    lines.buffer().extend_from_slice(b"{}\n{}\n");
    let start = lines.buffer.as_ptr();
    let Some(Line::Whole(first)) = lines.next() else {
        panic!("a line");
    };
    assert_eq!(first.as_ptr(), start);
}
