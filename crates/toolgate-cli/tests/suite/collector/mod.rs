//! A collector of the tests: takes OTLP over HTTP, keeps every byte of it, and tells what it was sent.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    time::Instant,
};

use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
        trace::v1::ExportTraceServiceRequest,
    },
    common::v1::{KeyValue, any_value},
    metrics::v1::metric::Data,
};
use prost::Message as _;

use crate::harness::TEST_TIMEOUT;

/// What a collector does with what it is sent.
#[derive(Clone)]
pub enum Manner {
    /// Takes it.
    Takes,
    /// Reads it and never answers.
    Hangs,
    /// Answers with this status line and these headers.
    Answers(String),
}

/// One post.
#[derive(Clone, Debug)]
pub struct Posted {
    pub path: String,
    pub head: String,
    pub body: Vec<u8>,
}

/// One span.
#[derive(Clone, Debug)]
pub struct Span {
    pub name: String,
    pub kind: i32,
    pub trace_id: String,
    pub id: String,
    pub parent: String,
    pub state: String,
    pub status: i32,
    pub message: String,
    pub attributes: BTreeMap<String, String>,
    pub resource: BTreeMap<String, String>,
}

impl Span {
    /// An attribute, or `-`.
    pub fn get(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("-", String::as_str)
    }
}

/// One point of a metric.
#[derive(Clone, Debug)]
pub struct Point {
    pub unit: String,
    pub labels: BTreeMap<String, String>,
    pub count: u64,
    pub bounds: Vec<f64>,
}

impl Point {
    /// A label, or `-`.
    pub fn get(&self, key: &str) -> &str {
        self.labels.get(key).map_or("-", String::as_str)
    }
}

#[derive(Clone)]
pub struct Collector {
    address: SocketAddr,
    posted: Arc<(Mutex<Vec<Posted>>, Condvar)>,
}

