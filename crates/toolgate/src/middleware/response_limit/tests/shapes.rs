//! Structured content keeps its shape, and no result of any kind is over the limit.

use super::*;

/// Whether `short` is `long` with some strings cut and some elements gone, and nothing else.
fn is_shortened(long: &Json, short: &Json, keep: Keep) -> bool {
    if long.kind() != short.kind() {
        return false;
    }
    match long.kind() {
        Kind::Object => {
            let (long, short) = (long.object().unwrap(), short.object().unwrap());
            long.len() == short.len()
                && long.iter().zip(short.iter()).all(|((key, value), (same, part))| {
                    key == same && is_shortened(&value, &part, keep)
                })
        }
        Kind::Array => {
            let (long, short) = (long.array().unwrap(), short.array().unwrap());
            let gone = long.len() - short.len();
            let kept = match keep {
                Keep::Tail => &long[gone..],
                Keep::Head => &long[..short.len()],
            };
            (short.is_empty() == long.is_empty())
                && kept.iter().zip(&short).all(|(long, short)| is_shortened(long, short, keep))
        }
        Kind::String => {
            let (Some(long), Some(short)) = (long.text(), short.text()) else {
                return long == short;
            };
            long == short || is_cut(&long, &short, keep)
        }
        Kind::Number | Kind::Bool | Kind::Null => long == short,
    }
}

fn is_cut(long: &str, short: &str, keep: Keep) -> bool {
    let (header, kept) = match keep {
        Keep::Tail => short.split_once('\n').unwrap(),
        Keep::Head => short.rsplit_once('\n').map(|(kept, header)| (header, kept)).unwrap(),
    };
    let dropped = long.len() - kept.len();
    let is_end = match keep {
        Keep::Tail => long.ends_with(kept),
        Keep::Head => long.starts_with(kept),
    };
    header == format!("[... truncated {dropped} bytes ...]") && is_end
}

fn structured(result: &Json) -> Json {
    result.get("structuredContent").unwrap()
}

#[tokio::test]
async fn the_longest_strings_give_first() {
    let result = serde_json::json!({"content": [], "structuredContent": {
        "id": "0123456789abcdef", "log": "l".repeat(9000), "note": "n".repeat(900), "n": [1, 2],
    }});
    let long = json(result.to_string());
    let short = structured(&cut(4000, long.as_str()).await);
    assert!(is_shortened(&structured(&long), &short, Keep::Tail));
    assert_eq!(short.get("note").unwrap().len(), 902, "what is short enough stays whole");
    assert_eq!(short.get("n").unwrap().as_str(), "[1,2]");
    assert!(short.len() > 3500, "{}", short.len());
}

#[tokio::test]
async fn rows_go_before_their_texts_are_mangled() {
    let rows: Vec<_> = (0..1000)
        .map(|n| serde_json::json!({"n": n, "text": format!("{n:0>300}"), "at": [n, 1.5]}))
        .collect();
    let long =
        json(serde_json::json!({"content": [], "structuredContent": {"rows": rows}}).to_string());
    for keep in [Keep::Tail, Keep::Head] {
        let outcome = through(&limit(20_000, keep), long.as_str()).await;
        let short = structured(outcome.result().unwrap().json());
        assert!(is_shortened(&structured(&long), &short, keep));
        assert!(!short.as_str().contains("truncated"), "rows go whole");
        let count = short.get("rows").unwrap().array().unwrap().len();
        assert!((50..60).contains(&count), "{count}");
    }
}

#[tokio::test]
async fn small_things_beside_large_ones_stay_whole() {
    // A short text beside much structure, and the other way round.
    let rows: Vec<usize> = (0..10_000).collect();
    let result = serde_json::json!({
        "content": [{"type": "text", "text": "10000 rows"}],
        "structuredContent": {"rows": rows},
    });
    let short = cut(5000, &result.to_string()).await;
    assert_eq!(text(&short, 0), "10000 rows");
    assert!(short.len() > 3500, "{}", short.len());
    let result = serde_json::json!({
        "content": [{"type": "text", "text": "x".repeat(10_000)}],
        "structuredContent": {"rows": [1, 2, 3]},
    });
    let short = cut(5000, &result.to_string()).await;
    assert_eq!(structured(&short).as_str(), r#"{"rows":[1,2,3]}"#);
    header(&text(&short, 0));
}

#[tokio::test]
async fn structure_that_needs_more_than_its_share_gets_it() {
    let keys: Vec<String> = (0..100).map(|n| format!("\"key number {n}\":{n}")).collect();
    let keys = keys.join(",");
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"{}"}}],"structuredContent":{{{keys}}}}}"#,
        "x".repeat(10_000)
    );
    let short = cut(3000, &result).await;
    assert_eq!(structured(&short).as_str(), format!("{{{keys}}}"));
    header(&text(&short, 0));
}

