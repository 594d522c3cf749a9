#!/usr/bin/env python3
"""Whole commands against their peers: ratios in one run, on one disk, taken in turns.

    cargo build --release --workspace && python3 benches/commands.py

Each row runs its candidates one after the other, round after round, so that a noisy moment hits all of them; the figure is the
ratio of medians. Files are made below the current directory's file system (or --dir).
"""
import argparse, fcntl, glob, hashlib, json, os, resource, shutil, statistics, subprocess, sys, tempfile, time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--dir", default=".", help="where to make the files (the disk that is measured)")
parser.add_argument("--rounds", type=int, default=300)
parser.add_argument("--waiters", type=int, default=10_000, help="how many waiters of other names")
parser.add_argument("--locks", type=int, default=10_000, help="how many locks for the status row")
parser.add_argument("--events", type=int, default=50_000, help="how many events for the claim row")
options = parser.parse_args()

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def built(name):
    found = glob.glob(f"{here}/target/*/release/{name}") + glob.glob(f"{here}/target/release/{name}")
    if not found:
        sys.exit(f"{name} is not built: cargo build --release --workspace")
    return max(found, key=os.path.getmtime)


lokt, read_all, native_append = built("lokt"), built("read_all"), built("native_append")
flock = shutil.which("flock")
true, sleep = shutil.which("true"), shutil.which("sleep")
work = tempfile.mkdtemp(prefix="lokt-bench-", dir=os.path.abspath(options.dir))
env = {"PATH": os.environ["PATH"], "LOKT_ROOT": f"{work}/root", "LOKT_OWNER": "bench"}
null = os.open(os.devnull, os.O_RDWR)
quiet = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]


def run(*words):
    pid = os.posix_spawn(words[0], words, env, file_actions=quiet)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        sys.exit(f"{words} ended with {os.waitstatus_to_exitcode(status)}")


def create(sync):
    path = f"{work}/plain"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, b"x" * 600)
    if sync:
        os.fsync(fd)
    os.close(fd)
    os.unlink(path)


def medians(rounds, **candidates):
    times = {name: [] for name in candidates}
    for turn in range(rounds + 5):
        for name, candidate in candidates.items():
            start = time.perf_counter_ns()
            candidate()
            if turn >= 5:
                times[name].append(time.perf_counter_ns() - start)
    return {name: statistics.median(taken) / 1000 for name, taken in times.items()}


def lock_unlock():
    run(lokt, "lock", "x", "--ttl", "5m")
    run(lokt, "unlock", "x")


def acquire_release():
    run(lokt, "lease", "acquire", "--session", f"{work}/session")
    run(lokt, "lease", "release", "--session", f"{work}/session")


def two_flocks():
    run(flock, "-n", f"{work}/f", true)
    run(flock, "-n", f"{work}/f", true)


def guard(*flags):
    run(lokt, "guard", "x", *flags, "--", true)


def together(count, *words):
    """Starts so many at once and waits for all of them."""
    pids = [os.posix_spawn(words[0], words, env, file_actions=quiet) for _ in range(count)]
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        if status != 0:
            sys.exit(f"{words} ended with {os.waitstatus_to_exitcode(status)}")


def waiters_elsewhere(count):
    """One living waiter in the line of each of so many other names, kept by a process of its own. Gives what ends it."""
    ready, done = os.pipe(), os.pipe()
    keeper = os.fork()
    if keeper == 0:
        pulses = keep_pulses(count)
        os.close(done[1])
        os.write(ready[1], b".")
        os.read(done[0], 1)
        os._exit(0 if pulses else 1)
    os.read(ready[0], 1)

    def end():
        os.close(done[1])
        os.waitpid(keeper, 0)

    return end


