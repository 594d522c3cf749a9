//! Events that the af program's replay would refuse.
//!
//! The af program reads all events before it does anything, and an event that it can't apply makes
//! all its commands fail from then on. So lokt asks [`Proof`] before it writes to an af ledger, and
//! `doctor` asks it about the events of other programs. Only events that are known to be refused
//! are refused here. If a bad event passes, the af program reports it; a good event that didn't
//! pass would be replaced by a no-op.

mod content;
mod shapes;

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::members::Members;
use super::seq::Seq;
use super::stored::Stored;

pub use self::content::{WrongHash, wrong_hash};

/// Maximum length of a node's id in bytes, in either style.
pub const NODE_BYTES_MAX: usize = 1024;

/// Reason why the af program would refuse an event; a sentence without its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoRefusal(pub String);

impl fmt::Display for GoRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Work state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workflow {
    /// It can be claimed.
    Available,
    /// It is claimed.
    Claimed,
    /// It waits for something else.
    Blocked,
    /// An unknown word: no transition leads out of it.
    Other(String),
}

/// Assessment of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epistemic {
    /// No assessment yet.
    Pending,
    /// It holds.
    Validated,
    /// It held, and must be worked on again.
    NeedsRefinement,
    /// It is taken for granted. Final.
    Admitted,
    /// It doesn't hold. Final.
    Refuted,
    /// It isn't needed. Final.
    Archived,
    /// An unknown word.
    Other,
}

/// A node of the proof. Stored as a short text: a cache has one for each node, and is read by every
/// command that asks about one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Node {
    /// Its work state.
    pub workflow: Workflow,
    /// Its assessment.
    pub epistemic: Epistemic,
    /// Owner of the claim.
    pub owner: String,
}

/// Each state with the letter that is stored for it.
const EPISTEMIC: [(char, Epistemic); 7] = [
    ('p', Epistemic::Pending),
    ('v', Epistemic::Validated),
    ('n', Epistemic::NeedsRefinement),
    ('d', Epistemic::Admitted),
    ('r', Epistemic::Refuted),
    ('x', Epistemic::Archived),
    ('?', Epistemic::Other),
];

impl From<Node> for String {
    /// Returns the stored text: `ap` is available and pending, `cpalice` claimed by alice; an
    /// unknown word has its length before it.
    fn from(node: Node) -> Self {
        let epistemic = EPISTEMIC.iter().find(|(_, one)| *one == node.epistemic).map_or('?', |(letter, _)| *letter);
        let owner = node.owner;
        match node.workflow {
            Workflow::Available => format!("a{epistemic}{owner}"),
            Workflow::Claimed => format!("c{epistemic}{owner}"),
            Workflow::Blocked => format!("b{epistemic}{owner}"),
            Workflow::Other(word) => format!("o{epistemic}{}:{word}{owner}", word.len()),
        }
    }
}

impl TryFrom<String> for Node {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let node = || {
            let mut letters = text.chars();
            let (workflow, epistemic) = (letters.next()?, letters.next()?);
            let epistemic = EPISTEMIC.iter().find(|(letter, _)| *letter == epistemic)?.1;
            let rest = letters.as_str();
            let (workflow, owner) = match workflow {
                'a' => (Workflow::Available, rest),
                'c' => (Workflow::Claimed, rest),
                'b' => (Workflow::Blocked, rest),
                'o' => {
                    let (length, rest) = rest.split_once(':')?;
                    let (word, owner) = rest.split_at_checked(length.parse().ok()?)?;
                    (Workflow::Other(word.to_owned()), owner)
                }
                _ => return None,
            };
            Some(Self { workflow, epistemic, owner: owner.to_owned() })
        };
        node().ok_or("no node of a cache")
    }
}

/// State of a proof, as far as the af program checks it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Proof {
    nodes: BTreeMap<String, Node>,
    challenges: BTreeSet<String>,
}

impl Proof {
    /// Returns the state before the first event.
    pub const fn new() -> Self {
        Self { nodes: BTreeMap::new(), challenges: BTreeSet::new() }
    }

