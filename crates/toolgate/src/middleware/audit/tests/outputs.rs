//! Further outputs: they get what the file gets, and what they do touches no call.

use std::error::Error;

use super::{
    files::{folder, read},
    *,
};

/// Keeps the lines that it gets, or fails.
#[derive(Debug, Default)]
struct Elsewhere {
    fails: bool,
    lines: Mutex<Vec<(String, &'static str, Option<&'static str>)>>,
}

impl AuditOutput for Elsewhere {
    fn name(&self) -> &'static str {
        "elsewhere"
    }

    fn is_wanted(&self, config: &AuditConfig) -> bool {
        config.store
    }

    fn write(&self, lines: &[AuditLine<'_>]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.fails {
            return Err("broken on purpose".into());
        }
        let mut kept = self.lines.lock().unwrap();
        for line in lines {
            let is_of_call = ["call", "intent"].contains(&line.about.event);
            assert_eq!(line.about.call_id.is_some(), is_of_call);
            kept.push((line.json.to_owned(), line.about.event, line.about.outcome));
        }
        Ok(())
    }
}

async fn call_with(config: &AuditConfig, output: &Arc<Elsewhere>) -> Option<AuditSink> {
    let outputs: [Arc<dyn AuditOutput>; 1] = [Arc::clone(output) as _];
    let sink = AuditSink::open_with(config, &RedactConfig::default(), &outputs).unwrap()?;
    let chain = Chain::builder().layer(Audit::new(sink.clone()));
    let chain = chain.layer(AuditIntent::new(sink.clone())).build().unwrap();
    let server = answering(json("{}"));
    let outcome = testing::call(&chain, &tool("t", Tier::Mutating), "{}", &server).await;
    assert!(outcome.failure().is_none());
    sink.close(TEST_TIMEOUT);
    Some(sink)
}

#[tokio::test]
async fn an_output_gets_the_lines_of_the_file() {
    let (_folder, path) = folder();
    let file = Target::File(path.clone());
    let config = AuditConfig { file, store: true, ..AuditConfig::default() };
    let output = Arc::new(Elsewhere::default());
    let sink = call_with(&config, &output).await.unwrap();
    assert!(sink.describe().ends_with(" and elsewhere"), "{}", sink.describe());
    let kept = output.lines.lock().unwrap();
    let lines: Vec<&str> = kept.iter().map(|(line, ..)| line.as_str()).collect();
    assert_eq!(lines, read(&path).lines().collect::<Vec<_>>());
    let told: Vec<_> = kept.iter().map(|(_, event, outcome)| (*event, *outcome)).collect();
    assert_eq!(told, [("begin", None), ("intent", None), ("call", Some("ok"))]);
}

#[tokio::test]
async fn an_output_can_be_all_there_is_and_gets_nothing_if_nobody_asks() {
    let output = Arc::new(Elsewhere::default());
    assert!(call_with(&AuditConfig::default(), &output).await.is_none());
    let config = AuditConfig { store: true, ..AuditConfig::default() };
    let sink = call_with(&config, &output).await.unwrap();
    assert_eq!(sink.describe(), "elsewhere");
    assert_eq!(output.lines.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn an_output_that_fails_is_counted_and_one_gets_what_the_file_does_not() {
    let (_folder, path) = folder();
    let config = AuditConfig { file: Target::File(path), store: true, ..AuditConfig::default() };
    let output = Arc::new(Elsewhere { fails: true, ..Elsewhere::default() });
    let counts = call_with(&config, &output).await.unwrap();
    let counts = counts.counts();
    assert_eq!((counts.written(), counts.lost(), counts.missed()), (2, 0, 3));

    let full = AuditConfig { file: Target::File("/dev/full".into()), ..config };
    let output = Arc::new(Elsewhere::default());
    let sink = call_with(&full, &output).await.unwrap();
    assert_eq!((sink.counts().written(), sink.counts().lost()), (0, 2));
    let kept = output.lines.lock().unwrap();
    let events: Vec<&str> = kept.iter().map(|(_, event, _)| *event).collect();
    assert!(events.contains(&"intent") && events.contains(&"call"), "{events:?}");
    assert!(kept.iter().all(|(line, ..)| !line.contains("\"hash\"")), "there is no chain to be in");
}