def keep_pulses(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 200), hard))
    start = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]
    process = f'{{"pid":{os.getpid()},"start":{start}}}'
    pulses = []
    for n in range(count):
        os.makedirs(f"{work}/root/state/line/other{n}")
        pulse = open(f"{work}/root/state/line/other{n}/{n + 1}", "w")
        pulse.write(f'{{"version":1,"name":"other{n}","owner":"o","process":{process},"since":"2026-01-01T00:00:00Z"}}\n')
        pulse.flush()
        fcntl.flock(pulse, fcntl.LOCK_EX)
        pulses.append(pulse)
    return pulses


def ledger_of(count):
    """A ledger of so many events, whose claims have been asked for once."""
    run(lokt, "ledger", "init", "-d", f"{work}/long")
    for n in range(1, count + 1):
        with open(f"{work}/long/ledger/event-{n:06}.json", "w") as file:
            file.write(f'{{"type":"node_created","timestamp":"2026-01-01T00:00:00Z","node_id":"1.{n}","statement":"to be done"}}')
    run(lokt, "claim", "take", "first", "-d", f"{work}/long")


def native_ledger(where, count):
    """A proof as the native program makes it: half of its events make nodes, the others claim and release them."""
    for name in ("ledger", "nodes"):
        os.makedirs(f"{work}/{where}/{name}")
    open(f"{work}/{where}/meta.json", "w").write('{"version": "1.0"}')
    time_text = "2026-01-01T00:00:00Z"
    for n in range(1, count + 1):
        if n == 1:
            event = {"type": "proof_initialized", "timestamp": time_text, "conjecture": "c", "author": "a"}
        elif n <= count // 2:
            statement = f"what is to be shown here, in a sentence of a usual length: {n}"
            content = f"type:claim|statement:{statement}|inference:assumption"
            event = {"type": "node_created", "timestamp": time_text, "node": {
                "id": "1" if n == 2 else f"1.{n - 2}", "type": "claim", "statement": statement, "inference": "assumption",
                "workflow_state": "available", "epistemic_state": "pending", "taint_state": "unresolved",
                "content_hash": hashlib.sha256(content.encode()).hexdigest(), "created": time_text}}
        else:
            node = (n - count // 2 - 1) // 2 + 1
            event = {"type": "nodes_released", "timestamp": time_text, "node_ids": [f"1.{node}"]}
            if (n - count // 2) % 2:
                event |= {"type": "nodes_claimed", "owner": "a", "timeout": time_text}
        with open(f"{work}/{where}/ledger/{n:06}.json", "w") as file:
            json.dump(event, file, separators=(",", ":"))
    return f"{work}/{where}"


rows, over = [], []
try:
    m = medians(options.rounds, guard=guard, leased=lambda: guard("--ttl", "5m"),
                flock=lambda: run(flock, "-n", f"{work}/f", true))
    rows.append(("`lokt guard x -- true`", m["guard"], "`flock -n f true`", m["flock"], 1.0))
    rows.append(("`lokt guard x --ttl 5m -- true`", m["leased"], "`flock -n f true`", m["flock"], 1.0))

    m = medians(max(5, options.rounds // 30), guard=lambda: together(50, lokt, "guard", "x", "--wait", "--", sleep, "0.02"),
                flock=lambda: together(50, flock, f"{work}/f", sleep, "0.02"))
    rows.append(("50 guards at once, each `sleep 0.02`", m["guard"], "50 `flock f sleep 0.02`", m["flock"], 1.05))

    alone = medians(options.rounds, guard=guard)
    end_waiters = waiters_elsewhere(options.waiters)
    beside = medians(options.rounds, guard=guard)
    end_waiters()
    what = f"a guard beside {options.waiters} other names' waiters"
    rows.append((what, beside["guard"], "beside none", alone["guard"], 1.1))
    m = medians(options.rounds, lokt=lock_unlock, flock=two_flocks, plain=lambda: create(False), synced=lambda: create(True),
                true=lambda: run(true))
    rows.append(("`lokt lock` + `lokt unlock`", m["lokt"], "two runs of `flock -n f true`", m["flock"], 1.5))
    print(f"beside them: `true` {m['true']:.0f} us, create + unlink {m['plain']:.0f} us, with sync {m['synced']:.0f} us")

    os.mkdir(f"{work}/repository")
    os.chdir(f"{work}/repository")
    run(lokt, "worktree", "init")
    m = medians(options.rounds, lease=acquire_release, lock=lock_unlock)
    rows.append(("`lokt lease acquire` + `lokt lease release`", m["lease"], "`lokt lock` + `lokt unlock`", m["lock"], 1.5))

    m = medians(options.rounds, lokt=lambda: run(lokt, "version"), true=lambda: run(true))
    rows.append(("`lokt version` (start-up)", m["lokt"], "`true`", m["true"], None))

    run(lokt, "lock", "held")
    m = medians(options.rounds, lokt=lambda: run(lokt, "exists", "held"), true=lambda: run(true))
    rows.append(("`lokt exists`", m["lokt"], "`true`", m["true"], None))
    run(lokt, "unlock", "held")

    ledger_of(options.events)
    nodes = iter(range(1 << 30))
    m = medians(max(20, options.rounds // 3), take=lambda: run(lokt, "claim", "take", f"n{next(nodes)}", "-d", f"{work}/long"),
                version=lambda: run(lokt, "version"))
    over.append((f"`lokt claim take`, {options.events} events, warm cache", m["take"] - m["version"], 20_000))

    ours, floor = native_ledger("ours", 1_000), native_ledger("floor", 1_000)
    event = '{"type":"nodes_released","timestamp":"2026-01-01T00:00:00Z","node_ids":[]}'
    peers = {"floor": lambda: run(native_append, f"{floor}/ledger", event)}
    if shutil.which("go"):
        subprocess.run(["go", "build", "-o", f"{work}/native_go", f"{here}/benches/native_append.go"], check=True)
        in_go = native_ledger("go", 1_000)
        peers["go"] = lambda: run(f"{work}/native_go", f"{in_go}/ledger", event)
    m = medians(options.rounds, lokt=lambda: run(lokt, "ledger", "append", "-d", ours, event), **peers)
    what = "`lokt ledger append` of a native type, 1,000 events"
    # The native program is written in Go; the system calls alone are a floor that syncs no directory.
    if "go" in m:
        rows.append((what, m["lokt"], "a Go program with the native program's system calls", m["go"], 1.0))
    else:
        print("no go: the append of a native type has no peer")
    rows.append((what, m["lokt"], "the native program's system calls alone", m["floor"], None))

    run(lokt, "lock", "n0")
    record = open(f"{work}/root/locks/n0.json").read()
    for n in range(options.locks):
        with open(f"{work}/root/locks/n{n}.json", "w") as file:
            file.write(record.replace('"n0"', f'"n{n}"'))
    m = medians(max(20, options.rounds // 10), lokt=lambda: run(lokt, "status"), json=lambda: run(lokt, "status", "--json"),
                floor=lambda: run(read_all, f"{work}/root/locks"))
    floor = f"open + read + close of the same {options.locks} files"
    rows.append((f"`lokt status`, {options.locks} locks", m["lokt"], floor, m["floor"], 2.0))
    rows.append((f"`lokt status --json`, {options.locks} locks", m["json"], floor, m["floor"], None))
finally:
    shutil.rmtree(work)

print(f"\n| what | us | against | us | ratio | budget |\n| --- | --- | --- | --- | --- | --- |")
for what, us, peer, peer_us, budget in rows:
    print(f"| {what} | {us:.0f} | {peer} | {peer_us:.0f} | {us / peer_us:.2f} | {budget or 'none'} |")
for what, us, budget in over:
    print(f"| {what} | {us:.0f} over start-up | | | | {budget} us |")
missed = [what for what, us, _, peer_us, budget in rows if budget and us / peer_us > budget]
missed += [what for what, us, budget in over if us > budget]
sys.exit(f"over budget: {', '.join(missed)}" if missed else 0)
