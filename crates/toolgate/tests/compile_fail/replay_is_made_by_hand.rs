//! Only `Next::replayable` makes a `Replay`, and only for a readonly call.

use toolgate::{Endpoint, Replay};

fn any_call_again(end: &dyn Endpoint) -> Replay<'_> {
    Replay { layers: &[], end }
}

fn main() {}
