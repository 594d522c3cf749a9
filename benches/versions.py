#!/usr/bin/env python3
"""An old binary against a new one: ratios new/old in one run, on one disk, taken in turns.

    python3 benches/versions.py OLD NEW

Each round runs every candidate once, the old one first in one round and the new one first in the next, so that a noisy
moment hits both. A figure is the median over the rounds of the ratio within a round; `best` is the ratio of the
fastest tenths; `cpu` is the ratio of the medians of user and system time, which other programs disturb least.
Fails if a ratio of times is over the budget.
"""
import argparse, os, shutil, statistics, sys, tempfile, time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("old")
parser.add_argument("new")
parser.add_argument("--dir", default=".", help="where to make the files (the disk that is measured)")
parser.add_argument("--rounds", type=int, default=500)
parser.add_argument("--locks", type=int, default=10_000, help="how many locks for the status row")
parser.add_argument("--budget", type=float, default=1.02)
options = parser.parse_args()

flock, true = shutil.which("flock"), shutil.which("true")
work = tempfile.mkdtemp(prefix="lokt-bench-", dir=os.path.abspath(options.dir))
null = os.open(os.devnull, os.O_RDWR)
quiet = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]


class Side:
    """One binary with a root and a ledger of its own."""

    def __init__(self, name, binary):
        self.name, self.binary = name, os.path.abspath(binary)
        self.env = {"PATH": os.environ["PATH"], "LOKT_ROOT": f"{work}/{name}", "LOKT_OWNER": "bench"}
        self.ledger = f"{work}/{name}-ledger"

    def run(self, *words):
        """Runs the binary; gives the processor time that it took, in ns."""
        return spawn((self.binary, *words), self.env)

    def guard(self):
        return self.run("guard", "x", "--", true)

    def lock_unlock(self):
        return self.run("lock", "x", "--ttl", "5m") + self.run("unlock", "x")

    def append(self):
        return self.run("ledger", "append", "-d", self.ledger, '{"type":"note","text":"a line of a usual length"}')

    def status(self):
        return self.run("status")

    def fill(self, count):
        """Makes that number of locks, all alike."""
        self.run("lock", "n0")
        path = f"{work}/{self.name}/locks"
        record = open(f"{path}/n0.json").read()
        for n in range(count):
            with open(f"{path}/n{n}.json", "w") as file:
                file.write(record.replace('"n0"', f'"n{n}"'))


def spawn(words, env):
    pid = os.posix_spawn(words[0], words, env, file_actions=quiet)
    _, status, used = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{words} ended with {os.waitstatus_to_exitcode(status)}")
    return (used.ru_utime + used.ru_stime) * 1e9


def measure(rounds, candidates):
    """The time and the processor time of each candidate in each round."""
    taken = {name: [] for name in candidates}
    for turn in range(rounds + 5):
        order = list(candidates)
        for name in order if turn % 2 else reversed(order):
            start = time.perf_counter_ns()
            cpu = candidates[name]()
            if turn >= 5:
                taken[name].append((time.perf_counter_ns() - start, cpu))
    return taken


def ratio(taken, of, to):
    """Of two candidates: the median ratio of a round, the ratio of the fastest tenths, and that of processor times."""
    pairs = statistics.median(a[0] / b[0] for a, b in zip(taken[of], taken[to]))
    tenth = lambda name: statistics.quantiles([each[0] for each in taken[name]], n=10)[0]
    cpu = lambda name: statistics.median(each[1] for each in taken[name])
    return pairs, tenth(of) / tenth(to), cpu(of) / cpu(to)


def row(what, taken, of, to):
    pairs, best, cpu = ratio(taken, of, to)
    us = {name: statistics.median(each[0] for each in taken[name]) / 1000 for name in (of, to)}
    print(f"| {what} | {us[of]:.0f} | {us[to]:.0f} | {pairs:.3f} | {best:.3f} | {cpu:.3f} |", flush=True)
    return pairs


old, new = Side("old", options.old), Side("new", options.new)
over = []
try:
    size = [os.path.getsize(side.binary) for side in (new, old)]
    print("| what | us | against us | ratio | best | cpu |\n| --- | --- | --- | --- | --- | --- |")
    print(f"| bytes of the binary | {size[0]} | {size[1]} | {size[0] / size[1]:.3f} | | |")

    def compare(what, rounds, verb, **others):
        taken = measure(rounds, {"old": getattr(old, verb), "new": getattr(new, verb), **others})
        if row(what, taken, "new", "old") > options.budget:
            over.append(what)
        for peer in others:
            row(f"{what}, old against {peer}", taken, "old", peer)
            row(f"{what}, new against {peer}", taken, "new", peer)

    compare("guard x -- true", options.rounds, "guard", flock=lambda: spawn((flock, "-n", f"{work}/f", true), old.env))
    compare("lock + unlock", options.rounds, "lock_unlock")
    for side in (old, new):
        side.run("ledger", "init", "-d", side.ledger)
    compare("append", options.rounds, "append")
    for side in (old, new):
        side.fill(options.locks)
    compare(f"status of {options.locks} locks", max(20, options.rounds // 5), "status")
finally:
    shutil.rmtree(work)
sys.exit(f"over {options.budget}: {', '.join(over)}" if over else 0)
