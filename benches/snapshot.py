#!/usr/bin/env python3
"""Snapshots against copying and hashing the same files: ratios in one run, on one disk, taken in turns.

    cargo build --release --workspace && cargo build --release -p lokt-tree --example hash_one && python3 benches/snapshot.py

Each row runs its candidates one after the other, round after round, so that a noisy moment hits all of them; the figure is the
ratio of medians. Files are made below the current directory's file system (or --dir). The rows on xfs and btrfs make images there and
mount them, which needs root; --rows chooses.
"""
import argparse, glob, os, shutil, statistics, subprocess, sys, tempfile, time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--dir", default=".", help="where to make the files (the disk that is measured)")
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--rows", default="small,big,xfs,btrfs,many", help="which rows, separated by commas")
parser.add_argument("--big-mb", type=int, default=1024, help="how large the one file is")
parser.add_argument("--many", type=int, default=100_000, help="how many files for the rows of many")
options = parser.parse_args()

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
target = os.environ.get("CARGO_TARGET_DIR", f"{here}/target")


def built(name):
    found = glob.glob(f"{target}/*/release/{name}") + glob.glob(f"{target}/release/{name}")
    if not found:
        sys.exit(f"{name} is not built; see the head of {os.path.basename(__file__)}")
    return max(found, key=os.path.getmtime)


lokt, hash_one = built("lokt"), built("examples/hash_one")
work = tempfile.mkdtemp(prefix="lokt-bench-", dir=os.path.abspath(options.dir))
env = {"PATH": os.environ["PATH"], "HOME": work, "LOKT_OWNER": "bench"}


def run(*words, cwd="."):
    """Runs it, and gives the most memory that it had, in MB."""
    was = os.getcwd()
    os.chdir(cwd)
    pid = os.posix_spawnp(words[0], words, env, file_actions=quiet)
    os.chdir(was)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{words} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss / 1024


null = os.open(os.devnull, os.O_RDWR)
quiet = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]


class Grove:
    """A repository whose worktree has files."""

    def __init__(self, at):
        self.top, self.main, self.copies = f"{at}/repo", f"{at}/repo/main", 0
        os.mkdir(self.top)
        self.begin()

    def begin(self):
        """Whoever takes snapshots holds the lease, as an agent does."""
        run(lokt, "worktree", "init", cwd=self.top)
        run(lokt, "lease", "acquire", "--lease", "1h", cwd=self.top)

    def snapshot(self):
        return run(lokt, "snapshot", "create", cwd=self.top)

    def cp(self):
        self.copies += 1
        copy = f"{self.top}-copy{self.copies}"
        run("cp", "-a", "--reflink=auto", self.main, copy)
        run("sync", "-f", copy)

    def clean(self):
        """Nobody reuses or competes with what an earlier round left."""
        for copy in glob.glob(f"{self.top}-copy*"):
            shutil.rmtree(copy)
        touch(self.main)
        run("sync", "-f", self.top)

    def forget(self):
        """Away with the snapshots: they take room, and the next one begins anew."""
        shutil.rmtree(self.top + "/.jvs")
        self.begin()


def touch(root):
    """Every file gets another time of change: the next snapshot has to read all of them."""
    for directory, _, names in os.walk(root):
        for name in names:
            os.chmod(f"{directory}/{name}", 0o644)
    # The clock of the file system moves on.
    time.sleep(0.03)


def medians(rounds, between, **candidates):
    times = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        order = list(candidates.items())
        for name, candidate in order if turn % 2 else reversed(order):
            between()
            start = time.perf_counter_ns()
            candidate()
            if turn >= 1:
                times[name].append(time.perf_counter_ns() - start)
    best = ", ".join(f"{name} {min(taken) / 1e6:.1f} ms" for name, taken in times.items())
    print(f"the best of {rounds} rounds: {best}", flush=True)
    return {name: statistics.median(taken) / 1e6 for name, taken in times.items()}


