//! placeholder
use crate::{
    Chance, Value,
    world::{Fence, Process},
};
#[derive(Clone, Debug)]
pub struct Disk;
pub(crate) struct Lost;
impl Lost {
    pub(crate) fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![]
    }
}
impl Disk {
    pub(crate) fn new(_: &str, _: Chance) -> Self {
        Disk
    }
    pub(crate) fn fence(&self, _: &Fence) {}
    pub(crate) fn cut_power(&self) -> Lost {
        Lost
    }
}
pub(crate) fn install() {}
pub(crate) fn begin_run() {}
impl Process {
    pub fn open_sqlite(&self, _: &str) -> rusqlite::Result<rusqlite::Connection> {
        rusqlite::Connection::open_in_memory()
    }
}
