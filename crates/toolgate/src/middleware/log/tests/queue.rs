//! The queue before the writer: full, closed, given up, heavy.

use std::{
    pin::pin,
    task::{Context as TaskContext, Poll, Waker},
};

use super::*;

fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut TaskContext::from_waker(Waker::noop()))
}

async fn call(sink: &LogSink) {
    let chain = testing::chain(Log::new(sink.clone()));
    let server = answering(json(r#"{"content":[]}"#));
    let outcome = testing::call(&chain, &tool("t", None), r#"{"a":1}"#, &server).await;
    assert_eq!(outcome.class(), Class::Ok, "no sink changes an outcome");
}

fn narrow(on_full: OnFull) -> LogRecorder {
    LogRecorder::new(&LogConfig { queue: 1, on_full, ..LogConfig::default() })
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_room_and_nothing_is_lost() {
    let mut kept = narrow(OnFull::Wait);
    let sink = kept.sink.clone();
    call(&sink).await;
    let mut second = pin!(call(&sink));
    assert!(poll(second.as_mut()).is_pending());
    assert_eq!(kept.queue.next_batch(10).await.unwrap().len(), 1);
    second.await;
    assert_eq!(kept.queue.next_batch(10).await.unwrap().len(), 1);
    assert_eq!(sink.counts().lost(), 0);
}

#[tokio::test]
async fn a_record_is_dropped_and_counted_if_the_setting_says_so() {
    let kept = narrow(OnFull::Drop);
    let sink = kept.sink.clone();
    for _ in 0..4 {
        call(&sink).await;
    }
    assert_eq!(sink.counts().lost(), 3);
    assert_eq!(kept.records().await.len(), 1);
}

#[tokio::test]
async fn a_call_that_is_given_up_while_it_waits_for_room_is_counted() {
    let kept = narrow(OnFull::Wait);
    let sink = kept.sink.clone();
    call(&sink).await;
    {
        let mut second = pin!(call(&sink));
        assert!(poll(second.as_mut()).is_pending());
    }
    assert_eq!(sink.counts().lost(), 1);
    assert_eq!(kept.records().await.len(), 1);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_recorded_as_cancelled() {
    let kept = LogRecorder::new(&LogConfig { listings: true, ..LogConfig::default() });
    let (chain, server) = (kept.chain(), HangingServer::default());
    {
        let t = tool("t", None);
        let mut future = pin!(testing::call(&chain, &t, r#"{"a":1}"#, &server));
        assert!(poll(future.as_mut()).is_pending());
        let mut cx = context();
        let mut listing = pin!(chain.list(&mut cx, Listing::default(), &server));
        assert!(poll(listing.as_mut()).is_pending());
    }
    let records = kept.records().await;
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!((&*record.outcome, &*record.ran), ("cancelled", "maybe"));
    }
}

#[tokio::test]
async fn what_is_in_the_queue_at_the_end_comes_out_and_what_comes_later_is_counted() {
    let mut kept = LogRecorder::new(&LogConfig::default());
    for _ in 0..1000 {
        call(&kept.sink).await;
    }
    kept.sink.close();
    call(&kept.sink).await;
    assert_eq!(kept.sink.counts().lost(), 1);
    let mut sizes = Vec::new();
    while let Some(records) = kept.queue.next_batch(256).await {
        sizes.push(records.len());
        kept.queue.wrote(records.len());
    }
    assert_eq!(sizes, [256, 256, 256, 232]);
    assert_eq!(kept.sink.counts().written(), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_nobody_waited_for_is_not_lost() {
    let mut kept = LogRecorder::new(&LogConfig::default());
    call(&kept.sink).await;
    {
        // It has taken the record off the queue, and waits a moment for more.
        let mut batch = pin!(kept.queue.next_batch(10));
        assert!(poll(batch.as_mut()).is_pending());
    }
    call(&kept.sink).await;
    assert_eq!(kept.queue.next_batch(10).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_never_larger_than_asked_for() {
    let mut kept = LogRecorder::new(&LogConfig::default());
    for _ in 0..5 {
        call(&kept.sink).await;
    }
    {
        let mut batch = pin!(kept.queue.next_batch(10));
        assert!(poll(batch.as_mut()).is_pending());
    }
    assert_eq!(kept.queue.next_batch(2).await.unwrap().len(), 2);
    assert_eq!(kept.queue.next_batch(0).await.unwrap().len(), 1);
}

/// A queue with room for the bytes of one call, and for many records.
fn light(on_full: OnFull) -> LogRecorder {
    LogRecorder::new(&LogConfig { queue_bytes: 1024, on_full, ..LogConfig::default() })
}

#[tokio::test]
async fn bytes_that_wait_are_bounded_and_records_go_without() {
    let LogRecorder { sink, mut queue } = light(OnFull::Drop);
    for _ in 0..3 {
        call(&sink).await;
    }
    assert_eq!((sink.counts().bare(), sink.counts().lost()), (2, 0));
    let records = queue.next_batch(10).await.unwrap();
    assert!(records[0].arguments.is_some() && records[0].result.is_some());
    for record in &records[1..] {
        assert_eq!((&record.arguments, &record.result), (&None, &None));
        assert_eq!((record.arguments_bytes, record.result_bytes), (Some(7), Some(14)));
    }
    // Once they are taken there is room again.
    call(&sink).await;
    assert!(queue.next_batch(10).await.unwrap()[0].result.is_some());
}

#[tokio::test]
async fn a_call_waits_for_room_for_its_bytes() {
    let LogRecorder { sink, mut queue } = light(OnFull::Wait);
    call(&sink).await;
    let mut second = pin!(call(&sink));
    assert!(poll(second.as_mut()).is_pending());
    assert!(queue.next_batch(10).await.unwrap()[0].result.is_some());
    second.await;
    assert!(queue.next_batch(10).await.unwrap()[0].result.is_some());
    assert_eq!((sink.counts().bare(), sink.counts().lost()), (0, 0));
    {
        call(&sink).await;
        let mut given_up = pin!(call(&sink));
        assert!(poll(given_up.as_mut()).is_pending());
    }
    assert_eq!((sink.counts().bare(), sink.counts().lost()), (1, 0), "it went without");
    assert_eq!(queue.next_batch(10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn what_never_fits_goes_without_at_once() {
    let kept = light(OnFull::Wait);
    let server = answering(ToolResult::text(&"x".repeat(5000)).json().clone());
    testing::call(&kept.chain(), &tool("t", None), "{}", &server).await;
    assert_eq!(kept.sink.counts().bare(), 1);
    let record = kept.record().await;
    assert!(record.result.is_none() && record.result_bytes > Some(5000));
}

#[tokio::test]
async fn records_that_are_dropped_free_their_bytes() {
    let config = LogConfig { queue: 1, queue_bytes: 2048, ..LogConfig::default() };
    let kept = LogRecorder::new(&LogConfig { on_full: OnFull::Drop, ..config });
    let sink = kept.sink.clone();
    for _ in 0..50 {
        call(&sink).await;
    }
    assert_eq!((sink.counts().bare(), sink.counts().lost()), (0, 49));
}
