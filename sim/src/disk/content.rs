//! The bytes of one file, as the running OS sees them and as the platter holds them.
//!
//! A process kill leaves what the OS has. A power cut leaves what was synced, plus whichever of the
//! later writes the OS happened to have written back: any subset, as writeback follows no order, and
//! one write may be torn at a sector boundary. Bytes outside a write are never damaged (what SQLite
//! calls powersafe overwrite).

use crate::Stream;

const SECTOR: u64 = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// What reads see.
    pub(super) os: Vec<u8>,
    synced: Vec<u8>,
    /// What has happened since the last sync, in order.
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Box<[u8]> },
    Truncate(u64),
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
        Content { synced: bytes.clone(), os: bytes, unsynced: Vec::new() }
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
        put(&mut self.os, offset, bytes);
        self.unsynced.push(Change::Write { offset, bytes: bytes.into() });
    }

    /// For temporary files, which no power cut brings back.
    pub(super) fn write_unlogged(&mut self, offset: u64, bytes: &[u8]) {
        put(&mut self.os, offset, bytes);
    }

    pub(super) fn truncate(&mut self, len: u64) {
        self.os.resize(len as usize, 0);
        self.unsynced.push(Change::Truncate(len));
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    pub(super) fn cut_power(&mut self, chance: &Stream) -> Lost {
        let mut lost = Lost::default();
        if self.unsynced.is_empty() {
            return lost;
        }
        // Between nothing and everything, so that both extremes are common.
        let quarters = chance.below(5);
        let torn = chance.ratio(1, 2).then(|| chance.below(self.unsynced.len() as u64));
        for (i, change) in self.unsynced.drain(..).enumerate() {
            if torn == Some(i as u64)
                && let Change::Write { offset, bytes } = &change
            {
                let end = (offset + chance.below(bytes.len().max(1) as u64)) / SECTOR * SECTOR;
                let prefix = end.saturating_sub(*offset) as usize;
                if prefix > 0 {
                    put(&mut self.synced, *offset, &bytes[..prefix]);
                    lost.torn += 1;
                } else {
                    lost.lost += 1;
                }
            } else if chance.ratio(quarters, 4) {
                change.apply(&mut self.synced);
                lost.kept += 1;
            } else {
                lost.lost += 1;
            }
        }
        self.os.clone_from(&self.synced);
        lost
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => put(to, *offset, bytes),
            Change::Truncate(len) => to.resize(*len as usize, 0),
        }
    }
}

fn put(to: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let start = offset as usize;
    let end = start + bytes.len();
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
