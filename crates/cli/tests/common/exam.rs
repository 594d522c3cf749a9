//! What `lokt doctor` says about a root.

use serde_json::Value;

use super::{Root, Said, chmod};

/// An answer of `lokt doctor --json`.
pub(crate) struct Exam {
    pub(crate) said: Said,
    json: Value,
}

impl Exam {
    #[track_caller]
    pub(crate) fn of(said: Said) -> Self {
        let json = said.json();
        let worst = json["overall"].as_str().expect("there is an overall status");
        assert_eq!(said.code, i32::from(worst == "fail"), "the exit code is 1 only if something fails{said}");
        Self { said, json }
    }

    /// Looks a root over.
    #[track_caller]
    pub(crate) fn new(root: &Root, flags: &str) -> Self {
        Self::of(root.run("doctor", &format!("doctor --json {flags}")))
    }

    pub(crate) fn overall(&self) -> &str {
        self.json["overall"].as_str().expect("there is an overall status")
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.checks().iter().map(|check| check["name"].as_str().expect("a check has a name")).collect()
    }

    fn checks(&self) -> &[Value] {
        self.json["checks"].as_array().expect("there are checks")
    }

    #[track_caller]
    pub(crate) fn check(&self, name: &str) -> &Value {
        let found = self.checks().iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("there is a check {name}{}", self.said))
    }

    #[track_caller]
    pub(crate) fn status(&self, name: &str) -> &str {
        self.check(name)["status"].as_str().expect("a check has a status")
    }

    /// Everything that a check found, as text: one line for each.
    #[track_caller]
    pub(crate) fn findings(&self, name: &str) -> Vec<&Value> {
        let check = self.check(name);
        match check["findings"].as_array() {
            Some(several) => several.iter().collect(),
            None if check["message"].is_string() => vec![check],
            None => Vec::new(),
        }
    }

    /// Some finding of a check has all these words, in its message, its hint or what was done.
    #[track_caller]
    pub(crate) fn says(&self, name: &str, words: &[&str]) {
        let has_all = |finding: &&Value| words.iter().all(|word| finding.to_string().contains(word));
        assert!(self.findings(name).iter().any(has_all), "{name} says {words:?}{}", self.said);
    }

    /// Checks that aren't ok.
    pub(crate) fn complaints(&self) -> Vec<&str> {
        self.names().into_iter().filter(|name| self.status(name) != "ok").collect()
    }
}

/// Puts a file into a root as lokt would: for its owner alone.
pub(crate) fn plant(root: &Root, path: &str, bytes: impl AsRef<[u8]>) {
    root.put(path, bytes);
    let path = root.path().join(path);
    chmod(&path, 0o600);
    chmod(path.parent().expect("it is in a directory"), 0o700);
}

/// The check `name` finds this in both formats, and nothing in the root changes by that.
#[track_caller]
pub(crate) fn finds(root: &Root, name: &str, status: &str, words: &[&str]) {
    let before = root.snapshot();
    let exam = Exam::new(root, "");
    assert_eq!(exam.status(name), status, "how bad it is{}", exam.said);
    exam.says(name, words);
    assert_eq!(exam.complaints(), [name], "nothing else is wrong{}", exam.said);
    assert_eq!(exam.overall(), status);
    let text = root.run("doctor", "doctor").exits(i32::from(status == "fail"), "text has the same exit code");
    let (mark, result) = match status {
        "fail" => ("[FAIL]", "Result: FAIL"),
        _ => ("[WARN]", "Result: PASS with warnings"),
    };
    let mut text = text.says(mark, "the row says so").says(result, "and so does the end");
    for word in words {
        // JSON escapes quotes; people see them.
        text = text.says(&word.replace("\\\"", "\""), "text has the same words");
    }
    assert_eq!(root.snapshot(), before, "without --fix nothing changes{text}");
}

/// `--fix` repairs what the check `name` found, says what it did, and has nothing to do the second time.
#[track_caller]
pub(crate) fn fixes(root: &Root, name: &str, did: &str) {
    let exam = Exam::new(root, "--fix");
    assert_eq!(exam.complaints(), Vec::<&str>::new(), "it is repaired{}", exam.said);
    let done =
        exam.findings(name).iter().filter_map(|finding| finding["fixed"].as_str()).any(|fixed| fixed.contains(did));
    assert!(done, "{name} says what was done: {did}{}", exam.said);
    let after = root.snapshot();
    let again =
        root.run("doctor", "doctor --fix").exits(0, "nothing is wrong any more").says("Result: PASS\n", "so it says");
    assert!(
        !again.stdout.contains("[FIXED]") && !again.stdout.contains("fixed:"),
        "there is nothing more to do{again}"
    );
    assert_eq!(root.snapshot(), after, "and nothing is done");
}

/// `--fix` leaves alone what the check `name` found.
#[track_caller]
pub(crate) fn leaves_alone(root: &Root, name: &str) {
    let before = root.snapshot();
    let exam = Exam::new(root, "--fix");
    assert_eq!(exam.complaints(), [name], "it is still so{}", exam.said);
    assert_eq!(root.snapshot(), before, "nothing was touched{}", exam.said);
}
