//! Clients and their scripts.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use durasim_models::{Browser, EffectLog, Ending, Leave as Leaving, Visit};
use durasim_runtime::graph::{Command, Resume};
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{CancelStyle, value};
use durasim_sim::World;
use futures::StreamExt;
use futures::future::{Either, select};
use serde_json::{Value as Json, json};

use super::hold::Holds;
use super::moments::wait_for;
use super::server::{Fleet, PORT};
use crate::outcome::{Glimpse, Sight};
use crate::scenario::{Client, Leave, Scenario, Shape, Step, bounds};

/// What clients report as they go; kept even when a script is cut short.
#[derive(Default)]
pub(super) struct Reports {
    pub sights: Vec<Sight>,
    pub glimpses: Vec<Glimpse>,
}

pub(super) type Reported = Arc<Mutex<Reports>>;

/// One client at work.
pub(super) struct Player {
    pub world: World,
    pub scenario: Arc<Scenario>,
    pub fleet: Fleet,
    pub holds: Holds,
    pub log: EffectLog,
    pub client: Client,
    pub reported: Reported,
}

impl Player {
    /// Plays the script to its end.
    pub async fn play(self) {
        let mut page = match self.scenario.shape {
            Shape::Inline | Shape::Background | Shape::Shielded => {
                let process = self
                    .world
                    .process(&self.client.name, &self.client.name, |_| Box::pin(async {}));
                Page::Browser(Browser::new(&process, self.fleet.front, PORT, &self.client.thread))
            }
            Shape::Direct => Page::Direct { requests: 0 },
        };
        for step in &self.client.script {
            match step {
                Step::Send { input, leave } => {
                    self.visit(&mut page, json!({ "input": input }), leave).await;
                }
                Step::Continue { leave } => {
                    self.visit(&mut page, json!({ "input": null }), leave).await;
                }
                Step::Answer { value, leave } => {
                    self.visit(&mut page, json!({ "command": { "resume": value } }), leave).await;
                }
                Step::Wait { ms } => self.world.sleep(Duration::from_millis(*ms)).await,
                Step::WaitFor { moment } => wait_for(&self.world, moment).await,
                Step::Reload => self.reload(&page).await,
                Step::Delete => self.delete(&page).await,
                Step::Hold { until } => {
                    let mine = |sight: &&Sight| sight.client == self.client.name;
                    let next = self.reports().sights.iter().filter(mine).count() + 1;
                    self.holds.hold(format!("{}.{next}", self.client.name), until.clone());
                }
            }
        }
    }

    async fn visit(&self, page: &mut Page, body: Json, leave: &Leave) {
        let leave = match *leave {
            Leave::Never => Leaving::Never,
            Leave::AfterChunk(count) => Leaving::AfterChunk(count),
            Leave::AfterMs(ms) => Leaving::After(Duration::from_millis(ms)),
            Leave::WithinMs(range) => {
                let (least, most) = bounds(range);
                let stream = self.world.chance().stream("leave", &self.client.name);
                Leaving::After(stream.duration(least, most))
            }
        };
        let visit = match page {
            Page::Browser(browser) => browser.send(body, leave).await,
            Page::Direct { requests } => {
                *requests += 1;
                let request = format!("{}.{requests}", self.client.name);
                self.hold(request.into(), body, leave).await
            }
        };
        let problem = match &visit.ending {
            Ending::Failed { error, .. } => Some(error.clone()),
            Ending::Refused { detail, .. } | Ending::Broken(detail) => Some(detail.clone()),
            Ending::Complete | Ending::Left => None,
        };
        let sight = Sight {
            client: self.client.name.clone(),
            thread: self.client.thread.clone(),
            request: visit.request.to_string(),
            chunks: visit.chunks.into_iter().map(|event| (event.name, event.data)).collect(),
            ending: visit.ending.name().to_owned(),
            problem,
        };
        self.reports().sights.push(sight);
    }

