//! Making a connection: a SYN there, an answer back.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::conn::{Conn, End, EndState};
use super::link::Name;
use super::pipe::Pipe;
use super::{Net, SimStream, State};
use crate::trace::{Labels, Value};
use crate::world::Fence;

/// Linux gives up after six retries of the SYN.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(127);

enum Answer {
    Accepted(SimStream, Name),
    Refused(Name),
}

impl Net {
    /// The future does nothing until polled; dropping it after the SYN closes the connection.
    pub(crate) async fn connect(
        self,
        fence: Fence,
        target: Arc<str>,
        port: u16,
    ) -> io::Result<SimStream> {
        if !fence.is_up() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let label = self.label(&fence, &target, port);
        let latency = self.inner.chance.stream("net.latency", &format!("{label}:syn"));
        let give_up = self.inner.clock.now() + CONNECT_TIMEOUT;
        let me = fence.process().clone();
        let answer = loop {
            let there = self.resolve(&target, port)?;
            self.until_up(&me, &there, give_up).await?;
            self.travel(&me, &there, &latency).await;
            if let Some(answer) = self.knock(&fence, &target, port, &label)? {
                break answer;
            }
        };
        let there = match &answer {
            Answer::Accepted(_, there) | Answer::Refused(there) => there.clone(),
        };
        // The answer may be lost on its way as well.
        self.until_up(&there, &me, give_up).await?;
        self.travel(&there, &me, &latency).await;
        match answer {
            Answer::Accepted(stream, _) => {
                self.note("net.connected", &fence, &label);
                Ok(stream)
            }
            Answer::Refused(_) => {
                self.note("net.refused", &fence, &label);
                Err(io::ErrorKind::ConnectionRefused.into())
            }
        }
    }

    fn note(&self, name: &'static str, fence: &Fence, label: &Arc<str>) {
        if fence.is_up() {
            let fields = vec![("conn", Value::from(label))];
            let now = self.inner.clock.now();
            self.inner.trace.push(now, fence.process().clone(), Labels::none(), name, fields);
        }
    }

    /// `client-1>server-1:80#0`: who, whom, and the how-many-th try of these.
    fn label(&self, fence: &Fence, target: &Arc<str>, port: u16) -> Arc<str> {
        let key = (fence.process().clone(), target.clone(), port);
        let mut state = self.lock();
        let tried = state.tried.entry(key).or_default();
        let label = format!("{}>{target}:{port}#{tried}", fence.process());
        *tried += 1;
        label.into()
    }

    /// The process that a name means: itself, or whichever process of the host listens there.
    fn resolve(&self, target: &Arc<str>, port: u16) -> io::Result<Name> {
        let state = self.lock();
        if state.processes.contains_key(target) {
            return Ok(target.clone());
        }
        let on_host = || state.processes.iter().filter(|(_, p)| p.host == *target);
        let listening =
            on_host().find(|(name, _)| state.listeners.contains_key(&((*name).clone(), port)));
        let found = listening.or_else(|| on_host().next()).map(|(name, _)| name.clone());
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("no host {target:?}"));
        found.ok_or_else(unknown)
    }

    async fn travel(&self, from: &Name, to: &Name, latency: &crate::Stream) {
        let spec = self.lock().links.spec(from, to);
        let time = match spec.min == spec.max {
            true => spec.min,
            false => latency.duration(spec.min, spec.max),
        };
        self.inner.clock.sleep(time).await;
    }

    async fn until_up(&self, from: &Name, to: &Name, give_up: Duration) -> io::Result<()> {
        let mut armed = false;
        poll_fn(|cx| {
            let mut state = self.lock();
            let off = |name: &Name, state: &State| state.processes.get(name).is_none_or(|p| p.off);
            if state.links.is_up(from, to) && !off(from, &state) && !off(to, &state) {
                return Poll::Ready(Ok(()));
            }
            if self.inner.clock.now() >= give_up {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            state.waiting.push(cx.waker().clone());
            if !std::mem::replace(&mut armed, true) {
                self.inner.clock.wake_at(give_up, cx.waker());
            }
            Poll::Pending
        })
        .await
    }

    /// The SYN has arrived. None if there is no kernel left to answer.
    fn knock(
        &self,
        fence: &Fence,
        target: &Arc<str>,
        port: u16,
        label: &Arc<str>,
    ) -> io::Result<Option<Answer>> {
        let there = self.resolve(target, port)?;
        let mut state = self.lock();
        let me = fence.process();
        if state.processes.get(&there).is_none_or(|p| p.off) || !state.links.is_up(me, &there) {
            return Ok(None);
        }
        let id = state.next_conn;
        let Some(backlog) = state.listeners.get_mut(&(there.clone(), port)) else {
            return Ok(Some(Answer::Refused(there)));
        };
        backlog.ready.push_back((id, me.clone()));
        let (server, waker) = (backlog.fence.clone(), backlog.waker.take());
        state.next_conn += 1;
        let end = |fence: &Fence, accepted| End {
            fence: fence.clone(),
            state: EndState::Open,
            reset_told: false,
            accepted,
        };
        let pipe = |direction: &str| {
            let actor = format!("{label}:{direction}");
            Pipe::new(self.inner.chance.stream("net.latency", &actor))
        };
        let ends = [end(fence, true), end(&server, false)];
        let conn = Conn { label: label.clone(), ends, pipes: [pipe("up"), pipe("down")] };
        state.conns.insert(id, conn);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        let (net, fence, label) = (self.clone(), fence.clone(), label.clone());
        let stream = SimStream { net, fence, id, end: 0, label, peer: there.clone() };
        Ok(Some(Answer::Accepted(stream, there)))
    }
}
