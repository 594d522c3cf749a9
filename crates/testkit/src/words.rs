//! What test programs of their own are told. Beside their own flags they take those of libtest, since `cargo test` gives the same words to
//! every test program.

/// Flags of libtest that are followed by a value.
const WITH_VALUE: [&str; 7] =
    ["--test-threads", "--format", "--color", "--logfile", "--shuffle-seed", "-Z", "--report-time"];

/// What is wanted of such a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Its test, with the values of its own flags in the order in which they were given.
    Test(Vec<(String, String)>),
    /// A list of its tests.
    List,
    /// Something else: a filter that doesn't fit.
    Nothing,
}

/// Reads the words of a program whose one test is called `name` and which has these `flags`, each with a value.
pub fn read(words: impl IntoIterator<Item = String>, name: &str, flags: &[&str]) -> Result<Wanted, String> {
    let mut words = words.into_iter();
    let (mut own, mut list, mut exact) = (Vec::new(), false, false);
    let (mut filters, mut skipped) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let (flag, given) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
            _ => (word, None),
        };
        let mut value = || given.clone().or_else(|| words.next()).ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "--skip" => skipped.push(value()?),
            "--list" => list = true,
            "--exact" => exact = true,
            _ if flags.contains(&flag.as_str()) => {
                let value = value()?;
                own.push((flag, value));
            }
            _ if WITH_VALUE.contains(&flag.as_str()) => drop(value()?),
            _ if flag.starts_with('-') => {}
            _ => filters.push(flag),
        }
    }
    let matches = |filter: &String| if exact { name == filter } else { name.contains(filter.as_str()) };
    if list {
        return Ok(Wanted::List);
    }
    if skipped.iter().any(matches) || (!filters.is_empty() && !filters.iter().any(matches)) {
        return Ok(Wanted::Nothing);
    }
    Ok(Wanted::Test(own))
}

/// A number that a flag was given.
pub fn number<T: std::str::FromStr>(flag: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{flag} needs a number, not {text:?}"))
}
