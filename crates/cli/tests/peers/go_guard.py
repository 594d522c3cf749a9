"""A stand-in for `lokt guard` of the Go program: the record, the heartbeat and the release as it makes them. It knows neither parts nor
tokens, and writes only the members it knows.

    go_guard.py ROOT NAME OWNER TTL_SEC COMMAND...       (TTL_SEC 0: no heartbeat)

Exit 2: the name is held. Else that of the command. A renewal that fails is told on stderr.
"""

import datetime
import json
import os
import secrets
import socket
import subprocess
import sys
import threading


def start_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[19])


def text(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Guard:
    def __init__(self, root, name, owner, ttl_sec):
        self.path = os.path.join(root, "locks", name + ".json")
        self.ttl_sec = ttl_sec
        self.record = {
            "version": 1,
            "name": name,
            "lock_id": secrets.token_hex(16),
            "owner": owner,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "pid_start_ns": start_of(os.getpid()),
            "agent_id": "agent-beef",
        }

    def write(self, record):
        now = datetime.datetime.now(datetime.timezone.utc)
        record["acquired_ts"] = text(now)
        if record.get("ttl_sec"):
            record["expires_at"] = text(now + datetime.timedelta(seconds=record["ttl_sec"]))
        else:
            record.pop("expires_at", None)
        temp = os.path.join(os.path.dirname(self.path), f".lock-{secrets.token_hex(4)}.tmp")
        with open(temp, "w") as file:
            json.dump(record, file, indent=2)
        os.rename(temp, self.path)

    def acquire(self):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        if self.ttl_sec:
            self.record["ttl_sec"] = self.ttl_sec
        self.write(self.record)

    def renew(self):
        with open(self.path) as file:
            stored = json.load(file)
        if any(stored.get(key) != self.record[key] for key in ("owner", "host", "pid")):
            sys.stderr.write("warning: lock renewal failed: lock stolen\n")
            return
        known = list(self.record) + ["ttl_sec", "expires_at", "acquired_ts"]
        self.write({key: stored[key] for key in known if key in stored})
        sys.stderr.write("renewed\n")

    def release(self):
        with open(self.path) as file:
            if json.load(file).get("owner") == self.record["owner"]:
                os.unlink(self.path)


def main():
    root, name, owner, ttl_sec, *command = sys.argv[1:]
    guard = Guard(root, name, owner, int(ttl_sec))
    try:
        guard.acquire()
    except FileExistsError:
        sys.exit(2)
    ended = threading.Event()

    def beat():
        while not ended.wait(max(guard.ttl_sec / 2, 0.5)):
            try:
                guard.renew()
            except OSError as error:
                sys.stderr.write(f"warning: lock renewal failed: {error}\n")
            sys.stderr.flush()

    heart = threading.Thread(target=beat, daemon=True)
    if guard.ttl_sec:
        heart.start()
    code = subprocess.call(command)
    ended.set()
    if guard.ttl_sec:
        heart.join()
    try:
        guard.release()
    except OSError:
        pass
    sys.exit(code)


main()
