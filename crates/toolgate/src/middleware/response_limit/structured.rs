//! Shrinking structured content so that its shape stays: long strings first, then long arrays.

use toolgate_wire::{Json, Kind, Object};

use super::{Keep, cut, shrink::Rigid};

/// Strings are never cut below this: short ones are ids, enums and dates that a schema may pin down.
const SHORTEST_CUT: usize = 256;

/// A value as a tree whose leaves keep their exact text.
enum Node {
    Leaf(Json),
    Text(Json),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// The value, not longer than `budget`, and how many bytes went; or [`Rigid`].
pub(super) fn shrink(value: &Json, budget: usize, keep: Keep) -> Result<(Json, usize), Rigid> {
    if value.len() <= budget {
        return Ok((value.clone(), 0));
    }
    let mut tree = grow(value);
    let mut lengths = Vec::new();
    long_texts(&tree, &mut lengths);
    let excess = tree.len().saturating_sub(budget);
    let cap = cap(&mut lengths, excess).unwrap_or(SHORTEST_CUT);
    cut_texts(&mut tree, cap, keep);
    while tree.len() > budget {
        let excess = tree.len() - budget;
        let Some(longest) = longest_array(&mut tree) else { return Err(Rigid) };
        drop_elements(longest, excess, keep);
    }
    let json = tree.write();
    let dropped = value.len().saturating_sub(json.len());
    Ok((json, dropped))
}

fn grow(value: &Json) -> Node {
    match value.kind() {
        Kind::Object => {
            let object = value.object().unwrap_or_default();
            Node::Object(object.iter().map(|(k, v)| (k.into_owned(), grow(&v))).collect())
        }
        Kind::Array => {
            Node::Array(value.array().unwrap_or_default().iter().map(grow).collect())
        }
        Kind::String if value.len() > SHORTEST_CUT => Node::Text(value.clone()),
        _ => Node::Leaf(value.clone()),
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(json) | Self::Text(json) => json.len(),
            Self::Array(nodes) => 2 + nodes.iter().map(|node| node.len() + 1).sum::<usize>(),
            Self::Object(members) => {
                let member = |(key, node): &(String, Self)| Json::string(key).len() + node.len() + 2;
                2 + members.iter().map(member).sum::<usize>()
            }
        }
    }

    fn write(&self) -> Json {
        match self {
            Self::Leaf(json) | Self::Text(json) => json.clone(),
            Self::Array(nodes) => {
                let texts: Vec<Json> = nodes.iter().map(Self::write).collect();
                Json::list(&texts)
            }
            Self::Object(members) => {
                let mut object = Object::new();
                for (key, node) in members {
                    object.set(key, node.write());
                }
                object.finish()
            }
        }
    }
}

fn long_texts(node: &Node, lengths: &mut Vec<usize>) {
    match node {
        Node::Leaf(_) => {}
        Node::Text(json) => lengths.push(json.len()),
        Node::Array(nodes) => nodes.iter().for_each(|node| long_texts(node, lengths)),
        Node::Object(members) => members.iter().for_each(|(_, node)| long_texts(node, lengths)),
    }
}

/// The highest cap on strings that saves `excess` bytes: the longest give first.
fn cap(lengths: &mut [usize], excess: usize) -> Option<usize> {
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    for (at, length) in lengths.iter().enumerate() {
        sum += length;
        let count = at + 1;
        let next = lengths.get(count).copied().unwrap_or(SHORTEST_CUT);
        if sum.saturating_sub(count * next) >= excess {
            return Some((sum - excess) / count).filter(|cap| *cap >= SHORTEST_CUT);
        }
    }
    None
}

fn cut_texts(node: &mut Node, cap: usize, keep: Keep) {
    match node {
        Node::Leaf(_) => {}
        Node::Text(json) => {
            if json.len() > cap
                && let Some(text) = json.text()
            {
                // Two for the quotes.
                let (short, _) = cut::shorten(&text, cap.saturating_sub(2), keep);
                *json = Json::string(&short);
            }
        }
        Node::Array(nodes) => nodes.iter_mut().for_each(|node| cut_texts(node, cap, keep)),
        Node::Object(members) => {
            members.iter_mut().for_each(|(_, node)| cut_texts(node, cap, keep));
        }
    }
}

/// The longest array that has an element to spare. One always stays: `minItems: 1` is common.
fn longest_array(node: &mut Node) -> Option<&mut Vec<Node>> {
    fn longest(node: &Node) -> usize {
        match node {
            Node::Leaf(_) | Node::Text(_) => 0,
            Node::Array(nodes) => {
                let own = if nodes.len() > 1 { node.len() } else { 0 };
                nodes.iter().map(longest).max().unwrap_or(0).max(own)
            }
            Node::Object(members) => members.iter().map(|(_, n)| longest(n)).max().unwrap_or(0),
        }
    }
    let target = longest(node);
    if target == 0 { None } else { find(node, target) }
}

fn find(node: &mut Node, target: usize) -> Option<&mut Vec<Node>> {
    let length = node.len();
    match node {
        Node::Leaf(_) | Node::Text(_) => None,
        Node::Array(nodes) => {
            if length == target && nodes.len() > 1 {
                return Some(nodes);
            }
            nodes.iter_mut().find_map(|node| find(node, target))
        }
        Node::Object(members) => members.iter_mut().find_map(|(_, node)| find(node, target)),
    }
}

fn drop_elements(nodes: &mut Vec<Node>, excess: usize, keep: Keep) {
    let mut saved = 0;
    let mut count = 0;
    let sizes: Vec<usize> = nodes.iter().map(|node| node.len() + 1).collect();
    let mut from_far_end: Box<dyn Iterator<Item = &usize>> = match keep {
        Keep::Tail => Box::new(sizes.iter()),
        Keep::Head => Box::new(sizes.iter().rev()),
    };
    while saved < excess && count + 1 < sizes.len() {
        saved += from_far_end.next().copied().unwrap_or(0);
        count += 1;
    }
    match keep {
        Keep::Tail => drop(nodes.drain(..count)),
        Keep::Head => nodes.truncate(nodes.len() - count),
    }
}
