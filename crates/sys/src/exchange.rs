//! Replacing or removing a file only if it is the expected one.
//!
//! Programs that ignore lokt's mutex may change a file between a check and the change that follows
//! it. So the file is first moved to a temporary path, where no other program looks for it, and
//! checked there. If it isn't the expected one, it is moved back.
//!
//! The temporary path is unique. If the process is killed between two steps, the file is at that
//! path.

use std::io;

use super::disk::{Disk, Stamp};

/// Maximum number of exchanges while a file is moved back: a foreign program may replace it each
/// time.
const BACK_TRIES: usize = 8;

/// The outcome of [`take_if`].
#[derive(Debug)]
pub enum Taken<E> {
    /// Nothing was there.
    Missing,
    /// It was the expected file, which is now at the temporary path.
    Taken,
    /// It was another file, which was moved back.
    Restored,
    /// It was another file, which is at the temporary path: it couldn't be moved back, for this
    /// reason.
    Displaced(io::Error),
    /// It couldn't be checked, and was moved back if possible.
    Unjudged(E),
}

/// Moves the file at `path` to `temp` if it is the expected one; `is_expected` gets `temp`.
/// After an error nothing has changed.
pub fn take_if<E>(
    disk: &dyn Disk,
    path: &str,
    temp: &str,
    is_expected: impl FnOnce(&str) -> Result<bool, E>,
) -> io::Result<Taken<E>> {
    match disk.rename(path, temp) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Taken::Missing),
        done => done?,
    }
    Ok(match is_expected(temp) {
        Ok(true) => Taken::Taken,
        Ok(false) => match disk.rename_new(temp, path) {
            Ok(()) => Taken::Restored,
            Err(error) => Taken::Displaced(error),
        },
        Err(error) => {
            // Its owner is unknown.
            let _ = disk.rename_new(temp, path);
            Taken::Unjudged(error)
        }
    })
}

/// The outcome of [`swap_if`].
#[derive(Debug)]
pub enum Swapped<E> {
    /// Nothing was at the path, and nothing has changed.
    Missing,
    /// The new file replaced the expected one, which is now at the temporary path.
    Swapped,
    /// The new file replaced whatever was there: the file system can't exchange files.
    Overwritten,
    /// The new file is in place, but the one at the temporary path isn't the expected one:
    /// [`put_back`] restores it.
    Unexpected,
    /// The same, but the file couldn't be checked.
    Unjudged(E),
}

/// Exchanges the new file at `temp` for the one at `path`, and checks the old one. After an error
/// nothing has changed.
pub fn swap_if<E>(
    disk: &dyn Disk,
    temp: &str,
    path: &str,
    is_expected: impl FnOnce(&str) -> Result<bool, E>,
) -> io::Result<Swapped<E>> {
    match disk.exchange(temp, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Swapped::Missing),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            return disk.rename(temp, path).map(|()| Swapped::Overwritten);
        }
        done => done?,
    }
    Ok(match is_expected(temp) {
        Ok(true) => Swapped::Swapped,
        Ok(false) => Swapped::Unexpected,
        Err(error) => Swapped::Unjudged(error),
    })
}

/// The outcome of [`put_back`].
#[derive(Debug)]
pub struct PutBack {
    /// The file at the temporary path is not ours and can't be moved back: another file is in its
    /// place.
    pub is_homeless: bool,
    /// The step that failed.
    pub failure: Option<PutBackError>,
}

/// A step of [`put_back`] that failed.
#[derive(Debug)]
pub enum PutBackError {
    /// The files couldn't be exchanged.
    Exchange(io::Error),
    /// The file at the temporary path couldn't be examined.
    Examine(io::Error),
}

