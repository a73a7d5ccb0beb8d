//! Decides which changes of settings only narrow what callers may do. Any other change waits until the operator applies
//! it.

use std::path::PathBuf;

use super::{LimitsConfig, Settings, Switch, ToolSettings};
use crate::{
    layer_spec::contains_all,
    middleware::{
        filter::{NewTools, Status},
        policy::PolicyConfig,
        scopes::Granted,
    },
    selector::Selector,
};

/// Destructures settings into their fields, without the tables of layers.
macro_rules! own_settings {
    (
        { let $settings:ident = $($own:tt)* }
        $($module:ident::$spec:ident $(, $table:ident: $type:ident = $about:tt)*;)*
    ) => {
        let Settings { $($own)* $($($table: _,)*)* } = $settings;
    };
}

impl Settings {
    /// The keys whose change from `old` to these settings may widen what callers may do. Empty if every change narrows,
    /// or does not affect access.
    #[must_use]
    pub fn widened_since(&self, old: &Self) -> Vec<&'static str> {
        // A new setting does not compile until it is handled here, because the pattern names every field.
        crate::layers!(own_settings {
            let self = chain, safety, annotations, tools, audit, redact, limits, new_tools, policies, policy, principals,
            granted, folder, telemetry, layers,
            // Messages and the lifetime of cached lists do not affect access.
            inactive_message: _, cache_ttl: _,
        });
        let narrows_policies = old.policies.iter().all(|(name, old)| {
            policies.get(name).is_some_and(|new| new == old || narrows_policy(old, new))
        });
        let own = [
            ("chain", *chain == old.chain),
            ("safety", old.safety.is_none_or(|old| safety.is_some_and(|new| new <= old))),
            ("annotations", *annotations == old.annotations),
            ("tools", narrows_tools(&old.tools, tools)),
            ("audit", *audit == old.audit),
            ("redact", *redact == old.redact),
            ("limits", narrows_limits(&old.limits, limits)),
            ("new_tools", *new_tools == old.new_tools || *new_tools == NewTools::Quarantine),
            ("policies", narrows_policies),
            ("policy", *policy == old.policy || old.policy.is_none()),
            ("principals", contains_all(principals, &old.principals)),
            ("scopes and grants", narrows_grants(&old.granted, granted)),
            ("folder", *folder == old.folder),
            ("telemetry", *telemetry == old.telemetry),
            ("layers", *layers == old.layers),
        ];
        let tables = self.layer_tables().narrows(&old.layer_tables());
        let all = own.into_iter().chain(tables);
        all.filter(|(_, narrows)| !narrows).map(|(key, _)| key).collect()
    }

    /// Files whose content decides about calls besides these settings, each with its content.
    #[must_use]
    pub fn rule_files(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let tables = self.layer_tables();
        let files = self.policies.values().filter_map(|policy| policy.cedar.clone());
        let files = files.chain(tables.rule_files());
        let read = |path: PathBuf| {
            let path = self.folder.join(path);
            let content = std::fs::read(&path).ok();
            (path, content)
        };
        files.map(read).collect()
    }
}

/// Whether the limit is lower than before, equal, or was off.
fn narrows_switch<T: Copy + PartialOrd>(old: Switch<T>, new: Switch<T>) -> bool {
    match (old.get(), new.get()) {
        (None, _) => true,
        (Some(old), Some(new)) => new <= old,
        (Some(_), None) => false,
    }
}

fn narrows_limits(old: &LimitsConfig, new: &LimitsConfig) -> bool {
    if !(contains_all(&new.rate, &old.rate) && contains_all(&new.quota, &old.quota)) {
        return false;
    }
    let known = LimitsConfig {
        response_bytes: new.response_bytes,
        timeout: new.timeout,
        message_bytes: new.message_bytes,
        in_flight: new.in_flight,
        rate: new.rate.clone(),
        quota: new.quota.clone(),
        ..old.clone()
    };
    known == *new
        && narrows_switch(old.response_bytes, new.response_bytes)
        && narrows_switch(old.timeout, new.timeout)
        && new.message_bytes <= old.message_bytes
        && new.in_flight <= old.in_flight
}

/// Whether the only changes are tools that become inactive.
fn narrows_tools(old: &[(Selector, ToolSettings)], new: &[(Selector, ToolSettings)]) -> bool {
    let off = ToolSettings { status: Some(Status::Inactive), ..ToolSettings::default() };
    let is_off = |tool: &ToolSettings| tool.status == Some(Status::Inactive);
    let mut kept = old.iter().peekable();
    for (selector, tool) in new {
        match kept.next_if(|(known, _)| known == selector) {
            Some((_, before)) if tool == before => {}
            Some((_, before)) if is_off(tool) => {
                if (ToolSettings { status: before.status, ..tool.clone() }) != *before {
                    return false;
                }
            }
            None if *tool == off => {}
            _ => return false,
        }
    }
    kept.next().is_none()
}

