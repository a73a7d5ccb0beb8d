//! What an approval is bound to: the caller, the tool as it was defined, and the exact arguments.

use sha2::{Digest as _, Sha256};
use toolgate_wire::{Json, Kind};

use crate::{call::Call, context::Context};

/// The digest of all that an approval is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding(pub(super) [u8; 32]);

/// A key stands twice in one object: of two readers one may take the first and one the last, so nobody can
/// say what was approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Twice(pub(super) String);

impl Binding {
    /// The binding of a call.
    pub(super) fn of(cx: &Context, call: &Call) -> Result<Self, Twice> {
        let mut digest = Sha256::new();
        let session = cx.session();
        put(&mut digest, session.principal.to_string().as_bytes());
        put(&mut digest, session.namespace.as_bytes());
        put(&mut digest, call.id().server().as_bytes());
        put(&mut digest, call.id().name().as_bytes());
        put(&mut digest, call.tool().definition().map_or(&[], |json| json.as_bytes()));
        match call.arguments() {
            Some(arguments) => value(&mut digest, arguments)?,
            None => value(&mut digest, &Json::empty_object())?,
        }
        Ok(Self(digest.finalize().into()))
    }
}

/// Each part with its length, so that no two lists of parts look the same.
fn put(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_be_bytes());
    digest.update(bytes);
}

/// A value, apart from spaces, the order of keys and how texts are escaped: a client that sends the same
/// call again may write it anew. Recursion ends at the depth that the wire allows.
fn value(digest: &mut Sha256, json: &Json) -> Result<(), Twice> {
    match json.kind() {
        Kind::Object => {
            let object = json.object().unwrap_or_default();
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by(|(one, _), (two, _)| one.cmp(two));
            let twice = members.windows(2).find_map(|pair| match pair {
                [(one, _), (two, _)] if one == two => Some(one.to_string()),
                _ => None,
            });
            if let Some(name) = twice {
                return Err(Twice(name));
            }
            digest.update(b"{");
            digest.update((members.len() as u64).to_be_bytes());
            for (name, member) in &members {
                put(digest, name.as_bytes());
                value(digest, member)?;
            }
        }
        Kind::Array => {
            let elements = json.array().unwrap_or_default();
            digest.update(b"[");
            digest.update((elements.len() as u64).to_be_bytes());
            for element in &elements {
                value(digest, element)?;
            }
        }
        Kind::String => {
            digest.update(b"\"");
            match json.text() {
                Some(text) => put(digest, text.as_bytes()),
                // Half a character: the text as it was written.
                None => put(digest, json.as_bytes()),
            }
        }
        Kind::Number | Kind::Bool | Kind::Null => {
            digest.update(b"=");
            put(digest, json.as_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Principal, Session, Tier,
        testbed::{context, defined, json, tool},
    };

    fn of(arguments: &str) -> Binding {
        let call = Call::new(tool("t", Tier::Destructive), Some(json(arguments)));
        Binding::of(&context(), &call).unwrap()
    }

    #[test]
    fn the_same_arguments_written_otherwise_are_the_same() {
        let one = of(r#"{"a":1,"b":["x",{"c":null}]}"#);
        assert_eq!(one, of("{ \"b\" : [\"\\u0078\", {\"c\": null}], \"a\":1 }"));
        for other in [
            r#"{"a":1,"b":["x",{"c":false}]}"#,
            r#"{"a":1,"b":["x"],"c":null}"#,
            r#"{"a":"1","b":["x",{"c":null}]}"#,
            r#"{"a":1.0,"b":["x",{"c":null}]}"#,
            r#"{"a":1}"#,
            "{}",
        ] {
            assert_ne!(one, of(other), "{other}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_binds_nothing() {
        let call = |text: &str| Call::new(tool("t", Tier::Destructive), Some(json(text)));
        let twice = Binding::of(&context(), &call(r#"{"a":{"p":1,"\u0070":2}}"#));
        assert_eq!(twice, Err(Twice("p".to_owned())));
    }

    #[test]
    fn another_caller_tool_or_definition_is_another_call() {
        let call = |definition: &str| {
            Call::new(defined("t", Some(Tier::Destructive), definition), Some(json("{}")))
        };
        let one = Binding::of(&context(), &call(r#"{"name":"t"}"#)).unwrap();
        let redefined = Binding::of(&context(), &call(r#"{"name":"t","title":"!"}"#)).unwrap();
        assert_ne!(one, redefined);
        let session = Session {
            principal: Principal::Key("other".into()),
            ..Session::clone(context().session())
        };
        let other = Context::new(session.into());
        assert_ne!(one, Binding::of(&other, &call(r#"{"name":"t"}"#)).unwrap());
    }
}
