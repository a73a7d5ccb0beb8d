#!/usr/bin/env python3
"""Measures `toolgate tmux` side by side with libtmux-mcp and with the crate `tmux-mcp`.

usage: benches/tmux.py [--toolgate PATH] [--original PATH] [--rival PATH] [--rounds N] [--calls N] [--out FILE] [--details]

PATH of the original is its program `libtmux-mcp` (pip install libtmux-mcp==0.1.0a20), that of the rival its
program `tmux-mcp` (cargo install tmux-mcp). One that is not given is left out. All of them ask the same private
tmux server, one after the other in each round, so that noise of the machine hits all. Prints one table of goals, results
and ratios; with --details also the medians over all calls, the least call in brackets, and CPU of the server with its
children.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from goals import Goals

HERE = os.path.dirname(os.path.abspath(__file__))
# What each pane is asked for where its program and folder are not needed: tmux looks those up for each pane.
FEW = ["pane_index", "pane_title", "pane_active", "pane_pid", "window_id", "session_id"]
CHOSEN = "list_panes, 1000 panes, 7 fields"
SMALL, WINDOWS, PANES = (f"toolgate-bench-{os.getpid()}-{kind}" for kind in ("small", "windows", "panes"))


def tmux(socket, *args):
    done = subprocess.run(["tmux", "-u", "-L", socket, "-f", "/dev/null", *args], stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def ticks(pid):
    """CPU seconds of a process and of those of its children that it has waited for, and of those that run."""
    hertz = os.sysconf("SC_CLK_TCK")
    total = 0
    for each in [pid, *children(pid)]:
        try:
            with open(f"/proc/{each}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / hertz


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as f:
                found += [int(child) for child in f.read().split()]
        except OSError:
            pass
    return found + [grandchild for child in found for grandchild in children(child)]


def resident(pid):
    """Resident memory of the server itself, in MB."""
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


class Client:
    """One MCP server over stdio. Answers are matched by id."""

    def __init__(self, command, env):
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
        )
        self.next = 0
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.request("initialize", hello)
        self.cold = time.perf_counter() - self.started
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method, params):
        self.next += 1
        self.write({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        return self.next

    def read(self, wanted):
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the server ended")
            answer = json.loads(line)
            if answer.get("id") in wanted and ("result" in answer or "error" in answer):
                return answer, len(line)

    def request(self, method, params):
        return self.read({self.send(method, params)})[0]

    def call(self, name, arguments):
        answer = self.request("tools/call", {"name": name, "arguments": arguments})
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{name}: {json.dumps(answer)[:400]}")
        return answer

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Target:
    def __init__(self, name, command, env):
        self.name, self.command = name, command
        self.env = {**os.environ, **env}
        self.env.pop("TMUX", None)
        self.env.pop("TMUX_PANE", None)
        self.times, self.cpu, self.notes = {}, {}, {}

    def start(self, socket):
        return Client(self.command, {**self.env, "LIBTMUX_SOCKET": socket})

    def listed(self, client, when):
        """Notes how many tools are listed, and how long that list is."""
        result = client.request("tools/list", {})["result"]
        self.notes[f"tools{when}"] = len(result["tools"])
        self.notes[f"tools/list{when}, bytes"] = len(json.dumps(result, separators=(",", ":")))


def cases(target):
    """What is asked of the small server, in the words of each."""
    pane = {"pane_id": "%0"}
    return [
        ("list_sessions", target.words("list_sessions", {})),
        ("list_panes", target.words("list_panes", {})),
        ("capture_pane", target.words("capture_pane", pane)),
        ("snapshot_pane", target.words("snapshot_pane", pane)),
        ("send_keys", target.words("send_keys", {**pane, "keys": ":"})),
        ("run_command(true)", target.words("run_command", {**pane, "command": "true"})),
    ]


def timed(client, name, arguments, calls):
    times, before = [], ticks(client.process.pid)
    for _ in range(calls):
        start = time.perf_counter()
        client.call(name, arguments)
        times.append((time.perf_counter() - start) * 1000)
    return times, (ticks(client.process.pid) - before) * 1000 / calls


def at_once(client, name, arguments, count):
    start = time.perf_counter()
    wanted = {client.send("tools/call", {"name": name, "arguments": arguments}) for _ in range(count)}
    while wanted:
        answer, _ = client.read(wanted)
        wanted.discard(answer["id"])
    return (time.perf_counter() - start) * 1000


def wake_up(client, target, at):
    """From the moment that a program has written a line to the answer of a wait for it."""
    word = f"woken-{at}-{time.monotonic_ns()}"
    name, arguments = target.words("wait_for_text", {"pane_id": "%1", "patterns": [word], "timeout": 8.0})
    wanted = {client.send("tools/call", {"name": name, "arguments": arguments})}
    tty = tmux(SMALL, "display-message", "-p", "-t", "%1", "#{pane_tty}")
    written = []

    def write():
        with open(tty, "w") as terminal:
            terminal.write(f"{word}\r\n")
            terminal.flush()
            written.append(time.perf_counter())

    threading.Timer(0.4, write).start()
    answer, _ = client.read(wanted)
    ended = time.perf_counter()
    if "error" in answer or answer["result"].get("isError") or not written:
        raise RuntimeError(f"{name}: {json.dumps(answer)[:400]}")
    return (ended - written[0]) * 1000


def run(target, client, name, case, calls):
    try:
        for _ in range(3):
            client.call(*case)
        times, cpu = timed(client, *case, calls)
    except RuntimeError as error:
        target.notes[name] = str(error)
        return
    target.times.setdefault(name, []).extend(times)
    target.cpu.setdefault(name, []).append(cpu)


def measure(target, options):
    keep = lambda name, values: target.times.setdefault(name, []).extend(values)
    for _ in range(options.starts):
        client = target.start(SMALL)
        keep("cold start to initialize", [client.cold * 1000])
        client.close()
    client = target.start(SMALL)
    target.listed(client, "")
    target.notes["resident after start, MB"] = round(resident(client.process.pid), 1)
    for name, case in cases(target):
        run(target, client, name, case, options.calls)
    case = target.words("list_panes", {})
    keep("20 list_panes at once", [at_once(client, *case, 20) for _ in range(5)])
    keep("wait_for_text, wake-up", [wake_up(client, target, at) for at in range(options.wakes)])
    target.notes["resident at the end, MB"] = round(resident(client.process.pid), 1)
    client.close()
    few = max(options.calls // 10, 5)
    for socket, tool, name in [(WINDOWS, "list_windows", "50 windows"), (PANES, "list_panes", "1000 panes")]:
        client = target.start(socket)
        run(target, client, f"{tool}, {name}", target.words(tool, {}), few)
        if socket == PANES and target.name == "toolgate tmux":
            run(target, client, CHOSEN, (tool, {"fields": FEW}), few)
        client.close()
    client = Client(target.command, {name: value for name, value in target.env.items() if name != "LIBTMUX_SAFETY"})
    target.listed(client, " by default")
    client.close()


def prepare():
    size = ["-x", "120", "-y", "40"]
    tmux(SMALL, "new-session", "-d", "-s", "small", *size, "bash --norc --noprofile")
    tmux(SMALL, "split-window", "-t", "small", "cat")
    tmux(WINDOWS, "new-session", "-d", "-s", "windows", *size, "cat")
    for _ in range(49):
        tmux(WINDOWS, "new-window", "-d", "-t", "windows", "cat")
    tmux(PANES, "new-session", "-d", "-s", "panes", "-x", "400", "-y", "400", "cat")
    for window in range(50):
        if window:
            tmux(PANES, "new-window", "-d", "-t", f"panes:{window}", "cat")
        for _ in range(19):
            tmux(PANES, "split-window", "-d", "-t", f"panes:{window}", "cat", ";", "select-layout", "-t", f"panes:{window}", "tiled")
    count = len(tmux(PANES, "list-panes", "-a").splitlines())
    print(f"{count} panes", file=sys.stderr)


def same(name, arguments):
    return name, arguments


def goals(targets):
    """The goals of `toolgate tmux`: against the rivals that took part, and by itself."""
    table = Goals()
    by_name = {target.name: target for target in targets}
    ours = by_name.get("toolgate tmux")
    if not ours:
        return table
    mid = lambda target, name: statistics.median(target.times[name]) if target and target.times.get(name) else math.nan
    rival, original = by_name.get("tmux-mcp"), by_name.get("libtmux-mcp")
    table.at_most("cold start to initialize", 25, mid(ours, "cold start to initialize"), " ms")
    for name in ["list_sessions", "list_panes", "capture_pane", "snapshot_pane", "send_keys"]:
        own = mid(ours, name)
        table.at_most(f"{name}, median", 1, own, " ms")
        table.at_most(f"{name}", 1 / 10, own / mid(rival, name), "x", " tmux-mcp")
        table.at_most(f"{name}", 1 / 40, own / mid(original, name), "x", " libtmux-mcp")
    run_command = mid(ours, "run_command(true)") / mid(original, "run_command(true)")
    table.at_most("run_command(true)", 1 / 5, run_command, "x", " libtmux-mcp")
    table.at_most("wait_for_text, wake-up", 10, mid(ours, "wait_for_text, wake-up"), " ms")
    table.at_most("list_panes, 1000 panes, all fields", 40, mid(ours, "list_panes, 1000 panes"), " ms")
    table.at_most(CHOSEN, 40, mid(ours, CHOSEN), " ms")
    table.at_most("tools/list by default", 25_000, ours.notes["tools/list by default, bytes"], " bytes")
    table.at_most("resident after the start", 12, ours.notes["resident after start, MB"], " MB")
    return table


def report(targets, details, out):
    names = []
    for target in targets:
        names += [name for name in target.times if name not in names]
    lines = ["| what | " + " | ".join(f"{target.name}" for target in targets) + " |"]
    lines.append("|---|" + "--:|" * len(targets))
    for name in names:
        cells = []
        for target in targets:
            times = target.times.get(name)
            if not times:
                cells.append("-")
                continue
            cpu = target.cpu.get(name)
            cpu = f"; {statistics.median(cpu):.2f}" if cpu else ""
            cells.append(f"{statistics.median(times):.2f} ({min(times):.2f}{cpu})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for note in ["tools", "tools/list, bytes", "tools by default", "tools/list by default, bytes", "resident after start, MB", "resident at the end, MB"]:
        lines.append(f"| {note} | " + " | ".join(str(target.notes.get(note, "-")) for target in targets) + " |")
    if details:
        print("\n".join(lines) + "\n")
    goals(targets).print()
    for target in targets:
        for name, note in target.notes.items():
            if isinstance(note, str):
                print(f"{target.name}: {name}: {note}", file=sys.stderr)
    if out:
        with open(out, "w") as f:
            json.dump([{"name": t.name, "times": t.times, "cpu": t.cpu, "notes": t.notes} for t in targets], f)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--toolgate", default=os.path.join(HERE, "..", "target", "release", "toolgate"))
    parser.add_argument("--original")
    parser.add_argument("--rival")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--wakes", type=int, default=10)
    parser.add_argument("--out")
    parser.add_argument("--details", action="store_true")
    options = parser.parse_args()
    state = tempfile.mkdtemp(prefix="toolgate-bench-")
    env = {"LIBTMUX_SAFETY": "destructive"}
    audit = os.path.join(state, "audit.jsonl")
    targets = []
    if options.toolgate:
        targets.append(Target("toolgate tmux", [options.toolgate, "tmux", "--audit", audit], env))
    if options.original:
        targets.append(Target("libtmux-mcp", [options.original], {**env, "FASTMCP_SHOW_SERVER_BANNER": "0"}))
    if options.rival:
        targets.append(Target("tmux-mcp", [options.rival], {}))
    for target in targets:
        target.words = rival_words if target.name == "tmux-mcp" else same
    prepare()
    try:
        for round_ in range(options.rounds):
            for target in targets:
                print(f"round {round_ + 1}: {target.name}", file=sys.stderr)
                measure(target, options)
    finally:
        for socket in (SMALL, WINDOWS, PANES):
            tmux(socket, "kill-server")
    report(targets, options.details, options.out)


def rival_words(name, arguments):
    """The same in the words of the crate `tmux-mcp`."""
    pane = {"pane": arguments["pane_id"]} if "pane_id" in arguments else {}
    if name == "send_keys":
        return name, {**pane, "text": arguments["keys"], "enter": True}
    if name == "run_command":
        return "run_shell_command", {**pane, "command": arguments["command"]}
    if name == "wait_for_text":
        return name, {**pane, "patterns": arguments["patterns"], "seconds": int(arguments["timeout"])}
    return name, pane


if __name__ == "__main__":
    main()
