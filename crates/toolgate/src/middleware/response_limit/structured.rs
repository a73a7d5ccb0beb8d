//! Shrinks structured content without changing its structure: first long strings, then long arrays.

use std::ops::Range;

use toolgate_wire::{Json, Kind, Limits};

use super::{Keep, cut, shrink::CannotShrink};

/// Smallest size to which strings and arrays are cut, in bytes. Shorter ones are ids, enums, dates and coordinates,
/// which a schema may constrain.
pub(super) const MIN_CUT: usize = 256;

/// Size that strings keep if cutting strings is not enough and dropping array elements saves the rest.
const MODEST_CUT: usize = 4096;

/// A value as a tree whose leaves keep their exact text. The numbers are sizes in JSON.
enum Node {
    Leaf(Json),
    Text(Json),
    Array(Vec<Node>, usize),
    Object(Vec<(Json, Node)>, usize),
}

/// Largest size of each string and each array.
#[derive(Clone, Copy)]
struct Plan {
    text: usize,
    array: usize,
    keep: Keep,
}

/// The value shortened to `budget` bytes and the number of missing bytes, or [`CannotShrink`].
pub(super) fn shrink(
    value: &Json,
    budget: usize,
    keep: Keep,
) -> Result<(Json, usize), CannotShrink> {
    if value.len() <= budget {
        return Ok((value.clone(), 0));
    }
    let tree = grow(value);
    let plan = plan(&tree, budget, keep).ok_or(CannotShrink)?;
    let mut text = Vec::with_capacity(budget);
    tree.write(plan, &mut text);
    let limits = Limits { max_bytes: usize::MAX, max_depth: usize::MAX };
    let json = Json::parse(text, &limits).map_err(|_| CannotShrink)?;
    let dropped = value.len().saturating_sub(json.len());
    Ok((json, dropped))
}

fn grow(value: &Json) -> Node {
    match value.kind() {
        // It contains nothing that can be cut.
        _ if value.len() <= MIN_CUT => Node::Leaf(value.clone()),
        Kind::Object => {
            let object = value.object().unwrap_or_default();
            let members = object.iter().map(|(key, v)| (Json::string(&key), grow(&v)));
            let members: Vec<(Json, Node)> = members.collect();
            let len = members.iter().map(|(k, v)| k.len() + v.len() + 2);
            let len = 2 + len.sum::<usize>();
            Node::Object(members, len)
        }
        Kind::Array => {
            let nodes: Vec<Node> = value.array().unwrap_or_default().iter().map(grow).collect();
            let len = 2 + nodes.iter().map(|node| node.len() + 1).sum::<usize>();
            Node::Array(nodes, len)
        }
        // A string with a lone surrogate is not valid text and cannot be cut.
        Kind::String if value.text().is_some() => Node::Text(value.clone()),
        _ => Node::Leaf(value.clone()),
    }
}

/// The plan that fits with the least loss: cut only the longest strings; otherwise cut strings and drop elements;
/// otherwise cut everything that can be cut.
fn plan(tree: &Node, budget: usize, keep: Keep) -> Option<Plan> {
    let mut lengths = Vec::new();
    tree.long_texts(&mut lengths);
    let untouched = tree.len();
    let excess = untouched.saturating_sub(budget);
    if let Some(text) = cap(&mut lengths, excess) {
        let array = untouched;
        return Some(Plan { text, array, keep });
    }
    [MODEST_CUT, MIN_CUT].into_iter().find_map(|text| {
        let fits = |array| tree.size(Plan { text, array, keep }) <= budget;
        let (mut fit, mut over) = (MIN_CUT, untouched);
        if !fits(fit) {
            return None;
        }
        // The largest array size that fits, to the kilobyte.
        while over - fit > 1024 {
            let middle = fit.midpoint(over);
            if fits(middle) {
                fit = middle;
            } else {
                over = middle;
            }
        }
        let array = fit;
        Some(Plan { text, array, keep })
    })
}

/// The largest string size that saves `excess` bytes.
fn cap(lengths: &mut [usize], excess: usize) -> Option<usize> {
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    for (at, length) in lengths.iter().enumerate() {
        sum += length;
        let count = at + 1;
        let next = lengths.get(count).copied().unwrap_or(MIN_CUT);
        if sum.saturating_sub(count * next) >= excess {
            return Some((sum - excess) / count).filter(|cap| *cap >= MIN_CUT);
        }
    }
    None
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(json) | Self::Text(json) => json.len(),
            Self::Array(_, len) | Self::Object(_, len) => *len,
        }
    }

    fn long_texts(&self, lengths: &mut Vec<usize>) {
        match self {
            Self::Leaf(_) => {}
            Self::Text(json) => lengths.push(json.len()),
            Self::Array(nodes, _) => {
                for node in nodes {
                    node.long_texts(lengths);
                }
            }
            Self::Object(members, _) => {
                for (_, node) in members {
                    node.long_texts(lengths);
                }
            }
        }
    }

    /// Upper bound of the size with this plan.
    fn size(&self, plan: Plan) -> usize {
        match self {
            Self::Leaf(json) => json.len(),
            Self::Text(json) => json.len().min(plan.text),
            Self::Array(nodes, _) => Self::kept(nodes, plan).1,
            Self::Object(members, _) => {
                let members = members.iter().map(|(k, v)| k.len() + v.size(plan) + 2);
                2 + members.sum::<usize>()
            }
        }
    }

    /// The elements of an array that stay with this plan, and an upper bound of its size. At least one element stays,
    /// because `minItems: 1` is common.
    fn kept(nodes: &[Self], plan: Plan) -> (Range<usize>, usize) {
        let (mut count, mut size) = (0, 2);
        for at in 0..nodes.len() {
            let at = match plan.keep {
                Keep::Tail => nodes.len() - 1 - at,
                Keep::Head => at,
            };
            let more = nodes.get(at).map_or(0, |node| node.size(plan) + 1);
            if count > 0 && size + more > plan.array {
                break;
            }
            count += 1;
            size += more;
        }
        match plan.keep {
            Keep::Tail => (nodes.len() - count..nodes.len(), size),
            Keep::Head => (0..count, size),
        }
    }

    fn write(&self, plan: Plan, out: &mut Vec<u8>) {
        match self {
            Self::Leaf(json) => out.extend_from_slice(json.as_bytes()),
            Self::Text(json) => match json.text() {
                Some(text) if json.len() > plan.text => {
                    // Plus two quotes.
                    let (short, _) = cut::shorten(&text, plan.text.saturating_sub(2), plan.keep);
                    out.extend_from_slice(Json::string(&short).as_bytes());
                }
                _ => out.extend_from_slice(json.as_bytes()),
            },
            Self::Array(nodes, _) => {
                let (kept, _) = Self::kept(nodes, plan);
                out.push(b'[');
                for (at, node) in nodes.get(kept).unwrap_or_default().iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    node.write(plan, out);
                }
                out.push(b']');
            }
            Self::Object(members, _) => {
                out.push(b'{');
                for (at, (key, node)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(key.as_bytes());
                    out.push(b':');
                    node.write(plan, out);
                }
                out.push(b'}');
            }
        }
    }
}
