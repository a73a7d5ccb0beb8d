#!/usr/bin/env python3
"""Measures `toolgate serve` side by side with the yardstick proxies and with the bare server.

BENCH_BIN is the folder with `mcp-load`, `mcp-floor` and `mcp-upstream` (the gateway benchmark's release build).
In each round all targets take turns, so that noise of the machine hits all of them: `direct` (no proxy), `nginx` (a
plain proxy; left out where it is not installed), `bytes` (a proxy that reads nothing), `lazy` (one that reads the
envelope of both messages, the yardstick), `toolgate` with its whole default chain, audit to a file included, and
`no-intents`, the same without a record before each call. CPU is that of the proxy's own processes, the server behind it
left out. Prints one table of goals, results and ratios, which are medians of the rounds' own ratios; with --details also
what they are made of: medians, the best round in brackets.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from goals import Goals

LEGACY, MODERN = "2025-06-18", "2026-07-28"
# name: (title, servers behind, operation, size, connections, protocol)
CASES = {
    "echo-1": ("echo 16 B, 1 connection", "http", "echo", 16, 1, LEGACY),
    "echo-16": ("echo 16 B, 16 connections", "http", "echo", 16, 16, LEGACY),
    "echo-64": ("echo 16 B, 64 connections", "http", "echo", 16, 64, LEGACY),
    "modern-16": ("echo 16 B, 16 connections, 2026-07-28", "http", "echo", 16, 16, MODERN),
    "blob-100k": ("result of 100 kB, 4 connections", "http", "blob", 100_000, 4, LEGACY),
    "blob-1m": ("result of 1 MB, 4 connections", "large", "blob", 1_000_000, 4, LEGACY),
    "prefix-16": ("echo 16 B, 16 connections, prefixed names", "prefixed", "echo", 16, 16, LEGACY),
    "list-16": ("tools/list of 200 tools, 16 connections", "many", "list", 0, 16, LEGACY),
    "stdio-16": ("echo 16 B, 16 connections, stdio server", "stdio", "echo", 16, 16, LEGACY),
    "stdio-64": ("echo 16 B, 64 connections, stdio server", "stdio", "echo", 16, 64, LEGACY),
}
# Also measured without a record before each call.
WITHOUT_INTENTS = ("echo-16", "echo-64")
OTHERS = ("cold", "memory", "flights", "first-byte", "slow")
TARGETS = ("direct", "nginx", "bytes", "lazy", "toolgate", "no-intents")
PREFIX = "up__"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def median(values):
    return statistics.median(values) if values else float("nan")


def dot():
    print(".", end="", file=sys.stderr, flush=True)


class Programs:
    """What is started here is stopped here, and nothing else."""

    def __init__(self, options):
        of = lambda name: os.path.join(options.bench_bin, name)
        self.load, self.floor, self.upstream = of("mcp-load"), of("mcp-floor"), of("mcp-upstream")
        self.toolgate = os.path.abspath(options.toolgate)
        self.nginx = options.nginx
        self.folder = tempfile.mkdtemp(prefix="toolgate-bench-")
        self.running = []

    def start(self, command):
        state = tempfile.mkdtemp(dir=self.folder)
        with open(os.path.join(state, "stderr"), "w") as said:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
                env={**os.environ, "XDG_STATE_HOME": state}, start_new_session=True,
            )
        process.said = said.name
        self.running.append(process)
        return process

    def stop(self, process):
        for kind in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, kind)
                process.wait(5)
        self.running.remove(process)
        shutil.rmtree(os.path.dirname(process.said), ignore_errors=True)

    def stop_all(self):
        for process in list(self.running):
            self.stop(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def behind(self, kind):
        """Starts the server behind the proxies, if it is reached by an address."""
        if kind == "stdio":
            return None
        port = free_port()
        many = ["--dummy-tools", "200"] if kind == "many" else []
        self.listening(self.start([self.upstream, "--http", f"127.0.0.1:{port}", *many]), port)
        return f"http://127.0.0.1:{port}/mcp"

    def listening(self, process, port):
        for _ in range(1000):
            if process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            time.sleep(0.01)
        with open(process.said) as said:
            sys.exit(f"{process.args} does not listen: {said.read()[-500:]}")

    def proxy(self, target, kind, to, port):
        """The command that listens on `port`. `to` is the address of the server behind, or `None` for stdio."""
        if target == "nginx":
            return [self.nginx, "-p", self.folder, "-c", self.nginx_config(to, port)]
        if target not in ("toolgate", "no-intents"):
            command = [self.floor, "--listen", f"127.0.0.1:{port}", "--mode", target]
            command += ["--prefix", PREFIX] if kind == "prefixed" and target == "lazy" else []
            return command + (["--to", to] if to else ["--", self.upstream, "--stdio"])
        server = f'url = "{to}"' if to else f'command = "{self.upstream}"\nargs = ["--stdio"]'
        more = {
            "prefixed": '[namespaces.default]\nprefix = "always"\n',
            # Longer results are shortened if nothing is said.
            "large": "[limits]\nresponse_bytes = 40_000_000\nmessage_bytes = 40_000_000\n",
        }
        intents = '[audit]\nintents = "off"\n' if target == "no-intents" else ""
        config = os.path.join(self.folder, f"{kind}-{port}.toml")
        with open(config, "w") as f:
            f.write(f"[servers.up]\n{server}\n{more.get(kind, '')}{intents}")
        return [self.toolgate, "serve", config, "--listen", f"127.0.0.1:{port}"]

    def nginx_config(self, to, port):
        """A plain proxy that keeps its connections: the settings of the baseline."""
        folder = tempfile.mkdtemp(dir=self.folder)
        paths = " ".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = os.path.join(folder, "nginx.conf")
        with open(config, "w") as f:
            f.write(f"""daemon off; worker_processes 2; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; {paths} client_max_body_size 0; keepalive_requests 1000000000;
