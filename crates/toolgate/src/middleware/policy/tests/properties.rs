//! What holds for any policies: deny wins, nothing passes by default, and naming policies only narrows.

use super::*;
use crate::random::Random;

const SERVERS: [&str; 3] = ["files", "mail", "f"];
const TOOLS: [&str; 6] = ["read", "delete", "delete_all", ".x", "a/b", "é"];
const PARTS: [&str; 8] = ["*", "f*", "*e*", "delete?all", "read", "?", "*/b", "mail"];

fn selectors(dice: &mut Random) -> Vec<String> {
    let count = dice.roll(4);
    (0..count).map(|_| format!("{}/{}", dice.pick(&PARTS), dice.pick(&PARTS))).collect()
}

fn config(allow: &[String], deny: &[String]) -> PolicyConfig {
    let parsed = |list: &[String]| list.iter().map(|text| text.parse().unwrap()).collect();
    PolicyConfig { allow: parsed(allow), deny: parsed(deny), cedar: None }
}

/// What is allowed, and what is denied.
type Lists = (Vec<String>, Vec<String>);

/// Policies `p0` to `p3` with the lists that they are made of.
fn some_policies(dice: &mut Random) -> (Policies, Vec<Lists>) {
    let lists: Vec<_> = (0..4).map(|_| (selectors(dice), selectors(dice))).collect();
    let named = lists.iter().enumerate();
    let named = named.map(|(at, (allow, deny))| (format!("p{at}"), config(allow, deny)));
    (Policies::load(&named.collect(), Path::new("")).unwrap(), lists)
}

fn is_allowed(policy: &Policy, cx: &Context, tool: &Tool, open: bool) -> bool {
    let arguments = if open { PolicyArguments::Unknown } else { PolicyArguments::Known(None) };
    policy.check(PolicyRequest { cx, tool, arguments }).is_ok()
}

/// The rules of a glob, word for word: written without a thought of speed.
fn fits(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        (['*', rest @ ..], _) => (0..=text.len()).any(|at| fits(rest, &text[at..])),
        (['?', rest @ ..], [_, text @ ..]) => fits(rest, text),
        ([want, rest @ ..], [got, text @ ..]) => want == got && fits(rest, text),
        _ => false,
    }
}

fn covers(selector: &str, tool: &ToolId) -> bool {
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    let (server, name) = selector.split_once('/').unwrap();
    fits(&chars(server), &chars(tool.server())) && fits(&chars(name), &chars(tool.name()))
}

#[test]
fn the_lists_say_what_passes_and_deny_always_wins() {
    for seed in 0..200 {
        let dice = &mut Random::new(seed);
        let (known, lists) = some_policies(dice);
        let bound = layer(&known, Some("p0"), &[]);
        let (allow, deny) = &lists[0];
        for (server, name) in SERVERS.iter().flat_map(|s| TOOLS.iter().map(move |t| (s, t))) {
            let tool = tool(&format!("{server}/{name}"));
            let on = |list: &[String]| list.iter().any(|selector| covers(selector, tool.id()));
            let expected = !on(deny) && on(allow);
            for open in [false, true] {
                let passes = is_allowed(&bound, &surroundings(me(), "{}"), &tool, open);
                assert_eq!(passes, expected, "seed {seed}, {tool:?}, {allow:?}, {deny:?}");
            }
            // Another deny never opens anything, whatever it says.
            let more = [deny.clone(), selectors(dice)].concat();
            let more = policies(&[("p", config(allow, &more))]);
            let narrower =
                is_allowed(&layer(&more, Some("p"), &[]), &surroundings(me(), "{}"), &tool, false);
            assert!(expected || !narrower, "seed {seed}");
        }
    }
}

#[test]
fn naming_policies_never_turns_a_denial_into_an_allowance() {
    const IDS: [&str; 7] = ["\"p0\"", "\"p1\"", "\"p2\"", "\"p3\"", "\"nobody\"", "\"\"", "7"];
    for seed in 0..200 {
        let dice = &mut Random::new(seed);
        let (known, _) = some_policies(dice);
        let namespace = [None, Some("p0"), Some("p1")][dice.roll(3)];
        let principals: &[(&str, &str)] =
            [&[][..], &[("local:*", "p2")], &[("key:*", "p3")]][dice.roll(3)];
        let bound = layer(&known, namespace, principals);
        let plain = surroundings(me(), "{}");
        let mut named = plain.nested();
        for _ in 0..=dice.roll(3) {
            let child = surroundings(me(), &format!("{{\"policyId\":{}}}", dice.pick(&IDS)));
            let mut control = child.control().clone();
            control.inherit(named.control());
            named = child.with_control(control);
        }
        for id in SERVERS.iter().flat_map(|s| TOOLS.iter().map(move |t| format!("{s}/{t}"))) {
            let tool = tool(&id);
            let before = is_allowed(&bound, &plain, &tool, false);
            let after = is_allowed(&bound, &named, &tool, false);
            assert!(before || !after, "seed {seed}, {id}: named {:?}", named.control().policies);
            assert_eq!(
                after,
                is_allowed(&bound, &named, &tool, true),
                "seed {seed}: the listing agrees"
            );
            let each = |id: &Arc<str>| {
                let alone = known.get(id).map(|policy| policy.name.to_string());
                alone.is_some_and(|alone| {
                    is_allowed(&layer(&known, Some(&alone), &[]), &plain, &tool, false)
                })
            };
            let all = before && named.control().policies.iter().all(each);
            assert_eq!(after, all, "seed {seed}, {id}: exactly what all of them allow");
        }
    }
}
