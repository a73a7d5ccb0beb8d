#!/usr/bin/env python3
"""Measures `toolgate wrap` side by side with the `lazy` yardstick proxy and with the bare server.

usage: benches/wrap.py BENCH_BIN [--toolgate PATH] [--before PATH] [--rounds N] [--secs S] [--details]

Prints one table of goals, results and ratios; with --details also what they are made of. With --before, only that older
program and this one take turns, and the details are all that there is.

BENCH_BIN is the folder with `mcp-load`, `mcp-floor` and `mcp-upstream` (the gateway benchmark's release
build). Each round runs every target in turn, so that noise of the machine hits all of them; ratios are those of
medians within the same run. CPU is that of the proxy's own processes,
the server behind it left out.
"""

import argparse
import contextlib
import http.server
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from goals import Goals

HERE = os.path.dirname(os.path.abspath(__file__))
GOVERNED = os.path.join(HERE, "governed", "toolgate.toml")
EMPTY = os.path.join(HERE, "governed", "empty.toml")
EVERYTHING = os.path.join(HERE, "governed", "everything.toml")


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes whatever it is sent."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def collector():
    """The address of a collector on a thread of its own."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def load(args):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120)
    return json.loads(done.stdout)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Bench:
    def __init__(self, options):
        self.load_bin = os.path.join(options.bench_bin, "mcp-load")
        self.floor = os.path.join(options.bench_bin, "mcp-floor")
        self.upstream = [os.path.join(options.bench_bin, "mcp-upstream"), "--stdio"]
        self.toolgate = options.toolgate
        self.old = options.before
        self.secs = str(options.secs)
        self.state = tempfile.mkdtemp(prefix="toolgate-bench-")
        os.environ["BENCH_OTLP"] = collector()
        # The same, with a tool that may change something: each call is announced in the audit first.
        with open(EVERYTHING) as f:
            text = f.read().replace("fifty.cedar", os.path.join(HERE, "governed", "fifty.cedar"))
        self.announced_config = os.path.join(self.state, "announced.toml")
        with open(self.announced_config, "w") as f:
            f.write(text.replace('tier = "readonly"', 'tier = "mutating"'))

    def case(self, op, size, conns):
        return ["--op", op, "--size", str(size), "--conns", str(conns), "--secs", self.secs, "--warm", "0.5"]

    def direct(self, case):
        return load([self.load_bin, "stdio", *case, "--", *self.upstream])

    def before(self, case):
        return self.wrapped(case, self.old)

    def wrapped(self, case, program=None):
        audit = os.path.join(self.state, "audit.jsonl")
        wrap = [program or self.toolgate, "wrap", "--audit", audit, "--", *self.upstream]
        return load([self.load_bin, "stdio", *case, "--", *wrap])

    def governed(self, case):
        wrap = [self.toolgate, "wrap", "--config", GOVERNED, "--", *self.upstream]
        return load([self.load_bin, "stdio", *case, "--", *wrap])

    def everything(self, case):
        wrap = [self.toolgate, "wrap", "--config", EVERYTHING, "--", *self.upstream]
        return load([self.load_bin, "stdio", *case, "--", *wrap])

    def announced(self, case):
        wrap = [self.toolgate, "wrap", "--config", self.announced_config, "--", *self.upstream]
        return load([self.load_bin, "stdio", *case, "--", *wrap])

    def empty(self, case):
        wrap = [self.toolgate, "wrap", "--config", EMPTY, "--", *self.upstream]
        return load([self.load_bin, "stdio", *case, "--", *wrap])

    def lazy(self, case):
        port = free_port()
        command = [self.floor, "--listen", f"127.0.0.1:{port}", "--mode", "lazy", "--", *self.upstream]
        floor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port), 0.1).close()
                    break
                except OSError:
                    time.sleep(0.02)
            return load([self.load_bin, "http", f"http://127.0.0.1:{port}/mcp", *case, "--pid", str(floor.pid)])
        finally:
            floor.kill()
            floor.wait()


def initialize_ms(command):
    """From spawn to the answer to `initialize`."""
    line = (b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
            b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n')
    start = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    child.stdin.write(line)
    child.stdin.flush()
    child.stdout.readline()
    took = (time.perf_counter() - start) * 1e3
    rss = tree_rss(child.pid)
    child.stdin.close()
    child.wait(timeout=20)
    return took, rss


def tree_rss(root):
    """Resident and proportional memory of the process and its keeper, the server left out, in MB."""
    total_rss = total_pss = 0
    pids, program = [root], os.readlink(f"/proc/{root}/exe")
    for pid in pids:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            pids += [int(p) for p in f.read().split()]
    for pid in pids:
        if os.readlink(f"/proc/{pid}/exe") != program:
            continue
        with open(f"/proc/{pid}/smaps_rollup") as f:
            fields = {l.split(":")[0]: l.split()[1] for l in f if ":" in l and l.rstrip().endswith("kB")}
        total_rss += int(fields["Rss"])
        total_pss += int(fields["Pss"])
    return total_rss / 1024, total_pss / 1024


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("bench_bin")
    p.add_argument("--toolgate", default="target/release/toolgate")
    p.add_argument("--before")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--secs", type=float, default=2.0)
    p.add_argument("--details", action="store_true")
    options = p.parse_args()
    goals = Goals()
    shown = options.details or options.before
    with contextlib.nullcontext() if shown else contextlib.redirect_stdout(open(os.devnull, "w")):
        measure(options, goals)
        print()
    if not options.before:
        goals.print()


def measure(options, goals):
    bench = Bench(options)
    cases = [("echo 16 B, 1 in flight", ("echo", 16, 1)), ("echo 16 B, 16 in flight", ("echo", 16, 16)),
             ("echo 16 B, 64 in flight", ("echo", 16, 64)), ("result 100 kB, 16 in flight", ("blob", 100_000, 16))]
    print(f"| case | target | calls/s | CPU us/call (least) | p50 / p99 ms | errors |")
    print("|---|---|--:|--:|--:|--:|")
    ratios, added = [], []
    for title, case in cases:
        targets = {"direct": bench.direct, "lazy": bench.lazy, "wrap": bench.wrapped}
        if options.before:
            targets = {"before": bench.before, "wrap": bench.wrapped}
        elif case[0] == "echo":
            targets.update({"wrap, empty chain": bench.empty, "wrap, governed": bench.governed,
                            "wrap, everything": bench.everything, "wrap, everything, announced": bench.announced})
        rows = {name: [] for name in targets}
        for _ in range(options.rounds):
            for name, run in targets.items():
                rows[name].append(run(bench.case(*case)))
                print(".", end="", file=sys.stderr, flush=True)
        cpu = {}
        for name, runs in rows.items():
            get = lambda k: [r[k] for r in runs if r.get(k) is not None]
            cpu[name] = [r["procs"][0]["cpu_us_per_call"] for r in runs]
            mid = lambda xs: statistics.median(xs) if xs else float("nan")
            print(f"| {title} | {name} | {mid(get('calls_per_s')):,.0f} | {mid(cpu[name]):.1f} ({min(cpu[name], default=float('nan')):.1f}) "
                  f"| {mid(get('p50_us')) / 1e3:.2f} / {mid(get('p99_us')) / 1e3:.2f} | {sum(get('errors'))} |")
        yardstick = cpu["before" if options.before else "lazy"]
        ratios.append((title, statistics.median(cpu["wrap"]) / statistics.median(yardstick), min(cpu["wrap"]) / min(yardstick)))
        for name in (n for n in cpu if n in ("wrap, governed", "wrap, everything", "wrap, everything, announced")):
            added.append((f"{title}: {name}", statistics.median(cpu[name]) - statistics.median(cpu["wrap, empty chain"]),
                          min(cpu[name]) - min(cpu["wrap, empty chain"])))
    print(file=sys.stderr)
    if not options.before:
        for title, ratio, _ in ratios:
            goals.at_most(f"{title}: CPU per call", 1.25, ratio, "x", " lazy")
        for title, more, _ in added:
            goals.at_most(f"{title}: CPU over the empty chain", 15 if "governed" in title else 25, more, " us")
    if added:
        print("\n| case | CPU over the empty chain, us/call, medians | least of each |\n|---|--:|--:|")
    for title, mid, least in added:
        print(f"| {title} | {mid:.1f} | {least:.1f} |")
    against = "before" if options.before else "lazy"
    print(f"\n| case | CPU of wrap / CPU of {against}, medians | least of each |\n|---|--:|--:|")
    for title, mid, least in ratios:
        print(f"| {title} | {mid:.2f} | {least:.2f} |")

    audit = os.path.join(bench.state, "cold.jsonl")
    wrap = [options.toolgate, "wrap", "--audit", audit, "--", *bench.upstream]
    other = [options.before, *wrap[1:]] if options.before else bench.upstream
    bare, ours = [], []
    for _ in range(25):
        bare.append(initialize_ms(other)[0])
        ours.append(initialize_ms(wrap))
    later = statistics.median(t for t, _ in ours) - statistics.median(bare)
    name = "before" if options.before else "bare"
    if not options.before:
        goals.at_most("cold start over the bare server", 15, later, " ms")
        goals.at_most("idle, resident with its keeper", 10, ours[-1][1][0], " MB")
    print(f"\ncold start to the answer to initialize: {name} {statistics.median(bare):.1f} ms, wrapped "
          f"{statistics.median(t for t, _ in ours):.1f} ms, added {later:.1f} ms (medians of 25, interleaved)")
    print(f"idle memory of toolgate and its keeper: {ours[-1][1][0]:.1f} MB resident in sum, "
          f"{ours[-1][1][1]:.1f} MB proportional")


if __name__ == "__main__":
    main()
