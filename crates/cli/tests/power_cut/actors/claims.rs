//! Claims of nodes, which are events: taken, extended and released. They outlive a cut, with their tokens.

use std::sync::Arc;

use lokt_testkit::dice::Dice;
use serde_json::Value;

use super::events::Style;
use super::{Acks, Actor, pick};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::{number, text};
use crate::tally::Tally;

const OWNER: &str = "mallory";

#[derive(Clone, Copy, Debug)]
enum Asked {
    Take,
    Extend,
    Release,
}

/// What is known of a node: the token of its claim.
#[derive(Debug)]
struct Node {
    name: &'static str,
    token: Option<u64>,
    asked: Option<Asked>,
}

/// One who claims.
pub(crate) struct Claims {
    style: Style,
    numbers: Arc<Highest>,
    nodes: Vec<Node>,
}

impl Claims {
    pub(crate) fn new(style: Style, numbers: &Arc<Highest>) -> Self {
        let node = |name: &&'static str| Node { name, token: None, asked: None };
        Self { style, numbers: Arc::clone(numbers), nodes: style.nodes.iter().map(node).collect() }
    }

    fn ask(&mut self, site: &Site, nth: usize, asked: Asked) -> Result<(), Stop> {
        let node = &mut self.nodes[nth];
        let words = match asked {
            Asked::Take => format!("claim take {} --ttl 1h", node.name),
            Asked::Extend => format!("claim extend {} --ttl 1h", node.name),
            Asked::Release => format!("claim release {}", node.name),
        };
        let before = self.numbers.so_far();
        node.asked = Some(asked);
        let answer = site.answer(&Call::new(OWNER, &format!("{words} --json -d {}", self.style.dir())))?;
        node.asked = None;
        self.numbers.given(before, number(&answer, "seq"), node.name)?;
        let token = number(&answer, "token");
        if node.token.is_some_and(|was| was != token) {
            return Err(Stop::Wrong(format!("a claim keeps its token: {node:?} {answer}")));
        }
        node.token = match asked {
            Asked::Take | Asked::Extend => Some(token),
            Asked::Release => None,
        };
        Ok(())
    }
}

impl Actor for Claims {
    fn kind(&self) -> &'static str {
        "claim"
    }

    fn move_in(&mut self, _: &Site) -> Result<(), Stop> {
        Ok(())
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        let nth = pick(dice, self.nodes.len());
        let asked = match self.nodes[nth].token {
            None => Asked::Take,
            Some(_) => [Asked::Extend, Asked::Take, Asked::Release, Asked::Release][pick(dice, 4)],
        };
        self.ask(site, nth, asked)?;
        Ok(vec![("claim", 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        let list = site.answer(&Call::new(OWNER, &format!("claim list --json -d {}", self.style.dir())))?;
        let claims: &[Value] = list.as_array().map_or(&[], Vec::as_slice);
        for node in &mut self.nodes {
            let claim = claims.iter().find(|claim| text(claim, "node") == node.name);
            let found = claim.map(|claim| number(claim, "token"));
            if node.asked.is_some() {
                tally.in_flight("claim");
            }
            let kept = match (node.token, node.asked) {
                (None, Some(Asked::Take)) => true,
                (Some(_), Some(Asked::Release)) => found.is_none() || found == node.token,
                _ => found == node.token,
            };
            tally.check("claim", kept, || format!("{node:?} became {claim:?}"));
            (node.token, node.asked) = (found, None);
        }
        Ok(())
    }

    fn go_on(&mut self, site: &Site, _: &mut Tally) -> Result<(), Stop> {
        (0..self.nodes.len()).try_for_each(|nth| self.ask(site, nth, Asked::Take))
    }

    fn lose(&mut self, site: &Site, _: &'static str) -> Result<(), Stop> {
        self.ask(site, 0, Asked::Take)?;
        let (name, dir) = (self.nodes[0].name, self.style.dir());
        site.answer(&Call::new(OWNER, &format!("claim release {name} --json -d {dir}"))).map(drop)
    }
}
