#!/usr/bin/env python3
"""Stands for the native program that shares a ledger with lokt: reads, judges and writes events the way that program does.

Only the standard library. What it accepts, refuses and leaves behind is what was seen of the original, mistakes included: it opens
the canonical name whatever the listing said, finds an event's type by the first "type" in the bytes, and renames over what is there.

    af.py init DIR                                  a new proof: directories, meta.json, two events
    af.py check DIR... [--verify]                   one line per DIR: "ok HEAD" or the reason; 1 if any can't be read
    af.py log DIR | status DIR                      events, or nodes, as JSON lines
    af.py append DIR N | append-if DIR EXPECTED     prints the numbers it got
    af.py claim|refresh DIR NODE OWNER [SECONDS] | release DIR NODE OWNER | reap DIR [--all]
"""

import argparse
import os
import random
import sys
import time

from af_events import NODE, content_hash, empty
from af_ledger import Writer, ledger_of, replay, scan
from af_values import ZERO_TIME, Members, Number, Refusal, encode, parse, utc

# Commands.


def init(options):
    try:
        for name in ("ledger", "locks", "nodes", "defs", "lemmas", "assumptions", "externals"):
            os.makedirs(os.path.join(options.dir, name), 0o755, exist_ok=True)
        with open(os.path.join(options.dir, "meta.json"), "x", encoding="utf-8") as meta:
            meta.write('{"version": "1.0"}')
    except FileExistsError:
        raise Refusal("proof already initialized", 3) from None
    node = {
        "id": "1", "type": "claim", "statement": "a statement", "inference": "assumption", "workflow_state": "available",
        "epistemic_state": "pending", "taint_state": "unresolved", "content_hash": "", "created": utc(time.time_ns()),
        "claimed_at": ZERO_TIME,
    }  # fmt: skip
    ledger = ledger_of(options.dir)
    writer = Writer(options)
    writer.append(ledger, stamped("proof_initialized", conjecture="a statement", author="author"))
    for name in ("1", *(f"1.{child + 1}" for child in range(options.children))):
        node["id"], node["content_hash"] = name, content_hash({**empty(NODE), **node})
        writer.append(ledger, stamped("node_created", node=node))


def stamped(kind, **members):
    return encode({"type": kind, "timestamp": utc(time.time_ns()), **members})


def check(options):
    code = 0
    for proof in options.dirs:
        try:
            print(f"ok {replay(ledger_of(proof), options.verify).seq}")
        except Refusal as why:
            print(str(why).encode("ascii", "backslashreplace").decode())
            code = 1
    return code


def plain(value):
    """A parsed value as Python's own."""
    if isinstance(value, Members):
        return {key: plain(inner) for key, inner in value}
    if isinstance(value, Number):
        return float(value) if any(c in ".eE" for c in value) else int(value)
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def log(options):
    for number, data in scan(ledger_of(options.dir)):
        print(encode({**plain(parse(data)), "seq": number}).decode())


def status(options):
    for name, node in sorted(replay(ledger_of(options.dir)).nodes.items()):
        members = {"id": name, "workflow_state": node["workflow_state"], "epistemic_state": node["epistemic_state"]}
        if node["workflow_state"] == "claimed":
            # The member that says when the claim ends has this name.
            members |= {"claimed_by": node["claimed_by"], "claimed_at": utc(node["claimed_at"])}
        print(encode(members).decode())


def payload_event(options, number):
    payload = f"{options.payload}{number}"
    if options.documented:
        return stamped("custom_event", payload=payload)
    return stamped("nodes_released", node_ids=[], payload=payload)


def append(options):
    ledger, writer = ledger_of(options.dir), Writer(options)
    for number in range(1, options.count + 1):
        print(writer.append(ledger, payload_event(options, number)), flush=True)


def append_if(options):
    print(Writer(options).append(ledger_of(options.dir), payload_event(options, 1), options.expected), flush=True)


