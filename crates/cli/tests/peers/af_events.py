"""What the native program makes of events: which it knows, and what their replay refuses."""

import hashlib
import re

from af_values import ZERO, Members, Refusal, Text, instant, node_id, parse

# Events: which members each type has, and of which kind they are. Others are ignored.

NODE = {
    "id": "id", "type": "text", "statement": "text", "latex": "text", "inference": "text", "context": ["text"],
    "dependencies": ["id"], "validation_deps": ["id"], "workflow_state": "text", "epistemic_state": "text",
    "taint_state": "text", "content_hash": "text", "created": "time", "scope": ["text"], "claimed_by": "text",
    "claimed_at": "time",
}  # fmt: skip
TYPES = {
    "proof_initialized": {"conjecture": "text", "author": "text"},
    "node_created": {"node": NODE},
    "nodes_claimed": {"node_ids": ["id"], "owner": "text", "timeout": "time"},
    "claim_refreshed": {"node_id": "id", "owner": "text", "new_timeout": "time"},
    "nodes_released": {"node_ids": ["id"]},
    "challenge_raised": {
        "challenge_id": "text", "node_id": "id", "target": "text", "reason": "text", "severity": "text", "raised_by": "text",
    },
    "challenge_resolved": {"challenge_id": "text"},
    "challenge_withdrawn": {"challenge_id": "text"},
    "challenge_superseded": {"challenge_id": "text", "node_id": "id"},
    "node_validated": {"node_id": "id", "note": "text"},
    "node_admitted": {"node_id": "id"},
    "node_refuted": {"node_id": "id"},
    "node_archived": {"node_id": "id"},
    "node_amended": {"node_id": "id", "previous_statement": "text", "new_statement": "text", "owner": "text"},
    "taint_recomputed": {"node_id": "id", "new_taint": "text"},
    "def_added": {"definition": {"id": "text", "name": "text", "definition": "text", "created": "time"}},
    "lemma_extracted": {"lemma": {"id": "text", "statement": "text", "node_id": "id", "created": "time"}},
    "scope_opened": {"node_id": "id", "statement": "text"},
    "scope_closed": {"node_id": "id", "discharge_node_id": "id"},
    "refinement_requested": {"node_id": "id", "reason": "text", "requested_by": "text"},
    # Known to the reader, refused by the replay.
    "lock_reaped": {"node_id": "id", "owner": "text"},
}  # fmt: skip
COMMON = {"type": "text", "timestamp": "time"}


def type_of(data):
    """The type of an event: the text after the first "type" in its bytes, wherever that is."""
    at = data.find(b'"type"')
    if at < 0:
        raise Refusal("invalid JSON: missing type field")
    found = re.compile(rb'[ \t\r\n]*:[ \t\r\n]*"((?:\\.|[^"\\])*)"', re.DOTALL).match(data, at + 6)
    if not found:
        raise Refusal("invalid JSON: malformed type field")
    return found.group(1).decode("utf-8", "replace")


def empty(kind):
    if isinstance(kind, dict):
        return {name: empty(inner) for name, inner in kind.items()}
    return [] if isinstance(kind, list) else ZERO if kind == "time" else ""


def value_of(kind, value, name, before):
    if value is None:
        # Null empties a list and changes nothing else.
        return [] if isinstance(kind, list) else before
    if isinstance(kind, list):
        if not isinstance(value, list) or isinstance(value, Members):
            raise Refusal(f"cannot unmarshal {name}: not an array")
        return [value_of(kind[0], inner, name, empty(kind[0])) for inner in value]
    if isinstance(kind, dict):
        return members_of(kind, value, name, before)
    if not isinstance(value, Text):
        raise Refusal(f"cannot unmarshal {name}: not a string")
    if kind == "time":
        return instant(value.raw)
    return node_id(value) if kind == "id" else str(value)


def members_of(kinds, value, name, into):
    """The known members of an object; names in another case are known too, and the last one counts."""
    if not isinstance(value, Members):
        raise Refusal(f"cannot unmarshal {name}: not an object")
    folded = {known.casefold(): known for known in kinds}
    for key, inner in value:
        known = key if key in kinds else folded.get(key.casefold())
        if known is not None:
            into[known] = value_of(kinds[known], inner, known, into[known])
    return into