#[tokio::test]
async fn a_string_that_is_no_text_is_left_alone() {
    let lone = format!("\"\\ud800{}\"", "x".repeat(1000));
    let result = format!(
        r#"{{"content":[],"structuredContent":{{"odd":{lone},"log":"{}"}}}}"#,
        "l".repeat(5000)
    );
    let short = structured(&cut(3000, &result).await);
    assert_eq!(short.get("odd").unwrap().as_str(), lone);
}

/// Any result: texts, pictures, resources, structured content, unknown members.
fn any_result(dice: &mut Random) -> String {
    let mut blocks = Vec::new();
    for _ in 0..dice.roll(5) {
        let text = Json::string(&dice.text(3000));
        let text = text.as_str();
        blocks.push(match dice.roll(5) {
            0 => format!(r#"{{"type":"image","data":"{}"}}"#, "A".repeat(dice.roll(4000))),
            1 => format!(r#"{{"type":"resource","resource":{{"uri":"a:b","text":{text}}}}}"#),
            _ => format!(r#"{{ "type":"text", "text":{text}, "_meta":{{"n":1e400}} }}"#),
        });
    }
    let mut members = vec![format!(r#""content":[{}]"#, blocks.join(" , "))];
    if dice.roll(2) == 0 {
        members.push(format!(r#""structuredContent":{}"#, dice.json(8000, 6)));
    }
    if dice.roll(2) == 0 {
        members.push(format!(r#""_meta":{{"a":{}}}"#, Json::string(&dice.text(300)).as_str()));
    }
    if dice.roll(2) == 0 {
        members.push(r#""isError":true"#.to_owned());
    }
    members.push(r#""x-unknown" : [1.0]"#.to_owned());
    format!("{{{}}}", members.join(", "))
}

#[tokio::test]
async fn no_result_of_any_kind_is_over_the_limit_or_loses_its_shape() {
    let mut dice = Random::new(3);
    let (mut shortened, mut refused) = (0, 0);
    for round in 0..400 {
        let result = any_result(&mut dice);
        let bytes = SMALLEST + dice.roll(4000);
        let keep = *dice.pick(&[Keep::Tail, Keep::Head]);
        let outcome = through(&limit(bytes, keep), &result).await;
        let (long, short) = (json(result.as_str()), outcome.result().unwrap().json());
        assert!(short.len() <= bytes, "round {round}: {} > {bytes}", short.len());
        let _ = json(short.as_str());
        if outcome.code() == Some(Code::ResponseTooLarge) {
            assert!(long.len() > bytes);
            refused += 1;
            continue;
        }
        if long.len() <= bytes {
            assert_eq!(short, &long, "round {round}");
            continue;
        }
        shortened += 1;
        assert_eq!(short.get("isError"), long.get("isError"), "round {round}");
        assert_eq!(short.get("x-unknown").unwrap().as_str(), "[1.0]");
        let meta = |json: &Json| json.get("_meta").and_then(|meta| meta.get("a"));
        assert_eq!(meta(short), meta(&long), "round {round}");
        assert!(short.get("_meta").unwrap().get(shrink::FLAG).is_some());
        if let Some(structure) = long.get("structuredContent") {
            assert!(is_shortened(&structure, &structured(short), keep), "round {round}");
        }
    }
    assert!(shortened > 100 && refused > 2, "{shortened} shortened, {refused} refused");
}

#[tokio::test]
async fn no_shape_takes_long() {
    // Each of these took time or memory in the square of its size once.
    let pairs = vec!["[0,0]"; 200_000].join(",");
    let keys: Vec<String> = (0..100_000).map(|n| format!("\"{n}\":[0,0]")).collect();
    let crumbs = vec!["0"; 1_500_000].join(",");
    for (structure, survives) in [
        (format!("{{\"pairs\":[{pairs}]}}"), true),
        (format!("{{{}}}", keys.join(",")), false),
        (format!("[{crumbs}]"), false),
        (format!("{}0{}", "[".repeat(100), ",0]".repeat(100)), true),
        (format!("[\"{}\"]", "a,b,".repeat(1_000_000)), true),
    ] {
        let result = format!(r#"{{"content":[],"structuredContent":{structure}}}"#);
        let outcome = through(&limit(100_000, Keep::Tail), &result).await;
        assert!(outcome.result().unwrap().json().len() <= 100_000);
        let start = structure.get(..20).unwrap();
        assert_eq!(outcome.failure().is_none(), survives, "{start}");
    }
}
