//! What frames a body, however its bytes are split.

use bytes::BytesMut;
use proptest::prelude::*;

use super::super::{
    chunked::{At, Chunked},
    head::{Framing, parse},
};

/// Feeds a decoder parts of some bytes; gives the body and what comes after it, or what is wrong.
fn decoded<'a>(
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(Vec<u8>, Option<Vec<u8>>), &'static str> {
    let (mut chunks, mut input, mut body) = (Chunked::new(), BytesMut::new(), Vec::new());
    let mut is_over = false;
    for part in parts {
        input.extend_from_slice(part);
        loop {
            match chunks.advance(&mut input)? {
                At::Data if !input.is_empty() => body.extend_from_slice(&chunks.data(&mut input)),
                At::Data | At::Framing => break,
                At::End => {
                    is_over = true;
                    break;
                }
            }
        }
    }
    Ok((body, is_over.then(|| input.to_vec())))
}

/// Splits bytes at these places, in any order.
fn split<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut start = 0;
    let mut parts = Vec::new();
    for place in places.into_iter().chain([bytes.len()]) {
        parts.push(&bytes[start..place]);
        start = place;
    }
    parts
}

prop_compose! {
    /// A chunk with an extension, or none.
    fn chunk()(
        data in prop::collection::vec(any::<u8>(), 1..300),
        zeros in 0..5_usize,
        is_upper: bool,
        extension in "( ?;[a-z]{0,9}(=\"[ -~]{0,9}\")?)?",
    ) -> (Vec<u8>, Vec<u8>) {
        let size = if is_upper { format!("{:X}", data.len()) } else { format!("{:x}", data.len()) };
        let mut bytes = format!("{}{size}{extension}\r\n", "0".repeat(zeros)).into_bytes();
        bytes.extend_from_slice(&data);
        bytes.extend_from_slice(b"\r\n");
        (data, bytes)
    }
}

proptest! {
    #[test]
    fn any_split_of_the_chunks_gives_the_same_body(
        chunks in prop::collection::vec(chunk(), 0..12),
        trailers in prop::collection::vec("[a-z-]{1,9}: [ -~]{0,20}", 0..3),
        rest in prop::collection::vec(any::<u8>(), 0..20),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let body: Vec<u8> = chunks.iter().flat_map(|(data, _)| data.clone()).collect();
        let mut bytes: Vec<u8> = chunks.into_iter().flat_map(|(_, bytes)| bytes).collect();
        bytes.extend_from_slice(b"0\r\n");
        for trailer in trailers {
            bytes.extend_from_slice(format!("{trailer}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&rest);
        let expected = Ok((body, Some(rest)));
        prop_assert_eq!(&decoded(split(&bytes, &places)), &expected);
        prop_assert_eq!(&decoded(bytes.chunks(1)), &expected);
    }

    #[test]
    fn what_is_wrong_is_so_however_it_is_split(
        bytes in prop::collection::vec(
            prop::sample::select(&b"0123aF;\r\n\r\n \tx:\0"[..]), 0..40
        ),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let whole = decoded([&bytes[..]]);
        prop_assert_eq!(&decoded(split(&bytes, &places)), &whole);
        prop_assert_eq!(&decoded(bytes.chunks(1)), &whole);
    }

    #[test]
    fn a_head_is_read_when_it_is_all_there_and_nothing_breaks_the_parser(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let _ = parse(&bytes);
        let _ = parse(&[b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat());
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Type: a/b\r\n\r\n";
        prop_assert!(parse(&whole[..cut.index(whole.len())]).unwrap().is_none());
        let head = parse(&[&whole[..], &bytes].concat()).unwrap().unwrap();
        prop_assert_eq!((head.length, head.framing), (whole.len(), Framing::Length(5)));
    }
}

#[test]
fn chunks_that_could_be_read_in_two_ways_are_refused() {
    for bad in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "-1\r\n",
        "\r\n",
        ";x\r\n",
        "5;x\ny\r\nhello\r\n",
        "5;x\ry\r\nhello\r\n",
        "5;x\0\r\nhello\r\n",
        "00000000000000005\r\nhello\r\n",
        "10000000000000005\r\nhello\r\n",
        "0\r\nx: 1\n\r\n",
    ] {
        assert!(decoded([bad.as_bytes()]).is_err(), "{bad:?}");
    }
    // The longest that there can be is no way round the count.
    let (body, rest) = decoded([&b"ffffffffffffffff\r\nhello"[..]]).unwrap();
    assert_eq!((&body[..], rest), (&b"hello"[..], None));
}

#[test]
fn what_is_said_beside_the_chunks_has_an_end() {
    let extensions = format!("1;{}\r\nx\r\n", "y".repeat(1000)).repeat(20);
    let trailers = format!("0\r\n{}", "x: yyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(1000));
    let line = format!("1;{}", "x".repeat(20_000));
    for endless in [extensions, trailers, line] {
        assert!(decoded([endless.as_bytes()]).is_err());
        assert!(decoded(endless.as_bytes().chunks(7)).is_err());
    }
}
