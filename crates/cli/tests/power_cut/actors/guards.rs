//! Guards, which wait for each other in a line. Nothing of them outlives a cut, but no token is given twice.

use std::sync::Arc;

use lokt_testkit::dice::Dice;

use super::locks::record;
use super::{Acks, Actor};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::Stored;
use crate::tally::Tally;

/// All guards want the same.
const NAME: &str = "guarded";

/// One who runs guards.
pub(crate) struct Guards {
    owner: &'static str,
    tokens: Arc<Highest>,
    asked: bool,
}

impl Guards {
    pub(crate) fn new(owner: &'static str, tokens: &Arc<Highest>) -> Self {
        Self { owner, tokens: Arc::clone(tokens), asked: false }
    }

    /// Runs a command that says which token it got, and then does nothing for so many hundredths of a second. Gives the greatest token that
    /// was known when it was asked, and the one that it got.
    fn guard(&mut self, site: &Site, flags: &str, hundredths: u64) -> Result<(u64, u64), Stop> {
        let script = format!("echo $LOKT_FENCING_TOKEN; sleep 0.{hundredths:02}");
        let call = Call::new(self.owner, &format!("guard {NAME} {flags} -- sh -c")).word(script);
        let before = self.tokens.so_far();
        self.asked = true;
        let ended = site.run(&call);
        site.judge(&call, &ended)?;
        self.asked = false;
        let token =
            ended.stdout.trim().parse().map_err(|_| Stop::Wrong(format!("a guard gives a token: {ended:?}")))?;
        self.tokens.note(token);
        Ok((before, token))
    }
}

impl Actor for Guards {
    fn kind(&self) -> &'static str {
        "guard's token"
    }

    fn move_in(&mut self, _: &Site) -> Result<(), Stop> {
        Ok(())
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        let hundredths = dice.below(6);
        // Far from its end, however long the disk stands still.
        let (before, token) = self.guard(site, ["--wait", "--wait --ttl 5m"][super::pick(dice, 2)], hundredths)?;
        self.tokens.given(before, token, NAME)?;
        Ok(vec![(self.kind(), 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        if self.asked {
            tally.in_flight(self.kind());
        }
        self.asked = false;
        let stored = Stored::read(&record(site, NAME));
        tally.check(self.kind(), !matches!(stored, Stored::Torn(_)), || format!("whole-records: {stored}"));
        Ok(())
    }

    fn go_on(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        // Those who held it and those in line before it are gone: nobody is waited for. A blank file is, for a moment.
        let blank = matches!(Stored::read(&record(site, NAME)), Stored::Blank);
        let (before, token) = self.guard(site, if blank { "--timeout 20s" } else { "" }, 0)?;
        tally.check(self.kind(), token > before, || format!("token-order: {NAME} got {token} after {before}"));
        Ok(())
    }

    fn lose(&mut self, site: &Site, _: &'static str) -> Result<(), Stop> {
        let (_, token) = self.guard(site, "--wait", 0)?;
        // As if many had been given since, and all of them forgotten.
        self.tokens = Arc::new(Highest::default());
        self.tokens.note(token + 1000);
        Ok(())
    }
}
