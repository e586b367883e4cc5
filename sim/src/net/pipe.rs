//! One direction of a connection: what is on the wire and what waits unread behind it.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use crate::Stream;
use crate::world::Clock;

use super::link::LinkSpec;

/// Bytes a sender may have unacknowledged. Linux starts near this; small windows find more bugs.
pub(super) const WINDOW: usize = 64 * 1024;

pub(super) enum Body {
    /// Bytes, and how many of them have been read.
    Data(Vec<u8>, usize),
    Fin,
    Reset,
}

pub(super) struct Segment {
    /// When it reaches the receiver's kernel; None while a partition holds it back.
    pub(super) at: Option<Duration>,
    pub(super) body: Body,
}

pub(super) struct Pipe {
    pub(super) queue: VecDeque<Segment>,
    latency: Stream,
    /// Segments never overtake each other.
    last_at: Duration,
    /// Bytes sent and not yet acknowledged.
    pub(super) outstanding: usize,
    /// Acknowledgements on their way back: when, and for how many bytes.
    credits: VecDeque<(Option<Duration>, usize)>,
    pub(super) fin_sent: bool,
    /// When the receiver learns of a reset.
    pub(super) reset_at: Option<Duration>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// The instant for which the reader's timer is set.
    armed: Option<Duration>,
}

impl Pipe {
    pub(super) fn new(latency: Stream) -> Self {
        Pipe {
            queue: VecDeque::new(),
            latency,
            last_at: Duration::ZERO,
            outstanding: 0,
            credits: VecDeque::new(),
            fin_sent: false,
            reset_at: None,
            reader: None,
            writer: None,
            armed: None,
        }
    }

    pub(super) fn travel(&self, spec: LinkSpec) -> Duration {
        if spec.min == spec.max { spec.min } else { self.latency.duration(spec.min, spec.max) }
    }

    /// Puts a segment on the wire; it leaves at `from`. Says when it arrives, if it does.
    pub(super) fn push(
        &mut self,
        clock: &Clock,
        from: Duration,
        link: Option<LinkSpec>,
        body: Body,
    ) -> Option<Duration> {
        let at = link.map(|spec| self.arrival(from, spec));
        if let Body::Data(bytes, _) = &body {
            self.outstanding += bytes.len();
        }
        self.queue.push_back(Segment { at, body });
        if self.queue.len() == 1 {
            self.arm_reader(clock);
        }
        at
    }

    pub(super) fn arrival(&mut self, from: Duration, spec: LinkSpec) -> Duration {
        self.last_at = self.last_at.max(from + self.travel(spec));
        self.last_at
    }

    /// The receiver's end is told of a reset at `at`, behind everything sent before.
    pub(super) fn push_reset(&mut self, clock: &Clock, at: Duration) {
        if self.reset_at.is_some() {
            return;
        }
        let at = at.max(self.last_at);
        self.last_at = at;
        self.reset_at = Some(at);
        // What a partition holds back is never sent again by an end that has reset.
        self.queue.retain(|segment| segment.at.is_some());
        self.queue.push_back(Segment { at: Some(at), body: Body::Reset });
        self.arm_reader(clock);
    }

    /// Sets the reader's timer for the head of the queue.
    pub(super) fn arm_reader(&mut self, clock: &Clock) {
        let head = self.queue.front().and_then(|segment| segment.at);
        if let (Some(at), Some(waker)) = (head, &self.reader)
            && self.armed != Some(at)
        {
            clock.wake_at(at, waker);
            self.armed = Some(at);
        }
    }

    /// The reader waits.
    pub(super) fn park_reader(&mut self, clock: &Clock, waker: &Waker) {
        if !self.reader.as_ref().is_some_and(|known| known.will_wake(waker)) {
            self.reader = Some(waker.clone());
            self.armed = None;
        }
        self.arm_reader(clock);
    }

    /// The receiver has read `bytes`; the sender learns at `at`.
    pub(super) fn acknowledge(&mut self, clock: &Clock, at: Option<Duration>, bytes: usize) {
        self.credits.push_back((at, bytes));
        if let (Some(at), Some(waker)) = (at, &self.writer) {
            clock.wake_at(at, waker);
        }
    }

    /// Bytes the sender may send now.
    pub(super) fn room(&mut self, now: Duration) -> usize {
        while let Some(&(Some(at), bytes)) = self.credits.front()
            && at <= now
        {
            self.credits.pop_front();
            self.outstanding -= bytes;
        }
        WINDOW.saturating_sub(self.outstanding)
    }

    /// The sender waits for room.
    pub(super) fn park_writer(&mut self, clock: &Clock, waker: &Waker) {
        if let Some(&(Some(at), _)) = self.credits.front() {
            clock.wake_at(at, waker);
        }
        self.writer = Some(waker.clone());
    }

    /// The wire is cut: what has not arrived is held back, a reset on its way is lost.
    pub(super) fn hold(&mut self, now: Duration) {
        if self.reset_at.is_some_and(|at| at > now) {
            self.reset_at = None;
            self.queue.retain(|segment| !matches!(segment.body, Body::Reset));
        }
        for segment in self.queue.iter_mut().filter(|s| s.at.is_some_and(|at| at > now)) {
            segment.at = None;
        }
        self.armed = None;
    }

    /// Acknowledgements travel the other direction's wire.
    pub(super) fn hold_credits(&mut self, now: Duration) {
        for (at, _) in self.credits.iter_mut().filter(|(at, _)| at.is_some_and(|at| at > now)) {
            *at = None;
        }
    }

    /// The wire is mended: what was held back is sent again.
    pub(super) fn release(&mut self, clock: &Clock, spec: LinkSpec) {
        let now = clock.now();
        for i in 0..self.queue.len() {
            if self.queue[i].at.is_none() {
                self.queue[i].at = Some(self.arrival(now, spec));
            }
        }
        self.arm_reader(clock);
    }

    pub(super) fn release_credits(&mut self, clock: &Clock, latency: Duration) {
        let at = clock.now() + latency;
        let held = self.credits.iter_mut().filter(|(at, _)| at.is_none());
        if held.map(|credit| credit.0 = Some(at)).count() > 0
            && let Some(waker) = &self.writer
        {
            clock.wake_at(at, waker);
        }
    }

    /// Bytes that have arrived and wait unread.
    pub(super) fn has_unread(&self, now: Duration) -> bool {
        self.queue
            .iter()
            .any(|s| s.at.is_some_and(|at| at <= now) && matches!(s.body, Body::Data(..)))
    }

    /// When the first bytes still on the wire will arrive.
    pub(super) fn next_data(&self) -> Option<Duration> {
        let data = self.queue.iter().filter(|s| matches!(s.body, Body::Data(..)));
        data.filter_map(|s| s.at).next()
    }
}