def fill(root, count, size=1024, per_dir=100):
    for number in range(count):
        directory = f"{root}/d{number // per_dir}"
        if number % per_dir == 0:
            os.makedirs(directory)
        with open(f"{directory}/f{number}", "wb") as file:
            file.write(b"%016d" % number * (size // 16))


def big_file(path):
    with open(path, "wb") as file:
        for _ in range(options.big_mb):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())


def small():
    os.mkdir(f"{work}/small")
    grove = Grove(f"{work}/small")
    fill(grove.main, 1000)
    m = medians(3 * options.rounds, grove.clean, lokt=grove.snapshot, cp=grove.cp)
    rows.append(("1,000 files of 1 KB", m["lokt"], "`cp -a --reflink=auto` + `sync -f`", m["cp"], 1.5))


def big():
    os.mkdir(f"{work}/big")
    grove = Grove(f"{work}/big")
    big_file(f"{grove.main}/big")

    def between():
        for old in glob.glob(f"{grove.top}/.jvs/snapshots/*/big"):
            os.truncate(old, 0)
        grove.clean()

    m = medians(options.rounds, between, lokt=grove.snapshot, cp=grove.cp, hash=lambda: run(hash_one, f"{grove.main}/big"))
    peer = "cp" if m["cp"] > m["hash"] else "hash"
    what = {"cp": "`cp -a --reflink=auto` + `sync -f`", "hash": "hashing it, one thread"}
    print(f"one file of {options.big_mb} MB: cp + sync {m['cp']:.0f} ms, hashing {m['hash']:.0f} ms")
    rows.append((f"one file of {options.big_mb} MB", m["lokt"], what[peer], m[peer], 1.2))


def reflink(kind):
    at, image = f"{work}/{kind}", f"{work}/{kind}.image"
    os.mkdir(at)
    with open(image, "wb") as file:
        file.truncate((options.big_mb * 2 + 1024) << 20)
    subprocess.run([f"mkfs.{kind}", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, at], check=True)
    try:
        grove = Grove(at)
        big_file(f"{grove.main}/big")
        m = medians(options.rounds, grove.clean, lokt=grove.snapshot, hash=lambda: run(hash_one, f"{grove.main}/big"))
        rows.append((f"one file of {options.big_mb} MB on {kind}, cloned", m["lokt"], "hashing it, one thread", m["hash"], 1.2))
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)
        os.unlink(image)


def many():
    few, memory = options.many // 10, []
    taken = {}
    for count in (few, options.many):
        os.mkdir(f"{work}/many{count}")
        grove = Grove(f"{work}/many{count}")
        fill(grove.main, count)
        first, second, copied = [], [], []
        for _ in range(max(1, options.rounds // 3)):
            run("sync", "-f", grove.top)
            time.sleep(0.03)
            start = time.perf_counter_ns()
            memory.append(grove.snapshot())
            middle = time.perf_counter_ns()
            memory.append(grove.snapshot())
            end = time.perf_counter_ns()
            grove.cp()
            copied.append((time.perf_counter_ns() - end) / 1e6)
            first.append((middle - start) / 1e6)
            second.append((end - middle) / 1e6)
            grove.forget()
            grove.clean()
        taken[count] = (statistics.median(first), statistics.median(second), statistics.median(copied))
        shutil.rmtree(f"{work}/many{count}")
    (few_first, _, _), (all_first, all_second, all_cp) = taken[few], taken[options.many]
    rows.append((f"{options.many} files of 1 KB, per 1,000", all_first / options.many * 1000, f"{few} files, per 1,000",
                 few_first / few * 1000, 1.5))
    rows.append((f"{options.many} files, nothing changed since", all_second, "the snapshot before", all_first, 0.5))
    rows.append((f"{options.many} files of 1 KB", all_first, "`cp -a --reflink=auto` + `sync -f`", all_cp, None))
    over.append((f"{options.many} files, most memory", max(memory), 200))


rows, over = [], []
try:
    for row in options.rows.split(","):
        {"small": small, "big": big, "xfs": lambda: reflink("xfs"), "btrfs": lambda: reflink("btrfs"), "many": many}[row]()
finally:
    shutil.rmtree(work)

print(f"\n| what | ms | against | ms | ratio | budget |\n| --- | --- | --- | --- | --- | --- |")
for what, ms, peer, peer_ms, budget in rows:
    print(f"| {what} | {ms:.1f} | {peer} | {peer_ms:.1f} | {ms / peer_ms:.2f} | {budget or 'none'} |")
for what, mb, budget in over:
    print(f"| {what} | {mb:.0f} MB | | | | {budget} MB |")
missed = [what for what, ms, _, peer_ms, budget in rows if budget and ms / peer_ms > budget]
missed += [what for what, mb, budget in over if mb > budget]
sys.exit(f"over budget: {', '.join(missed)}" if missed else 0)