    /// The direct shape: the client is a task of the server and holds the run itself. Leaving is
    /// an orderly close in style Close, a drop in the other two.
    async fn hold(&self, request: Arc<str>, body: Json, leave: Leaving) -> Visit {
        let (process, graph) = self.fleet.direct().await;
        let scenario = self.scenario.clone();
        let config = RunConfig {
            durability: scenario.durability,
            modes: scenario.stream_modes.clone(),
            cancel: scenario.cancel,
            ..RunConfig::new(self.client.thread.as_str())
        };
        let config = config.request(request.clone()).configurable("request_id", &*request);
        let input = match (body.get("command"), body.get("input")) {
            (Some(command), _) => {
                let answer = value::from_json(command["resume"].clone());
                let resume = Some(Resume::from_value(answer));
                Input::Command(Command { resume, ..Command::new() })
            }
            (None, Some(input)) if !input.is_null() => Input::New(value::from_json(input.clone())),
            _ => Input::Resume,
        };
        let world = self.world.clone();
        let consume = async move {
            let mut run = graph.stream(input, config);
            let mut chunks = Vec::new();
            let patience = match leave {
                Leaving::After(patience) => Either::Left(world.sleep(patience)),
                _ => Either::Right(std::future::pending::<()>()),
            };
            let mut patience = pin!(patience);
            let ending = loop {
                let next = match select(run.next(), patience.as_mut()).await {
                    Either::Left((next, _)) => next,
                    Either::Right(_) => break Ending::Left,
                };
                match next {
                    None => break Ending::Complete,
                    Some(Err(error)) => {
                        let message = error.to_string();
                        break Ending::Failed { error: error.class().to_owned(), message };
                    }
                    Some(Ok(chunk)) => chunks.push((chunk.mode, value::to_json(&chunk.data))),
                }
                if leave == Leaving::AfterChunk(chunks.len() as u64) {
                    break Ending::Left;
                }
            };
            match scenario.cancel {
                CancelStyle::Close if ending == Ending::Left => {
                    let _ = run.close().await;
                }
                _ => drop(run),
            }
            (chunks, ending)
        };
        let held = process.spawn("client", consume).await;
        let (chunks, ending) =
            held.unwrap_or_else(|_| (vec![], Ending::Broken("the process died".to_owned())));
        let chunks = chunks.into_iter().map(|(mode, data)| durasim_models::browser::SseEvent {
            name: mode.name().to_owned(),
            data,
        });
        Visit { request, chunks: chunks.collect(), ending }
    }

    async fn delete(&self, page: &Page) {
        match page {
            Page::Browser(browser) => browser.delete().await,
            Page::Direct { .. } => {
                let (process, graph) = self.fleet.direct().await;
                let thread = self.client.thread.clone();
                let note = durasim_models::browser::Deletion::begin(&process, &thread);
                let deleted = graph.delete_thread(&thread).await;
                note.end(deleted.map_err(|error| error.to_string()));
            }
        }
    }

    async fn reload(&self, page: &Page) {
        let state = match page {
            Page::Browser(browser) => browser.reload().await.unwrap_or(Json::Null),
            Page::Direct { .. } => {
                let (_, graph) = self.fleet.direct().await;
                match graph.get_state(&self.client.thread, None).await {
                    Ok(snapshot) => json!({
                        "values": value::to_json(&snapshot.values.to_value()),
                        "next": snapshot.next,
                    }),
                    Err(_) => Json::Null,
                }
            }
        };
        let thread = self.client.thread.as_str();
        let rows = self.fleet.rows(self.scenario.store, &[thread]).await;
        let rows = rows.ok().and_then(|mut rows| rows.remove(thread)).unwrap_or_default();
        // Parallel tasks of one super-step have no order of their own.
        let mut executed = self.log.of_thread(&self.client.thread);
        for step in executed.chunk_by_mut(|a, b| (&a.run, a.step) == (&b.run, b.step)) {
            step.sort_by(|a, b| a.node.cmp(&b.node));
        }
        let glimpse = Glimpse {
            client: self.client.name.clone(),
            at: self.world.now(),
            state,
            checkpoints: rows.checkpoints.len(),
            writes: rows.writes.len(),
            executed: executed.iter().map(|effect| effect.label.to_string()).collect(),
        };
        self.reports().glimpses.push(glimpse);
    }

    fn reports(&self) -> std::sync::MutexGuard<'_, Reports> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Page {
    Browser(Browser),
    Direct { requests: u64 },
}