    /// Returns a node, if it was created.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns all nodes, sorted by the text of their ids.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(id, node)| (id.as_str(), node))
    }

    /// Returns the part of the state that these events are about: the part refuses them if and only
    /// if the whole does.
    #[must_use]
    pub fn part<'e>(&self, events: impl IntoIterator<Item = &'e Stored>) -> Self {
        let mut part = Self::new();
        for event in events {
            let members = Members::of(&event.members);
            let one = members.get("node_id").and_then(Value::as_str);
            let several = members.get("node_ids").and_then(Value::as_array).into_iter().flatten();
            // An event without an id is about the node without one.
            for id in several.filter_map(Value::as_str).chain(one).chain([""]) {
                if let Some(node) = self.nodes.get(id) {
                    part.nodes.insert(id.to_owned(), node.clone());
                }
            }
            let challenge = members.get("challenge_id").and_then(Value::as_str).unwrap_or_default();
            if self.challenges.contains(challenge) {
                part.challenges.insert(challenge.to_owned());
            }
        }
        part
    }

    /// Applies the next event. A refused event changes nothing, as if a no-op were in its place.
    pub fn apply(&mut self, _seq: Seq, event: &Stored) -> Result<(), GoRefusal> {
        self.step(event).map_err(GoRefusal)
    }

    fn step(&mut self, event: &Stored) -> Result<(), String> {
        let members = Members::of(&event.members);
        shapes::check(&event.kind, members)?;
        match event.kind.as_str() {
            "proof_initialized" | "def_added" | "lemma_extracted" | "scope_opened" | "scope_closed" => Ok(()),
            "node_created" => self.create(members),
            "nodes_claimed" => {
                let owner = members.text("owner")?.unwrap_or_default();
                self.turn(members, &Workflow::Available, &Workflow::Claimed, owner)
            }
            "nodes_released" => self.turn(members, &Workflow::Claimed, &Workflow::Available, ""),
            "claim_refreshed" => self.refresh(members),
            "node_validated" => self.think(members, Epistemic::Validated),
            "node_admitted" => self.think(members, Epistemic::Admitted),
            "node_refuted" => self.think(members, Epistemic::Refuted),
            "node_archived" => self.think(members, Epistemic::Archived),
            "refinement_requested" => self.think(members, Epistemic::NeedsRefinement),
            "node_amended" | "taint_recomputed" => self.known(members).map(|_| ()),
            "challenge_raised" => {
                let id = members.text("challenge_id")?.unwrap_or_default();
                self.challenges.insert(id.to_owned());
                Ok(())
            }
            "challenge_resolved" | "challenge_withdrawn" | "challenge_superseded" => {
                let id = members.text("challenge_id")?.unwrap_or_default();
                if self.challenges.contains(id) { Ok(()) } else { Err(format!("there is no challenge {id:?}")) }
            }
            kind => Err(format!("the native program doesn't know the type {kind}")),
        }
    }

    /// Creates a node. A second node with the same id replaces the first. A node without an id is a
    /// node, too.
    fn create(&mut self, members: Members<'_>) -> Result<(), String> {
        let none = Map::new();
        let node = Members::of(members.get("node").and_then(Value::as_object).unwrap_or(&none));
        let id = node.text("id")?.unwrap_or_default();
        let workflow = match node.text("workflow_state")?.unwrap_or_default() {
            "available" => Workflow::Available,
            "claimed" => Workflow::Claimed,
            "blocked" => Workflow::Blocked,
            other => Workflow::Other(other.to_owned()),
        };
        let epistemic = match node.text("epistemic_state")?.unwrap_or_default() {
            "pending" => Epistemic::Pending,
            "validated" => Epistemic::Validated,
            "needs_refinement" => Epistemic::NeedsRefinement,
            "admitted" => Epistemic::Admitted,
            "refuted" => Epistemic::Refuted,
            "archived" => Epistemic::Archived,
            _ => Epistemic::Other,
        };
        let owner = node.text("claimed_by")?.unwrap_or_default().to_owned();
        self.nodes.insert(id.to_owned(), Node { workflow, epistemic, owner });
        Ok(())
    }

    /// Moves all nodes of an event from one state to another, or none of them.
    fn turn(&mut self, members: Members<'_>, from: &Workflow, to: &Workflow, owner: &str) -> Result<(), String> {
        let ids = members.nodes()?;
        let mut met: Vec<&str> = Vec::new();
        for &id in &ids {
            let node = self.nodes.get(id).ok_or_else(|| no_node(id))?;
            if node.workflow != *from || met.contains(&id) {
                let now = if met.contains(&id) { to } else { &node.workflow };
                return Err(format!("node {id} is {now}, and can't become {to}"));
            }
            met.push(id);
        }
        for id in ids {
            let node = self.nodes.get_mut(id).expect("all of them were looked up");
            node.workflow.clone_from(to);
            owner.clone_into(&mut node.owner);
        }
        Ok(())
    }

    fn refresh(&self, members: Members<'_>) -> Result<(), String> {
        let owner = members.text("owner")?.unwrap_or_default();
        let (id, node) = self.known(members)?;
        match node.workflow {
            Workflow::Claimed if node.owner == owner => Ok(()),
            Workflow::Claimed => Err(format!("node {id} is claimed by {}, not by {owner}", node.owner)),
            _ => Err(format!("node {id} isn't claimed")),
        }
    }

    fn think(&mut self, members: Members<'_>, to: Epistemic) -> Result<(), String> {
        let (id, node) = self.known(members)?;
        let fits = match to {
            Epistemic::NeedsRefinement => node.epistemic == Epistemic::Validated,
            _ => matches!(node.epistemic, Epistemic::Pending | Epistemic::NeedsRefinement),
        };
        if !fits {
            return Err(format!("node {id} is {}, and can't become {to}", node.epistemic));
        }
        let id = id.to_owned();
        self.nodes.get_mut(&id).expect("it was looked up").epistemic = to;
        Ok(())
    }

    /// Returns the node that an event is about.
    fn known<'m>(&self, members: Members<'m>) -> Result<(&'m str, &Node), String> {
        let id = members.text("node_id")?.unwrap_or_default();
        let node = self.nodes.get(id).ok_or_else(|| no_node(id))?;
        Ok((id, node))
    }
}

