//! Tests of server-sent events: whole, split anywhere, too long.

use proptest::prelude::*;

use super::*;

fn all(parts: &[&[u8]]) -> Vec<Event> {
    let (mut events, mut found) = (Events::new(1000), Vec::new());
    for part in parts {
        events.buffer().extend_from_slice(part);
        while let Some(event) = events.next().unwrap() {
            found.push(event);
        }
    }
    found
}

fn data(text: &'static str) -> Event {
    Event { data: text.into(), ..Event::default() }
}

#[test]
fn events_have_data_names_ids_and_pauses() {
    let stream = b"\xEF\xBB\xBFevent: endpoint\ndata: /x?y\n\n: comment\nid: 7\nretry: 3000\ndata:\n\ndata: {\"a\":\r\ndata:  1}\r\n\r\nid: only\n\ndata:\ndata:\ndata: x\n\nodd\n\n";
    let found = all(&[stream]);
    assert_eq!(
        found,
        [
            Event { name: Some("endpoint".into()), ..data("/x?y") },
            Event { id: Some("7".into()), retry: Some(3000), ..data("") },
            data("{\"a\":\n 1}"),
            Event { id: Some("only".into()), ..Event::default() },
            data("\n\nx"),
        ]
    );
}

#[test]
fn what_the_stream_ends_within_is_no_event() {
    assert_eq!(all(&[b"data: whole\n\ndata: cut"]), [data("whole")]);
    assert_eq!(all(&[b"data: whole\n\ndata: cut\n"]), [data("whole")]);
}

#[test]
fn an_event_that_is_too_long_ends_it() {
    let mut events = Events::new(10);
    events.buffer().extend_from_slice(b"data: 0123456789x\n\n");
    assert_eq!(events.next(), Err(TooLong(10)));
    let mut events = Events::new(10);
    events.buffer().extend_from_slice(&vec![b'x'; 40_000]);
    assert_eq!(events.next(), Err(TooLong(10)));
}

#[test]
fn a_message_with_newlines_stays_one_event() {
    assert_eq!(&*event(b"{\"a\":\r\n1}", Some("9")), b"id: 9\ndata: {\"a\":  1}\n\n");
}

proptest! {
    #[test]
    fn it_does_not_matter_how_the_stream_is_cut(
        lines in prop::collection::vec(("(data|event|id|: c|retry)", "[ -~]{0,12}", "(\n|\r\n|\r|\n\n|\r\n\r\n|\r\r)"), 0..12),
        cuts in prop::collection::vec(0usize..200, 0..6),
    ) {
        let stream = lines.iter().fold(String::new(), |all, (field, value, end)| all + field + ":" + value + end);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream.as_bytes()[pair[0]..pair[1]]).collect();
        prop_assert_eq!(all(&parts), all(&[stream.as_bytes()]));
    }

    #[test]
    fn what_is_written_is_read(messages in prop::collection::vec("[ -~]{1,40}", 0..5)) {
        let stream: Vec<u8> = messages.iter().flat_map(|message| event(message.as_bytes(), None).to_vec()).collect();
        let read: Vec<String> = all(&[&stream]).iter().map(|event| String::from_utf8(event.data.to_vec()).unwrap()).collect();
        prop_assert_eq!(read, messages);
    }
}
