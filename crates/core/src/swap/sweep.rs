//! Deleting the cells of free names.
//!
//! A deleted cell has the revision of every absent key, so a late copy of an addition that was
//! planned when the name had no cell would be made. A sweep therefore rewrites `meta`, which such a
//! copy also pins.
//!
//! Tickets don't rewrite a cell: one may be put while its cell is swept. Its next read finds no
//! cell and continues from there.

use alloc::vec::Vec;

use super::keys::Space;
use super::view::{Standing, View};
use crate::engine::{Change, Pin, Rev, Write};

/// Maximum number of cells that one change deletes: it can have at most 128 writes.
pub const SWEEP_MAX: usize = 50;

/// Deletes the cells of the names that are free; `None` if there are none, or the space isn't open.
pub fn sweep(space: &Space, view: &View) -> Option<Change> {
    let meta = view.meta.as_ref().filter(|_| view.standing() == Standing::Open)?;
    let mut pins = Vec::from([Pin::Since(space.meta(), view.meta_since)]);
    let mut writes = Vec::from([Write::Put(space.meta(), meta.encode(), None)]);
    let swept = view.names.iter().filter(|name| name.is_free() && name.cell_since != Rev::NEVER);
    for name in swept.take(SWEEP_MAX) {
        let cell = space.name(&name.name).cell();
        pins.push(Pin::Since(cell.clone(), name.cell_since));
        writes.push(Write::Drop(cell));
    }
    (writes.len() > 1).then_some(Change { pins, writes, look: Vec::new() })
}
