//! A SQLite file, read without SQLite, so that the judge shares nothing with the path that wrote it.
//!
//! What is read is what a connection that opens the file now would see: the pages of the file,
//! overlaid with those of the WAL up to its last whole commit. The layout is that of
//! <https://www.sqlite.org/fileformat2.html>; the numbers in brackets below are its sections. Only
//! tables with a rowid are read, in rowid order, and values as they are stored: a whole number in a
//! column declared REAL is still an integer. Asking SQLite instead costs a copy of the file, a
//! connection and half a dozen statements, which is a good part of a small run.

mod checksum;

use std::borrow::Cow;
use std::collections::BTreeMap;

use checksum::Checksum;

/// A database as it stands.
pub(super) struct Database<'a> {
    file: &'a [u8],
    /// Newest committed pages of the WAL, by number.
    wal: BTreeMap<u32, &'a [u8]>,
    page_size: usize,
    /// Without what extensions reserved at the end of each page.
    usable: usize,
}

/// The value of one column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'r> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'r str),
    Blob(&'r [u8]),
}

impl<'r> Cell<'r> {
    pub fn text(self) -> Result<&'r str, String> {
        match self {
            Cell::Text(text) => Ok(text),
            other => Err(format!("a text was expected and {other:?} found")),
        }
    }

    pub fn bytes(self) -> Result<&'r [u8], String> {
        match self {
            Cell::Text(text) => Ok(text.as_bytes()),
            Cell::Blob(bytes) => Ok(bytes),
            other => Err(format!("bytes were expected and {other:?} found")),
        }
    }

    pub fn integer(self) -> Result<i64, String> {
        match self {
            Cell::Integer(number) => Ok(number),
            other => Err(format!("a number was expected and {other:?} found")),
        }
    }
}

/// Where a table is, and the names of its columns in order.
pub(super) struct Table {
    root: u32,
    columns: Vec<String>,
}

impl Table {
    pub fn column(&self, name: &str) -> Result<usize, String> {
        let at = self.columns.iter().position(|column| column == name);
        at.ok_or_else(|| format!("there is no column {name}"))
    }
}

/// Deeper than any tree of 2^32 pages; a damaged file may have a ring.
const MAX_DEPTH: usize = 32;
const ROOT_OF_SCHEMA: u32 = 1;

impl<'a> Database<'a> {
    /// None for an empty file, which is a database without tables.
    pub fn open(file: &'a [u8], wal: &'a [u8], journal: &'a [u8]) -> Result<Option<Self>, String> {
        // SQLite empties or deletes a journal that is over. One with bytes has to be rolled back.
        if !journal.is_empty() {
            return Err("a rollback journal waits for its recovery".to_owned());
        }
        if file.is_empty() && wal.is_empty() {
            return Ok(None);
        }
        let mut database = Database { file, wal: BTreeMap::new(), page_size: 0, usable: 0 };
        database.read_header(wal).ok_or("the head of the file is damaged")?;
        Ok(Some(database))
    }

    /// The header of the database [1.3]. It stands on page 1, which may be in the WAL alone.
    fn read_header(&mut self, wal: &'a [u8]) -> Option<()> {
        // Bytes 18 and 19 are 2 in WAL mode; otherwise a WAL is a stray left behind.
        if self.file.is_empty() || self.file.get(18..20)? == [2, 2] {
            self.read_wal(wal);
        }
        let head = self.wal.get(&1).copied().unwrap_or(self.file);
        if head.is_empty() {
            // A WAL without a commit beside an empty file.
            return Some(());
        }
        self.page_size = match u16_at(head, 16)? {
            1 => 65536,
            size => usize::from(size),
        };
        let text_is_utf8 = u32_at(head, 56)? <= 1;
        self.usable = self.page_size.checked_sub(usize::from(*head.get(20)?))?;
        (head.starts_with(b"SQLite format 3\0") && self.usable >= 480 && text_is_utf8).then_some(())
    }

    /// The WAL [4]: frames count while salts and running checksums fit, up to the last commit.
    fn read_wal(&mut self, wal: &'a [u8]) -> Option<()> {
        let big_endian = match u32_at(wal, 0)? {
            0x377f_0682 => false,
            0x377f_0683 => true,
            _ => return None,
        };
        let page_size = u32_at(wal, 8)? as usize;
        let salts = wal.get(16..24)?;
        let mut sum = Checksum::new(big_endian);
        sum.add(wal.get(..24)?);
        if page_size < 512 || !sum.is(wal.get(24..32)?) {
            return None;
        }
        let mut since_commit = Vec::new();
        for frame in wal[32..].chunks_exact(24 + page_size) {
            let (head, page) = frame.split_at(24);
            sum.add(&head[..8]);
            sum.add(page);
            if head[8..16] != *salts || !sum.is(&head[16..24]) {
                break;
            }
            since_commit.push((u32_at(head, 0)?, page));
            if u32_at(head, 4)? != 0 {
                self.wal.extend(since_commit.drain(..));
            }
        }
        Some(())
    }

