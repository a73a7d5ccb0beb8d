//! The transport matrix: each scenario runs through every transport, and every transport must show the client the same.
//!
//! A scenario does something with a [`Client`](crate::harness::matrix::Client) and returns what it observed. Where a transport legitimately shows
//! something else, `differences.rs` says what and why. What is wrong today is in [`known::KNOWN`].

mod calls;
mod differences;
mod fidelity;
mod known;
mod lists;
mod names;
mod offers;
mod presets;
mod process;
mod reach;
mod scenario;
mod wire;

use scenario::Group;

/// One test for each group of scenarios, and the list of all of them.
macro_rules! groups {
    ($($module:ident::$group:ident),* $(,)?) => {
        $(#[test]
        fn $group() {
            $module::$group().run();
        })*

        fn all() -> Vec<Group> {
            vec![$($module::$group()),*]
        }
    };
}

groups![
    reach::servers_are_reached,
    wire::broken_messages,
    wire::messages,
    wire::batches,
    wire::sizes,
    fidelity::bytes,
    calls::calls,
    calls::questions_of_servers,
    calls::questions_at_once,
    calls::confirmations,
    calls::crashes,
    calls::limits,
    calls::schemas,
    calls::retries,
    calls::times,
    names::settings,
    names::tiers,
    names::audits,
    lists::pages,
    lists::changes,
    lists::lifetimes,
    lists::failures,
    offers::offers,
    offers::silent_offers,
    offers::requests_of_servers,
    offers::tasks,
    offers::sanitized,
    process::hangups,
    process::reloads,
    process::ends,
    presets::libtmux,
    presets::metamcp,
    presets::mcp_core,
];

#[test]
fn every_scenario_is_named_once() {
    let mut names: Vec<&str> = all().iter().flat_map(Group::names).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands for two scenarios: {names:#?}");
}

#[test]
fn every_entry_of_the_tables_names_a_scenario() {
    let names: Vec<&str> = all().iter().flat_map(Group::names).collect();
    let listed = differences::DIFFERENCES.iter().map(|listed| listed.scenario);
    for scenario in listed.chain(known::KNOWN.iter().map(|(_, scenario, _)| *scenario)) {
        assert!(names.contains(&scenario), "no scenario is called `{scenario}`");
    }
    assert!(differences::DIFFERENCES.iter().all(|listed| !listed.reason.is_empty()));
    assert!(known::KNOWN.iter().all(|(_, _, reason)| !reason.is_empty()));
}
