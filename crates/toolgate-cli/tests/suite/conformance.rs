//! The official conformance suite against our own server for it, once directly and once through `toolgate serve`: what
//! passes directly passes through the gateway, in whichever era the gateway speaks to the server. Against servers on the
//! official SDKs, each check has the same result both ways. And the suite's own servers behind the gateway, with an official
//! client in front of it: the gateway is a client without fault.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{example, peers::peers, toolgate};

/// A run takes ten seconds; one that takes this long hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(150);

/// What is run against a server, and how many scenarios that is: fewer would be no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Suite {
    Stable,
    Legacy,
    Modern,
}

const SUITES: [Suite; 3] = [Suite::Stable, Suite::Legacy, Suite::Modern];

impl Suite {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Stable => &["--stable"],
            Self::Legacy => &["--requirements", "2025-11-25"],
            Self::Modern => &["--requirements", "2026-07-28"],
        }
    }

    fn scenarios(self) -> usize {
        match self {
            Self::Stable => 32,
            Self::Legacy => 33,
            Self::Modern => 50,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.options().last().unwrap().trim_start_matches("--"))
    }
}

/// A check of a scenario. Several may have one id, so they are counted.
type Check = (Suite, String, String, usize);

/// What each check came to, and what it had to say.
type Outcomes = BTreeMap<Check, (String, String)>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A program that serves MCP over HTTP, and that ends with its test.
struct Server {
    child: Child,
    url: String,
    /// Its state, and its config.
    folders: Vec<TempDir>,
}

impl Server {
    /// Starts it, and waits until it says where it listens.
    fn start(command: &mut Command) -> Self {
        let state = TempDir::new().unwrap();
        command.env("XDG_STATE_HOME", state.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (told, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        // Reads to the end: a server that cannot write its log would wait.
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = told.send(line);
            }
        });
        let mut log = Vec::new();
        while let Ok(line) = lines.recv_timeout(Duration::from_secs(20)) {
            if let Some((_, url)) = line.split_once("listening on ") {
                let url = url.split_whitespace().next().unwrap().to_owned();
                return Self { child, url, folders: vec![state] };
            }
            log.push(line);
        }
        end(&mut child);
        panic!("{command:?} does not listen: {log:?}");
    }

    fn fixture(era: &str) -> Self {
        Self::start(Command::new(example("conformance")).args([
            "--http",
            "127.0.0.1:0",
            "--era",
            era,
        ]))
    }

    /// `toolgate serve` in front of one server.
    fn gateway(upstream: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("toolgate.toml");
        let namespace = "[namespaces.default]\nprefix = \"never\"\n";
        fs::write(&config, format!("[servers.up]\n{upstream}\n\n{namespace}")).unwrap();
        let mut command = Command::new(toolgate());
        command.args(["serve", "--listen", "127.0.0.1:0"]).arg(&config);
        let mut gateway = Self::start(&mut command);
        gateway.folders.push(folder);
        gateway
    }

    /// What the conformance server of the official Rust SDK does.
    fn rust_sdk() -> Self {
        Self::start(Command::new(example("conformance_rmcp")).args(["--http", "127.0.0.1:0"]))
    }

    /// The official server that has something of everything. It does not tell which port it got, so it is given one.
    fn everything() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let program = peers().node_server("mcp-server-everything", &["streamableHttp"]);
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).env("PORT", port.to_string());
        let mut server = Self::start(&mut command);
        server.url = format!("http://127.0.0.1:{port}/mcp");
        server
    }

    /// The results of the suites, which run at the same time.
    fn outcomes(&self, suites: &[Suite]) -> Outcomes {
        thread::scope(|scope| {
            let runs: Vec<_> =
                suites.iter().map(|suite| scope.spawn(|| run(&self.url, *suite))).collect();
            runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
        })
    }

    /// The results of the suites, which run one after the other: a server that all share does not say which of several
    /// calls a log message is about, and then nobody is told.
    fn one_by_one(&self, suites: &[Suite]) -> Outcomes {
        suites.iter().flat_map(|suite| self.outcomes(&[*suite])).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a program and all that it started.
fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// One run of the suite.
fn run(url: &str, suite: Suite) -> Outcomes {
    let output = TempDir::new().unwrap();
    let mut command = Command::new(root().join("scripts/conformance"));
    command.arg(url).args(suite.options()).arg("--output").arg(output.path());
    let summary = finished(&mut command, &suite.to_string());
    let outcomes = read(output.path(), suite);
    let scenarios: BTreeSet<_> = outcomes.keys().map(|(_, scenario, _, _)| scenario).collect();
    assert_eq!(scenarios.len(), suite.scenarios(), "{suite}: not every scenario ran\n{summary}");
    outcomes
}

/// Runs a command to its end, and gives what it said.
fn finished(command: &mut Command, what: &str) -> String {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .process_group(0)
        .spawn()
        .unwrap();
    let (done, summary) = mpsc::channel();
    let mut stdout = child.stdout.take().unwrap();
    thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        done.send(text)
    });
    let Ok(summary) = summary.recv_timeout(TEST_TIMEOUT) else {
        end(&mut child);
        panic!("{what}: no results after {TEST_TIMEOUT:?}");
    };
    child.wait().unwrap();
    summary
}

