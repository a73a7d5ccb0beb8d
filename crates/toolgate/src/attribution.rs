//! Attribution of questions: a user must not take a server's question for one of toolgate's own.
//!
//! toolgate's questions begin with [`OWN`]. A server's questions never do: text that mentions toolgate is prefixed
//! with the server's name and loses its brackets, and characters that hide or reorder others are escaped.

use serde_json::Value;
use toolgate_wire::{
    Json,
    mcp::{member, method},
};

/// The prefix of toolgate's own questions.
pub const OWN: &str = "[toolgate] ";

/// The member of `_meta` that names the server of a question, where a namespace has several.
pub const META_SERVER: &str = "toolgate/server";

/// The params of a server's request as the client receives them; `None` if they stay unchanged.
///
/// The server's name is put before its question if the namespace has several servers, or if its text could be taken for
/// toolgate's.
#[must_use]
pub fn of_server(
    method: &str,
    params: &Json,
    server: &str,
    is_one_of_several: bool,
) -> Option<Json> {
    if !matches!(method, method::ELICITATION_CREATE | method::SAMPLING_CREATE_MESSAGE) {
        return None;
    }
    let mut object = params.object()?;
    if method == method::ELICITATION_CREATE {
        let message = object.get("message");
        let message = message.as_ref().and_then(Json::text).unwrap_or_default();
        let clean = clean_text(&message);
        if is_one_of_several || imitates(&message) {
            object.set("message", Json::string(&format!("The server `{server}` asks: {clean}")));
        } else if clean != *message {
            object.set("message", Json::string(&clean));
        }
        if let Some(schema) =
            object.get(member::REQUESTED_SCHEMA).and_then(|schema| clean_schema(&schema))
        {
            object.set(member::REQUESTED_SCHEMA, schema);
        }
    }
    if is_one_of_several {
        let mut meta = object.get(member::META).and_then(|meta| meta.object()).unwrap_or_default();
        meta.set(META_SERVER, Json::string(server));
        object.set(member::META, meta.finish());
    }
    object.is_changed().then(|| object.finish())
}

/// Like [`of_server`], for all input that a result (`inputRequests`) or an error (`elicitations`) asks for.
#[must_use]
pub fn of_answer(body: &Json, server: &str, is_one_of_several: bool) -> Option<Json> {
    let mut object = body.object()?;
    if let Some(requests) =
        object.get(member::INPUT_REQUESTS).and_then(|requests| requests.object())
    {
        let mut asked = requests.clone();
        for (key, request) in requests.iter() {
            let (method, params) = (request.get("method"), request.get("params"));
            let method = method.as_ref().and_then(Json::text).unwrap_or_default();
            let params = params.unwrap_or_else(Json::empty_object);
            if let Some(params) = of_server(&method, &params, server, is_one_of_several)
                && let Some(mut request) = request.object()
            {
                request.set("params", params);
                asked.set(&key, request.finish());
            }
        }
        if asked.is_changed() {
            object.set(member::INPUT_REQUESTS, asked.finish());
        }
    }
    let data = object.get("data").and_then(|data| data.object());
    if let Some(mut data) = data
        && let Some(pages) = data.get("elicitations").and_then(|pages| pages.array())
    {
        let attributed =
            |page: &Json| of_server(method::ELICITATION_CREATE, page, server, is_one_of_several);
        let new: Vec<Option<Json>> = pages.iter().map(attributed).collect();
        if new.iter().any(Option::is_some) {
            let pages = new.into_iter().zip(pages).map(|(new, old)| new.unwrap_or(old));
            data.set("elicitations", Json::list(&pages.collect::<Vec<_>>()));
            object.set("data", data.finish());
        }
    }
    object.is_changed().then(|| object.finish())
}

/// Changes titles and descriptions of a form that could be taken for toolgate's or that contain hidden characters.
fn clean_schema(schema: &Json) -> Option<Json> {
    let mut value = schema.to_value().ok()?;
    clean_value(&mut value).then(|| Json::value(&value))
}

/// The JSON parser's depth limit also limits the recursion. Member names stay: the server reads the answer by them.
fn clean_value(value: &mut Value) -> bool {
    match value {
        Value::Array(elements) => {
            elements.iter_mut().fold(false, |any, one| clean_value(one) | any)
        }
        Value::Object(members) => {
            let mut is_changed = false;
            for (key, member) in members {
                is_changed |= match member {
                    Value::String(text) if matches!(key.as_str(), "title" | "description") => {
                        let clean = clean_text(text);
                        let is_other = clean != *text;
                        *text = clean;
                        is_other
                    }
                    other => clean_value(other),
                };
            }
            is_changed
        }
        _ => false,
    }
}

/// The text with hidden and reordering characters escaped, and without anything that looks like toolgate's prefix.
fn clean_text(text: &str) -> String {
    let has_mark = imitates(text);
    let hides = |c: char| {
        matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
            || (c.is_control() && !matches!(c, '\n' | '\t'))
    };
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if hides(c) {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(if has_mark { other_bracket(c) } else { c });
        }
    }
    plain
}

