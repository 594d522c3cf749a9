"""A tool that knows of a worktree's lease only what the record says: 14 members in `.jvs/locks/<worktree>.lock`, created exclusively,
renewed and stolen by rename, released by unlink.

    lease.py acquire DIR [--lease-ms N] [--skew-ms N] [--grace-ms N] [--token N] [--leave whole|empty|half]
    lease.py renew DIR | release DIR          (of the last `acquire` in DIR)
    lease.py loop DIR SECONDS WITNESS

Exit 0: done; 2: somebody else holds it; 4: it isn't ours any more.
"""

import argparse
import datetime
import json
import os
import secrets
import sys
import time

NAME = "main"


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def text(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def ms(number):
    return datetime.timedelta(milliseconds=number)


class Lease:
    def __init__(self, top, args):
        self.path = os.path.join(top, ".jvs", "locks", NAME + ".lock")
        self.note = os.path.join(top, "peer-nonce")
        self.args = args

    def read(self):
        """The record; None if there is none. Nobody who writes records as whole files shows half of one."""
        try:
            with open(self.path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def record(self, token):
        at = now()
        args = self.args
        return {
            "lock_id": secrets.token_hex(16),
            "worktree_id": NAME,
            "holder_id": "peer.example:peer:%d:1" % os.getpid(),
            "holder_nonce": secrets.token_hex(16),
            "session_id": secrets.token_hex(16),
            "acquire_seq": token,
            "created_at": text(at),
            "last_renewed_at": text(at),
            "lease_duration_ms": args.lease_ms,
            "renew_interval_ms": max(1, args.lease_ms // 3),
            "max_clock_skew_ms": args.skew_ms,
            "steal_grace_ms": args.grace_ms,
            "lease_expires_at": text(at + ms(args.lease_ms)),
            "fencing_token": token,
        }

    def replace(self, record):
        temp = "%s.tmp.%d" % (self.path, os.getpid())
        with open(temp, "w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temp, self.path)

    def acquire(self):
        """The record that we hold, or None."""
        try:
            made = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return self.steal()
        record = self.record(self.args.token)
        whole = json.dumps(record).encode()
        os.write(made, {"whole": whole, "empty": b"", "half": whole[: len(whole) // 2]}[self.args.leave])
        os.fsync(made)
        os.close(made)
        return record

    def steal(self):
        try:
            old = self.read()
        except ValueError:
            return None
        if old is None:
            return None
        end = datetime.datetime.fromisoformat(old["lease_expires_at"].replace("Z", "+00:00"))
        if now() <= end + ms(old["max_clock_skew_ms"]) + ms(old["steal_grace_ms"]):
            return None
        record = self.record(old["fencing_token"] + 1)
        self.replace(record)
        return record

    def is_ours(self, nonce):
        try:
            there = self.read()
        except ValueError:
            return None
        return there if there is not None and there["holder_nonce"] == nonce else None

    def renew(self, nonce):
        there = self.is_ours(nonce)
        if there is None:
            return False
        at = now()
        there["last_renewed_at"] = text(at)
        there["lease_expires_at"] = text(at + ms(there["lease_duration_ms"]))
        self.replace(there)
        return True

    def release(self, nonce):
        if self.is_ours(nonce) is None:
            return False
        os.unlink(self.path)
        return True


def loop(lease, seconds, witness):
    """Acquires and releases, at most for so long, until somebody makes a file `.stop`. Whoever is inside makes the witness, which nobody else may have made."""
    grants = overlaps = lost = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and not os.path.exists(witness + ".stop"):
        record = lease.acquire()
        if record is None:
            time.sleep(0.001)
            continue
        grants += 1
        try:
            os.close(os.open(witness, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            overlaps += 1
        time.sleep(0.002)
        lost += not lease.renew(record["holder_nonce"])
        time.sleep(0.002)
        try:
            os.unlink(witness)
        except FileNotFoundError:
            overlaps += 1
        lost += not lease.release(record["holder_nonce"])
        # The others want it, too.
        time.sleep(0.05)
    print(json.dumps({"grants": grants, "overlaps": overlaps, "lost": lost}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["acquire", "renew", "release", "loop"])
    parser.add_argument("dir")
    parser.add_argument("seconds", nargs="?", type=float)
    parser.add_argument("witness", nargs="?")
    parser.add_argument("--lease-ms", type=int, default=30_000)
    parser.add_argument("--skew-ms", type=int, default=2_000)
    parser.add_argument("--grace-ms", type=int, default=1_000)
    parser.add_argument("--token", type=int, default=1)
    parser.add_argument("--leave", choices=["whole", "empty", "half"], default="whole")
    args = parser.parse_args()
    lease = Lease(args.dir, args)
    if args.command == "loop":
        loop(lease, args.seconds, args.witness)
    elif args.command == "acquire":
        record = lease.acquire()
        if record is None:
            sys.exit(2)
        with open(lease.note, "w", encoding="utf-8") as note:
            note.write(record["holder_nonce"])
        print(json.dumps(record))
    else:
        with open(lease.note, encoding="utf-8") as note:
            nonce = note.read()
        done = lease.renew(nonce) if args.command == "renew" else lease.release(nonce)
        sys.exit(0 if done else 4)


main()
