"""A stand-in for the old program `jvs`, as far as it meets lokt: files, exit codes and errors as that program has them.

    jvs.py ERA COMMAND ... [--worktree W]

ERA is `locks` or `v8`, as in jvs_recipes.py; the repository is the directory in which it runs. Nothing here knows anything of lokt.
"""

import json
import os
import re
import secrets
import shutil
import sys
import time
import uuid
from datetime import datetime, timedelta, timezone

from jvs_recipes import root_hash, seal

STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
# The types of what is read; another type is an error, unknown members are nothing.
LOCK = {"worktree_name": str, "holder_nonce": str, "session_id": str, "acquired_at": "time", "expires_at": "time",
        "fencing_token": int, "purpose": str}
CONFIG = {"name": str, "head_snapshot_id": str, "latest_snapshot_id": str, "created_at": "time", "isolation": str}
DESCRIPTOR = {"snapshot_id": str, "parent_id": str, "worktree_name": str, "created_at": "time", "note": str,
              "tags": list, "engine": str, "consistency_level": str, "payload_root_hash": str,
              "descriptor_checksum": str, "fencing_token": int, "integrity_state": str}
LEASE_S = 300


class Refused(Exception):
    """An error, in the words after `jvs: `."""


def stamp(at):
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".") + "Z"


def moment(text):
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.replace("Z", "+00:00"))
    return datetime.fromisoformat(text)


def parse(path, schema):
    """As a typed reader does: null is nothing, a member of another type is an error, an unknown one is dropped."""
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    known = {}
    for name, kind in schema.items():
        member = value.get(name)
        if member is None:
            continue
        is_right = isinstance(member, str) and STAMP.match(member) if kind == "time" else isinstance(member, kind)
        if not is_right or isinstance(member, bool):
            raise ValueError("cannot unmarshal %s" % name)
        known[name] = member
    return known


def put(path, value, indent=2):
    """Written beside, then renamed."""
    temp = "%s.jvs-tmp-%s" % (path, secrets.token_hex(4))
    with open(temp, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=indent)
    os.rename(temp, path)