impl Collector {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let posted = Arc::<(Mutex<Vec<Posted>>, Condvar)>::default();
        let kept = Arc::clone(&posted);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, manner) = (Arc::clone(&kept), manner.clone());
                std::thread::spawn(move || serve(stream, &manner, &kept));
            }
        });
        Self { address, posted }
    }

    pub fn taking() -> Self {
        Self::start(Manner::Takes)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A config with this collector, and more of its table.
    pub fn config(&self, more: &str) -> String {
        format!("[telemetry]\notlp = \"{}\"\n{more}\n", self.url())
    }

    pub fn posted(&self) -> Vec<Posted> {
        self.posted.0.lock().unwrap().clone()
    }

    /// Waits for a post that is as wanted.
    pub fn wait_for(&self, wanted: impl Fn(&Posted) -> bool) -> Posted {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut posted = self.posted.0.lock().unwrap();
        loop {
            if let Some(found) = posted.iter().find(|post| wanted(post)) {
                return found.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the collector got nothing of the kind");
            posted = self.posted.1.wait_timeout(posted, left).unwrap().0;
        }
    }

    /// Waits until so many posts have come.
    pub fn wait_for_count(&self, count: usize) {
        let posted = self.posted.0.lock().unwrap();
        let is_short = |posted: &mut Vec<Posted>| posted.len() < count;
        let waited = self.posted.1.wait_timeout_while(posted, TEST_TIMEOUT, is_short).unwrap().1;
        assert!(!waited.timed_out(), "the collector did not get {count} posts");
    }

    /// Every span that came, in the order in which they ended.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for post in self.posted().iter().filter(|post| post.path == "/v1/traces") {
            let request = ExportTraceServiceRequest::decode(&*post.body).unwrap();
            for of_resource in request.resource_spans {
                let resource = of_resource.resource.map(|r| texts(&r.attributes));
                let resource = resource.unwrap_or_default();
                for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                    let status = span.status.unwrap_or_default();
                    spans.push(Span {
                        name: span.name,
                        kind: span.kind,
                        trace_id: hex(&span.trace_id),
                        id: hex(&span.span_id),
                        parent: hex(&span.parent_span_id),
                        state: span.trace_state,
                        status: status.code,
                        message: status.message,
                        attributes: texts(&span.attributes),
                        resource: resource.clone(),
                    });
                }
            }
        }
        spans
    }

    /// Every log record that came: its event, its trace, its body.
    pub fn logs(&self) -> Vec<(String, String, String)> {
        let mut logs = Vec::new();
        for post in self.posted().iter().filter(|post| post.path == "/v1/logs") {
            let request = ExportLogsServiceRequest::decode(&*post.body).unwrap();
            let scopes = request.resource_logs.into_iter().flat_map(|all| all.scope_logs);
            for record in scopes.flat_map(|scope| scope.log_records) {
                let body = match record.body.and_then(|body| body.value) {
                    Some(any_value::Value::StringValue(text)) => text,
                    other => panic!("{other:?}"),
                };
                logs.push((record.event_name, hex(&record.trace_id), body));
            }
        }
        logs
    }

    /// The one span of this name.
    pub fn span(&self, name: &str) -> Span {
        let mut spans = self.spans();
        spans.retain(|span| span.name == name);
        assert_eq!(spans.len(), 1, "{name}: {spans:?}");
        spans.remove(0)
    }

    /// The points of a metric, as they were last sent.
    pub fn points(&self, name: &str) -> Vec<Point> {
        let posted = self.posted();
        let last = posted.iter().rev().find(|post| post.path == "/v1/metrics");
        let last = last.unwrap_or_else(|| panic!("no metrics came"));
        let request = ExportMetricsServiceRequest::decode(&*last.body).unwrap();
        let scopes = request.resource_metrics.into_iter().flat_map(|all| all.scope_metrics);
        let metrics = scopes.flat_map(|scope| scope.metrics).filter(|metric| metric.name == name);
        let mut points = Vec::new();
        for metric in metrics {
            let point = |labels: &[KeyValue], count, bounds| Point {
                unit: metric.unit.clone(),
                labels: texts(labels),
                count,
                bounds,
            };
            match metric.data.clone().unwrap() {
                Data::Sum(sum) => points.extend(sum.data_points.into_iter().map(|p| {
                    let value = p.value.map(|value| format!("{value:?}")).unwrap_or_default();
                    let digits: String = value.chars().filter(char::is_ascii_digit).collect();
                    // `AsInt(3)`
                    point(&p.attributes, digits.parse().unwrap(), Vec::new())
                })),
                Data::Histogram(all) => points.extend(
                    all.data_points
                        .into_iter()
                        .map(|p| point(&p.attributes, p.count, p.explicit_bounds)),
                ),
                other => panic!("{other:?}"),
            }
        }
        points
    }

    /// Everything that came, heads too.
    pub fn bytes(&self) -> Vec<u8> {
        self.posted().iter().flat_map(|post| [post.head.as_bytes(), &post.body].concat()).collect()
    }
}

fn serve(mut stream: TcpStream, manner: &Manner, kept: &(Mutex<Vec<Posted>>, Condvar)) {
    let Some(post) = read(&mut stream) else { return };
    kept.0.lock().unwrap().push(post);
    kept.1.notify_all();
    let answer = match manner {
        Manner::Takes => "HTTP/1.1 200 OK\r\n".to_owned(),
        Manner::Hangs => loop {
            std::thread::park();
        },
        Manner::Answers(head) => head.clone(),
    };
    let _ = stream
        .write_all(format!("{answer}content-length: 0\r\nconnection: close\r\n\r\n").as_bytes());
}

fn read(stream: &mut TcpStream) -> Option<Posted> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            let mut body = bytes.split_off(at + 4);
            let mut rest = vec![0; length.unwrap_or(body.len()) - body.len()];
            stream.read_exact(&mut rest).ok()?;
            body.append(&mut rest);
            let path = head.split(' ').nth(1).unwrap().to_owned();
            return Some(Posted { path, head, body });
        }
        match stream.read(&mut chunk).ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &any_value::Value| match value {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::BoolValue(value) => value.to_string(),
        any_value::Value::IntValue(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    let pair = |pair: &KeyValue| {
        let value = pair.value.as_ref().and_then(|value| value.value.as_ref());
        (pair.key.clone(), value.map(text).unwrap_or_default())
    };
    attributes.iter().map(pair).collect()
}
