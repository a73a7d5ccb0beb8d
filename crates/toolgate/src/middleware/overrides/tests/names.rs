//! Names: one-to-one in both directions, whatever is set and whatever is listed; no rename opens anything.

use std::collections::HashSet;

use super::*;
use crate::{Code, random::Random};

/// A door: resolves the name, finds the tool, runs the chain.
struct Door {
    current: CurrentOverrides,
    chain: Chain,
    tools: Vec<Arc<Tool>>,
}

impl Door {
    fn new(set: Overrides, tools: &[ToolId], denied: &[ToolId]) -> Self {
        let current = CurrentOverrides::new(set);
        let builder = Chain::builder().layer(OverrideTools::new(current.clone()));
        let chain = builder.layer(Deny(denied.iter().cloned().collect())).build().unwrap();
        current.learn(tools);
        let rules = crate::TierRules::default();
        let tool = |id: &ToolId| {
            let definition = json(value!({"name": id.name(), "title": id.to_string()}).to_string());
            Arc::new(Tool::listed(id.clone(), definition, &rules))
        };
        Self { current, chain, tools: tools.iter().map(tool).collect() }
    }

    /// The server and the name on the wire of each tool that a client sees, with the tool that it is.
    async fn list(&self) -> Vec<(String, String, ToolId)> {
        let mut server = answering(json("{}"));
        server.tools.clone_from(&self.tools);
        let page = self.chain.list(&mut context(), Listing::default(), &server).await.unwrap();
        let tools = page.tools().iter().map(|tool| {
            let name = tool.definition().unwrap().get("name").unwrap();
            let name = name.text().unwrap().into_owned();
            (tool.id().server().to_owned(), name, tool.id().clone())
        });
        tools.collect()
    }

    /// The tool that runs when a client calls this name.
    async fn call(&self, server: &str, name: &str) -> Option<ToolId> {
        let current = self.current.get();
        let ResolvedName::Tool(own) = current.resolve(server, name) else { return None };
        let tool = self.tools.iter().find(|t| t.id() == &ToolId::new(server, own))?;
        let end = answering(json("{}"));
        let call = Call::new(Arc::clone(tool), None).with_wire_name(name);
        let outcome = self.chain.call(&mut context(), call, &end).await;
        (outcome.failure().is_none() && end.calls() == 1).then(|| tool.id().clone())
    }
}

/// Refuses and hides these tools.
struct Deny(HashSet<ToolId>);

impl Middleware for Deny {
    fn name(&self) -> &'static str {
        "deny"
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if self.0.contains(call.id()) {
            return Failure::new(Code::PolicyDenied, "no").by("deny", "test").into();
        }
        next.call(cx, call).await
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let mut list = next.list(cx, listing).await?;
        list.retain(|tool| !self.0.contains(tool.id()));
        Ok(list)
    }
}

fn named(name: &str) -> serde_json::Value {
    value!({ "name": name })
}

#[test]
fn a_renamed_tool_is_found_under_its_new_name_only() {
    let callable = value!({"name": "y", "original": "callable"});
    let set = overrides(&[("s/a", named("x")), ("s/b", callable)]).unwrap();
    assert_eq!(set.resolve("s", "x"), ResolvedName::Tool("a"));
    assert_eq!(set.resolve("s", "a"), ResolvedName::Gone);
    assert_eq!(set.resolve("s", "y"), ResolvedName::Tool("b"));
    assert_eq!(set.resolve("s", "b"), ResolvedName::Tool("b"), "stays callable, by setting");
    assert_eq!(set.resolve("s", "other"), ResolvedName::Tool("other"));
    let (a, b, c) = (id("s/a"), id("s/b"), id("s/c"));
    assert_eq!((set.wire_name(&a), set.wire_name(&b), set.wire_name(&c)), ("x", "y", "c"));
}

#[test]
fn two_tools_may_swap_their_names() {
    let set = overrides(&[("s/a", named("b")), ("s/b", named("a"))]).unwrap();
    assert_eq!(set.resolve("s", "a"), ResolvedName::Tool("b"));
    assert_eq!(set.resolve("s", "b"), ResolvedName::Tool("a"));
    assert_eq!(set.collisions(&[id("s/a"), id("s/b")]), []);
}

/// Metamcp's bug 15: a rename on server A took the calls of B's real tool of that name.
#[tokio::test]
async fn a_rename_on_one_server_leaves_the_others_alone() {
    let set = overrides(&[("a/orig", named("search"))]).unwrap();
    let tools = [id("a/orig"), id("b/search"), id("b/orig")];
    assert_eq!(set.collisions(&tools), []);
    let door = Door::new(set, &tools, &[]);
    assert_eq!(door.call("a", "search").await, Some(id("a/orig")));
    assert_eq!(door.call("b", "search").await, Some(id("b/search")));
    assert_eq!(door.call("b", "orig").await, Some(id("b/orig")));
    assert_eq!(door.call("a", "orig").await, None);
    let shown: Vec<String> =
        door.list().await.into_iter().map(|(server, name, _)| format!("{server}/{name}")).collect();
    assert_eq!(shown, ["a/search", "b/search", "b/orig"]);
}

