"""The native program's ledger: its directory is listed, read, replayed and appended to as that program does it."""

import os
import random
import signal
import stat
import sys
import time

from af_events import State, content_hash, event_of
from af_values import INT_MAX, Refusal, encode, integer, local, parse, utc

EVENT_BYTES_MAX = 1024 * 1024
POLL = 0.01


def ledger_of(proof):
    ledger = os.path.join(proof, "ledger")
    if not os.path.isdir(ledger):
        raise Refusal("path does not exist", 3)
    return ledger


def number_in(name, prefix=""):
    """The number in a file's name: any width, a sign too."""
    if not name.endswith(".json") or not name.startswith(prefix):
        return None
    number = integer(name[len(prefix) : -len(".json")])
    return number if number is not None and number >= 0 else None


def numbers(ledger, prefix=""):
    """All numbers, sorted; directories don't count, symbolic links do."""
    found = []
    with os.scandir(ledger) as entries:
        for entry in entries:
            number = number_in(entry.name, prefix)
            if number is not None and not entry.is_dir(follow_symlinks=False):
                found.append(number)
    return sorted(found)


def path_of(ledger, number, prefix=""):
    return os.path.join(ledger, f"{prefix}{number:06d}.json")


def read_event(ledger, number):
    """The bytes of an event, opened by its canonical name."""
    if number <= 0:
        raise Refusal(f"invalid sequence number: {number}")
    path = path_of(ledger, number)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise Refusal(f"event {number} not found") from None
    if stat.S_ISFIFO(status.st_mode):
        # The original opens it and waits for ever; a test must see that without waiting.
        raise Refusal(f"event {number} is a FIFO: hangs for ever")
    if status.st_size > EVENT_BYTES_MAX:
        raise Refusal(f"event {number}: event exceeds maximum size of {EVENT_BYTES_MAX} bytes")
    with open(path, "rb") as file:
        data = file.read()
    try:
        parse(data)
    except Refusal:
        raise Refusal(f"event {number} contains invalid JSON") from None
    return data


def scan(ledger):
    for number in numbers(ledger):
        try:
            yield number, read_event(ledger, number)
        except (Refusal, OSError) as why:
            raise Refusal(f"failed to read event {number}: {why}") from None


def replay(ledger, verify=False):
    state = State()
    for number, data in scan(ledger):
        if number != state.seq + 1:
            what = "sequence gap" if number > state.seq else "duplicate sequence number"
            raise Refusal(f"{what} detected: got {number}, expected {state.seq + 1}")
        try:
            kind, event = event_of(data)
        except Refusal as why:
            raise Refusal(f"failed to parse event {number}: {why}") from None
        try:
            state.apply(kind, event)
        except Refusal as why:
            raise Refusal(f"failed to apply event {number} ({kind}): {why}") from None
        if verify and kind == "node_created" and event["node"]["content_hash"] != content_hash(event["node"]):
            raise Refusal(f"content hash verification failed for node {event['node']['id']}")
        state.seq = number
    return state


# Writing.


class Pause:
    """Stops the program right after a step, once."""

    def __init__(self, step):
        self.step = step

    def after(self, step):
        if self.step == step:
            self.step = None
            os.kill(os.getpid(), signal.SIGSTOP)


class Writer:
    """Appends the way the program does; with `documented`, the way the document's sample does, under the document's names."""

    STEPS = ("created", "lock", "listing", "temp", "written", "synced", "renamed", "compared", "released")

    def __init__(self, options):
        self.pause = Pause(options.pause_after)
        self.prefix = "event-" if options.documented else ""
        self.documented = options.documented
        self.blindly = options.unlink_blindly or options.documented
        self.timeout = options.timeout

    def acquire(self, ledger, agent):
        lock = os.path.join(ledger, "ledger.lock")
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                file = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                break
            except OSError:  # Whatever it is, it counts as busy.
                if time.monotonic() > deadline:
                    raise Refusal("failed to acquire lock: timeout waiting for lock") from None
                time.sleep(POLL)
        self.pause.after("created")
        now = time.time_ns()
        at = utc(now // 1_000_000_000 * 1_000_000_000) if self.documented else local(now)
        os.write(file, encode({"agent_id": agent, "acquired_at": at}) + b"\n")
        os.close(file)
        self.pause.after("lock")

    def release(self, ledger, agent):
        """Lets go; what goes wrong is said and changes nothing."""
        lock = os.path.join(ledger, "ledger.lock")
        try:
            if not self.blindly:
                with open(lock, "rb") as file:
                    found = dict(parse(file.read()))
                if found.get("agent_id") != agent:
                    raise Refusal(f"lock ownership mismatch: lock held by {found.get('agent_id')}, not {agent}")
                self.pause.after("compared")
            remove(lock)
        except (Refusal, OSError) as why:
            print(f"warning: failed to release lock: {why}", file=sys.stderr, flush=True)
        self.pause.after("released")

    def append(self, ledger, event, expected=None):
        agent = "append-operation" if expected is None else "append-if-sequence-operation"
        self.acquire(ledger, agent)
        try:
            head = (numbers(ledger, self.prefix) or [0])[-1]
            self.pause.after("listing")
            if expected is not None and head != expected:
                raise Refusal(
                    "ledger sequence mismatch: concurrent modification detected: "
                    f"expected sequence {expected}, but ledger is at {head}"
                )
            # The original's integers wrap around.
            number = head + 1 if head < INT_MAX else -INT_MAX - 1
            self.publish(ledger, event, number)
            return number
        finally:
            self.release(ledger, agent)

    def publish(self, ledger, event, number):
        temp = os.path.join(ledger, f".event-{random.randrange(2**32)}.tmp")
        file = os.open(temp, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            self.pause.after("temp")
            os.write(file, event)
            self.pause.after("written")
            os.fsync(file)
            os.close(file)
            self.pause.after("synced")
            os.chmod(temp, 0o644)
            os.rename(temp, path_of(ledger, number, self.prefix))
            self.pause.after("renamed")
        except OSError as why:
            try:
                os.remove(temp)
            except OSError:
                pass
            raise Refusal(f"failed to write event {number}: {why}") from None


def remove(path):
    """The original's remove takes a file or an empty directory."""
    try:
        os.unlink(path)
    except OSError as why:
        try:
            os.rmdir(path)
        except NotADirectoryError:
            raise why from None