upstream up {{ server {to.split("/")[2]}; keepalive 128; keepalive_requests 1000000000; }}
server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://up; proxy_http_version 1.1;
proxy_set_header Connection ""; proxy_set_header Host $http_host; proxy_buffering off; }} }} }}""")
        return config

    def open(self, target, kind, to):
        """Starts a proxy: its process and its address."""
        port = free_port()
        process = self.start(self.proxy(target, kind, to, port))
        self.listening(process, port)
        return process, f"http://127.0.0.1:{port}/mcp"

    def loaded(self, *args):
        done = subprocess.run([self.load, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=180)
        if done.returncode:
            return {"failed": done.stderr.decode(errors="replace").strip().splitlines()[:1]}
        return json.loads(done.stdout)


# Rates and CPU


def run_cases(programs, names, options):
    """All cases that have the same servers behind them, in rounds. Returns rows by case and target."""
    kind = CASES[names[0]][1]
    to = programs.behind(kind)
    targets = {"direct": (None, to)}
    # A proxy that reads nothing can neither cut a prefix nor share a pipe.
    left_out = ("bytes", "nginx") if kind in ("stdio", "prefixed") else () if programs.nginx else ("nginx",)
    left_out += () if any(name in WITHOUT_INTENTS for name in names) else ("no-intents",)
    for target in (target for target in TARGETS[1:] if target not in left_out):
        targets[target] = programs.open(target, kind, to)
    rows = {(name, target): [] for name in names for target in targets}
    for turn in range(options.rounds):
        for name in names:
            _, _, op, size, conns, protocol = CASES[name]
            order = list(targets)[turn % len(targets):] + list(targets)[:turn % len(targets)]
            for target in order:
                process, url = targets[target]
                args = ["--op", op, "--size", str(size), "--conns", str(conns), "--protocol", protocol]
                args += ["--prefix", PREFIX if kind == "prefixed" and process else ""]
                way = ["http", url, *args] if url else ["stdio", *args]
                tail = [] if url else ["--", programs.upstream, "--stdio"]
                programs.loaded(*way, "--secs", "0.1", "--warm", "0.2", *tail)
                before = cpu_time(process)
                row = programs.loaded(*way, "--secs", str(options.secs), "--warm", "0", *tail)
                # What is written down of the calls may come a little after them.
                time.sleep(0.05)
                row["cpu_us"] = (cpu_time(process) - before) * 1e6 / max(row.get("calls", 0), 1)
                rows[name, target].append(row)
                if row.get("failed") or row.get("errors"):
                    print(f"\n{name} {target}: {row}", file=sys.stderr)
                dot()
    for process, _ in targets.values():
        if process:
            programs.stop(process)
    return rows


def print_cases(names, rows):
    print("| case | target | calls/s (best) | CPU us/call (least) | p50 / p99 ms | errors |\n|---|---|--:|--:|--:|--:|")
    for name in names:
        title = CASES[name][0]
        for target in TARGETS:
            runs = [row for row in rows.get((name, target), []) if row.get("calls")]
            if not runs:
                continue
            rates, times = [row["calls_per_s"] for row in runs], [row["cpu_us"] for row in runs]
            is_ours = target != "direct"
            print(
                f"| {title} | {target} | {median(rates):,.0f} ({max(rates):,.0f}) "
                f"| {f'{median(times):,.1f} ({min(times):,.1f})' if is_ours else '–'} "
                f"| {median([r['p50_us'] for r in runs]) / 1e3:.2f} / {median([r['p99_us'] for r in runs]) / 1e3:.2f} "
                f"| {sum(row['errors'] for row in runs)} |"
            )
            title = ""
    print("\nRatios: the median of the rounds' own ratios; of the best round of each in brackets.\n")
    print("| case | rate to direct | rate to lazy | CPU to lazy |\n|---|--:|--:|--:|")
    for name in names:
        ours, lazy, direct = (rows.get((name, target), []) for target in ("toolgate", "lazy", "direct"))
        both = lambda other: [(a, b) for a, b in zip(ours, other) if a.get("calls") and b.get("calls")]
        if not both(lazy) or not both(direct):
            continue
        rate = lambda other: (
            f"{median([a['calls_per_s'] / b['calls_per_s'] for a, b in both(other)]):.2f} "
            f"({max(a['calls_per_s'] for a, _ in both(other)) / max(b['calls_per_s'] for _, b in both(other)):.2f})"
        )
        times = [(a["cpu_us"], b["cpu_us"]) for a, b in both(lazy)]
        least = min(a for a, _ in times) / min(b for _, b in times)
        print(f"| {CASES[name][0]} | {rate(direct)} | {rate(lazy)} "
              f"| {median([a / b for a, b in times]):.2f} ({least:.2f}) |")


def rate_goals(names, rows, goals):
    """The median of the rounds' own ratios, against what the goals are set."""

    def ratio(name, key, other, target="toolgate"):
        both = zip(rows.get((name, target), []), rows.get((name, other), []))
        return median([a[key] / b[key] for a, b in both if a.get("calls") and b.get("calls") and b[key]])

    for name in names:
        title, cpu, rate = CASES[name][0], ("cpu_us", "lazy"), ("calls_per_s", "lazy")
        if name in WITHOUT_INTENTS:
            goals.at_most(f"{title}: CPU per call", 1.3, ratio(name, *cpu), "x", " lazy")
            quiet = ratio(name, *cpu, target="no-intents")
            goals.at_most(f"{title}: CPU per call without intents", 1.15, quiet, "x", " lazy")
        if name in ("blob-100k", "blob-1m"):
            goals.at_least(f"{title}: rate", 1, ratio(name, *rate), "x", " lazy")
        if name == "list-16":
            goals.at_least(f"{title}: rate", 3, ratio(name, "calls_per_s", "direct"), "x", " direct")
        if name.startswith("stdio"):
            goals.at_most(f"{title}: CPU per call", 1.3, ratio(name, *cpu), "x", " lazy")
            goals.at_least(f"{title}: rate", 0.9, ratio(name, *rate), "x", " lazy")


