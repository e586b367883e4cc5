//! Finds where two traces differ.

use std::fmt;

use serde_json::Value as Json;

/// One place at which the run left something else than was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Keys and positions from the root of the trace.
    pub path: String,
    /// What was recorded there; `None` when nothing was.
    pub recorded: Option<String>,
    pub observed: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
        let (recorded, observed) = (text(&self.recorded), text(&self.observed));
        write!(f, "{}: recorded {recorded}, observed {observed}", self.path)
    }
}

/// All differences, except at and under the `excused` paths. The order of keys means nothing, that
/// of lists does.
pub(super) fn compare(recorded: &Json, observed: &Json, excused: &[String]) -> Vec<Difference> {
    // A recorded path may end in a note, as in `/a/b(len 1/2)`.
    let excused = excused.iter().map(|path| path.split('(').next().unwrap_or_default());
    let mut finder = Finder { excused: excused.collect(), found: Vec::new() };
    finder.walk("", Some(recorded), Some(observed));
    finder.found
}

struct Finder<'a> {
    excused: Vec<&'a str>,
    found: Vec<Difference>,
}

impl Finder<'_> {
    fn walk(&mut self, path: &str, recorded: Option<&Json>, observed: Option<&Json>) {
        if recorded == observed || self.is_excused(path) {
            return;
        }
        match (recorded, observed) {
            (Some(Json::Object(recorded)), Some(Json::Object(observed))) => {
                let new = observed.keys().filter(|key| !recorded.contains_key(*key));
                for key in recorded.keys().chain(new) {
                    self.walk(&format!("{path}/{key}"), recorded.get(key), observed.get(key));
                }
            }
            (Some(Json::Array(recorded)), Some(Json::Array(observed))) => {
                for position in 0..recorded.len().max(observed.len()) {
                    let path = format!("{path}/{position}");
                    self.walk(&path, recorded.get(position), observed.get(position));
                }
            }
            _ => self.found.push(Difference {
                path: path.to_owned(),
                recorded: recorded.map(Json::to_string),
                observed: observed.map(Json::to_string),
            }),
        }
    }

    fn is_excused(&self, path: &str) -> bool {
        self.excused.iter().any(|excused| {
            path.strip_prefix(excused).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_the_places_that_differ() {
        let recorded = json!({ "a": [1, 2], "b": { "c": 1 } });
        assert_eq!(compare(&recorded, &json!({ "b": { "c": 1 }, "a": [1, 2] }), &[]), []);
        let observed = json!({ "a": [1], "b": { "c": 2, "d": 3 } });
        let found = compare(&recorded, &observed, &[]);
        let paths: Vec<&str> = found.iter().map(|d| d.path.as_str()).collect();
        assert_eq!(paths, ["/a/1", "/b/c", "/b/d"]);
        let excused = ["/a(len 2/1)".to_owned(), "/b/c".to_owned(), "/b/d".to_owned()];
        assert_eq!(compare(&recorded, &observed, &excused), []);
    }
}
