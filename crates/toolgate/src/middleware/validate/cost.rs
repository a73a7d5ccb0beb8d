//! The cost of validation with a schema. A few lines of nested `allOf` can take years, and published schemas come from
//! servers that are not trusted.

use std::{collections::HashMap, ptr};

use serde_json::Value;

/// Largest number of subschemas of a schema.
const MAX_SCHEMAS: usize = 5_000;
/// Largest depth of schemas that apply to the same value (`allOf` in `$ref` in `anyOf`).
const MAX_DEPTH: usize = 64;
/// Largest number of schemas that apply to one value, summed over all schemas.
const MAX_APPLIED: usize = 50_000;
/// The JSON parser's depth limit.
const DEEPEST_VALUE: usize = 128;

/// For each depth in the arguments: how many times validation visits one value there. The list ends where that number
/// reaches the limit.
#[derive(Debug)]
pub(super) struct Cost(Vec<u64>);

/// Largest number of visits, of about a tenth of a microsecond each.
pub(super) const MAX_VISITS: u64 = 1_000_000;

/// A schema whose cost is unbounded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnboundedCost {
    #[error("it is too large")]
    Large,
    #[error("it refers to itself without end, or nests too deeply")]
    Nested,
    #[error("it refers to `{0}`, and only `#/…` within itself is followed")]
    Reference(String),
    #[error("it has a second `$id` inside of it")]
    Id,
}

impl Cost {
    pub(super) fn of(root: &Value) -> Result<Self, UnboundedCost> {
        let graph = Graph::of(root)?;
        let together = graph.together()?;
        // At depth 0: all schemas that apply to the root.
        let mut looks: Vec<u64> = together.iter().map(|all| all.len() as u64).collect();
        let mut cost = Self(Vec::new());
        for _ in 0..=DEEPEST_VALUE {
            let Some(first) = looks.first().copied().filter(|looks| *looks <= MAX_VISITS) else {
                break;
            };
            cost.0.push(first);
            looks = together.iter().map(|all| graph.deeper(all, &looks)).collect();
        }
        Ok(cost)
    }

    /// Whether arguments with this number of values and this depth can be checked within the limit.
    pub(super) fn allows(&self, count: u64, depth: usize) -> bool {
        let looks = self.0.get(..=depth).and_then(|by_depth| by_depth.iter().max());
        looks.is_some_and(|looks| looks.saturating_mul(count) <= MAX_VISITS)
    }
}

/// The subschemas of one schema.
#[derive(Default)]
struct Node<'a> {
    /// Schemas for the same value.
    same: Vec<usize>,
    /// Schemas for the member of this name.
    named: Vec<(&'a str, usize)>,
    /// Schemas for members of any name.
    members: Vec<usize>,
    /// Schemas for elements.
    elements: Vec<usize>,
}

