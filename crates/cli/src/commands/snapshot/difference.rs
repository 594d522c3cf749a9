//! What differs between two trees, in text and JSON.

use std::fmt::Write as _;

use lokt_worktree::snapshot::Difference;
use serde::{Serialize, Serializer};

use crate::show::clean;

/// A path in JSON: a text, or what its bytes are if they are none.
pub(super) struct PathJson<'a>(&'a [u8]);

impl Serialize for PathJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Hex {
            hex: String,
        }
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(shown(text));
        }
        let hex = self.0.iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        });
        Hex { hex }.serialize(serializer)
    }
}

/// The root has no name of its own.
fn shown(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// What differs, in JSON.
#[derive(Serialize)]
pub(super) struct DifferenceJson<'a> {
    added: Vec<PathJson<'a>>,
    removed: Vec<PathJson<'a>>,
    modified: Vec<PathJson<'a>>,
    touched: Vec<PathJson<'a>>,
}

impl<'a> DifferenceJson<'a> {
    pub(super) fn of(difference: &'a Difference) -> Self {
        let list = |paths: &'a [Vec<u8>]| paths.iter().map(|path| PathJson(path)).collect();
        Self {
            added: list(&difference.added),
            removed: list(&difference.removed),
            modified: list(&difference.modified),
            touched: list(&difference.touched),
        }
    }
}

/// `A path`, `D path`, `M path`, `T path`: a line each, in the order of the paths.
pub(super) fn lines(difference: &Difference) -> Vec<String> {
    let Difference { added, removed, modified, touched } = difference;
    let kinds = [('A', added), ('D', removed), ('M', modified), ('T', touched)];
    let mut all: Vec<(&[u8], char)> =
        kinds.into_iter().flat_map(|(kind, paths)| paths.iter().map(move |path| (path.as_slice(), kind))).collect();
    all.sort_unstable();
    let line = |(path, kind): (&[u8], char)| format!("{kind} {}", clean(shown(&String::from_utf8_lossy(path))));
    all.into_iter().map(line).collect()
}

/// `1 added, 2 removed, 3 modified, 4 touched`, without what there is none of.
pub(super) fn summary(difference: &Difference) -> String {
    let Difference { added, removed, modified, touched } = difference;
    let counts = [(added, "added"), (removed, "removed"), (modified, "modified"), (touched, "touched")];
    let parts: Vec<String> = counts
        .into_iter()
        .filter(|(paths, _)| !paths.is_empty())
        .map(|(paths, what)| format!("{} {what}", paths.len()))
        .collect();
    if parts.is_empty() { "nothing differs".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use lokt_worktree::snapshot::Difference;
    use serde_json::json;

    use super::{DifferenceJson, lines, summary};

    #[test]
    fn every_path_has_its_line_whatever_its_bytes_are() {
        let difference = Difference {
            added: vec![b"b\n".to_vec(), b"z\xff".to_vec()],
            removed: vec![b"a".to_vec()],
            modified: Vec::new(),
            touched: vec![Vec::new()],
        };
        assert_eq!(lines(&difference), ["T .", "D a", "A b\\n", "A z\u{fffd}"], "in order");
        assert_eq!(summary(&difference), "2 added, 1 removed, 1 touched");
        assert_eq!(summary(&Difference::default()), "nothing differs");
        let json = serde_json::to_value(DifferenceJson::of(&difference)).expect("it is JSON");
        let expected = json!({"added": ["b\n", {"hex": "7aff"}], "removed": ["a"], "modified": [], "touched": ["."]});
        assert_eq!(json, expected, "what is no text is told apart");
    }
}
