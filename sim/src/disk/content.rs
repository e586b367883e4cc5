//! The bytes of one file, as the running OS sees them and as the platter holds them.
//!
//! A process kill leaves what the OS has. A power cut leaves what was synced, plus whichever pages of
//! the later writes the OS happened to have written back: any subset, as writeback follows no order,
//! and one of them may be torn at a sector boundary. Bytes outside a write are never damaged (what
//! SQLite calls powersafe overwrite).
//!
//! Only the OS's view is kept whole. What the platter holds is told by the bytes that each change
//! replaced since the last sync: appending, which is what a WAL does, replaces none and so costs one
//! copy, and a sync costs nothing. A power cut, which is rare, walks the changes back.

use crate::Stream;

const SECTOR: usize = 512;
/// What an OS writes back at once.
const PAGE: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// What reads see.
    pub(super) os: Vec<u8>,
    /// What has happened since the last sync, in order.
    unsynced: Vec<Change>,
}

/// A write or a truncation, with what takes it back.
#[derive(Clone, Debug)]
struct Change {
    kind: Kind,
    /// How long the file was before.
    len_before: usize,
    /// What was there before: of a write from its offset on, of a truncation from its length on.
    replaced: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Write { offset: usize, len: usize },
    Truncate { len: usize },
}

/// What a power cut did to unsynced changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub kept: u64,
    pub lost: u64,
    pub torn: u64,
}

impl Content {
    /// Content that is wholly on the platter.
    pub(super) fn settled(bytes: Vec<u8>) -> Self {
        Content { os: bytes, unsynced: Vec::new() }
    }

    /// Copies into `buf`; the rest is zeroed. Returns how many bytes there were.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let start = (offset as usize).min(self.os.len());
        let n = buf.len().min(self.os.len() - start);
        buf[..n].copy_from_slice(&self.os[start..start + n]);
        buf[n..].fill(0);
        n
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.remember(Kind::Write { offset: offset as usize, len: bytes.len() });
        put(&mut self.os, offset as usize, bytes);
    }

    /// For temporary files, which no power cut brings back.
    pub(super) fn write_unlogged(&mut self, offset: u64, bytes: &[u8]) {
        put(&mut self.os, offset as usize, bytes);
    }

    pub(super) fn truncate(&mut self, len: u64) {
        self.remember(Kind::Truncate { len: len as usize });
        self.os.resize(len as usize, 0);
    }

    pub(super) fn sync(&mut self) {
        self.unsynced.clear();
    }

    /// Before a change is made.
    fn remember(&mut self, kind: Kind) {
        let len_before = self.os.len();
        let (start, end) = match kind {
            Kind::Write { offset, len } => (offset, offset + len),
            Kind::Truncate { len } => (len, len_before),
        };
        let replaced = self.os.get(start..end.min(len_before)).unwrap_or_default();
        self.unsynced.push(Change { kind, len_before, replaced: replaced.into() });
    }

    /// Takes a change back, and gives the bytes that it had written.
    fn undo(&mut self, change: &Change) -> Vec<u8> {
        let (written, start) = match change.kind {
            Kind::Write { offset, len } => (self.os[offset..offset + len].to_vec(), offset),
            Kind::Truncate { len } => (Vec::new(), len),
        };
        self.os.resize(change.len_before, 0);
        if !change.replaced.is_empty() {
            put(&mut self.os, start, &change.replaced);
        }
        written
    }

    pub(super) fn cut_power(&mut self, chance: &Stream) -> Lost {
        let mut lost = Lost::default();
        if self.unsynced.is_empty() {
            return lost;
        }
        let changes = std::mem::take(&mut self.unsynced);
        let mut written: Vec<_> = changes.iter().rev().map(|change| self.undo(change)).collect();
        written.reverse();
        let pieces: Vec<Piece> = changes
            .iter()
            .zip(&written)
            .flat_map(|(change, bytes)| pieces(change, bytes))
            .collect();
        // Between nothing and everything, so that both extremes are common.
        let quarters = chance.below(5);
        let torn = chance.ratio(1, 2).then(|| chance.below(pieces.len() as u64));
        for (i, piece) in pieces.iter().enumerate() {
            let kept = match *piece {
                Piece::Truncate { len } if chance.ratio(quarters, 4) => {
                    self.os.resize(len, 0);
                    true
                }
                Piece::Write { offset, bytes } if torn == Some(i as u64) => {
                    let end = offset + chance.below(bytes.len().max(1) as u64) as usize;
                    let prefix = (end / SECTOR * SECTOR).saturating_sub(offset);
                    if prefix > 0 {
                        put(&mut self.os, offset, &bytes[..prefix]);
                        lost.torn += 1;
                        continue;
                    }
                    false
                }
                Piece::Write { offset, bytes } if chance.ratio(quarters, 4) => {
                    put(&mut self.os, offset, bytes);
                    true
                }
                Piece::Truncate { .. } | Piece::Write { .. } => false,
            };
            match kept {
                true => lost.kept += 1,
                false => lost.lost += 1,
            }
        }
        lost
    }
}

