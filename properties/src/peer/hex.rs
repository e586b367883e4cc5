//! Bytes as text.

pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => {
            Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => Err("bytes are not written in hexadecimal digits".to_owned()),
    }
}