/// Metamcp checks no collision: an override may shadow a real tool.
#[tokio::test]
async fn a_new_name_never_takes_the_calls_of_a_listed_tool() {
    let set = overrides(&[("s/move", value!({"name": "copy", "title": "T", "hidden": {"k": 1}}))])
        .unwrap();
    let tools = [id("s/move"), id("s/copy")];
    let collisions = set.collisions(&tools);
    assert_eq!(collisions, [Collision { tool: id("s/move"), other: id("s/copy") }]);
    assert_eq!(
        collisions[0].to_string(),
        "`s/move` is not renamed to `copy`: `s/copy` is called so; choose another name, or rename \
         `s/copy` too"
    );
    let door = Door::new(set, &tools, &[]);
    assert_eq!(door.call("s", "copy").await, Some(id("s/copy")));
    assert_eq!(door.call("s", "move").await, Some(id("s/move")), "keeps its own name");
    let current = door.current.get();
    assert!(current.of(&id("s/move")).unwrap().hides_arguments(), "the rest of it holds");

    // The other tool goes, and comes back: the name holds as long as no other tool has it.
    assert_eq!(door.current.learn(&tools[..1]), []);
    assert_eq!(door.call("s", "copy").await, Some(id("s/move")));
    assert_eq!(door.current.learn(&tools).len(), 1);
    assert_eq!(door.call("s", "copy").await, Some(id("s/copy")));
}

#[test]
fn a_collision_may_bring_the_next_one() {
    // b cannot be c, so it stays b, so a cannot be b.
    let set = overrides(&[("s/a", named("b")), ("s/b", named("c"))]).unwrap();
    let (settled, collisions) = set.settle(&[id("s/a"), id("s/c")]);
    assert_eq!(collisions.len(), 2);
    for name in ["a", "b", "c"] {
        assert_eq!(settled.resolve("s", name), ResolvedName::Tool(name));
    }
    assert_eq!(set.renames(), 2, "the overrides as set stay what they are");
}

/// A random set that is accepted, over few names, so that everything collides with everything.
fn random(dice: &mut Random, ids: &[ToolId], names: &[&str]) -> Option<Overrides> {
    let mut set = Vec::new();
    for id in ids {
        if dice.roll(3) == 0 {
            continue;
        }
        let mut config = OverrideConfig::default();
        if dice.roll(4) > 0 {
            config.name = Some(names[dice.roll(names.len())].to_owned());
        }
        config.original = *dice.pick(&[Original::Retired, Original::Retired, Original::Callable]);
        set.push((id.clone(), config));
    }
    Overrides::new(set).ok()
}

/// For every accepted set and every listing: the name of each tool leads back to it, no two tools share
/// one, listing and call agree, and a denied tool is reached by no name at all.
#[tokio::test]
async fn names_are_one_to_one_and_open_nothing() {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "x", "y"];
    let servers = ["s", "t"];
    let all = servers.iter().flat_map(|s| NAMES[..4].iter().map(|n| ToolId::new(*s, *n)));
    let all: Vec<ToolId> = all.collect();
    let (mut dice, mut accepted, mut settled_some) = (Random::new(15), 0, 0);
    while accepted < 400 {
        let Some(set) = random(&mut dice, &all, &NAMES) else { continue };
        accepted += 1;
        let some = |dice: &mut Random| -> Vec<ToolId> {
            all.iter().filter(|_| dice.roll(3) > 0).cloned().collect()
        };
        let (listed, denied) = (some(&mut dice), some(&mut dice));
        let (settled, collisions) = set.settle(&listed);
        settled_some += usize::from(!collisions.is_empty());
        assert_eq!(settled.collisions(&listed), [], "{set:?}");

        let mut seen = HashSet::new();
        for id in listed.iter().chain(set.iter().map(|(id, _)| id)).collect::<HashSet<_>>() {
            let wire = settled.wire_name(id);
            assert_eq!(
                settled.resolve(id.server(), wire),
                ResolvedName::Tool(id.name()),
                "{set:?} {id}"
            );
            assert!(seen.insert((id.server(), wire)), "{set:?}: two tools are called {wire}");
        }

        let door = Door::new(set, &listed, &denied);
        let shown = door.list().await;
        for (server, name, id) in &shown {
            assert_eq!(door.call(server, name).await.as_ref(), Some(id), "listed, so callable");
        }
        let runs: HashSet<ToolId> = shown.into_iter().map(|(.., id)| id).collect();
        for (server, name) in servers.iter().flat_map(|s| NAMES.iter().map(move |n| (s, n))) {
            if let Some(ran) = door.call(server, name).await {
                assert!(!denied.contains(&ran), "{name} reached {ran}");
                assert!(runs.contains(&ran), "callable, so listed under one name");
            }
        }
    }
    assert!(settled_some > 50, "the dice must try collisions: {settled_some}");
}

/// While the door learns, each request sees one state: the old one or the new one, never a mixture.
#[test]
fn a_request_holds_on_to_what_it_took() {
    let current = CurrentOverrides::new(overrides(&[("s/a", named("b"))]).unwrap());
    let taken = current.get();
    assert_eq!(current.learn(&[id("s/b")]).len(), 1);
    assert_eq!(taken.resolve("s", "b"), ResolvedName::Tool("a"));
    assert_eq!(current.clone().get().resolve("s", "b"), ResolvedName::Tool("b"));
}