/// What survives or does not as a whole: a truncation, or the part of a write in one page.
enum Piece<'a> {
    Write { offset: usize, bytes: &'a [u8] },
    Truncate { len: usize },
}

fn pieces<'a>(change: &Change, written: &'a [u8]) -> Vec<Piece<'a>> {
    let mut offset = match change.kind {
        Kind::Write { offset, .. } => offset,
        Kind::Truncate { len } => return vec![Piece::Truncate { len }],
    };
    let mut rest = written;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (bytes, after) = rest.split_at(rest.len().min(PAGE - offset % PAGE));
        pieces.push(Piece::Write { offset, bytes });
        offset += bytes.len();
        rest = after;
    }
    pieces
}

/// Files that grow past this get room for as much again as a WAL usually has, at once.
const SMALL: usize = 16 << 10;
const ROOM: usize = 512 << 10;

fn put(to: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    let end = start + bytes.len();
    if end > to.capacity() && end > SMALL {
        to.reserve(ROOM.max(2 * end) - to.len());
    }
    if start == to.len() {
        to.extend_from_slice(bytes);
        return;
    }
    if to.len() < end {
        to.resize(end, 0);
    }
    to[start..end].copy_from_slice(bytes);
}

impl std::ops::AddAssign for Lost {
    fn add_assign(&mut self, other: Self) {
        self.kept += other.kept;
        self.lost += other.lost;
        self.torn += other.torn;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chance;

    #[test]
    fn taking_back_gives_what_was_synced() {
        let mut c = Content::default();
        c.write(0, &[1; 100]);
        c.write(200, &[2; 50]);
        c.sync();
        let synced = c.os.clone();
        c.write(240, &[3; 100]);
        c.truncate(20);
        c.write(10, &[4; 20]);
        c.truncate(90);
        c.write(500, &[5; 1]);
        for change in std::mem::take(&mut c.unsynced).iter().rev() {
            c.undo(change);
        }
        assert_eq!(c.os, synced);
    }

    #[test]
    fn what_was_synced_survives_every_cut() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut c = Content::default();
            c.write(0, &[1; 1024]);
            c.sync();
            c.write(1024, &[2; 1024]);
            c.truncate(512);
            c.write(0, &[3; 10]);
            c.cut_power(&Chance::new(seed).stream("cut", "f"));
            let rest = &c.os[10..c.os.len().min(512)];
            assert!(rest.iter().all(|&b| b == 1));
            seen.insert((c.os.len(), c.os[0]));
        }
        // Every combination of kept and lost changes occurs, and tears inside the second write.
        assert!(seen.contains(&(1024, 1)) && seen.contains(&(512, 3)), "{seen:?}");
        assert!(seen.contains(&(2048, 3)) && seen.contains(&(1536, 1)), "{seen:?}");
    }
}