fn narrows_policy(old: &PolicyConfig, new: &PolicyConfig) -> bool {
    let allows_less =
        old.allow == new.allow || (!new.allow.is_empty() && contains_all(&old.allow, &new.allow));
    let known = PolicyConfig { allow: new.allow.clone(), deny: new.deny.clone(), ..old.clone() };
    known == *new && allows_less && contains_all(&new.deny, &old.deny)
}

fn narrows_grants(old: &Granted, new: &Granted) -> bool {
    let namespace = match (&old.namespace, &new.namespace) {
        (None, _) => true,
        (Some(old), Some(new)) => contains_all(old, new),
        (Some(_), None) => false,
    };
    let principals = match (&old.principals, &new.principals) {
        (None, _) => true,
        (Some(old), Some(new)) => new.iter().all(|(pattern, scopes)| {
            let before = old.iter().find(|(known, _)| known == pattern);
            before.is_some_and(|(_, before)| contains_all(before, scopes))
        }),
        (Some(_), None) => false,
    };
    namespace && principals && old.variable == new.variable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{middleware::flags::FlagsConfig, tier::Tier};

    type Change = fn(&mut Settings);

    fn tool(
        selector: &str,
        status: Option<Status>,
        tier: Option<Tier>,
    ) -> (Selector, ToolSettings) {
        (selector.parse().unwrap(), ToolSettings { status, tier, ..ToolSettings::default() })
    }

    fn change(
        old: impl FnOnce(&mut Settings),
        new: impl FnOnce(&mut Settings),
    ) -> Vec<&'static str> {
        let (mut before, mut after) = (Settings::default(), Settings::default());
        old(&mut before);
        new(&mut after);
        assert_eq!(before.widened_since(&before), [""; 0], "no change widens nothing");
        after.widened_since(&before)
    }

    #[test]
    fn what_narrows_is_known_in_one_direction_only() {
        let selector = |text: &str| -> Selector { text.parse().unwrap() };
        let policy = |allow: &[&str], deny: &[&str]| PolicyConfig {
            allow: allow.iter().map(|s| s.parse().unwrap()).collect(),
            deny: deny.iter().map(|s| s.parse().unwrap()).collect(),
            cedar: None,
        };
        let pairs: [(&str, Change, Change); 5] = [
            ("safety", |s| s.safety = Some(Tier::Mutating), |s| s.safety = Some(Tier::Readonly)),
            ("safety", |_| {}, |s| s.safety = Some(Tier::Destructive)),
            ("new_tools", |_| {}, |s| s.new_tools = NewTools::Quarantine),
            ("limits", |_| {}, |s| s.limits.in_flight = 1),
            ("policy", |_| {}, |s| s.policy = Some("p".to_owned())),
        ];
        for (key, wide, narrow) in pairs {
            assert_eq!(change(wide, narrow), [""; 0], "{key}");
            assert_eq!(change(narrow, wide), [key], "{key}");
        }
        let flags = |list: &[&str]| {
            let disabled = list.iter().map(|text| selector(text)).collect();
            Some(FlagsConfig { disabled, ..FlagsConfig::default() })
        };
        let (one, two) = (flags(&["a/b"]), flags(&["a/b", "a/c"]));
        assert_eq!(change(|s| s.flags = one.clone(), |s| s.flags = two.clone()), [""; 0]);
        assert_eq!(change(|s| s.flags = two.clone(), |s| s.flags = one.clone()), ["flags"]);
        for (old, new, narrows) in [
            (policy(&["a/*", "b/*"], &[]), policy(&["a/*"], &["a/x"]), true),
            (policy(&["a/*"], &[]), policy(&["a/*", "b/*"], &[]), false),
            (policy(&["a/*"], &["a/x"]), policy(&["a/*"], &[]), false),
            (policy(&["a/*"], &[]), policy(&[], &[]), false),
        ] {
            let put = |p: &PolicyConfig| {
                let p = p.clone();
                move |s: &mut Settings| drop(s.policies.insert("p".to_owned(), p))
            };
            assert_eq!(change(put(&old), put(&new)).is_empty(), narrows, "{old:?} {new:?}");
        }
    }

    #[test]
    fn tools_are_switched_off_at_once_and_nothing_else() {
        let off = Some(Status::Inactive);
        let old = [tool("a/b", None, Some(Tier::Destructive)), tool("a/d", None, None)];
        for (new, narrows) in [
            (vec![tool("a/b", off, Some(Tier::Destructive)), tool("a/d", None, None)], true),
            (vec![old[0].clone(), tool("a/c", off, None), old[1].clone()], true),
            (vec![tool("a/b", off, Some(Tier::Readonly)), old[1].clone()], false),
            (vec![tool("a/b", None, Some(Tier::Readonly)), old[1].clone()], false),
            (vec![old[0].clone()], false),
            (vec![old[0].clone(), old[1].clone(), tool("a/e", Some(Status::Active), None)], false),
        ] {
            assert_eq!(narrows_tools(&old, &new), narrows, "{new:?}");
        }
    }
}
