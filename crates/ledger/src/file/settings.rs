//! A ledger's settings: its style, and whether its events carry the chain.
//!
//! A ledger of another program has no settings: its files tell the style. Our first writer notes
//! it, so that a stray file of the other style changes nothing later.

use std::path::Path;

use lokt_core::ledger::seq::{Named, Oddity, Seq, Style};
use serde_json::{Value, json};

use super::FileLog;
use super::inside::{Inside, MutexHeld};
use crate::answers::{InitOptions, Settings};
use lokt_sys::disk::{Disk, Entry};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::mutex;

/// The directory of our own files in a ledger.
pub(super) const STATE: &str = ".lokt";
const SETTINGS: &str = ".lokt/settings.json";
/// Keeps our caches out of git repositories.
const IGNORE: &str = ".lokt/.gitignore";
const VERSION: i64 = 1;
/// Maximum size of the settings.
const SETTINGS_BYTES_MAX: usize = 64 << 10;

/// The settings of the ledger on `disk`, and whether they are stored.
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

impl FileLog {
    /// Gives the ledger the properties that are asked for. Returns whether there was nothing
    /// before: neither settings nor events.
    pub(super) fn init(&mut self, options: InitOptions) -> Result<bool, Error> {
        let inside = mutex::Inside::enter(&*self.disk, self.patience.timeout)
            .map_err(|failure| Error::mutex(&self.path, failure))?;
        let before = stored(&*self.disk, &self.path)?;
        let now = match before {
            Some(settings) => settings,
            None => of(&*self.disk, &*self.above, &self.path)?.0,
        };
        let has_events = before.is_some() || self.census()?.events > 0;
        let style = options.style.filter(|_| before.is_none()).unwrap_or(now.style);
        if options.style.is_some_and(|asked| has_events && asked != now.style) {
            let message = format!("{} is a ledger of the {} style", self.path.display(), now.style.as_str());
            return Err(Error::new(ErrorKind::BadEvent, message)
                .hint("a ledger's style can't be changed; use another directory"));
        }
        let settings = Settings { style, chain: now.chain || options.chain };
        if before != Some(settings) {
            self.store(settings, &inside)?;
        }
        drop(inside);
        self.settings = settings;
        self.is_settled = true;
        Ok(!has_events)
    }

    /// Replaces the settings, durably.
    fn store(&self, settings: Settings, _mutex: &dyn MutexHeld) -> Result<(), Error> {
        let text = json!({"version": VERSION, "style": settings.style.as_str(), "chain": settings.chain});
        let temp = self.temp("swap-").at("get random bits for", &self.path, "")?;
        let written = self.disk.create_as(&temp, format!("{text}\n").as_bytes(), 0o644);
        written.and_then(|file| file.sync()).at("write", &self.path, &temp)?;
        self.disk.rename(&temp, SETTINGS).at("write", &self.path, SETTINGS)?;
        self.disk.sync_dir(STATE).at("sync", &self.path, STATE)?;
        // Best effort; errors are ignored.
        let _ = self.disk.create_as(IGNORE, b"*\n", 0o644);
        Ok(())
    }
}

impl Inside<'_> {
    /// Notes the settings, if no process has. Other programs may have written the first events
    /// since the ledger was opened.
    pub(super) fn settle(&self) -> Result<(), Error> {
        let (now, is_settled) = of(&*self.log.disk, &*self.log.above, &self.log.path)?;
        if now.style != self.log.settings.style {
            let style = now.style.as_str();
            let message = format!("{} has become a ledger of the {style} style meanwhile", self.log.path.display());
            return Err(Error::new(ErrorKind::Busy, message).hint("try again"));
        }
        if !is_settled {
            self.log.store(self.log.settings, self)?;
        }
        Ok(())
    }
}
