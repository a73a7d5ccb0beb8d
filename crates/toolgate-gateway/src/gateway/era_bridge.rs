//! Translates requests and results between legacy peers (2025-11-25 and earlier) and peers of 2026-07-28.

use toolgate::RpcError;
use toolgate_wire::{
    Json, Kind, Message, Object, Shape,
    mcp::{Era, MODERN, code, member, meta, method},
};

use crate::{
    capabilities::ClientCapabilities,
    clients::{
        caller::{Caller, CallerProtocol},
        legacy_session::LegacySession,
    },
    log_level::LogLevel,
};

/// `_meta` keys that only requests of 2026-07-28 have.
const MODERN_KEYS: [&str; 4] =
    [meta::PROTOCOL_VERSION, meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES, meta::LOG_LEVEL];

/// Members that only results of 2026-07-28 have.
const MODERN_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// Changes the params of a request for a server whose era is not that of the client.
pub(super) fn translate_meta(params: &mut Object, caller: &Caller, to: Era) {
    let meta = params.get(member::META);
    let had_meta = meta.is_some();
    let mut meta = meta.and_then(|meta| meta.object()).unwrap_or_default();
    match (&caller.speaks, to) {
        (CallerProtocol::Legacy(session), Era::Modern) => {
            introduce(&mut meta, session);
            params.set(member::META, meta.finish());
        }
        (CallerProtocol::Modern(_), Era::Legacy) => {
            for key in MODERN_KEYS {
                meta.remove(key);
            }
            params.remove(member::REQUEST_STATE);
            params.remove(member::INPUT_RESPONSES);
            if meta.is_empty() && had_meta {
                params.remove(member::META);
            } else if meta.is_changed() {
                params.set(member::META, meta.finish());
            }
        }
        _ => {}
    }
}

/// Adds the `_meta` of 2026-07-28 for a legacy session.
fn introduce(meta: &mut Object, session: &LegacySession) {
    meta.set(meta::PROTOCOL_VERSION, Json::string(MODERN));
    meta.set(meta::CLIENT_INFO, session.info_text.clone());
    meta.set(meta::CLIENT_CAPABILITIES, capabilities(session));
    // Without a level, a legacy client gets all log messages, but a server of 2026-07-28 would send none.
    let level = session.level().unwrap_or(LogLevel::ALL);
    meta.set(meta::LOG_LEVEL, Json::string(level.name()));
}

/// The capabilities of a legacy session in the form of 2026-07-28.
fn capabilities(session: &LegacySession) -> Json {
    let Some(said) = session.capabilities.object() else { return Json::empty_object() };
    let mut capabilities = Object::new();
    for name in ["sampling", "roots", "experimental"] {
        if let Some(capability) = said.get(name).filter(|json| json.kind() == Kind::Object) {
            capabilities.set(name, capability);
        }
    }
    let mut modes = Object::new();
    for (ability, mode) in [(ClientCapabilities::FORMS, "form"), (ClientCapabilities::URLS, "url")]
    {
        if session.abilities.has(ability) {
            modes.set(mode, Json::empty_object());
        }
    }
    if !modes.is_empty() {
        capabilities.set("elicitation", modes.finish());
    }
    capabilities.finish()
}

/// Whether the results of a method carry `ttlMs` and `cacheScope`.
pub(super) fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        method::TOOLS_LIST
            | method::PROMPTS_LIST
            | method::RESOURCES_LIST
            | method::RESOURCES_TEMPLATES_LIST
            | method::RESOURCES_READ
            | method::SERVER_DISCOVER
    )
}

/// Translates a result for a client of another era; `None` if the result can stay unchanged.
pub(super) fn translate_result(result: &Json, method: &str, from: Era, to: Era) -> Option<Json> {
    let mut object = result.object()?;
    match (from, to) {
        (Era::Legacy, Era::Legacy) => {}
        (_, Era::Modern) => {
            if !object.contains("resultType") {
                object.set(member::RESULT_TYPE, Json::string("complete"));
            }
            if is_cacheable(method) && is_complete(&object) {
                if !object.contains("ttlMs") {
                    object.set("ttlMs", Json::value(&0.into()));
                }
                if !object.contains("cacheScope") {
                    object.set("cacheScope", Json::string("private"));
                }
            }
        }
        (Era::Modern, Era::Legacy) => {
            for member in MODERN_MEMBERS {
                object.remove(member);
            }
            remove_stamps(&mut object);
            // In legacy versions structured content must be an object. The text content repeats it anyway.
            let is_odd = |json: Json| json.kind() != Kind::Object;
            if method == method::TOOLS_CALL
                && object.get(member::STRUCTURED_CONTENT).is_some_and(is_odd)
            {
                object.remove(member::STRUCTURED_CONTENT);
            }
        }
    }
    object.is_changed().then(|| object.finish())
}

/// Removes the `_meta` keys of 2026-07-28 from a result.
fn remove_stamps(result: &mut Object) {
    let Some(mut meta) = result.get(member::META).and_then(|meta| meta.object()) else { return };
    for stamp in MODERN_KEYS.into_iter().chain([meta::SERVER_INFO, meta::SUBSCRIPTION_ID]) {
        meta.remove(stamp);
    }
    if meta.is_changed() {
        if meta.is_empty() {
            result.remove(member::META);
        } else {
            result.set(member::META, meta.finish());
        }
    }
}

fn is_complete(result: &Object) -> bool {
    result.get(member::RESULT_TYPE).is_some_and(|json| json.as_str() == "\"complete\"")
}

/// Translates a legacy server's error `-32042` (the user must open a page first) into a result that asks for input.
pub(super) fn pages_first(answer: &Message) -> Option<Json> {
    if answer.shape() != Shape::Error
        || answer.member("code")?.i64()? != code::URL_ELICITATION_REQUIRED
    {
        return None;
    }
    let pages = answer.member("data")?.get("elicitations")?.array()?;
    let mut requests = Object::new();
    for (number, page) in pages.iter().enumerate() {
        let mut params = page.object()?;
        params.remove(member::ELICITATION_ID);
        params.set("mode", Json::string("url"));
        let mut request = Object::new();
        request.set("method", Json::string(method::ELICITATION_CREATE));
        request.set("params", params.finish());
        requests.set(&format!("toolgate_page_{number}"), request.finish());
    }
    let mut result = Object::new();
    result.set(member::RESULT_TYPE, Json::string("input_required"));
    result.set(member::INPUT_REQUESTS, requests.finish());
    Some(result.finish())
}

/// Translates an error for a client of another era.
pub(super) fn translate_error(
    mut rpc: RpcError,
    method: &str,
    to: Era,
    uri: Option<&str>,
) -> RpcError {
    if method != method::RESOURCES_READ {
        return rpc;
    }
    let has_uri = rpc.data.as_ref().is_some_and(|data| data.get("uri").is_some());
    match (to, rpc.code) {
        (Era::Modern, code::RESOURCE_NOT_FOUND) => {
            rpc.code = code::INVALID_PARAMS;
            if let Some(uri) = uri.filter(|_| !has_uri) {
                rpc.data = Some(Json::value(&serde_json::json!({"uri": uri})));
            }
        }
        (Era::Legacy, code::INVALID_PARAMS) if has_uri => rpc.code = code::RESOURCE_NOT_FOUND,
        _ => {}
    }
    rpc
}