/// Whether a text mentions toolgate, in whatever spelling.
fn imitates(text: &str) -> bool {
    let folded: String = text.chars().filter_map(folded).collect();
    folded.contains("toolgate")
}

/// The Latin letter that a character looks like; `None` if it looks like no letter.
fn folded(c: char) -> Option<char> {
    let c = match c {
        // Full width.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        _ => c,
    };
    let c = c.to_lowercase().next().unwrap_or(c);
    match c {
        'a'..='z' => Some(c),
        '0' | 'о' | 'ο' | 'ö' | 'ò' | 'ó' | 'ô' | 'õ' | 'ø' | 'օ' => Some('o'),
        '1' | '|' | 'ӏ' | 'ł' | 'і' => Some('l'),
        'т' | 'τ' | '7' => Some('t'),
        'а' | 'α' | 'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | '4' | '@' => Some('a'),
        'е' | 'ε' | 'è' | 'é' | 'ê' | 'ë' | '3' => Some('e'),
        'ɡ' | 'ğ' | 'ġ' | 'ց' | '9' => Some('g'),
        _ => None,
    }
}

/// Replaces brackets like those of toolgate's prefix.
fn other_bracket(c: char) -> char {
    match c {
        '[' | '［' | '【' | '〔' | '〖' | '⟦' | '⁅' | '❲' => '(',
        ']' | '］' | '】' | '〕' | '〗' | '⟧' | '⁆' | '❳' => ')',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(message: &str, is_one_of_several: bool) -> Option<Value> {
        let params = Json::value(&json!({"message": message, "requestedSchema": {}}));
        let params = of_server("elicitation/create", &params, "files", is_one_of_several)?;
        Some(params.to_value().unwrap())
    }

    #[test]
    fn one_of_several_servers_is_named() {
        let asked = asked("Which one?", true).unwrap();
        assert_eq!(asked["message"], "The server `files` asks: Which one?");
        assert_eq!(asked["_meta"][META_SERVER], "files");
        let sampling =
            Json::value(&json!({"messages": [], "_meta": {META_SERVER: "other", "x": 1}}));
        let sampling = of_server("sampling/createMessage", &sampling, "files", true).unwrap();
        let sampling = sampling.to_value().unwrap();
        assert_eq!(sampling["_meta"], json!({META_SERVER: "files", "x": 1}));
    }

    #[test]
    fn the_only_server_is_passed_on_as_it_came_unless_it_imitates_us() {
        assert_eq!(asked("Which [one]?\n\tThis?", false), None);
        for imitation in [
            "[toolgate] Run this call?",
            " \n[ToolGate] Run",
            "fine\n\n[tool\u{200b}gate] Run",
            "［ｔｏｏｌｇａｔｅ］ Run",
            "[tооlgаte] Run",
            "[t00lg4te] Run",
            "【toolgate】 Run",
            "\u{202e}]etagloot[ Run toolgate",
        ] {
            for several in [false, true] {
                let asked = asked(imitation, several).unwrap();
                let text = asked["message"].as_str().unwrap();
                assert!(text.starts_with("The server `files` asks: "), "{text}");
                assert!(
                    !text.contains('[') && !text.contains('【') && !text.contains('［'),
                    "{text}"
                );
                assert!(!text.contains('\u{200b}') && !text.contains('\u{202e}'), "{text}");
            }
        }
        assert_eq!(asked("a\u{1b}[2Jb", false).unwrap()["message"], "a\\u{1b}[2Jb");
    }

    #[test]
    fn forms_and_answers_are_looked_at_too() {
        let form = json!({"message": "x", "requestedSchema": {"type": "object", "properties": {
            "confirm": {"type": "boolean", "title": "[toolgate] Run it", "description": "ok"}}}});
        let form = of_server("elicitation/create", &Json::value(&form), "s", false).unwrap();
        let form = form.to_value().unwrap();
        assert_eq!(form["requestedSchema"]["properties"]["confirm"]["title"], "(toolgate) Run it");
        let question = json!({"method": "elicitation/create", "params": {"message": "Who?"}});
        let result = json!({"resultType": "input_required", "inputRequests": {"q": question}});
        let result = of_answer(&Json::value(&result), "s", true).unwrap().to_value().unwrap();
        assert_eq!(result["inputRequests"]["q"]["params"]["message"], "The server `s` asks: Who?");
        let error = json!({"code": -32042, "message": "", "data": {"elicitations": [
            {"mode": "url", "message": "Open", "url": "https://x"}]}});
        let error = of_answer(&Json::value(&error), "s", true).unwrap().to_value().unwrap();
        assert_eq!(error["data"]["elicitations"][0]["message"], "The server `s` asks: Open");
        assert_eq!(of_answer(&Json::value(&json!({"content": []})), "s", true), None);
    }
}
