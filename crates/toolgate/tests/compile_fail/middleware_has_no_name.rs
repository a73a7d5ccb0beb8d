//! Every layer has a name: records, refusals and config know it by that.

use toolgate::Middleware;

struct Anonymous;

impl Middleware for Anonymous {}

fn main() {}