class Jvs:
    def __init__(self, era, worktree):
        self.era, self.worktree = era, worktree

    def at(self, *parts):
        return os.path.join(".jvs", *parts)

    def check_format(self):
        with open(self.at("format_version"), encoding="utf-8") as file:
            version = int(re.match(r"\s*(\d+)", file.read()).group(1))
        if version > 1:
            raise Refused("E_FORMAT_UNSUPPORTED: format version %d > supported 1" % version)

    def payload(self, name):
        return "main" if name == "main" else os.path.join("worktrees", name)

    def config(self, name=None):
        path = self.at("worktrees", name or self.worktree, "config.json")
        if not os.path.exists(path):
            raise Refused("worktree not found: %s" % (name or self.worktree))
        return parse(path, CONFIG)

    def write_config(self, config, name=None):
        known = {key: value for key, value in config.items() if value != ""}
        if self.era == "v8":
            known.pop("isolation", None)
        else:
            known.pop("latest_snapshot_id", None)
        put(self.at("worktrees", name or self.worktree, "config.json"), known)

    def descriptor(self, number):
        path = self.at("descriptors", number + ".json")
        try:
            found = parse(path, DESCRIPTOR)
        except FileNotFoundError:
            raise Refused("E_DESCRIPTOR_CORRUPT: descriptor not found: %s" % number)
        except ValueError as error:
            raise Refused("E_DESCRIPTOR_CORRUPT: parse descriptor: %s" % error)
        return found

    # The repository.

    def init(self):
        for name in ["worktrees/main", "snapshots", "descriptors", "refs", "locks", "intents", "audit", "gc"]:
            os.makedirs(self.at(name))
        os.makedirs("main")
        with open(self.at("format_version"), "w", encoding="utf-8") as file:
            file.write("1\n")
        with open(self.at("repo_id"), "w", encoding="utf-8") as file:
            file.write("%s\n" % uuid.uuid4())
        self.write_config(self.new_config("main"), "main")
        return {"format_version": 1}

    def new_config(self, name):
        return {"name": name, "created_at": stamp(datetime.now(timezone.utc)), "isolation": "exclusive"}

    def info(self):
        trees = [name for name in os.listdir(self.at("snapshots")) if os.path.isdir(self.at("snapshots", name))]
        return {"snapshot_count": len(trees), "worktree_count": len(os.listdir(self.at("worktrees")))}

    def worktree_create(self, name):
        os.makedirs(self.payload(name))
        os.makedirs(self.at("worktrees", name))
        self.write_config(self.new_config(name), name)

    def worktree_remove(self, name):
        if self.era == "locks" and self.lock_state(name)[0] == "held":
            raise Refused("E_LOCK_CONFLICT: worktree %s is locked" % name)
        shutil.rmtree(self.payload(name), ignore_errors=True)
        shutil.rmtree(self.at("worktrees", name), ignore_errors=True)

    # Locks.

    def lock_file(self, name=None):
        return self.at("worktrees", name or self.worktree, "lock.json")

    def lock_state(self, name=None):
        try:
            lock = parse(self.lock_file(name), LOCK)
        except FileNotFoundError:
            return "free", None
        except ValueError as error:
            raise Refused("check lock status: parse lock: %s" % error)
        is_over = datetime.now(timezone.utc) > moment(lock["expires_at"])
        return ("expired" if is_over else "held"), lock

    def lock_acquire(self, lease_s=LEASE_S):
        now = datetime.now(timezone.utc)
        lock = {"worktree_name": self.worktree, "holder_nonce": str(uuid.uuid4()), "session_id": str(uuid.uuid4()),
                "acquired_at": stamp(now), "expires_at": stamp(now + timedelta(seconds=float(lease_s))),
                "fencing_token": 1, "purpose": "by jvs"}
        try:
            handle = os.open(self.lock_file(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            state, _ = self.lock_state()
            if state == "expired":
                raise Refused("acquire lock: E_LOCK_CONFLICT: lock exists but expired, use steal")
            raise Refused("acquire lock: E_LOCK_CONFLICT: worktree %s is locked" % self.worktree)
        with os.fdopen(handle, "w") as file:
            json.dump(lock, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        self.write_session(lock)
        return lock

    def write_session(self, lock):
        session = {"session_id": lock["session_id"], "holder_nonce": lock["holder_nonce"]}
        put(self.at("worktrees", self.worktree, ".session"), session)

    def session(self):
        try:
            with open(self.at("worktrees", self.worktree, ".session"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            raise Refused("no active lock session")

    def lock_steal(self):
        """A call of its library: over what is expired, by rename."""
        state, lock = self.lock_state()
        if state != "expired":
            raise Refused("E_LOCK_CONFLICT: lock not expired yet")
        now = datetime.now(timezone.utc)
        lock.update({"holder_nonce": str(uuid.uuid4()), "session_id": str(uuid.uuid4()), "acquired_at": stamp(now),
                     "expires_at": stamp(now + timedelta(seconds=LEASE_S)), "fencing_token": lock["fencing_token"] + 1})
        put(self.lock_file(), lock)
        self.write_session(lock)
        return lock

    def lock_status(self):
        state, lock = self.lock_state()
        return {"worktree": self.worktree, "state": state, "lock": lock}

    def lock_release(self):
        session = self.session()
        state, lock = self.lock_state()
        if state == "free":
            return
        if lock["holder_nonce"] != session["holder_nonce"]:
            raise Refused("release lock: E_LOCK_NOT_HELD: cannot release: nonce mismatch")
        os.remove(self.lock_file())
        os.remove(self.at("worktrees", self.worktree, ".session"))

    # Snapshots.

    def snapshot(self, note=""):
        config = self.config()
        token = None
        if self.era == "locks":
            state, lock = self.lock_state()
            if state != "held":
                raise Refused("worktree %s is not locked (run 'jvs lock acquire' first)" % self.worktree)
            if self.session()["holder_nonce"] != lock["holder_nonce"]:
                raise Refused("lock session mismatch (run 'jvs lock acquire' from this terminal)")
            token = lock["fencing_token"]
        elif config.get("latest_snapshot_id") and config["latest_snapshot_id"] != config.get("head_snapshot_id"):
            raise Refused("cannot create snapshot in detached state")
        number = "%013d-%s" % (time.time_ns() // 1_000_000, secrets.token_hex(4))
        tree = self.at("snapshots", number)
        intent = self.at("intents", number + ".json")
        put(intent, {"snapshot_id": number, "worktree_name": self.worktree, "engine": "copy",
                     "started_at": stamp(datetime.now(timezone.utc))}, None)
        shutil.copytree(self.payload(self.worktree), tree, symlinks=True)
        payload = root_hash(tree, self.era)
        found = {"snapshot_id": number, "worktree_name": self.worktree, "engine": "copy", "payload_root_hash": payload,
                 "created_at": stamp(datetime.now(timezone.utc)), "integrity_state": "verified"}
        if config.get("head_snapshot_id"):
            found["parent_id"] = config["head_snapshot_id"]
        if note:
            found["note"] = note
        if self.era == "locks":
            found.update({"consistency_level": "quiesced", "fencing_token": token})
        found["descriptor_checksum"] = seal(found, self.era)
        mark = {"snapshot_id": number, "completed_at": stamp(datetime.now(timezone.utc)), "payload_root_hash": payload}
        put(os.path.join(tree, ".READY"), mark, None)
        put(self.at("descriptors", number + ".json"), found)
        config["head_snapshot_id"] = number
        if self.era == "v8":
            config["latest_snapshot_id"] = number
        self.write_config(config)
        os.remove(intent)
        return found

    def restore(self, number):
        """In place: back to another one, which is where the worktree is then."""
        payload = self.payload(self.worktree)
        shutil.rmtree(payload)
        shutil.copytree(self.at("snapshots", number), payload, symlinks=True)
        config = self.config()
        config["head_snapshot_id"] = number
        self.write_config(config)

    def history(self):
        found, number = [], self.config().get("head_snapshot_id")
        while number:
            try:
                found.append(self.descriptor(number))
            except Refused:
                break
            number = found[-1].get("parent_id")
        return found

    def verify(self):
        results = []
        for number in sorted(os.listdir(self.at("snapshots"))):
            if not os.path.isdir(self.at("snapshots", number)):
                continue
            result = {"snapshot_id": number, "checksum_valid": False, "payload_hash_valid": False}
            try:
                found = self.descriptor(number)
                result["checksum_valid"] = seal(found, self.era) == found.get("descriptor_checksum")
                payload = root_hash(self.at("snapshots", number), self.era)
                result["payload_hash_valid"] = payload == found.get("payload_root_hash")
            except Refused as refused:
                result["error"] = str(refused)
            result["tamper_detected"] = not (result["checksum_valid"] and result["payload_hash_valid"])
            results.append(result)
        return results

    def protected(self):
        kept = set()
        for name in os.listdir(self.at("worktrees")):
            try:
                config = self.config(name)
            except (Refused, ValueError):
                continue
            kept.update(value for key, value in config.items() if key.endswith("_snapshot_id") and value)
        for name in os.listdir(self.at("refs")):
            with open(self.at("refs", name), encoding="utf-8") as file:
                kept.add(json.load(file)["target_id"])
        for number in list(kept):
            while number:
                kept.add(number)
                try:
                    number = self.descriptor(number).get("parent_id")
                except Refused:
                    break
        for name in os.listdir(self.at("intents")):
            kept.add(name[:-5])
        return kept

    def gc_plan(self):
        kept = self.protected()
        trees = [name for name in os.listdir(self.at("snapshots")) if os.path.isdir(self.at("snapshots", name))]
        return {"to_delete": sorted(name for name in trees if name not in kept)}

    def gc_run(self):
        plan = self.gc_plan()
        for number in plan["to_delete"]:
            shutil.rmtree(self.at("snapshots", number))
            if os.path.exists(self.at("descriptors", number + ".json")):
                os.remove(self.at("descriptors", number + ".json"))
            os.makedirs(self.at("gc", "tombstones"), exist_ok=True)
            put(self.at("gc", "tombstones", number + ".json"),
                {"snapshot_id": number, "deleted_at": stamp(datetime.now(timezone.utc)), "reclaimable": True})
        return plan


def main(words):
    worktree = "main"
    if "--worktree" in words:
        where = words.index("--worktree")
        worktree = words[where + 1]
        del words[where:where + 2]
    jvs = Jvs(words[0], worktree)
    groups = {"lock", "worktree", "gc"}
    size = 2 if words[1] in groups else 1
    command, rest = "_".join(words[1:1 + size]), words[1 + size:]
    try:
        if command != "init":
            jvs.check_format()
        print(json.dumps(getattr(jvs, command)(*rest)))
    except Refused as refused:
        print("jvs: %s" % refused, file=sys.stderr)
        sys.exit(1)


main(sys.argv[1:])
