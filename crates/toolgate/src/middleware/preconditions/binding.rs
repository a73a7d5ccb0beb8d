//! The binding of an approval: the caller, the tool with its definition, and the exact arguments.

use toolgate_wire::Json;

use crate::{
    call::Call,
    context::Context,
    fingerprint::{DuplicateKey, Fingerprint},
};

/// The digest of everything that an approval is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding(pub(crate) [u8; 32]);

impl Binding {
    /// The binding of a call.
    pub(crate) fn of(cx: &Context, call: &Call) -> Result<Self, DuplicateKey> {
        let mut fingerprint = Fingerprint::default();
        let session = cx.session();
        fingerprint.part(session.principal.to_string().as_bytes());
        fingerprint.part(session.namespace.as_bytes());
        fingerprint.part(call.id().server().as_bytes());
        fingerprint.part(call.id().name().as_bytes());
        fingerprint.part(call.tool().definition().map_or(&[], |json| json.as_bytes()));
        match call.arguments() {
            Some(arguments) => fingerprint.value(arguments)?,
            None => fingerprint.value(&Json::empty_object())?,
        }
        Ok(Self(fingerprint.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Principal, Session, Tier,
        testing::{context, defined_tool, json, tool},
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
        assert_eq!(twice, Err(DuplicateKey("p".to_owned())));
    }

    #[test]
    fn another_caller_tool_or_definition_is_another_call() {
        let call = |definition: &str| {
            Call::new(defined_tool("t", Some(Tier::Destructive), definition), Some(json("{}")))
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