def commit(options, state, event):
    """Compare-and-swap on what was replayed; nobody tries again."""
    try:
        print(Writer(options).append(ledger_of(options.dir), event, state.seq), flush=True)
    except Refusal as why:
        if "sequence mismatch" in str(why):
            raise Refusal(f"VALIDATION_INVARIANT_FAILED: concurrent modification detected, please retry: {why}") from None
        raise


def claimed_node(options):
    state = replay(ledger_of(options.dir))
    node = state.nodes.get(options.node)
    if node is None:
        raise Refusal(f"NODE_NOT_FOUND: node not found: {options.node}", 3)
    return state, node


def expiry(options):
    return utc(time.time_ns() + int(options.seconds * 1_000_000_000))


def claim(options):
    state, node = claimed_node(options)
    if node["workflow_state"] != "available":
        raise Refusal(f"INVALID_STATE: invalid state for operation: node {options.node} is not available", 3)
    commit(options, state, stamped("nodes_claimed", node_ids=[options.node], owner=options.owner, timeout=expiry(options)))


def refresh(options):
    state, node = claimed_node(options)
    if node["workflow_state"] != "claimed":
        raise Refusal("NOT_CLAIM_HOLDER: node is not claimed")
    if node["claimed_by"] != options.owner:
        held = f"node is claimed by {node['claimed_by']}, not {options.owner}"
        raise Refusal(f"NOT_CLAIM_HOLDER: owner does not match: {held}")
    commit(options, state, stamped("claim_refreshed", node_id=options.node, owner=options.owner, new_timeout=expiry(options)))


def release(options):
    state, node = claimed_node(options)
    if node["workflow_state"] != "claimed":
        raise Refusal(f"node {options.node} is not claimed (current state: {node['workflow_state']})")
    if node["claimed_by"] != options.owner:
        held = f'node {options.node} is claimed by "{node["claimed_by"]}", not "{options.owner}"'
        raise Refusal(f"owner does not match: {held}")
    commit(options, state, stamped("nodes_released", node_ids=[options.node]))


def reap(options):
    """What has ended is released without compare-and-swap, as the original does it."""
    nodes, now = replay(ledger_of(options.dir)).nodes, time.time_ns()
    stale = [
        name
        for name, node in nodes.items()
        if node["workflow_state"] == "claimed" and (options.all or node["claimed_at"] < now)
    ]
    random.shuffle(stale)
    if stale:
        print(Writer(options).append(ledger_of(options.dir), stamped("nodes_released", node_ids=stale)), flush=True)


def main():
    parser = argparse.ArgumentParser(prog="af.py")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(run, name, *words):
        sub = commands.add_parser(name)
        sub.set_defaults(run=run)
        for word in words:
            sub.add_argument(word, type={"count": int, "expected": int}.get(word))
        sub.add_argument("--payload", default="p-")
        sub.add_argument("--documented", action="store_true", help="the document's names and its sample's steps")
        sub.add_argument("--unlink-blindly", action="store_true", help="release without looking")
        sub.add_argument("--timeout", type=float, default=5.0, help="seconds to wait for the lock")
        sub.add_argument("--pause-after", choices=Writer.STEPS, help="stop (SIGSTOP) after this step, once")
        return sub

    command(init, "init", "dir").add_argument("--children", type=int, default=0)
    sub = commands.add_parser("check")
    sub.set_defaults(run=check)
    sub.add_argument("dirs", nargs="+")
    sub.add_argument("--verify", action="store_true")
    command(log, "log", "dir")
    command(status, "status", "dir")
    command(append, "append", "dir", "count")
    command(append_if, "append-if", "dir", "expected")
    for run in (claim, refresh):
        command(run, run.__name__, "dir", "node", "owner").add_argument("seconds", type=float, nargs="?", default=3600.0)
    command(release, "release", "dir", "node", "owner")
    command(reap, "reap", "dir").add_argument("--all", action="store_true")
    options = parser.parse_args()
    try:
        return options.run(options) or 0
    except Refusal as why:
        print(f"af: {why}", file=sys.stderr)
        return why.code


if __name__ == "__main__":
    sys.exit(main())