/// What a run left: a folder for each scenario, named for it and the time.
fn read(output: &Path, suite: Suite) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for entry in fs::read_dir(output).unwrap().map(Result::unwrap) {
        let Ok(checks) = fs::read_to_string(entry.path().join("checks.json")) else { continue };
        let name = entry.file_name().into_string().unwrap();
        let name = name.trim_start_matches("server-");
        // `-2026-11-18T00-21-30-123Z`
        let scenario = &name[..name.rfind('T').unwrap() - "-2026-11-18".len()];
        for check in serde_json::from_str::<Vec<Value>>(&checks).unwrap() {
            let text = |member: &str| check[member].as_str().unwrap_or_default().to_owned();
            let id = text("id");
            let same = |known: &&Check| known.0 == suite && known.1 == scenario && known.2 == id;
            let at = outcomes.keys().filter(same).count();
            outcomes.insert(
                (suite, scenario.to_owned(), id, at),
                (text("status"), text("errorMessage")),
            );
        }
    }
    outcomes
}

/// Checks that have nothing to look at where the gateway does better or other than the server, and then say so (`INFO`):
/// it answers in JSON what is answered at once, and does not close a stream that its client still reads.
const MAY_BE_SILENT: [&str; 2] = ["server-sse-streams-functional", "server-sse-disconnect-resume"];

/// The checks that pass directly but not through the gateway, as `SUITE SCENARIO:CHECK`, with what they say.
fn lost(direct: &Outcomes, through: &Outcomes) -> BTreeMap<String, String> {
    let mut lost = BTreeMap::new();
    for (check, _) in direct.iter().filter(|(_, (status, _))| status == "SUCCESS") {
        let (suite, scenario, id, _) = check;
        let (status, said) = match through.get(check) {
            Some((status, said)) => (status.as_str(), said.as_str()),
            None => ("not run", ""),
        };
        let is_kept =
            status == "SUCCESS" || (status == "INFO" && MAY_BE_SILENT.contains(&id.as_str()));
        if !is_kept {
            lost.insert(format!("{suite} {scenario}:{id}"), format!("{status} {said}"));
        }
    }
    // What fails only through the gateway, as the failure to set a scenario up, is lost too.
    for ((suite, scenario, id, _), (status, said)) in through {
        if status == "FAILURE" && !direct.keys().any(|(_, _, known, _)| known == id) {
            lost.insert(format!("{suite} {scenario}:{id}"), format!("{status} {said}"));
        }
    }
    lost
}

/// The checks whose result through the gateway is another one than directly, as `SUITE SCENARIO:CHECK DIRECT THROUGH`, with
/// what they say. Of two failures, the reason is compared too. What a scenario only notes (`INFO`) is no result.
fn differences(direct: &Outcomes, through: &Outcomes) -> BTreeMap<String, String> {
    let none = ("none".to_owned(), String::new());
    let result = |outcomes: &Outcomes, check: &Check| {
        let known = outcomes.get(check).filter(|(status, _)| status != "INFO");
        known.unwrap_or(&none).clone()
    };
    let checks: BTreeSet<&Check> = direct.keys().chain(through.keys()).collect();
    let mut differences = BTreeMap::new();
    for check in checks {
        let (direct, through) = (result(direct, check), result(through, check));
        if direct != through {
            let (suite, scenario, id, _) = check;
            let line = format!("{suite} {scenario}:{id} {} {}", direct.0, through.0);
            differences.insert(line, format!("directly `{}`, now `{}`", direct.1, through.1));
        }
    }
    differences
}

/// The lines of a list in `tests/conformance/expected`: `SUITE SCENARIO:CHECK`, or `SUITE SCENARIO` for all of a scenario;
/// where every difference counts, they end with the two results.
fn expected(list: &str) -> BTreeSet<String> {
    let path = root().join("tests/conformance/expected").join(list);
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().map(|line| line.split('#').next().unwrap().trim());
    lines.filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
}

