//! Where a path leads: to a file of a disk, on behalf of one incarnation of a process.
//!
//! `/server-1@2/booking.sqlite` is `booking.sqlite` on the disk of server-1's host, for its second
//! incarnation. Any other path, relative or absolute, means a file of the process whose task is
//! running, so code that opens plain paths works unchanged.

use super::Disk;
use crate::world::{Fence, Process, World};

pub(super) struct Place {
    pub(super) disk: Disk,
    pub(super) fence: Fence,
    pub(super) name: String,
}

impl Place {
    /// None if the path names no living incarnation.
    pub(super) fn find(world: &World, path: &str) -> Option<Place> {
        let (owner, name) = split(path)?;
        let (process, number) = owner;
        if let Some(disk) = world.inspected(process) {
            let fence = Fence::new(process.into(), 1);
            return Some(Place { disk, fence, name: name.to_owned() });
        }
        let process = world.find(process)?;
        let fence = process.fence();
        let place = || Place { disk: process.disk(), fence: fence.clone(), name: name.to_owned() };
        (fence.incarnation() == number && fence.is_up()).then(place)
    }

    /// The full form of a path.
    pub(super) fn full(path: &str) -> Option<String> {
        if split(path).is_some() {
            return Some(path.to_owned());
        }
        Process::current().map(|process| of(&process, path))
    }
}

/// The path by which SQLite finds this file again, and knows for whom.
pub(super) fn of(process: &Process, file: &str) -> String {
    let fence = process.fence();
    format!("/{}@{}/{}", fence.process(), fence.incarnation(), file.trim_start_matches('/'))
}

fn split(path: &str) -> Option<((&str, u32), &str)> {
    let (owner, name) = path.strip_prefix('/')?.split_once('/')?;
    let (process, number) = owner.rsplit_once('@')?;
    Some(((process, number.parse().ok()?), name))
}
