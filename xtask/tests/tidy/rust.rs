//! Just enough of Rust's lexical rules to tell code from comments and texts.

/// The code of a file: comments and the insides of string and character literals become spaces.
/// Positions and lines stay as they were.
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut blank = |from: usize, to: usize| {
        for byte in &mut out[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b"\n").unwrap_or(bytes.len()),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment(bytes, at),
            b'"' => quoted(bytes, at),
            b'r' if !after_word(bytes, at, b"bc") => match raw_string(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            b'\'' => match character(bytes, at) {
                Some(end) => end,
                // A lifetime.
                None => {
                    at += 1;
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        blank(at, end);
        at = end;
    }
    String::from_utf8(out).expect("whole literals were blanked, and no character was cut")
}

/// Where `word` stands as a word of its own, as byte positions.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !part(code[..*at].chars().next_back()) && !part(code[at + word.len()..].chars().next())
    })
}

/// The line of a position, from 1.
pub fn line(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|byte| *byte == b'\n').count() + 1
}

fn find(bytes: &[u8], from: usize, wanted: &[u8]) -> Option<usize> {
    let found = bytes[from..].windows(wanted.len()).position(|window| window == wanted);
    found.map(|offset| from + offset)
}

/// Is the byte at `at` the end of a longer word? `prefixes` may stand in front of a literal.
fn after_word(bytes: &[u8], at: usize, prefixes: &[u8]) -> bool {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    match at.checked_sub(1).map(|before| bytes[before]) {
        Some(byte) if prefixes.contains(&byte) => after_word(bytes, at - 1, b""),
        Some(byte) => part(byte),
        None => false,
    }
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if bytes[at..].starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn quoted(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_string(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = start + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".to_vec(), vec![b'#'; hashes]].concat();
    Some(find(bytes, open + 1, &close).map_or(bytes.len(), |at| at + close.len()))
}

/// The end of a character literal, if this is one and no lifetime.
fn character(bytes: &[u8], start: usize) -> Option<usize> {
    let next = *bytes.get(start + 1)?;
    if next == b'\\' {
        return find(bytes, start + 3, b"'").map(|at| at + 1);
    }
    let text = std::str::from_utf8(&bytes[start + 1..]).ok()?;
    let close = start + 1 + text.chars().next()?.len_utf8();
    (bytes.get(close) == Some(&b'\'')).then_some(close + 1)
}

#[test]
fn only_code_is_left() {
    let text = r##"
// static A
/* static /* nested */ B */ fn f<'a>(x: &'a str) -> char { '"' }
let c = "static \" C"; let d = r#"static " D"#; let e = '\''; let f = br"static F";
static G: u8 = b'x';
"##;
    let code = code(text);
    assert_eq!(code.len(), text.len());
    assert_eq!(words(&code, "static").map(|at| line(&code, at)).collect::<Vec<_>>(), [5]);
    assert!(code.contains("fn f<'a>(x: &'a str) -> char"), "{code}");
    assert!(code.contains("let f"), "{code}");
    assert_eq!(words("statics static_ static", "static").collect::<Vec<_>>(), [16]);
}