/// What is lost and not expected, and what is expected and not lost.
fn surprises(lost: &BTreeMap<String, String>, expected: &BTreeSet<String>) -> Vec<String> {
    let covers = |entry: &String, check: &String| {
        entry == check
            || check.strip_prefix(entry.as_str()).is_some_and(|rest| rest.starts_with(':'))
    };
    let unexpected = lost
        .iter()
        .filter(|(check, _)| !expected.iter().any(|entry| covers(entry, check)))
        .map(|(check, said)| format!("{check}: {said}"));
    let passing = expected
        .iter()
        .filter(|entry| !lost.keys().any(|check| covers(entry, check)))
        .map(|entry| format!("{entry}: is expected to differ, but does not"));
    unexpected.chain(passing).collect()
}

fn failures(outcomes: &Outcomes) -> Vec<String> {
    let failed =
        outcomes.iter().filter(|(_, (status, _))| status == "FAILURE" || status == "WARNING");
    failed.map(|(check, outcome)| format!("{check:?}: {outcome:?}")).collect()
}

/// Some checks have half a second for what they wait for, so the tests of this file take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What our server does without a gateway. It is the same each time, so it runs once.
fn direct() -> &'static Outcomes {
    static DIRECT: OnceLock<Outcomes> = OnceLock::new();
    DIRECT.get_or_init(|| Server::fixture("both").outcomes(&SUITES))
}

#[test]
fn our_server_passes_directly() {
    let _turn = turn();
    assert_eq!(failures(direct()), Vec::<String>::new());
    // With one era only, it passes what belongs to it.
    for (era, suites) in [("legacy", &SUITES[..2]), ("modern", &SUITES[2..])] {
        let server = Server::fixture(era);
        assert_eq!(failures(&server.outcomes(suites)), Vec::<String>::new(), "{era}");
    }
}

#[test]
fn what_a_gateway_loses_is_found() {
    let check = |id: &str, at| (Suite::Modern, "caching".to_owned(), id.to_owned(), at);
    let outcome = |status: &str| (status.to_owned(), "said".to_owned());
    let direct: Outcomes = [
        (check("a", 0), outcome("SUCCESS")),
        (check("a", 1), outcome("SUCCESS")),
        (check("b", 0), outcome("SUCCESS")),
        (check("c", 0), outcome("WARNING")),
        (check("server-sse-streams-functional", 0), outcome("SUCCESS")),
    ]
    .into();
    assert_eq!(lost(&direct, &direct).len(), 0);
    let through: Outcomes = [
        (check("a", 0), outcome("SUCCESS")),
        (check("a", 1), outcome("FAILURE")),
        (check("setup", 0), outcome("FAILURE")),
        (check("server-sse-streams-functional", 0), outcome("INFO")),
    ]
    .into();
    let lost = lost(&direct, &through);
    let names: Vec<_> = lost.keys().map(String::as_str).collect();
    assert_eq!(names, ["2026-07-28 caching:a", "2026-07-28 caching:b", "2026-07-28 caching:setup"]);
    let entries = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(surprises(&lost, &entries(&["2026-07-28 caching"])), Vec::<String>::new());
    let found = surprises(
        &lost,
        &entries(&["2026-07-28 caching:a", "2026-07-28 caching:b", "stable ping"]),
    );
    assert_eq!(
        found,
        [
            "2026-07-28 caching:setup: FAILURE said",
            "stable ping: is expected to differ, but does not"
        ]
    );
}

#[test]
fn what_a_gateway_changes_is_found() {
    let check = |id: &str| (Suite::Stable, "ping".to_owned(), id.to_owned(), 0);
    let outcome = |status: &str, said: &str| (status.to_owned(), said.to_owned());
    let same = || {
        [
            (check("same"), outcome("FAILURE", "no")),
            (check("note"), outcome("INFO", "this")),
            (check("reason"), outcome("FAILURE", "no")),
            (check("better"), outcome("FAILURE", "no")),
            (check("lost"), outcome("SUCCESS", "")),
        ]
        .into_iter()
        .collect::<Outcomes>()
    };
    assert_eq!(differences(&same(), &same()).len(), 0);
    let mut through = same();
    through.remove(&check("note"));
    through.remove(&check("lost"));
    through.insert(check("reason"), outcome("FAILURE", "never"));
    through.insert(check("better"), outcome("SUCCESS", ""));
    let found = differences(&same(), &through);
    let lines = [
        "stable ping:better FAILURE SUCCESS",
        "stable ping:lost SUCCESS none",
        "stable ping:reason FAILURE FAILURE",
    ];
    assert_eq!(found.keys().collect::<Vec<_>>(), lines);
    let listed = lines.into_iter().map(ToOwned::to_owned).collect();
    assert_eq!(surprises(&found, &listed), Vec::<String>::new());
    assert_eq!(surprises(&differences(&same(), &same()), &listed).len(), 3);
}

