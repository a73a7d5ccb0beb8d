//! The check of a chain: each name once, and every order rule of every layer.

use std::fmt;

use crate::{
    layer::{Info, Order},
    layers,
};

/// Why a chain cannot be built: all mistakes in it.
///
/// ```
/// use toolgate::{Chain, ChainMistake, Tier, middleware::{error_results::ErrorResults, safety::Safety}};
///
/// let refused = Chain::builder().layer(Safety::new(Tier::Readonly)).layer(ErrorResults).build().unwrap_err();
/// assert!(matches!(refused.mistakes(), [ChainMistake::WrongOrder { outer: "errors-to-results", .. }]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadChain(Vec<ChainMistake>);

impl BadChain {
    /// The mistakes, outermost layer first. There is at least one.
    #[must_use]
    pub fn mistakes(&self) -> &[ChainMistake] {
        &self.0
    }
}

impl fmt::Display for BadChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n  ")?;
            }
            mistake.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for BadChain {}

/// One mistake in a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainMistake {
    /// Two layers are in the wrong order.
    #[error(
        "`{outer}` must stand outside `{inner}`: {why}; move `{outer}` before `{inner}` in the chain"
    )]
    WrongOrder {
        /// The layer that must be nearer to the client.
        outer: &'static str,
        /// The layer that must be nearer to the tool.
        inner: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// Two layers have the same name.
    #[error(
        "`{0}` stands in the chain twice: remove one of them, or give one another name with `named`"
    )]
    DuplicateLayer(&'static str),
    /// A layer needs another one.
    #[error("`{layer}` needs `{other}`, which the chain lacks: {why}; add `{other}`")]
    Missing {
        /// The layer.
        layer: &'static str,
        /// The layer that it needs.
        other: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// An order rule names a layer that does not exist, and that is spelt almost like one that does.
    #[error(
        "an order rule of `{layer}` names `{other}`, which no layer is called: did you mean `{meant}`?"
    )]
    Misspelt {
        /// The layer with the rule.
        layer: &'static str,
        /// The name in the rule.
        other: &'static str,
        /// The name that it resembles.
        meant: &'static str,
    },
}

/// Collects every mistake.
pub(super) fn check(infos: &[Info]) -> Result<(), BadChain> {
    let mut mistakes = Vec::new();
    for (at, info) in infos.iter().enumerate() {
        if infos.iter().take(at).any(|before| before.name == info.name) {
            mistakes.push(ChainMistake::DuplicateLayer(info.name));
            continue;
        }
        for rule in info.order {
            check_rule(infos, at, *rule, &mut mistakes);
        }
    }
    // Both layers may state the same rule.
    let mut seen: Vec<(&str, &str)> = Vec::new();
    mistakes.retain(|mistake| match *mistake {
        ChainMistake::WrongOrder { outer, inner, .. } => {
            let is_new = !seen.contains(&(outer, inner));
            seen.push((outer, inner));
            is_new
        }
        _ => true,
    });
    if mistakes.is_empty() { Ok(()) } else { Err(BadChain(mistakes)) }
}

fn check_rule(infos: &[Info], at: usize, rule: Order, mistakes: &mut Vec<ChainMistake>) {
    let Some(info) = infos.get(at) else { return };
    let of_kind = |kind: &str| infos.iter().any(|other| other.kind == kind || other.name == kind);
    let is_other = |other: &Info| other.name != info.name;
    let is_meant = |other: &Info, kind: &str| other.kind == kind || other.name == kind;
    match rule {
        Order::Requires(kind, why) if !of_kind(kind) => {
            mistakes.push(ChainMistake::Missing { layer: info.name, other: kind, why });
        }
        Order::Outside(kind, why) => {
            let inside = infos.iter().take(at).filter(|other| is_meant(other, kind));
            mistakes.extend(inside.filter(|o| is_other(o)).map(|o| wrong(info, o, why)));
        }
        Order::Inside(kind, why) => {
            let outside = infos.iter().skip(at).filter(|other| is_meant(other, kind));
            mistakes.extend(outside.filter(|o| is_other(o)).map(|o| wrong(o, info, why)));
        }
        Order::OutsideDecisions(why) => {
            let inside = infos.iter().take(at).filter(|other| other.decides && other.hooks.call);
            mistakes.extend(inside.filter(|o| is_other(o)).map(|o| wrong(info, o, why)));
        }
        Order::InsideDecisions(why) => {
            let outside = infos.iter().skip(at).filter(|other| other.decides && other.hooks.call);
            mistakes.extend(outside.filter(|o| is_other(o)).map(|o| wrong(o, info, why)));
        }
        Order::Requires(..) => {}
    }
    if let Order::Outside(other, _) | Order::Inside(other, _) | Order::Requires(other, _) = rule
        && !of_kind(other)
        && let Some(meant) = meant_by(other)
    {
        mistakes.push(ChainMistake::Misspelt { layer: info.name, other, meant });
    }
}

fn wrong(outer: &Info, inner: &Info, why: &'static str) -> ChainMistake {
    ChainMistake::WrongOrder { outer: outer.name, inner: inner.name, why }
}

/// The built-in layer that a misspelt name resembles; `None` for the name of a built-in layer, and for any other name.
pub(crate) fn meant_by(name: &str) -> Option<&'static str> {
    if layers::is_built_in(name) {
        return None;
    }
    layers::default_order().map(|place| place.name).find(|known| is_close(name, known))
}

/// Whether two names differ by one or two letters, and agree otherwise.
fn is_close(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let shared = |mut pairs: std::iter::Zip<std::slice::Iter<'_, u8>, std::slice::Iter<'_, u8>>| {
        pairs.position(|(a, b)| a != b)
    };
    let shorter = one.len().min(other.len());
    let start = shared(one.iter().zip(other)).unwrap_or(shorter);
    let end = one.iter().rev().zip(other.iter().rev()).position(|(a, b)| a != b);
    let end = end.unwrap_or(shorter).min(shorter - start);
    let differing = one.len().max(other.len()) - start - end;
    shorter >= 4 && differing <= 2
}
