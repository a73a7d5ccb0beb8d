//! The body of a response: complete bytes, or a stream of events.

use std::{
    convert::Infallible,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use super::events::EventBody;

/// The body of a response. No variant boxes or copies its bytes.
#[derive(Debug, Default)]
pub(crate) enum ResponseBody {
    #[default]
    Empty,
    Whole(Bytes),
    /// Sent one after the other, in one write where the system allows it.
    Parts([Bytes; 3]),
    Stream(EventBody),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Empty => None,
            Self::Whole(bytes) => Some(mem::take(bytes)).filter(|bytes| !bytes.is_empty()),
            Self::Parts(parts) => parts.iter_mut().find(|part| !part.is_empty()).map(mem::take),
            Self::Stream(events) => match events.poll_next(cx) {
                Poll::Ready(next) => next,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Parts(parts) => parts.iter().all(Bytes::is_empty),
            Self::Stream(events) => events.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let length = match self {
            Self::Empty => 0,
            Self::Whole(bytes) => bytes.len(),
            Self::Parts(parts) => parts.iter().map(Bytes::len).sum(),
            Self::Stream(_) => return SizeHint::default(),
        };
        SizeHint::with_exact(length as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn parts_come_in_order_and_their_length_is_known() {
        let part = Bytes::from_static;
        for (parts, length) in [
            ([part(b"a"), part(b"bc"), part(b"d")], 4),
            ([part(b""), part(b"bc"), part(b"")], 2),
            ([part(b""), part(b""), part(b"")], 0),
        ] {
            let whole = parts.concat();
            let body = ResponseBody::Parts(parts);
            assert_eq!(body.size_hint().exact(), Some(length));
            assert_eq!(body.is_end_stream(), length == 0);
            assert_eq!(body.collect().await.unwrap().to_bytes(), whole);
        }
    }

    #[tokio::test]
    async fn bytes_are_sent_from_where_they_are() {
        let bytes = Bytes::from(vec![b'x'; 100]);
        let mut body = ResponseBody::Whole(bytes.clone());
        let sent = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(sent.as_ptr(), bytes.as_ptr());
        assert!(body.is_end_stream());
        assert!(body.frame().await.is_none());
    }
}
