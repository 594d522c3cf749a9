"""The hashes of the old program: canonical JSON, the seal of a descriptor, the hash over a tree.

`era` is `locks` (the last version with locks, whose payload hash has the time of each file) or `v8` (all tagged versions).
"""

import hashlib
import json
import os
import stat

# What a version seals. Each takes the members that it knows out of the file, and leaves the rest alone.
SEALED = {
    "locks": ["snapshot_id", "parent_id", "worktree_name", "created_at", "note", "engine", "consistency_level",
              "payload_root_hash", "fencing_token"],
    "v8": ["snapshot_id", "parent_id", "worktree_name", "created_at", "note", "tags", "engine", "payload_root_hash"],
}
# Absent when empty.
OPTIONAL = {"parent_id", "note", "tags"}
ZERO = {"fencing_token": 0}


def canonical(value):
    """Keys sorted, no whitespace, strings escaped as Go escapes them."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, "\\u%04x" % ord(char))
    return text.encode()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def seal(descriptor, era):
    """The checksum that this version finds, whatever else is in the file."""
    members = {"descriptor_checksum": "", "integrity_state": ""}
    for name in SEALED[era]:
        value = descriptor.get(name)
        if value:
            members[name] = value
        elif name not in OPTIONAL:
            members[name] = ZERO.get(name, "")
    return sha256(canonical(members))


def root_hash(tree, era):
    lines = []
    for base, dirs, files in os.walk(os.fsencode(tree)):
        for name in dirs + files:
            path = os.path.join(base, name)
            found = os.lstat(path)
            meta = b"mode=%04o" % stat.S_IMODE(found.st_mode)
            if stat.S_ISLNK(found.st_mode):
                kind, content = b"symlink", sha256(os.readlink(path))
            elif stat.S_ISDIR(found.st_mode):
                kind, content = b"dir", sha256(name)
            elif name == b".READY":
                continue
            else:
                with open(path, "rb") as file:
                    kind, content = b"file", sha256(file.read())
                meta += b",size=%d" % found.st_size
                if era == "locks":
                    meta += b",mod=%d" % found.st_mtime_ns
            inside = os.path.relpath(path, os.fsencode(tree))
            lines.append(b"%s:%s:%s:%s\n" % (kind, inside, meta, content.encode()))
    return sha256(b"".join(sorted(lines)))