def cpu_time(process):
    """Seconds of a proxy's threads. `/proc/PID/stat` has it in steps of 10 ms only."""
    total = 0
    for pid in tree(process.pid) if process else []:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                    total += int(f.read().split()[0])
    return total / 1e9


def cold(programs, options, goals):
    print("\n| cold start to the first call | lazy, ms (least) | toolgate, ms (least) | listens after, ms |")
    print("|---|--:|--:|--:|")
    for kind in ("http", "stdio"):
        to = programs.behind(kind)
        runs = {"lazy": [], "toolgate": []}
        for _ in range(max(options.rounds, 5)):
            for target in runs:
                port = free_port()
                os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(dir=programs.folder)
                command = programs.proxy(target, kind, to, port)
                row = programs.loaded("cold", f"http://127.0.0.1:{port}/mcp", "--within", "20", "--", *command)
                if row.get("cold_ms") is None:
                    print(f"\ncold {kind} {target}: {row}", file=sys.stderr)
                else:
                    runs[target].append((row["cold_ms"], row["listening_ms"]))
                dot()
        text = lambda values: f"{median(values):.1f} ({min(values, default=float('nan')):.1f})"
        lazy, ours = ([ms for ms, _ in runs[target]] for target in ("lazy", "toolgate"))
        listens = median([ms for _, ms in runs["toolgate"]])
        goals.at_most(f"cold start to the first call, {kind} server", 60, median(ours), " ms")
        print(f"| {kind} server | {text(lazy)} | {text(ours)} | {listens:.1f} |")


