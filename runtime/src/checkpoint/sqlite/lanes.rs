//! What waits for a file, and who will look after it.

use std::collections::VecDeque;
use std::time::Duration;

use super::call::{Call, Kind};

pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Writes wait in one lane and reads in another.
#[derive(Default)]
pub(super) struct Lanes {
    pub writes: Lane,
    pub reads: Lane,
    watch: Watch,
    /// Writes wait for those that come right behind them, and somebody has promised to end that.
    is_gathering: bool,
}

/// First come, first served. A lane that pauses keeps what it has.
pub(super) struct Lane {
    pub waiting: VecDeque<Call>,
    pub is_pausing: bool,
    pub next_pause: Duration,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Watch {
    #[default]
    Nobody,
    /// A shift has begun, or is about to, and looks once more before it ends.
    AtWork,
    /// A shift that has nothing to do looks again and again.
    Lingers,
}

/// What is to be done so that what waits is looked after.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// Let who is ready come, then call [`Lanes::gathered`].
    Gathering,
    /// Begin a shift.
    Shift,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane { waiting: VecDeque::new(), is_pausing: false, next_pause: FIRST_PAUSE }
    }
}

impl Lane {
    fn take(&mut self) -> VecDeque<Call> {
        match self.is_pausing {
            true => VecDeque::new(),
            false => std::mem::take(&mut self.waiting),
        }
    }
}

impl Lanes {
    /// Queues a call behind those of its lane. The writes of a step and its checkpoint come one right
    /// after the other, so that the first one gathers, or each would have a commit of its own.
    pub fn push(&mut self, call: Call) -> Need {
        if call.kind == Kind::Read {
            self.reads.waiting.push_back(call);
            return self.need_shift();
        }
        self.writes.waiting.push_back(call);
        if self.is_gathering || self.watch == Watch::AtWork {
            return Need::Nothing;
        }
        self.is_gathering = true;
        Need::Gathering
    }

    /// Nobody is waited for any more.
    pub fn gathered(&mut self) -> Need {
        self.is_gathering = false;
        self.need_shift()
    }

    /// A pause of one of the lanes is over, or a read has come.
    pub fn need_shift(&mut self) -> Need {
        if self.is_gathering || self.watch != Watch::Nobody {
            return Need::Nothing;
        }
        self.watch = Watch::AtWork;
        Need::Shift
    }

    /// What a shift can do now: writes and reads. It lingers when there is nothing.
    pub fn take(&mut self) -> Option<(VecDeque<Call>, VecDeque<Call>)> {
        let writes = if self.is_gathering { VecDeque::new() } else { self.writes.take() };
        let reads = self.reads.take();
        let is_idle = writes.is_empty() && reads.is_empty();
        self.watch = if is_idle { Watch::Lingers } else { Watch::AtWork };
        (!is_idle).then_some((writes, reads))
    }

    pub fn end_shift(&mut self) {
        self.watch = Watch::Nobody;
    }

    /// Whoever was to meet a need is gone. Gives what has waited, to be dropped, unless somebody else
    /// will look.
    pub fn abandon(&mut self, need: Need) -> Vec<Call> {
        match need {
            Need::Nothing => return vec![],
            Need::Gathering => self.is_gathering = false,
            Need::Shift => self.watch = Watch::Nobody,
        }
        if self.is_gathering || self.watch != Watch::Nobody {
            return vec![];
        }
        self.writes.waiting.drain(..).chain(self.reads.waiting.drain(..)).collect()
    }
}
