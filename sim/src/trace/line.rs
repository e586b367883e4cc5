//! An event as one line of text.
//!
//! Columns: sequence number, virtual time in seconds, process, request, run, thread, checkpoint, and
//! then what happened with its fields. `-` stands for a label that is absent.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::{Event, Value};

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let l = &self.labels;
        let checkpoint = l.checkpoint.as_deref().map_or(Cow::Borrowed("-"), short_checkpoint);
        write!(
            f,
            "{:>5} {:>4}.{:06} {:<10} {:<8} {:<8} {:<8} {:<9} {}",
            self.seq,
            self.at.as_secs(),
            self.at.subsec_micros(),
            self.process,
            or_dash(&l.request),
            short(l.run.as_deref()),
            or_dash(&l.thread),
            checkpoint,
            self.name,
        )?;
        if let Some(task) = &l.task {
            write!(f, " task={}", short(Some(task)))?;
        }
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U64(n) => n.fmt(f),
            Value::I64(n) => n.fmt(f),
            Value::Bool(b) => b.fmt(f),
            Value::Str(s) if s.is_empty() || s.contains(char::is_whitespace) => write!(f, "{s:?}"),
            Value::Str(s) => f.write_str(s),
        }
    }
}

fn or_dash(label: &Option<Arc<str>>) -> &str {
    label.as_deref().unwrap_or("-")
}

/// The first characters of an id, for a column. JSON has it whole.
fn short(id: Option<&str>) -> &str {
    let id = id.unwrap_or("-");
    id.char_indices().nth(8).map_or(id, |(at, _)| &id[..at])
}

/// A checkpoint id, short enough for a column and still distinctive.
///
/// LangGraph makes its ids as UUIDv6 with the step as clock sequence (two of its sixteen bits are
/// the UUID variant), so `1f0a...-6...-8002-...3f9c2a` reads as `2:3f9c2a`. Other ids show their tail.
fn short_checkpoint(id: &str) -> Cow<'_, str> {
    let tail = id.char_indices().rev().nth(5).map_or(id, |(at, _)| &id[at..]);
    let mut groups = id.split('-');
    let step = groups.nth(3).filter(|g| g.len() == 4 && groups.count() == 1);
    match step.and_then(|g| u16::from_str_radix(g, 16).ok()) {
        Some(bits) => {
            // Steps before the first are negative: sign-extend the 14 bits.
            let step = ((bits << 2) as i16) >> 2;
            format!("{step}:{tail}").into()
        }
        None => tail.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::short_checkpoint;
    use std::time::Duration;

    #[test]
    fn a_line_has_aligned_columns() {
        let trace = Trace::new();
        let labels = Labels::none().request("r1").thread("t1");
        let labels = labels.checkpoint("1f0b1c7a-2f30-6a1c-8002-9d0e113f9c2a");
        let fields = vec![("rows", 3u64.into()), ("why", "disk full".into())];
        trace.push(Duration::from_micros(1_002_003), "server-1", labels, "put.failed", fields);
        trace.push(Duration::ZERO, "world", Labels::none(), "net.fin", vec![]);
        let lines: Vec<String> = trace.events().iter().map(Event::to_string).collect();
        assert_eq!(
            lines,
            [
                "    0    1.002003 server-1   r1       -        t1       2:3f9c2a  put.failed rows=3 why=\"disk full\"",
                "    1    0.000000 world      -        -        -        -         net.fin",
            ]
        );
    }

    #[test]
    fn checkpoints_show_step_and_tail() {
        assert_eq!(short_checkpoint("1f0b1c7a-2f30-6a1c-bfff-9d0e113f9c2a"), "-1:3f9c2a");
        assert_eq!(short_checkpoint("checkpoint-12"), "int-12");
        assert_eq!(short_checkpoint("c1"), "c1");
    }

    #[test]
    fn the_hash_sees_every_part() {
        let hash = |at, process: &str, labels, value: Value| {
            let trace = Trace::new();
            trace.push(Duration::from_nanos(at), process, labels, "x", vec![("f", value)]);
            trace.hash()
        };
        let all = [
            hash(0, "p", Labels::none(), 1u64.into()),
            hash(1, "p", Labels::none(), 1u64.into()),
            hash(0, "q", Labels::none(), 1u64.into()),
            hash(0, "p", Labels::none().run("r"), 1u64.into()),
            hash(0, "p", Labels::none().task("r"), 1u64.into()),
            hash(0, "p", Labels::none(), 1i64.into()),
        ];
        assert_eq!(std::collections::BTreeSet::from(all).len(), all.len());
        assert_eq!(all[0], hash(0, "p", Labels::none(), 1u64.into()));
    }
}