def event_of(data):
    """Type and known members of an event."""
    kind = type_of(data)
    if kind not in TYPES:
        raise Refusal(f"unknown event type: {kind}")
    kinds = {**COMMON, **TYPES[kind]}
    try:
        return kind, members_of(kinds, parse(data), kind, empty(kinds))
    except Refusal as why:
        raise Refusal(f"failed to parse {kind}: {why}") from None


# The replay: what the events make of the nodes.

WORKFLOW = {("available", "claimed"), ("claimed", "available"), ("claimed", "blocked"), ("blocked", "available")}
ENDS = ("validated", "admitted", "refuted", "archived")
EPISTEMIC = {("pending", end) for end in ENDS} | {("needs_refinement", end) for end in ENDS} | {("validated", "needs_refinement")}
SEVERITIES = ("", "critical", "major", "minor", "note")


class State:
    """Nodes and challenges, as of the last event."""

    def __init__(self):
        self.nodes, self.challenges, self.seq = {}, {}, 0

    def node(self, name):
        if name not in self.nodes:
            raise Refusal(f"node {name} not found in state")
        return self.nodes[name]

    def move(self, name, member, allowed, to):
        node = self.node(name)
        if (node[member], to) not in allowed:
            raise Refusal(f"invalid transition for node {name}: {node[member]} to {to}")
        node[member] = to
        return node

    def apply(self, kind, event):
        if kind == "node_created":
            self.nodes[event["node"]["id"]] = event["node"]
        elif kind == "nodes_claimed":
            for name in event["node_ids"]:
                node = self.move(name, "workflow_state", WORKFLOW, "claimed")
                node["claimed_by"], node["claimed_at"] = event["owner"], event["timeout"]
        elif kind == "nodes_released":
            for name in event["node_ids"]:
                node = self.move(name, "workflow_state", WORKFLOW, "available")
                node["claimed_by"], node["claimed_at"] = "", ZERO
        elif kind == "claim_refreshed":
            node = self.node(event["node_id"])
            if node["workflow_state"] != "claimed":
                raise Refusal(f"node {event['node_id']} is not claimed")
            if node["claimed_by"] != event["owner"]:
                raise Refusal(f"node {event['node_id']} is claimed by {node['claimed_by']}, not {event['owner']}")
            node["claimed_at"] = event["new_timeout"]
        elif kind in ("node_validated", "node_admitted", "node_refuted", "node_archived"):
            self.move(event["node_id"], "epistemic_state", EPISTEMIC, kind.removeprefix("node_"))
        elif kind == "refinement_requested":
            self.move(event["node_id"], "epistemic_state", EPISTEMIC, "needs_refinement")
        elif kind == "node_amended":
            self.node(event["node_id"])["statement"] = event["new_statement"]
        elif kind == "taint_recomputed":
            self.node(event["node_id"])["taint_state"] = event["new_taint"]
        elif kind == "challenge_raised":
            if event["severity"] not in SEVERITIES:
                raise Refusal(f"invalid challenge severity: {event['severity']}")
            self.challenges[event["challenge_id"]] = "open"
        elif kind.startswith("challenge_"):
            if event["challenge_id"] not in self.challenges:
                raise Refusal(f"challenge {event['challenge_id']} not found")
            self.challenges[event["challenge_id"]] = kind.removeprefix("challenge_")
        elif kind == "lock_reaped":
            raise Refusal(f"unknown event type: {kind}")


def content_hash(node):
    parts = [f"type:{node['type']}", f"statement:{node['statement']}"]
    parts += [f"latex:{node['latex']}"] if node["latex"] else []
    parts += [f"inference:{node['inference']}"]
    for name in ("context", "dependencies", "validation_deps"):
        parts += [f"{name}:{','.join(sorted(node[name]))}"] if node[name] else []
    return hashlib.sha256("|".join(parts).encode()).hexdigest()
