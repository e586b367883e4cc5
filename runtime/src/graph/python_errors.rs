//! Which of Python's built-in exceptions is derived from which. Stored records and retry policies
//! name errors by class.

/// Is `class` the class `base`, or derived from it? A class that Python does not have built in
/// counts as derived from `Exception` only.
pub(crate) fn is_a(class: &str, base: &str) -> bool {
    let mut class = class;
    loop {
        if class == base {
            return true;
        }
        match parent(class) {
            Some(next) => class = next,
            None => return false,
        }
    }
}

/// The base of a class, after the hierarchy in Python's library reference ("Built-in Exceptions").
fn parent(class: &str) -> Option<&'static str> {
    Some(match class {
        "BaseException" => return None,
        "Exception" | "KeyboardInterrupt" | "SystemExit" | "GeneratorExit" | "CancelledError" => {
            "BaseException"
        }
        "FloatingPointError" | "OverflowError" | "ZeroDivisionError" => "ArithmeticError",
        "ModuleNotFoundError" => "ImportError",
        "IndexError" | "KeyError" => "LookupError",
        "UnboundLocalError" => "NameError",
        "BlockingIOError" | "ChildProcessError" | "ConnectionError" | "FileExistsError"
        | "FileNotFoundError" | "InterruptedError" | "IsADirectoryError" | "NotADirectoryError"
        | "PermissionError" | "ProcessLookupError" | "TimeoutError" => "OSError",
        "BrokenPipeError"
        | "ConnectionAbortedError"
        | "ConnectionRefusedError"
        | "ConnectionResetError" => "ConnectionError",
        "NotImplementedError" | "RecursionError" => "RuntimeError",
        "IndentationError" => "SyntaxError",
        "TabError" => "IndentationError",
        "JSONDecodeError" | "UnicodeError" => "ValueError",
        // pydantic's.
        "ValidationError" => "ValueError",
        // Our own: a state that does not fit its reader's types.
        "StateError" => "TypeError",
        "UnicodeDecodeError" | "UnicodeEncodeError" | "UnicodeTranslateError" => "UnicodeError",
        // LangGraph's own.
        "GraphRecursionError" => "RecursionError",
        _ => "Exception",
    })
}

#[cfg(test)]
mod tests {
    use super::is_a;

    #[test]
    fn follows_pythons_hierarchy() {
        assert!(is_a("ConnectionResetError", "OSError"));
        assert!(is_a("KeyError", "LookupError"));
        assert!(is_a("MyOwnError", "Exception"));
        assert!(!is_a("MyOwnError", "ValueError"));
        assert!(!is_a("ValueError", "KeyError"));
        assert!(!is_a("CancelledError", "Exception"));
        // So that the default retry policy covers it.
        assert!(!is_a("NodeTimeoutError", "OSError"));
    }
}
