//! The eight modes of a table lock, and which of them exclude each other.
//! <https://www.postgresql.org/docs/15/explicit-locking.html#LOCKING-TABLES>

/// From the weakest to the strongest. Locks on anything but tables use `Share` and `Exclusive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

impl Mode {
    /// The documentation's table has a cross for (held, requested) in these places; the table is
    /// symmetric.
    pub fn conflicts(self, other: Mode) -> bool {
        use Mode::*;
        let (weak, strong) = if self <= other { (self, other) } else { (other, self) };
        match (weak, strong) {
            (_, AccessExclusive) => true,
            (AccessShare, _) => false,
            (_, Exclusive) => true,
            (RowShare, _) => false,
            (RowExclusive, Share | ShareRowExclusive) => true,
            (RowExclusive, _) => false,
            (Share, Share) => false,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{self, *};

    /// The rows of the documentation's table, a cross for each conflict.
    #[test]
    fn modes_conflict_as_documented() {
        const MODES: [Mode; 8] = [
            AccessShare,
            RowShare,
            RowExclusive,
            ShareUpdateExclusive,
            Share,
            ShareRowExclusive,
            Exclusive,
            AccessExclusive,
        ];
        const DOCUMENTED: [&str; 8] = [
            ".......x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx",
            "xxxxxxxx",
        ];
        for (held, row) in MODES.iter().zip(DOCUMENTED) {
            let crosses = MODES.iter().map(|mode| if held.conflicts(*mode) { 'x' } else { '.' });
            assert_eq!(crosses.collect::<String>(), row, "{held:?}");
        }
    }
}