# Memory and many calls


def tree(root):
    """A process and its descendants, the server behind it left out."""
    pids = [root]
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as f:
                    pids += [int(child) for child in f.read().split()]
    return [pid for pid in pids if pid == root or comm(pid) != "mcp-upstream"]


def comm(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as f:
        return f.read().strip()
    return ""


def memory(root):
    """Proportional, resident and largest resident memory of a proxy's processes, in MiB."""
    sums = {"Pss": 0, "Rss": 0, "VmHWM": 0}
    for pid in tree(root):
        for name in ("smaps_rollup", "status"):
            with open(f"/proc/{pid}/{name}") as f:
                for line in f:
                    key = line.split(":")[0]
                    if key in sums:
                        sums[key] += int(line.split()[1]) / 1024
    return sums["Pss"], sums["Rss"], sums["VmHWM"]


def post(message, session=None):
    """A request as it goes over the wire."""
    body = json.dumps(message, separators=(",", ":")).encode()
    lines = ["POST /mcp HTTP/1.1", "host: 127.0.0.1", "content-type: application/json",
             "accept: application/json, text/event-stream", f"content-length: {len(body)}"]
    lines += [f"mcp-session-id: {session}", f"mcp-protocol-version: {LEGACY}"] if session else []
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def call(id, tool, arguments):
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def connect(url):
    host, port = url.split("/")[2].split(":")
    return socket.create_connection((host, int(port)), 20)


def open_session(connection):
    """Opens a legacy session: its id, if the server keeps sessions."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    connection.sendall(post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    head, _ = read_answer(connection)
    session = next((line.split(": ", 1)[1] for line in head if line.lower().startswith("mcp-session-id:")), None)
    connection.sendall(post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session))
    read_answer(connection)
    return session


def read_answer(connection):
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(65536) or sys.exit("a connection was closed within an answer")
    head, body = got.split(b"\r\n\r\n", 1)
    head = head.decode().split("\r\n")
    length = next((int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536) or sys.exit("a connection was closed within an answer")
    return head, body


def print_memory(programs, options, goals):
    def line(what, process):
        proportional, resident, most = memory(process.pid)
        print(f"| {what} | {proportional:.1f} | {resident:.1f} | {most:.1f} |")
        return resident

    print("\n| memory of toolgate, MiB | PSS | RSS | peak RSS |\n|---|--:|--:|--:|")
    process, _ = programs.open("toolgate", "stdio", None)
    time.sleep(1.5)
    line("idle, stdio server (keeper included)", process)
    programs.stop(process)
    process, url = programs.open("toolgate", "http", programs.behind("http"))
    time.sleep(1.5)
    goals.at_most("idle with a server behind a URL, resident", 15, line("idle, HTTP server", process), " MB")
    connections = [connect(url) for _ in range(1000)]
    sessions = [open_session(connection) for connection in connections]
    line("1,000 sessions, a connection each", process)
    get = "GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\nmcp-session-id: {}\r\n" \
          f"mcp-protocol-version: {LEGACY}\r\n\r\n"
    for connection, session in zip(connections, sessions):
        connection.sendall(get.format(session).encode())
        head = connection.recv(65536)
        if b" 200 " not in head.split(b"\r\n")[0]:
            sys.exit(f"no stream: {head[:200]}")
    resident = line("1,000 sessions, each with its stream open", process)
    goals.at_most("1,000 idle sessions, each with its stream open, resident", 30, resident, " MB")
    for connection in connections:
        connection.close()
    programs.stop(process)
    process, url = programs.open("toolgate", "large", programs.behind("large"))
    for op, size, conns in (("echo", 16, 64), ("blob", 100_000, 16), ("blob", 1_000_000, 16)):
        programs.loaded("http", url, "--op", op, "--size", str(size), "--conns", str(conns), "--secs", str(options.secs))
        line(f"after load: {op} {size:,} B, {conns} connections", process)
    programs.stop(process)


def flights(programs, _options, goals):
    """10,000 calls at once, each of which takes longer than it takes to send all of them."""
    print("\n| calls in flight at once | asked for | answered | errors | p50 / p99 s | handles at most | peak RSS MiB |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for kind in ("http", "stdio"):
        to = programs.behind(kind)
        # Over HTTP a call needs two handles of the proxy.
        most_calls = min(10_000, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200) // (2 if to else 1))
        for target in ("lazy", "toolgate"):
            process, url = programs.open(target, kind, to)
            command = [programs.load, "http", url, "--op", "sleep", "--size", "10000", "--conns", str(most_calls),
                       "--warm", "0", "--secs", "19", "--call-timeout", "60", "--shared-session"]
            load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            most = 0
            while load.poll() is None:
                most = max(most, len(os.listdir(f"/proc/{process.pid}/fd")))
                time.sleep(0.25)
            said, error = load.communicate()
            row = json.loads(said) if said else {"first_error": error.decode(errors="replace")[:300]}
            if row.get("first_error"):
                print(f"\nflights {kind} {target}: {row}", file=sys.stderr)
            if target == "toolgate":
                what = f"{most_calls:,} calls in flight, {kind} server"
                goals.at_least(f"{what}: answered", most_calls, row.get("calls", 0), "")
                goals.at_most(f"{what}: most memory", 250, memory(process.pid)[2], " MB")
            print(f"| {kind} server, {target} | {most_calls:,} | {row.get('calls', 0):,} | {row.get('errors', '?')} "
                  f"| {row.get('p50_us', 0) / 1e6:.1f} / {row.get('p99_us', 0) / 1e6:.1f} | {most:,} "
                  f"| {memory(process.pid)[2]:.0f} |")
            programs.stop(process)


def first_byte(programs, options, goals):
    """From the request for a result of 10 MB to the first byte of the body of the response."""
    print("\n| result of 10 MB | first byte, ms (least) | last byte, ms (least) |\n|---|--:|--:|")
    to = programs.behind("large")
    targets = {"direct": (None, to)} | {name: programs.open(name, "large", to) for name in ("lazy", "toolgate")}
    connections = {name: connect(url) for name, (_, url) in targets.items()}
    sessions = {name: open_session(connection) for name, connection in connections.items()}
    times = {name: [] for name in targets}
    for turn in range(max(options.rounds * 5, 10)):
        for name, connection in connections.items():
            began = time.perf_counter()
            connection.sendall(post(call(turn + 1, "blob", {"bytes": 10_000_000}), sessions[name]))
            first, rest = read_big_answer(connection)
            if turn:
                times[name].append(((first - began) * 1e3, (rest - began) * 1e3))
    for name, runs in times.items():
        first, last = [run[0] for run in runs], [run[1] for run in runs]
        print(f"| {name} | {median(first):.1f} ({min(first):.1f}) | {median(last):.1f} ({min(last):.1f}) |")
    ratio = median([ours[0] / bare[0] for ours, bare in zip(times["toolgate"], times["direct"])])
    goals.at_most("result of 10 MB: first byte", 2, ratio, "x", " direct")
    for process, _ in targets.values():
        if process:
            programs.stop(process)


def read_big_answer(connection):
    """When the first byte of the body was there, and when the last one was."""
    got, first, ends = bytearray(), None, None
    while ends is None or len(got) < ends:
        part = connection.recv(1 << 20) or sys.exit("a connection was closed within an answer")
        got += part
        at = got.find(b"\r\n\r\n", 0, 4096)
        if first is None and at >= 0 and len(got) > at + 4:
            first = time.perf_counter()
        if ends is None and at >= 0:
            head = bytes(got[:at]).decode().lower().split("\r\n")
            length = next((int(line.split(":")[1]) for line in head if line.startswith("content-length:")), None)
            if length is None:
                # Chunks: the last one is empty.
                while not got.endswith(b"0\r\n\r\n"):
                    got += connection.recv(1 << 20) or sys.exit("a connection was closed within an answer")
                return first or time.perf_counter(), time.perf_counter()
            ends = at + 4 + length
    return first, time.perf_counter()


def slow(programs, _options, _goals):
    """Clients that ask for results of 1 MB and read nothing."""
    print("\n| clients that read nothing, results of 1 MB | RSS before | after 1 s | after 4 s | others answered in ms |")
    print("|---|--:|--:|--:|--:|")
    to = programs.behind("large")
    for title, clients, asked in (("64 connections, 1 call each", 64, 1), ("4 connections, 200 calls each", 4, 200)):
        process, url = programs.open("toolgate", "large", to)
        connections = [connect(url) for _ in range(clients)]
        sessions = [open_session(connection) for connection in connections]
        sizes = [memory(process.pid)[1]]
        for connection, session in zip(connections, sessions):
            calls = [post(call(id, "blob", {"bytes": 1_000_000}), session) for id in range(1, asked + 1)]
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.send(b"".join(calls))
        for wait in (1, 3):
            time.sleep(wait)
            sizes.append(memory(process.pid)[1])
        other = connect(url)
        session, began = open_session(other), time.perf_counter()
        other.sendall(post(call(1, "echo", {"text": "x"}), session))
        read_answer(other)
        took = (time.perf_counter() - began) * 1e3
        print("| {} | {:.0f} | {:.0f} | {:.0f} | {:.1f} |".format(title, *sizes, took))
        for connection in connections:
            connection.close()
        programs.stop(process)


def raise_limit():
    """10,000 calls over HTTP need twice as many handles in the proxy: takes what the system gives."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in (65536, hard):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, max(most, hard)))
            return


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bench_bin", metavar="BENCH_BIN")
    p.add_argument("--toolgate", default="target/release/toolgate", help="the program to measure (%(default)s)")
    p.add_argument("--nginx", default=shutil.which("nginx"), help="the program nginx (%(default)s)")
    p.add_argument("--details", action="store_true", help="print also what the goals' results are made of")
    p.add_argument("--rounds", type=int, default=3, help="%(default)s if not set")
    p.add_argument("--secs", type=float, default=1.0, help="of load for each target and round (%(default)s)")
    p.add_argument("--only", default="", help="some of: " + ", ".join([*CASES, *OTHERS]))
    options = p.parse_args()
    wanted = [name for name in options.only.split(",") if name] or [*CASES, *OTHERS]
    if unknown := [name for name in wanted if name not in CASES and name not in OTHERS]:
        p.error(f"no such case: {', '.join(unknown)}")
    # So that an outer `timeout` lets it clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    raise_limit()
    programs, goals = Programs(options), Goals()
    if not options.nginx:
        print("nginx is not installed (apt-get install nginx-light): no rows of it", file=sys.stderr)
    # One table on standard output, unless all of them are wanted.
    details = contextlib.nullcontext() if options.details else contextlib.redirect_stdout(open(os.devnull, "w"))
    loads = [os.getloadavg()[0]]
    try:
        cases, rows = [name for name in CASES if name in wanted], {}
        for kind in dict.fromkeys(CASES[name][1] for name in cases):
            rows |= run_cases(programs, [name for name in cases if CASES[name][1] == kind], options)
            loads.append(os.getloadavg()[0])
        rate_goals(cases, rows, goals)
        with details:
            if cases:
                print(file=sys.stderr)
                print_cases(cases, rows)
            for name, measure in zip(OTHERS, (cold, print_memory, flights, first_byte, slow)):
                if name in wanted:
                    measure(programs, options, goals)
            print()
    finally:
        programs.stop_all()
    loads.append(os.getloadavg()[0])
    goals.print()
    print(f"\nLoad of the machine, this run included: {min(loads):.1f} to {max(loads):.1f}.")


if __name__ == "__main__":
    main()