/// Runs the suites against `toolgate serve` in front of our server, and compares with what the server does itself.
fn compare(upstream: &str, list: &str) {
    let _turn = turn();
    let fixture = Server::fixture("both");
    let upstream = upstream
        .replace("URL", &format!("{:?}", fixture.url))
        .replace("COMMAND", &format!("{:?}", example("conformance").to_str().unwrap()));
    let through = Server::gateway(&upstream).one_by_one(&SUITES);
    let surprises = surprises(&lost(direct(), &through), &expected(list));
    assert!(surprises.is_empty(), "through the gateway, {list}:\n{}", surprises.join("\n"));
}

/// Runs the suites against a server and against `toolgate serve` in front of another one: every check has the same result,
/// except for what the list says. Fewer checks that pass directly than `least` would be no proof.
fn equal(server: fn() -> Server, suites: &[Suite], least: usize, list: &str) {
    let _turn = turn();
    let (alone, behind) = (server(), server());
    let gateway = Server::gateway(&format!("url = {:?}", behind.url));
    let (direct, through) = thread::scope(|scope| {
        let direct = scope.spawn(|| alone.one_by_one(suites));
        let through = gateway.one_by_one(suites);
        (direct.join().unwrap(), through)
    });
    let passes = direct.values().filter(|(status, _)| status == "SUCCESS").count();
    assert!(passes >= least, "only {passes} checks pass directly: {:?}", failures(&direct));
    let surprises = surprises(&differences(&direct, &through), &expected(list));
    assert!(surprises.is_empty(), "through the gateway, {list}:\n{}", surprises.join("\n"));
}

/// The scenarios for clients, without those for authorization.
const CLIENT: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "initialize",
            "tools_call",
            "elicitation-sep1034-client-defaults",
            "sse-retry",
            "json-schema-2020-12-preservation",
        ],
    ),
    (
        "2026-07-28",
        &[
            "tools_call",
            "request-metadata",
            "sep-2322-client-request-state",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
            "json-schema-ref-no-deref",
            "json-schema-2020-12-preservation",
        ],
    ),
];

#[test]
fn the_gateway_is_a_client_without_fault() {
    let _turn = turn();
    let mut wrong = Vec::new();
    for (revision, scenarios) in CLIENT {
        for scenario in scenarios {
            let output = TempDir::new().unwrap();
            let mut command = Command::new(root().join("scripts/conformance"));
            command.arg("--client").arg(toolgate()).args(["--scenario", scenario]);
            command.args(["--revision", revision]).arg("--output").arg(output.path());
            let summary = finished(&mut command, scenario);
            let suite = if revision == "2026-07-28" { Suite::Modern } else { Suite::Legacy };
            let outcomes = read(output.path(), suite);
            let log = fs::read_to_string(output.path().join("log.txt")).unwrap_or_default();
            let passes = outcomes.values().filter(|(status, _)| status == "SUCCESS").count();
            assert!(passes > 0, "{revision} {scenario}: nothing passes\n{summary}{log}");
            wrong.extend(failures(&outcomes));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_gateway_loses_nothing() {
    compare("url = URL", "auto.txt");
}

#[test]
fn the_gateway_loses_nothing_over_stdio() {
    compare("command = COMMAND\nargs = [\"--stdio\"]", "stdio.txt");
}

#[test]
fn the_gateway_bridges_to_a_legacy_server() {
    compare("url = URL\nprotocol = \"legacy\"", "legacy.txt");
}

#[test]
fn the_gateway_bridges_to_a_modern_server() {
    compare("url = URL\nprotocol = \"modern\"", "modern.txt");
}

#[test]
fn a_server_of_the_rust_sdk_is_the_same_through_the_gateway() {
    equal(Server::rust_sdk, &SUITES, 326, "rust-sdk.txt");
}

/// It speaks 2025-11-25 and before, so the suite for 2026-07-28 has nothing to compare with.
#[test]
fn the_everything_server_is_the_same_through_the_gateway() {
    equal(Server::everything, &SUITES[..2], 60, "everything.txt");
}