/// Undoes a swap: moves `theirs`, which is at `temp`, back to `path`, where `ours` is.
///
/// The file that the exchange returns must be `ours`. Otherwise a foreign program has replaced
/// `ours` in the meantime: its file is the newest, and is moved back instead. Unless the outcome
/// says otherwise, the file at `temp` is no longer needed.
pub fn put_back(disk: &dyn Disk, temp: &str, path: &str, ours: Option<Stamp>, theirs: Option<Stamp>) -> PutBack {
    let (mut standing, mut returning) = (ours, theirs);
    for _ in 0..BACK_TRIES {
        if let Err(error) = disk.exchange(temp, path) {
            // Ours was removed. Move theirs to the free path.
            let is_homeless = disk.rename_new(temp, path).is_err();
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let failure = (!is_missing).then_some(PutBackError::Exchange(error));
            return PutBack { is_homeless, failure };
        }
        let came_out = match disk.stamp(temp) {
            Ok(Some(came_out)) => came_out,
            Ok(None) => return PutBack { is_homeless: false, failure: None },
            Err(error) => {
                return PutBack { is_homeless: true, failure: Some(PutBackError::Examine(error)) };
            }
        };
        if standing.is_none_or(|expected| expected == came_out) {
            return PutBack { is_homeless: false, failure: None };
        }
        (standing, returning) = (returning, Some(came_out));
    }
    PutBack { is_homeless: true, failure: None }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{PutBack, Swapped, Taken, put_back, swap_if, take_if};
    use crate::disk::{Disk, Entry};
    use crate::os_disk::OsDisk;

    struct Scene {
        disk: OsDisk,
        _dir: tempfile::TempDir,
    }

    impl Scene {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().expect("there is room");
            let (disk, _) = OsDisk::create(&dir.path().join("root")).expect("it can be made");
            for (name, text) in files {
                disk.create(name, text.as_bytes()).expect("it is free");
            }
            Self { disk, _dir: dir }
        }

        fn text(&self, name: &str) -> Option<String> {
            match self.disk.read(name, 100).expect("it can be read") {
                Entry::File(content) => Some(String::from_utf8(content.bytes).expect("it is text")),
                _ => None,
            }
        }

        fn is(&self, name: &str, text: &str) -> bool {
            self.text(name).as_deref() == Some(text)
        }
    }

    #[test]
    fn only_the_expected_file_is_taken() {
        let scene = Scene::new(&[("a", "old")]);
        let take = |text| {
            take_if(&scene.disk, "a", "temp", |temp| Ok::<_, io::Error>(scene.is(temp, text)))
                .expect("it can be renamed")
        };
        assert!(matches!(take("other"), Taken::Restored));
        assert_eq!((scene.text("a").as_deref(), scene.text("temp")), (Some("old"), None));
        assert!(matches!(take("old"), Taken::Taken));
        assert_eq!((scene.text("a"), scene.text("temp").as_deref()), (None, Some("old")));
        assert!(matches!(take("old"), Taken::Missing));
    }

    #[test]
    fn a_file_that_cannot_go_back_or_be_judged_is_not_lost() {
        let scene = Scene::new(&[("a", "old")]);
        let unjudged = take_if(&scene.disk, "a", "temp", |_| Err::<bool, _>("no permission"));
        assert!(matches!(unjudged, Ok(Taken::Unjudged("no permission"))));
        assert_eq!(scene.text("a").as_deref(), Some("old"));
        let displaced = take_if(&scene.disk, "a", "temp", |_| scene.disk.create("a", b"newer").map(|_| false));
        assert!(matches!(displaced, Ok(Taken::Displaced(_))));
        assert_eq!((scene.text("a").as_deref(), scene.text("temp").as_deref()), (Some("newer"), Some("old")));
    }

    #[test]
    fn an_unexpected_file_goes_back_after_a_swap() {
        let scene = Scene::new(&[("a", "theirs"), ("temp", "ours")]);
        let swap = || {
            swap_if(&scene.disk, "temp", "a", |temp| Ok::<_, io::Error>(scene.is(temp, "old"))).expect("both are there")
        };
        assert!(matches!(swap(), Swapped::Unexpected));
        assert_eq!(scene.text("a").as_deref(), Some("ours"));
        let PutBack { is_homeless, failure } = put_back(&scene.disk, "temp", "a", None, None);
        assert!(!is_homeless && failure.is_none());
        assert_eq!((scene.text("a").as_deref(), scene.text("temp").as_deref()), (Some("theirs"), Some("ours")));
        scene.disk.remove("a").expect("it is there");
        assert!(matches!(swap(), Swapped::Missing));
    }

    #[test]
    fn the_newest_file_of_a_foreign_program_stands_after_a_swap_was_undone() {
        let scene = Scene::new(&[("a", "theirs"), ("temp", "ours"), ("b", "newest")]);
        let stamp = |name: &str| scene.disk.stamp(name).expect("it can be looked at");
        let (ours, theirs) = (stamp("temp"), stamp("a"));
        scene.disk.exchange("temp", "a").expect("both are there");
        scene.disk.rename("b", "a").expect("it is there");
        let done = put_back(&scene.disk, "temp", "a", ours, theirs);
        assert!(!done.is_homeless && done.failure.is_none());
        assert_eq!(scene.text("a").as_deref(), Some("newest"));
        scene.disk.remove("a").expect("it is there");
        assert!(!put_back(&scene.disk, "temp", "a", ours, theirs).is_homeless);
        assert_eq!(scene.text("a").as_deref(), Some("theirs"), "a free place is filled");
    }
}
