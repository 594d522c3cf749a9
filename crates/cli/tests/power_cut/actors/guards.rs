//! Guards, which wait for each other in a line. Nothing of them outlives a cut, but no token is given twice: not that of a command that ran when
//! the power went, either.

use std::sync::Arc;

use lokt_testkit::dice::Dice;

use super::locks::record;
use super::{Acks, Actor};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::Stored;
use crate::tally::Tally;

/// What a guard is answered.
pub(crate) const GUARDS_TOKEN: &str = "guard's token";
/// All guards want the same.
const NAME: &str = "guarded";

/// One who runs guards.
pub(crate) struct Guards {
    owner: &'static str,
    tokens: Arc<Highest>,
    asked: bool,
    /// What a command said that it has, and what was known before, if the power went before its guard was seen to end.
    cut_off: Option<(u64, u64)>,
}

impl Guards {
    pub(crate) fn new(owner: &'static str, tokens: &Arc<Highest>) -> Self {
        Self { owner, tokens: Arc::clone(tokens), asked: false, cut_off: None }
    }

    /// Runs a command that says which token it got, and then does nothing for so many hundredths of a second. Gives the greatest token that
    /// was known when it was asked, and the one that it got.
    fn guard(&mut self, site: &Site, flags: &str, hundredths: u64) -> Result<(u64, u64), Stop> {
        let script = format!("echo $LOKT_FENCING_TOKEN; sleep 0.{hundredths:02}");
        let call = Call::new(self.owner, &format!("guard {NAME} {flags} -- sh -c")).word(script);
        let before = self.tokens.so_far();
        self.asked = true;
        let mut said = None;
        let ended = site.run_listening(&call, |line| {
            said = line.trim().parse().ok();
            self.tokens.note(said.unwrap_or_default());
        });
        self.cut_off = said.map(|token| (before, token));
        site.judge(&call, &ended)?;
        self.asked = false;
        let (before, token) =
            self.cut_off.take().ok_or_else(|| Stop::Wrong(format!("a guard gives a token: {ended:?}")))?;
        Ok((before, token))
    }
}

impl Actor for Guards {
    fn kind(&self) -> &'static str {
        GUARDS_TOKEN
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
        // Whoever has said its token was granted; the next one is compared with it, too.
        if let Some((before, token)) = self.cut_off.take() {
            tally.acknowledged(self.kind(), 1);
            tally.check(self.kind(), token > before, || format!("token-order: {NAME} got {token} after {before}"));
        } else if self.asked {
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
