#!/usr/bin/env python3
"""Prints what the resident memory of processes is, by kind of page: one table, a column for each process.

usage: benches/smaps.py PID…

Linux only. kB: resident, and in brackets what belongs to the process alone (private dirty: what would have to be written to swap).
Resident pages of files count for every process that maps them, and the system maps 16 at once where a program touches one.
"""

import re
import sys

KINDS = ("program: code", "program: read-only data", "program: relocated and writable data", "C library and other files",
         "heap and other anonymous memory", "stack of the main thread")
# A mapping's first line, as in proc(5): addresses, permissions, offset, device, inode, name.
MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ (\d+)\s*(.*)")


def kind(permissions, inode, name, program):
    if name == "[stack]":
        return KINDS[5]
    if inode == "0" or not name.startswith("/"):
        return KINDS[4]
    if name != program:
        return KINDS[3]
    return {"r-xp": KINDS[0], "rw-p": KINDS[2]}.get(permissions, KINDS[1])


def pages(pid):
    """Resident and private dirty kB of a process, by kind."""
    with open(f"/proc/{pid}/maps") as f:
        program = next((found[3] for line in f if (found := MAPPING.match(line)) and found[3].startswith("/")), "")
    sums, at = {name: [0, 0] for name in KINDS}, None
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            if found := MAPPING.match(line):
                at, is_program_data = kind(*found.groups(), program), found[3] == program
            elif line.startswith("Rss:"):
                resident = int(line.split()[1])
                sums[at][0] += resident
            elif line.startswith("Private_Dirty:"):
                dirty = int(line.split()[1])
                if at == KINDS[1] and is_program_data and dirty:
                    # The loader wrote these before it made them read-only.
                    sums[at][0] -= resident
                    sums[KINDS[2]][0] += resident
                    sums[KINDS[2]][1] += dirty
                else:
                    sums[at][1] += dirty
    return sums


def title(pid):
    with open(f"/proc/{pid}/cmdline") as f:
        words = f.read().split("\0")
    with open(f"/proc/{pid}/status") as f:
        threads = next(line.split()[1] for line in f if line.startswith("Threads:"))
    return f"{words[1] if len(words) > 1 else words[0]}, {threads} threads"


def main():
    if len(sys.argv) < 2 or not all(pid.isdigit() for pid in sys.argv[1:]):
        sys.exit(__doc__)
    columns = [(title(pid), pages(pid)) for pid in sys.argv[1:]]
    print("| kB resident (private) | " + " | ".join(name for name, _ in columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for name in KINDS:
        print(f"| {name} | " + " | ".join("{:,} ({:,})".format(*sums[name]) for _, sums in columns) + " |")
    totals = [[sum(row[i] for row in sums.values()) for i in (0, 1)] for _, sums in columns]
    print("| sum | " + " | ".join("{:,} ({:,})".format(*total) for total in totals) + " |")


if __name__ == "__main__":
    main()
