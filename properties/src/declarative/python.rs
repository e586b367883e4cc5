//! Text as Python would print it, where the description of a graph depends on it.

use durasim_runtime::Value;

/// Python's `str(value)`: what the table of a conditional edge is looked up by.
pub fn python_str(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => python_repr(value),
    }
}

/// Python's `str(error)`: the message, except that a `KeyError` shows it quoted.
pub fn python_error_text(class: &str, message: &str) -> String {
    match class {
        "KeyError" => python_repr(&Value::from(message)),
        _ => message.to_owned(),
    }
}

/// Python's `repr(value)`.
pub fn python_repr(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Nil => "None".to_owned(),
        Value::Boolean(true) => "True".to_owned(),
        Value::Boolean(false) => "False".to_owned(),
        Value::F64(number) => format!("{number:?}"),
        Value::String(text) => {
            let text = text.as_str().unwrap_or_default();
            let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
            let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
            let escaped = match quote {
                '\'' => escaped.replace('\'', "\\'"),
                _ => escaped,
            };
            format!("{quote}{escaped}{quote}")
        }
        Value::Array(items) => format!("[{}]", list(items.iter().map(python_repr).collect())),
        Value::Map(entries) => {
            let entry = |(k, v): &(Value, Value)| format!("{}: {}", python_repr(k), python_repr(v));
            format!("{{{}}}", list(entries.iter().map(entry).collect()))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_python_does() {
        for (value, text) in [
            (Value::Nil, "None"),
            (Value::from(true), "True"),
            (Value::from(-3), "-3"),
            (Value::from(1.0), "1.0"),
            (Value::from("a"), "a"),
            (Value::Array(vec!["a".into(), 1.into()]), "['a', 1]"),
        ] {
            assert_eq!(python_str(&value), text);
        }
        assert_eq!(python_error_text("KeyError", "k"), "'k'");
        assert_eq!(python_error_text("ValueError", "v"), "v");
    }
}