    fn page(&self, number: u32) -> Option<&'a [u8]> {
        if let Some(page) = self.wal.get(&number) {
            return Some(page);
        }
        let start = (number as usize).checked_sub(1)?.checked_mul(self.page_size)?;
        self.file.get(start..start + self.page_size)
    }

    /// The table of this name, from the schema table [2.6].
    pub fn table(&self, name: &str) -> Result<Option<Table>, String> {
        let mut found = None;
        if self.page_size == 0 {
            return Ok(None);
        }
        self.walk(ROOT_OF_SCHEMA, &mut |row| {
            let [Cell::Text("table"), Cell::Text(known), _, Cell::Integer(root), Cell::Text(sql)] =
                *row
            else {
                return Ok(());
            };
            if known == name {
                let root = u32::try_from(root).map_err(|_| format!("{name} has no root"))?;
                found = Some(Table { root, columns: columns(sql) });
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Gives each row of a table, in rowid order.
    pub fn rows(
        &self,
        table: &Table,
        row: &mut dyn FnMut(&[Cell<'_>]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.walk(table.root, row)
    }

    fn walk(&self, root: u32, row: &mut Visit<'_>) -> Result<(), String> {
        self.walk_tree(root, 0, row).unwrap_or_else(|| Err(format!("the tree {root} is damaged")))
    }

    /// A table's tree [1.6]. None when it is damaged, an error when the visitor gives one.
    fn walk_tree(
        &self,
        number: u32,
        depth: usize,
        row: &mut Visit<'_>,
    ) -> Option<Result<(), String>> {
        let page = self.page(number).filter(|_| depth < MAX_DEPTH)?;
        let start = if number == 1 { 100 } else { 0 };
        let kind = *page.get(start)?;
        let cells = usize::from(u16_at(page, start + 3)?);
        let pointers = start + if kind == INTERIOR { 12 } else { 8 };
        for nth in 0..cells {
            let at = usize::from(u16_at(page, pointers + 2 * nth)?);
            let done = match kind {
                INTERIOR => self.walk_tree(u32_at(page, at)?, depth + 1, row)?,
                LEAF => {
                    let payload = self.payload(page, at)?;
                    row(&record(&payload)?)
                }
                _ => return None,
            };
            if done.is_err() {
                return Some(done);
            }
        }
        match kind {
            INTERIOR => self.walk_tree(u32_at(page, start + 8)?, depth + 1, row),
            LEAF => Some(Ok(())),
            _ => None,
        }
    }

    /// The payload of a leaf's cell, with its overflow pages [1.6, 1.7].
    fn payload(&self, page: &'a [u8], mut at: usize) -> Option<Cow<'a, [u8]>> {
        let length = usize::try_from(varint(page, &mut at)?).ok()?;
        let _rowid = varint(page, &mut at)?;
        let most = self.usable - 35;
        if length <= most {
            return page.get(at..at.checked_add(length)?).map(Cow::Borrowed);
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let fitting = least + (length - least) % (self.usable - 4);
        let local = if fitting <= most { fitting } else { least };
        // A damaged length must not follow a ring of pages for ever.
        if length > self.file.len() + self.wal.len() * self.page_size {
            return None;
        }
        let mut payload = page.get(at..at + local)?.to_vec();
        let mut next = u32_at(page, at + local)?;
        while payload.len() < length {
            let page = self.page(next)?;
            let more = (length - payload.len()).min(self.usable - 4);
            payload.extend_from_slice(page.get(4..4 + more)?);
            next = u32_at(page, 0)?;
        }
        Some(Cow::Owned(payload))
    }
}

type Visit<'v> = dyn FnMut(&[Cell<'_>]) -> Result<(), String> + 'v;

const INTERIOR: u8 = 5;
const LEAF: u8 = 13;

/// A record [2.1]: the types of all columns, then their values.
fn record(payload: &[u8]) -> Option<Vec<Cell<'_>>> {
    let mut at = 0;
    let head = usize::try_from(varint(payload, &mut at)?).ok()?;
    let mut value = head;
    let mut cells = Vec::with_capacity(8);
    while at < head {
        let kind = varint(payload, &mut at)?;
        let length = match kind {
            0..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            8 | 9 => 0,
            10 | 11 => return None,
            _ => usize::try_from((kind - 12) / 2).ok()?,
        };
        let bytes = payload.get(value..value.checked_add(length)?)?;
        value += length;
        cells.push(match kind {
            0 => Cell::Null,
            1..=6 => {
                let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
                Cell::Integer(bytes.iter().fold(sign, |n, &byte| n << 8 | i64::from(byte)))
            }
            7 => Cell::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
            8 | 9 => Cell::Integer(kind as i64 - 8),
            _ if kind % 2 == 0 => Cell::Blob(bytes),
            _ => Cell::Text(std::str::from_utf8(bytes).ok()?),
        });
    }
    Some(cells)
}

/// The names of the columns in a `CREATE TABLE`: the first word of each of its parts. Constraints
/// come after all columns and do no harm.
fn columns(sql: &str) -> Vec<String> {
    let inside = sql.split_once('(').map_or("", |(_, inside)| inside);
    let first = |part: &str| part.split_whitespace().next().unwrap_or_default().to_owned();
    inside.split(',').map(first).collect()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A variable-length integer [1.6]: seven bits a byte, and all eight of the ninth.
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for nth in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if nth == 8 {
            return Some(number << 8 | u64::from(byte));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use durasim_sim::{RunOptions, World};
    use rusqlite::Connection;
    use rusqlite::types::ValueRef;

    use super::*;

    const FILE: &str = "a.sqlite";

    /// All rows of table `t` as SQLite tells them, from a copy of the files.
    fn told(world: &World) -> Vec<String> {
        let db = world.inspect_sqlite("box", FILE).unwrap();
        let mut select = db.prepare("select * from t order by rowid").unwrap();
        let rows = select.query_map([], |row| {
            let cells = (0..5).map(|at| match row.get_ref_unwrap(at) {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(n) => Cell::Integer(n),
                ValueRef::Real(x) => Cell::Real(x),
                ValueRef::Text(text) => Cell::Text(std::str::from_utf8(text).unwrap()),
                ValueRef::Blob(bytes) => Cell::Blob(bytes),
            });
            Ok(format!("{:?}", cells.collect::<Vec<_>>()))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    fn read(world: &World) -> Result<Vec<String>, String> {
        let bytes = |suffix| world.disk("box").read(&format!("{FILE}{suffix}")).unwrap_or_default();
        let (file, wal, journal) = (bytes(""), bytes("-wal"), bytes("-journal"));
        let mut rows = Vec::new();
        let Some(db) = Database::open(&file, &wal, &journal)? else { return Ok(rows) };
        let Some(table) = db.table("t")? else { return Ok(rows) };
        assert_eq!(table.column("d"), Ok(3));
        db.rows(&table, &mut |row| {
            rows.push(format!("{row:?}"));
            Ok(())
        })?;
        Ok(rows)
    }

    /// Runs `play` with an open database, in a world.
    fn in_world(play: impl Fn(&World, Connection) + Send + 'static) {
        let finished = durasim_sim::run(1, RunOptions::default(), move |world| {
            Box::pin(async move {
                let process = world.process("box", "box", |_| Box::pin(async {}));
                play(&world, process.open_sqlite(FILE).unwrap());
            })
        });
        finished.value.unwrap();
    }

    const FILL: &str = "
        create table other (x);
        create table t (a integer, b text not null default '', c blob, d, e, primary key (a, b));
        with recursive n(i) as (values (0) union all select i + 1 from n where i < 400)
        insert into t select (i - 200) * (1 << (i % 60)), printf('%*c', i % 50, 'x'),
            zeroblob(i * i % 9000), case i % 3 when 0 then null when 1 then i / 7.0 else 'ü' || i end,
            i from n;
        delete from t where a % 5 = 0;";

    #[test]
    fn rows_are_as_sqlite_tells_them() {
        for setting in ["page_size = 512", "page_size = 4096", "page_size = 65536"] {
            in_world(move |world, db| {
                assert_eq!(read(world), Ok(vec![]), "an empty file");
                db.execute_batch(&format!("pragma {setting}; pragma cache_size = 10")).unwrap();
                db.execute_batch("pragma journal_mode = wal").unwrap();
                assert_eq!(read(world), Ok(vec![]), "no table");
                db.execute_batch(FILL).unwrap();
                assert!(told(world).len() > 300 && read(world) == Ok(told(world)), "in the WAL");
                db.execute_batch("begin; update t set d = 'lost'").unwrap();
                assert_eq!(read(world), Ok(told(world)), "spilled, not committed");
                db.execute_batch("commit; pragma wal_checkpoint").unwrap();
                assert_eq!(read(world), Ok(told(world)), "moved out of the WAL");
                db.execute_batch("update t set d = a where a > 0").unwrap();
                assert_eq!(read(world), Ok(told(world)), "in a WAL that began anew");
                let told = told(world);
                db.execute_batch("pragma journal_mode = delete").unwrap();
                assert_eq!(read(world), Ok(told), "without a WAL");
            });
        }
    }

    #[test]
    fn damage_is_told_and_never_panics() {
        in_world(|world, db| {
            db.execute_batch(FILL).unwrap();
            let file = world.disk("box").read(FILE).unwrap();
            let whole = read(world).unwrap();
            let mut told = 0;
            for at in (0..file.len()).step_by(file.len() / 60) {
                let mut damaged = file.clone();
                damaged[at] ^= 0xff;
                world.disk("box").install(FILE, damaged);
                told += usize::from(read(world).is_err());
            }
            assert!(told > 0);
            world.disk("box").install(FILE, file[..file.len() / 2].to_vec());
            assert!(read(world).is_err());
            world.disk("box").install(FILE, file);
            assert_eq!(read(world), Ok(whole));
            world.disk("box").install(&format!("{FILE}-journal"), vec![1]);
            assert!(read(world).is_err());
        });
    }
}
