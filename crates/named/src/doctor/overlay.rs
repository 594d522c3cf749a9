//! Reports a root on an overlay. The same files may then be reachable in other ways, as different
//! files.

use super::trust::OVERLAY;
use super::{Check, Finding, Place};
use lokt_sys::mounts::mounted_on;

pub(super) fn check(place: &Place) -> Check {
    let overlay = place.dir.as_ref().is_some_and(|dir| mounted_on(dir).magic == Some(OVERLAY));
    let finding = overlay.then(|| {
        Finding::info(
            "the root is on an overlay: only processes that see the same mount exclude each other, not one that looks at \
             the layers below, as the host of a container can; and a guard that another mount shows is known by its pid alone",
        )
    });
    Check::new("overlay", finding)
}
