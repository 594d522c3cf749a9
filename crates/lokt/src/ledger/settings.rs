//! What a ledger is: its style, and whether its events carry the chain.
//!
//! A ledger of another program has no settings: its files tell. Whoever writes to it first notes what they told, so that a stray file of
//! the other style that somebody drops there later changes nothing.

use std::path::Path;

use lokt_core::ledger::seq::{Named, Oddity, Seq, Style};
use serde_json::{Value, json};

use super::Ledger;
use super::answers::{Founding, Settings};
use crate::error::{At as _, Error, ErrorKind};
use crate::sys::disk::{Disk, Entry};
use crate::sys::mutex::Inside;

/// Our own files in a ledger are below this directory.
pub(super) const STATE: &str = ".lokt";
const SETTINGS: &str = ".lokt/settings.json";
/// Nobody wants our caches in a repository.
const IGNORE: &str = ".lokt/.gitignore";
const VERSION: i64 = 1;
/// No settings are longer.
const SETTINGS_BYTES_MAX: usize = 64 << 10;

/// The settings of the ledger on `disk`, and whether they are noted.
pub(super) fn of(disk: &dyn Disk, above: &dyn Disk, path: &Path) -> Result<(Settings, bool), Error> {
    match stored(disk, path)? {
        Some(settings) => Ok((settings, true)),
        None => Ok((Settings { style: found(disk, above, path)?, chain: false }, false)),
    }
}

fn stored(disk: &dyn Disk, path: &Path) -> Result<Option<Settings>, Error> {
    let damaged = |what: &str| {
        let message = format!("{} {what}", path.join(SETTINGS).display());
        Error::new(ErrorKind::NotARecord, message).hint("remove it; `lokt ledger init --style STYLE` makes it anew")
    };
    let bytes = match disk.read(SETTINGS, SETTINGS_BYTES_MAX).at("read", path, SETTINGS)? {
        Entry::Missing => return Ok(None),
        Entry::File(content) => content.bytes,
        Entry::NotRegular(kind) => return Err(damaged(&format!("is {kind}"))),
        Entry::TooBig(_) => return Err(damaged("is too long")),
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(&format!("is damaged: {error}")))?;
    match value["version"].as_i64() {
        Some(VERSION) => {}
        Some(version) if version > VERSION => {
            let message = format!("{} has version {version}", path.join(SETTINGS).display());
            return Err(Error::new(ErrorKind::Newer, message));
        }
        _ => return Err(damaged("has no version")),
    }
    let style = [Style::Documented, Style::Native].into_iter().find(|style| value["style"] == style.as_str());
    let style = style.ok_or_else(|| damaged("names no style"))?;
    Ok(Some(Settings { style, chain: value["chain"] == true }))
}

/// The style of a ledger that has no settings.
fn found(disk: &dyn Disk, above: &dyn Disk, path: &Path) -> Result<Style, Error> {
    let (mut documented, mut native) = (Seen::default(), Seen::default());
    disk.each_name("", &mut |name| match Style::Documented.named(name) {
        Named::Event(seq) => documented.see(seq),
        Named::Stray(Oddity::OtherStyle) => {
            if let Named::Event(seq) = Style::Native.named(name) {
                native.see(seq);
            }
        }
        _ => {}
    })
    .at("list", path, "")?;
    Ok(match (documented.any, native.any) {
        (true, false) => Style::Documented,
        (false, true) => Style::Native,
        // A ledger begins with its first event; a stray of the other style seldom does.
        (true, true) if documented.first && !native.first => Style::Documented,
        (true, true) => Style::Native,
        (false, false) => {
            let is_there = |name: &str| Ok(above.stamp(name).at("look at", path, name)?.is_some());
            if is_there("meta.json")? && is_there("nodes")? { Style::Native } else { Style::Documented }
        }
    })
}

#[derive(Default)]
struct Seen {
    any: bool,
    first: bool,
}

impl Seen {
    fn see(&mut self, seq: Seq) {
        self.any = true;
        self.first |= seq == Seq::FIRST;
    }
}

impl Ledger {
    /// Makes it what it is asked to be, and says whether there was nothing before: neither settings nor events.
    pub(super) fn found(&mut self, founding: Founding) -> Result<bool, Error> {
        let inside =
            Inside::enter(&*self.disk, self.patience.timeout).map_err(|failure| Error::mutex(&self.path, failure))?;
        let before = stored(&*self.disk, &self.path)?;
        let now = match before {
            Some(settings) => settings,
            None => of(&*self.disk, &*self.above, &self.path)?.0,
        };
        let has_events = before.is_some() || self.census()?.events > 0;
        let style = founding.style.filter(|_| before.is_none()).unwrap_or(now.style);
        if founding.style.is_some_and(|asked| has_events && asked != now.style) {
            let message = format!("{} is a ledger of the {} style", self.path.display(), now.style.as_str());
            return Err(Error::new(ErrorKind::BadEvent, message)
                .hint("a ledger's style can't be changed; use another directory"));
        }
        let settings = Settings { style, chain: now.chain || founding.chain };
        if before != Some(settings) {
            self.store(settings)?;
        }
        drop(inside);
        self.settings = settings;
        self.is_settled = true;
        Ok(!has_events)
    }

    /// Notes the settings, if nobody has. Inside: others may have written the first events since it was opened.
    pub(super) fn settle(&self) -> Result<(), Error> {
        let (now, is_settled) = of(&*self.disk, &*self.above, &self.path)?;
        if now.style != self.settings.style {
            let style = now.style.as_str();
            let message = format!("{} has become a ledger of the {style} style meanwhile", self.path.display());
            return Err(Error::new(ErrorKind::Busy, message).hint("try again"));
        }
        if !is_settled {
            self.store(self.settings)?;
        }
        Ok(())
    }

    /// Replaces the settings, durably.
    fn store(&self, settings: Settings) -> Result<(), Error> {
        let text = json!({"version": VERSION, "style": settings.style.as_str(), "chain": settings.chain});
        let temp = format!("{STATE}/swap-{:032x}", self.random()?);
        let written = self.disk.create_as(&temp, format!("{text}\n").as_bytes(), 0o644);
        written.and_then(|file| file.sync()).at("write", &self.path, &temp)?;
        self.disk.rename(&temp, SETTINGS).at("write", &self.path, SETTINGS)?;
        self.disk.sync_dir(STATE).at("sync", &self.path, STATE)?;
        // That it can be missing is no reason to fail.
        let _ = self.disk.create_as(IGNORE, b"*\n", 0o644);
        Ok(())
    }
}
