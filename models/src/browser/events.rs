//! Server-sent events as a browser reads them (WHATWG HTML, section 9.2): lines, an empty line ends
//! an event.

use serde_json::Value as Json;

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct SseEvent {
    pub name: String,
    pub data: Json,
}

/// Collects bytes into events.
#[derive(Default)]
pub(super) struct SseParser {
    buffer: Vec<u8>,
}

impl SseParser {
    /// Takes bytes as they come and gives the events that are complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, String> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
            events.extend(parse(&block)?);
        }
        Ok(events)
    }
}

fn parse(block: &[u8]) -> Result<Option<SseEvent>, String> {
    let block = std::str::from_utf8(block).map_err(|error| error.to_string())?;
    let (mut name, mut data) = ("message".to_owned(), Vec::new());
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value.to_owned(),
            "data" => data.push(value),
            _ => {}
        }
    }
    if data.is_empty() {
        return Ok(None);
    }
    let data = data.join("\n");
    let json = serde_json::from_str(&data).map_err(|error| format!("{error}: {data}"))?;
    Ok(Some(SseEvent { name, data: json }))
}