struct Graph<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Graph<'a> {
    fn of(root: &'a Value) -> Result<Self, UnboundedCost> {
        let mut known: HashMap<*const Value, usize> = HashMap::from([(ptr::from_ref(root), 0)]);
        let mut schemas = vec![root];
        let mut nodes = Vec::new();
        while let Some(schema) = schemas.get(nodes.len()).copied() {
            let mut index = |schema: &'a Value| {
                *known.entry(ptr::from_ref(schema)).or_insert_with(|| {
                    schemas.push(schema);
                    schemas.len() - 1
                })
            };
            nodes.push(Node::of(schema, root, &mut index)?);
            if schemas.len() > MAX_SCHEMAS {
                return Err(UnboundedCost::Large);
            }
        }
        Ok(Self { nodes })
    }

    /// For each schema all that apply to the same value, including itself.
    fn together(&self) -> Result<Vec<Vec<usize>>, UnboundedCost> {
        let mut done: Vec<Option<Vec<usize>>> = vec![None; self.nodes.len()];
        let mut left = MAX_APPLIED;
        for at in 0..self.nodes.len() {
            self.gather(at, 0, &mut done, &mut left)?;
        }
        Ok(done.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn gather(
        &self,
        at: usize,
        depth: usize,
        done: &mut [Option<Vec<usize>>],
        left: &mut usize,
    ) -> Result<Vec<usize>, UnboundedCost> {
        if let Some(all) = done.get(at).cloned().flatten() {
            return Ok(all);
        }
        if depth > MAX_DEPTH {
            return Err(UnboundedCost::Nested);
        }
        let mut all = vec![at];
        for next in self.nodes.get(at).map_or(&[][..], |node| &node.same) {
            all.extend(self.gather(*next, depth + 1, done, left)?);
            if all.len() > *left {
                return Err(UnboundedCost::Large);
            }
        }
        *left -= all.len();
        if let Some(slot) = done.get_mut(at) {
            *slot = Some(all.clone());
        }
        Ok(all)
    }

    /// Upper bound of visits of a value one level deeper: by all schemas for the member with most schemas, or for
    /// elements.
    fn deeper(&self, together: &[usize], looks: &[u64]) -> u64 {
        let of = |at: &usize| looks.get(*at).copied().unwrap_or(0);
        let sum = |list: &[usize]| list.iter().map(of).fold(0_u64, u64::saturating_add);
        let nodes = || together.iter().filter_map(|at| self.nodes.get(*at));
        let mut named: HashMap<&str, u64> = HashMap::new();
        for (name, at) in nodes().flat_map(|node| &node.named) {
            let entry = named.entry(name).or_default();
            *entry = entry.saturating_add(of(at));
        }
        let most_named = named.into_values().max().unwrap_or(0);
        let any = nodes().map(|node| sum(&node.members)).fold(0, u64::saturating_add);
        let elements = nodes().map(|node| sum(&node.elements)).fold(0, u64::saturating_add);
        most_named.saturating_add(any).max(elements)
    }
}

impl<'a> Node<'a> {
    fn of(
        schema: &'a Value,
        root: &'a Value,
        index: &mut impl FnMut(&'a Value) -> usize,
    ) -> Result<Self, UnboundedCost> {
        let mut node = Self::default();
        let Some(object) = schema.as_object() else {
            return Ok(node);
        };
        if object.contains_key("$id") && !ptr::eq(schema, root) {
            return Err(UnboundedCost::Id);
        }
        for (keyword, value) in object {
            let one = || value.is_object().then_some(value).into_iter();
            let list = || value.as_array().into_iter().flatten();
            let map = || value.as_object().into_iter().flat_map(|map| map.values());
            match keyword.as_str() {
                "allOf" | "anyOf" | "oneOf" => node.same.extend(list().map(&mut *index)),
                "not" | "if" | "then" | "else" => node.same.extend(one().map(&mut *index)),
                "dependentSchemas" | "dependencies" => {
                    let schemas = map().filter(|value| value.is_object());
                    node.same.extend(schemas.map(&mut *index));
                }
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    node.same.push(index(resolve(root, value)?));
                }
                "properties" => {
                    let members = value.as_object().into_iter().flatten();
                    node.named.extend(members.map(|(name, value)| (name.as_str(), index(value))));
                }
                "patternProperties" => node.members.extend(map().map(&mut *index)),
                "additionalProperties" | "unevaluatedProperties" | "propertyNames" => {
                    node.members.extend(one().map(&mut *index));
                }
                "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" => {
                    node.elements.extend(one().chain(list()).map(&mut *index));
                }
                _ => {}
            }
        }
        Ok(node)
    }
}

/// The target of a reference within the schema.
pub(super) fn resolve<'a>(root: &'a Value, reference: &Value) -> Result<&'a Value, UnboundedCost> {
    let text = reference.as_str().unwrap_or_default();
    let pointer = text.strip_prefix('#').filter(|rest| !rest.contains('%'));
    let found = pointer.and_then(|pointer| root.pointer(pointer));
    found.ok_or_else(|| UnboundedCost::Reference(text.chars().take(100).collect()))
}