fn no_node(id: &str) -> String {
    format!("there is no node {id:?}")
}

impl fmt::Display for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Available => "available",
            Self::Claimed => "claimed",
            Self::Blocked => "blocked",
            Self::Other(word) => word,
        })
    }
}

impl fmt::Display for Epistemic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Validated => "validated",
            Self::NeedsRefinement => "needs_refinement",
            Self::Admitted => "admitted",
            Self::Refuted => "refuted",
            Self::Archived => "archived",
            Self::Other => "in an unknown state",
        })
    }
}

/// Reports whether the af program reads this as a node's id: numbers from 1 up with dots between
/// them, the first being 1. It reads `01` and `+1` as 1 here, but as other texts everywhere else.
fn is_readable_id(id: &str) -> bool {
    let number = |part: &str| part.parse::<i64>().ok().filter(|number| *number >= 1);
    id.split('.').all(|part| number(part).is_some()) && id.split('.').next().and_then(number) == Some(1)
}

/// Reports whether all programs write such an id this way, so that no other text means the same
/// node.
pub fn is_canonical_id(id: &str) -> bool {
    is_readable_id(id) && id.len() <= NODE_BYTES_MAX && !id.split('.').any(|part| part.starts_with(['0', '+']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_read_as_it_was_kept() {
        let workflows = [Workflow::Available, Workflow::Claimed, Workflow::Blocked, Workflow::Other("späť:x".into())];
        for workflow in workflows {
            for (_, epistemic) in EPISTEMIC {
                for owner in ["", "a", "7:ü", "p"] {
                    let node = Node { workflow: workflow.clone(), epistemic, owner: owner.into() };
                    assert_eq!(Node::try_from(String::from(node.clone())), Ok(node));
                }
            }
        }
        for bad in ["", "a", "zp", "ay", "op", "op9:x", "op1:ü"] {
            assert!(Node::try_from(String::from(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_part_refuses_what_the_whole_refuses() {
        let event = |text: &str| Stored::parse(text.as_bytes()).expect("it is an event");
        let node = |id: &str| {
            format!(
                r#"{{"type":"node_created","node":{{"id":"{id}","workflow_state":"available","epistemic_state":"pending"}}}}"#
            )
        };
        let seq = Seq::new(1).expect("a number");
        let mut proof = Proof::new();
        for text in [
            node("1"),
            node("1.1"),
            node(""),
            r#"{"type":"nodes_claimed","node_ids":["1"],"owner":"a"}"#.into(),
            r#"{"type":"challenge_raised","challenge_id":"c"}"#.into(),
        ] {
            proof.apply(seq, &event(&text)).expect("it fits");
        }
        let asked = [
            node("1.2"),
            r#"{"type":"nodes_claimed","node_ids":["1.1"],"owner":"a"}"#.into(),
            r#"{"type":"nodes_claimed","node_ids":["1.1","1"],"owner":"a"}"#.into(),
            r#"{"type":"nodes_claimed","NODE_IDS":["1.2"],"owner":"a"}"#.into(),
            r#"{"type":"nodes_released","node_ids":["1"]}"#.into(),
            r#"{"type":"nodes_released","node_ids":[]}"#.into(),
            r#"{"type":"claim_refreshed","node_id":"1","owner":"a"}"#.into(),
            r#"{"type":"claim_refreshed","Node_Id":"1","owner":"b"}"#.into(),
            r#"{"type":"node_validated","node_id":"1.1"}"#.into(),
            r#"{"type":"node_validated"}"#.into(),
            r#"{"type":"node_amended","node_id":"1.7"}"#.into(),
            r#"{"type":"refinement_requested","node_id":"1.1"}"#.into(),
            r#"{"type":"challenge_resolved","challenge_id":"c"}"#.into(),
            r#"{"type":"challenge_resolved","challenge_id":"d"}"#.into(),
        ];
        for first in &asked {
            for second in &asked {
                let events = [event(first), event(second)];
                let (mut whole, mut part) = (proof.clone(), proof.part(&events));
                for one in &events {
                    assert_eq!(part.apply(seq, one), whole.apply(seq, one), "{first} {second}");
                }
            }
        }
    }

    #[test]
    fn only_one_text_names_a_node() {
        for id in ["1", "1.1", "1.2.3", "1.10.100"] {
            assert!(is_canonical_id(id), "{id:?}");
        }
        for id in [
            "",
            "0",
            "2",
            "01",
            "+1",
            "1.",
            ".1",
            "1..2",
            "1.0",
            "1.01",
            "1.+1",
            " 1",
            "1 ",
            "1.-1",
            "1.x",
            "1.99999999999999999999",
        ] {
            assert!(!is_canonical_id(id), "{id:?}");
        }
        assert!(is_readable_id("1.01") && is_readable_id("+1"), "the native program reads these, too");
    }
}
