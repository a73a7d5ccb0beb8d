//! Remembers which server returned which resource URI in a result. A client may read such a resource although no list
//! has it: the gateway then asks the server that returned it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use toolgate_wire::{Json, Kind};

/// The number of URIs to remember for each server. Beyond that, a server's own oldest URIs are dropped.
const MAX_URIS: usize = 4096;
/// Longer URIs are not remembered.
const MAX_URI_LENGTH: usize = 2048;

/// The URIs that servers returned to one principal.
#[derive(Debug, Default)]
pub(crate) struct ResourceLinks(Mutex<HashMap<Arc<str>, LinkedResource>>);

#[derive(Debug, Default)]
struct LinkedResource {
    uris: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl ResourceLinks {
    /// Remembers the URIs in a result of a server.
    pub(crate) fn note(&self, server: &Arc<str>, result: &Json) {
        // Most results have none, so search the text before parsing it.
        if memchr::memmem::find(result.as_bytes(), b"\"uri\"").is_none() {
            return;
        }
        let uris = uris(result);
        if uris.is_empty() {
            return;
        }
        let mut links = self.0.lock();
        let returned = links.entry(Arc::clone(server)).or_default();
        for uri in uris.into_iter().filter(|uri| uri.len() <= MAX_URI_LENGTH) {
            let uri: Arc<str> = uri.into();
            if returned.uris.insert(Arc::clone(&uri)) {
                returned.order.push_back(uri);
            }
            if returned.order.len() > MAX_URIS
                && let Some(oldest) = returned.order.pop_front()
            {
                returned.uris.remove(&oldest);
            }
        }
    }

    /// The servers that returned a URI.
    pub(crate) fn servers(&self, uri: &str) -> Vec<Arc<str>> {
        let links = self.0.lock();
        let returned = links.iter().filter(|(_, returned)| returned.uris.contains(uri));
        let mut servers: Vec<Arc<str>> = returned.map(|(server, _)| Arc::clone(server)).collect();
        servers.sort();
        servers
    }
}

/// The URIs in the result of `tools/call`, `prompts/get` or `resources/read`.
fn uris(result: &Json) -> Vec<String> {
    let list = |json: Option<Json>| json.and_then(|json| json.array()).unwrap_or_default();
    let mut uris = Vec::new();
    for block in list(result.get("content")) {
        uris.extend(uri_of(&block));
    }
    for message in list(result.get("messages")) {
        match message.get("content") {
            Some(content) if content.kind() == Kind::Array => {
                uris.extend(list(Some(content)).iter().filter_map(uri_of));
            }
            Some(content) => uris.extend(uri_of(&content)),
            None => {}
        }
    }
    uris.extend(list(result.get("contents")).iter().filter_map(|read| text(read, "uri")));
    uris
}

/// The URI of a resource link or an embedded resource.
fn uri_of(block: &Json) -> Option<String> {
    match text(block, "type")?.as_str() {
        "resource_link" => text(block, "uri"),
        "resource" => text(&block.get("resource")?, "uri"),
        _ => None,
    }
}

fn text(json: &Json, member: &str) -> Option<String> {
    Some(json.get(member)?.text()?.into_owned())
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned(), &Limits::default()).unwrap()
    }

    #[test]
    fn links_and_embedded_resources_of_every_result_are_found() {
        let links = ResourceLinks::default();
        let server: Arc<str> = "a".into();
        for result in [
            r#"{"content":[{"type":"text","text":"\"uri\""},{"type":"resource_link","uri":"x:1"}]}"#,
            r#"{"content":[{"type":"resource","resource":{"uri":"x:2","text":""}}]}"#,
            r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"x:3"}}}]}"#,
            r#"{"messages":[{"role":"user","content":[{"type":"resource_link","uri":"x:4"}]}]}"#,
            r#"{"contents":[{"uri":"x:5","text":""}]}"#,
            r#"{"content":[{"type":"image","uri":"x:6"}],"structuredContent":{"uri":"x:7"}}"#,
        ] {
            links.note(&server, &json(result));
        }
        let known: Vec<bool> =
            (1..8).map(|n| !links.servers(&format!("x:{n}")).is_empty()).collect();
        assert_eq!(known, [true, true, true, true, true, false, false]);
    }

    #[test]
    fn a_server_that_returns_many_displaces_its_own_only() {
        let links = ResourceLinks::default();
        let (one, two): (Arc<str>, Arc<str>) = ("one".into(), "two".into());
        let link = |uri: &str| json(&format!(r#"{{"contents":[{{"uri":"{uri}"}}]}}"#));
        links.note(&one, &link("x:mine"));
        for n in 0..=MAX_URIS {
            links.note(&two, &link(&format!("x:{n}")));
        }
        links.note(&two, &link(&"y".repeat(MAX_URI_LENGTH + 1)));
        assert_eq!(links.servers("x:mine"), [Arc::clone(&one)]);
        assert!(links.servers("x:0").is_empty());
        links.note(&two, &link("x:mine"));
        assert_eq!(links.servers("x:mine"), [one, two]);
    }
}
