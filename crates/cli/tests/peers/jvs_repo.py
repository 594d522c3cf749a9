"""Writes a repository as the old program left it, in the words of its specification or of its code.

    jvs_repo.py DIR spec|code

Three snapshots of `main`, the second with a symlink, an executable, an empty directory and a file called `.READY` further down, the third
without its mark; the worktree is at the second. Nothing here knows anything of lokt: the recipes are those of the old program.
"""

import json
import os
import stat
import sys

from jvs_recipes import canonical, sha256

FIRST, SECOND, THIRD = "1700000000001-0a0b0c01", "1700000060002-0a0b0c02", "1700000120003-0a0b0c03"
MTIME_NS = 1_700_000_000_123_456_789


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def fill(tree, version):
    """The files of one snapshot."""
    write(os.path.join(tree, "page"), "version %d\n" % version)
    write(os.path.join(tree, "dir/tool"), "#!/bin/sh\n")
    os.chmod(os.path.join(tree, "dir/tool"), 0o755)
    if version > 1:
        write(os.path.join(tree, "dir/.READY"), "a user's own file\n")
        os.symlink("../page", os.path.join(tree, "dir/link"))
        os.mkdir(os.path.join(tree, "empty"), 0o755)
    for base, dirs, files in os.walk(tree):
        for name in dirs:
            if not os.path.islink(os.path.join(base, name)):
                os.chmod(os.path.join(base, name), 0o755)
        for name in files:
            os.utime(os.path.join(base, name), ns=(MTIME_NS, MTIME_NS), follow_symlinks=False)


def root_hash(tree, schema):
    lines = []
    for base, dirs, files in os.walk(tree):
        for name in dirs + files:
            path = os.path.join(base, name)
            inside = os.path.relpath(path, tree)
            found = os.lstat(path)
            mode = "mode=%04o" % stat.S_IMODE(found.st_mode)
            if stat.S_ISLNK(found.st_mode):
                kind, meta, content = "symlink", mode, sha256(os.readlink(path).encode())
            elif stat.S_ISDIR(found.st_mode):
                kind, meta, content = "dir", mode, sha256(name.encode())
            elif name == ".READY" and (schema == "code" or inside == name):
                continue
            else:
                with open(path, "rb") as file:
                    content = sha256(file.read())
                kind, meta = "file", "%s,size=%d,mod=%d" % (mode, found.st_size, found.st_mtime_ns)
                if schema == "spec":
                    meta = "%04o:%d" % (stat.S_IMODE(found.st_mode), found.st_size)
            if schema == "spec" and kind != "file":
                meta, content = "", content if kind == "symlink" else ""
            lines.append(("%s:%s:%s:%s\n" % (kind, inside, meta, content)).encode())
    return sha256(b"".join(sorted(lines)))


def snapshot(jvs, schema, version, number, parent, ready):
    tree = os.path.join(jvs, "snapshots", number)
    fill(tree, version)
    payload = root_hash(tree, schema)
    at = "2023-11-14T22:%02d:20.5Z" % (12 + version)
    descriptor = {"snapshot_id": number, "created_at": at, "engine": "copy", "consistency_level": "quiesced"}
    descriptor.update({"note": "before <%d> & after" % version, "fencing_token": 40 + version})
    if schema == "code":
        descriptor.update({"worktree_name": "main", "payload_root_hash": payload})
        if parent:
            descriptor["parent_id"] = parent
        sealed = sha256(canonical({**descriptor, "descriptor_checksum": "", "integrity_state": ""}))
        mark = {"snapshot_id": number, "completed_at": at, "payload_root_hash": payload}
    else:
        descriptor.update({"worktree_id": "main", "parent_snapshot_id": parent})
        descriptor["payload_root_hash"] = {"algo": "sha256", "value": payload}
        sealed = {"algo": "sha256", "value": sha256(canonical(descriptor))}
        mark = {"snapshot_id": number, "created_at": at, "engine": "copy", "descriptor_checksum": sealed}
        mark["payload_root_hash"] = descriptor["payload_root_hash"]
    descriptor.update({"descriptor_checksum": sealed, "integrity_state": "verified"})
    write(os.path.join(jvs, "descriptors", number + ".json"), json.dumps(descriptor, indent=2))
    if ready:
        write(os.path.join(tree, ".READY"), json.dumps(mark, separators=(",", ":")))


def main(top, schema):
    jvs = os.path.join(top, ".jvs")
    for name in ["worktrees/main", "snapshots", "descriptors", "refs", "locks", "intents", "audit", "gc"]:
        os.makedirs(os.path.join(jvs, name))
    write(os.path.join(jvs, "format_version"), "1\n")
    write(os.path.join(jvs, "repo_id"), "0f0e0d0c-0b0a-4900-8807-060504030201\n")
    config = {"isolation": "exclusive", "created_at": "2023-11-14T22:00:00Z", "head_snapshot_id": SECOND}
    config.update({"name": "main"} if schema == "code" else {"worktree_id": "main", "base_snapshot_id": None})
    write(os.path.join(jvs, "worktrees/main/config.json"), json.dumps(config, indent=2))
    ref = {"name": "release", "target_id": FIRST} if schema == "code" else {"ref_name": "release", "snapshot_id": FIRST}
    ref.update({"created_at": "2023-11-14T22:13:30Z"} if schema == "code" else {"created_at": "2023-11-14T22:13:30Z", "created_by": "u"})
    write(os.path.join(jvs, "refs/release.json"), json.dumps(ref, indent=2))
    snapshot(jvs, schema, 1, FIRST, None, True)
    snapshot(jvs, schema, 2, SECOND, FIRST, True)
    snapshot(jvs, schema, 3, THIRD, SECOND, False)
    fill(os.path.join(top, "main"), 2)


main(sys.argv[1], sys.argv[2])
