//! The places of layers that a program adds to a stack.

use std::{fmt, sync::Arc};

use super::{StackError, quoted};
use crate::{
    chain::{BadChain, ChainMistake, meant_by},
    layer::{DynMiddleware, Middleware},
};

/// A layer that a program adds to the layers of the settings, with its place.
///
/// ```
/// use toolgate::{from_fn, settings::Settings, stack::{self, Parts, PlacedLayer}};
///
/// let tenants = from_fn("tenants", async |cx, call, next| next.call(cx, call).await);
/// let parts = Parts::with(|parts| parts.placed = vec![PlacedLayer::before("timeout", tenants)]);
/// assert!(stack::build_with(&Settings::default(), parts).is_ok());
/// ```
#[derive(Clone)]
pub struct PlacedLayer {
    layer: Arc<dyn DynMiddleware>,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Before(String),
    After(String),
    Innermost,
}

impl PlacedLayer {
    /// Places the layer directly outside of the layer of this name.
    #[must_use]
    pub fn before(name: &str, layer: impl Middleware) -> Self {
        Self { layer: layer.into_object(), place: Place::Before(name.to_owned()) }
    }

    /// Places the layer directly inside of the layer of this name.
    #[must_use]
    pub fn after(name: &str, layer: impl Middleware) -> Self {
        Self { layer: layer.into_object(), place: Place::After(name.to_owned()) }
    }

    /// Places the layer inside of all others.
    #[must_use]
    pub fn innermost(layer: impl Middleware) -> Self {
        Self { layer: layer.into_object(), place: Place::Innermost }
    }

    fn name(&self) -> &'static str {
        self.layer.as_info().name
    }
}

impl fmt::Debug for PlacedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlacedLayer({}, {:?})", self.name(), self.place)
    }
}

/// A layer by its name; `None` for one that is off and only marks its place.
type Slot = (&'static str, Option<Arc<dyn DynMiddleware>>);

/// The layers of a chain, outermost first.
pub(super) struct Placed(Vec<Slot>);

impl Placed {
    pub(super) fn new(layers: Vec<Slot>) -> Self {
        Self(layers)
    }

    /// Adds the layers of the program, each beside those that are there already.
    pub(super) fn with(mut self, own: &[PlacedLayer]) -> Result<Self, StackError> {
        for placed in own {
            let at = match &placed.place {
                Place::Before(name) => self.position(placed, name)?,
                Place::After(name) => self.position(placed, name)? + 1,
                Place::Innermost => self.0.len(),
            };
            self.0.insert(at, (placed.name(), Some(Arc::clone(&placed.layer))));
        }
        Ok(self)
    }

    fn position(&self, placed: &PlacedLayer, beside: &str) -> Result<usize, StackError> {
        let at = self.0.iter().position(|(name, _)| *name == beside);
        at.ok_or_else(|| StackError::NoPlace {
            layer: placed.name(),
            beside: beside.to_owned(),
            guess: guess(beside),
            known: quoted(self.0.iter().map(|(name, _)| *name)),
        })
    }

    pub(super) fn into_layers(self) -> impl Iterator<Item = Arc<dyn DynMiddleware>> {
        self.0.into_iter().filter_map(|(_, layer)| layer)
    }
}

/// What a misspelt name of a layer probably means, in parentheses.
pub(super) fn guess(name: &str) -> String {
    meant_by(name).map_or_else(String::new, |meant| format!(" (did you mean `{meant}`?)"))
}

/// The refusal of a chain, with the places for the layers of the program where a mistake is about one.
pub(super) fn refused(mistakes: BadChain, own: &[PlacedLayer]) -> StackError {
    let is_own = |name: &str| own.iter().any(|placed| placed.name() == name);
    let advice = mistakes.mistakes().iter().filter_map(|mistake| match mistake {
        ChainMistake::WrongOrder { outer, inner, .. } if is_own(outer) => {
            Some(format!("place `{outer}` with `.before(\"{inner}\", …)`"))
        }
        ChainMistake::WrongOrder { outer, inner, .. } if is_own(inner) => {
            Some(format!("place `{inner}` with `.after(\"{outer}\", …)`"))
        }
        _ => None,
    });
    let advice: Vec<String> = advice.collect();
    if advice.is_empty() {
        return StackError::Chain(mistakes);
    }
    StackError::Placed { mistakes, advice: advice.join("\n  ") }
}
