//! Selections of tools: by a `server/tool` glob or by properties.

use std::fmt;

use serde::{Deserialize, Deserializer};

use crate::{
    selector::{Selector, glob},
    tier::Tier,
    tool::Tool,
};

/// The tools that a rule applies to: a `"server/tool"` glob, or a table of properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// By identity.
    Glob(Selector),
    /// By properties, all of which must match.
    Facts(Facts),
}

/// Properties of a tool. All that are given must match.
///
/// A hint that the tool does not give has the protocol's default, which is the worst case: a tool without hints counts
/// as mutating, destructive and open to the world.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Facts {
    /// The tool's tier; a tool of unknown tier counts as `destructive`.
    pub tier: Option<Tier>,
    /// Its category, as a glob.
    pub category: Option<String>,
    /// The id of its server, as a glob.
    pub server: Option<String>,
    /// Its identity.
    pub tools: Option<Selector>,
    /// Whether the tool only reads (`readOnlyHint`).
    pub read_only: Option<bool>,
    /// Whether the tool may destroy data (`destructiveHint`).
    pub destructive: Option<bool>,
    /// Whether repeating a call has no further effect (`idempotentHint`).
    pub idempotent: Option<bool>,
    /// Whether the tool interacts with external systems (`openWorldHint`).
    pub open_world: Option<bool>,
}

impl Selection {
    /// Whether the selection includes this tool.
    #[must_use]
    pub fn covers(&self, tool: &Tool) -> bool {
        match self {
            Self::Glob(selector) => selector.covers(tool.id()),
            Self::Facts(facts) => facts.hold(tool),
        }
    }

    /// Whether the selection depends on the tool's definition, so that the tool has to be listed first.
    #[must_use]
    pub fn needs_tools(&self) -> bool {
        match self {
            Self::Glob(_) => false,
            Self::Facts(facts) => {
                facts.tier.is_some()
                    || [facts.read_only, facts.destructive, facts.idempotent, facts.open_world]
                        .iter()
                        .any(Option::is_some)
            }
        }
    }
}

impl Facts {
    fn hold(&self, tool: &Tool) -> bool {
        fn is<T: PartialEq + Copy>(wanted: Option<T>, fact: T) -> bool {
            wanted.is_none_or(|wanted| wanted == fact)
        }
        let fits = |pattern: &Option<String>, text| pattern.as_ref().is_none_or(|p| glob(p, text));
        let hints = tool.hints();
        let read_only = hints.read_only.unwrap_or(false);
        is(self.tier, tool.tier().unwrap_or(Tier::Destructive))
            && fits(&self.category, tool.category())
            && fits(&self.server, tool.id().server())
            && self.tools.as_ref().is_none_or(|tools| tools.covers(tool.id()))
            && is(self.read_only, read_only)
            && is(self.destructive, !read_only && hints.destructive.unwrap_or(true))
            && is(self.idempotent, read_only || hints.idempotent.unwrap_or(false))
            && is(self.open_world, hints.open_world.unwrap_or(true))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob(selector) => selector.fmt(f),
            Self::Facts(facts) => facts.fmt(f),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &Option<String>| text.as_ref().map(|text| format!("\"{text}\""));
        let flag = |flag: Option<bool>| flag.map(|flag| flag.to_string());
        let facts = [
            ("tier", self.tier.map(|tier| format!("\"{tier}\""))),
            ("category", quoted(&self.category)),
            ("server", quoted(&self.server)),
            ("tools", self.tools.as_ref().map(|tools| format!("\"{tools}\""))),
            ("read_only", flag(self.read_only)),
            ("destructive", flag(self.destructive)),
            ("idempotent", flag(self.idempotent)),
            ("open_world", flag(self.open_world)),
        ];
        let facts =
            facts.into_iter().filter_map(|(name, fact)| Some(format!("{name} = {}", fact?)));
        write!(f, "{{ {} }}", facts.collect::<Vec<_>>().join(", "))
    }
}

impl<'de> Deserialize<'de> for Selection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> serde::de::Visitor<'de> for Either {
            type Value = Selection;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "`\"server/tool\"` or a table of facts, as `{ tier = \"destructive\" }`",
                )
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Selection, E> {
                text.parse().map(Selection::Glob).map_err(E::custom)
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<Selection, A::Error> {
                let facts = Facts::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                if facts == Facts::default() {
                    return Err(serde::de::Error::custom(
                        "a table without facts: name at least one",
                    ));
                }
                Ok(Selection::Facts(facts))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{defined_tool, tool};

    fn covers(selection: &str, tool: &Tool) -> bool {
        #[derive(Deserialize)]
        struct Table {
            when: Selection,
        }
        let table: Table = toml::from_str(&format!("when = {selection}")).unwrap();
        table.when.covers(tool)
    }

    #[test]
    fn all_facts_must_hold_and_globs_do_as_before() {
        let reads = tool("read", Tier::Readonly);
        assert!(covers(r#""main/r*""#, &reads) && !covers(r#""other/*""#, &reads));
        assert!(covers(r#"{ tier = "readonly", server = "m*" }"#, &reads));
        assert!(!covers(r#"{ tier = "readonly", server = "x" }"#, &reads));
        assert!(covers(r#"{ category = "main", tools = "*/read" }"#, &reads));
    }

    #[test]
    fn what_a_tool_does_not_say_is_taken_for_the_worst() {
        let silent = defined_tool("t", None, r#"{"name":"t"}"#);
        for worst in [
            r#"{ tier = "destructive" }"#,
            "{ destructive = true }",
            "{ read_only = false }",
            "{ idempotent = false }",
            "{ open_world = true }",
        ] {
            assert!(covers(worst, &silent), "{worst}");
        }
        let reads = defined_tool("t", None, r#"{"name":"t","annotations":{"readOnlyHint":true}}"#);
        assert!(covers("{ destructive = false, idempotent = true }", &reads));
    }

    #[test]
    fn what_selects_nothing_is_refused() {
        #[derive(Debug, Deserialize)]
        struct Table {
            #[expect(dead_code, reason = "only whether it can be read matters")]
            when: Selection,
        }
        for wrong in ["{}", r#""echo""#, "{ teir = 1 }", r#"{ tools = "echo" }"#, "3"] {
            assert!(toml::from_str::<Table>(&format!("when = {wrong}")).is_err(), "{wrong}");
        }
    }
}
