//! A party of the user's own: a program that answers calls on the simulated network.
//!
//! It is written as one async function from a [`Call`] and knows nothing of the simulator, so that
//! a user's crate reads the same in a plain build and in a simulated one.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use durasim_runtime::doors::Io;

type Note = Arc<dyn Fn(&'static str, &str) + Send + Sync>;

/// One connection that somebody made to a model. Lines in, lines out.
pub struct Call {
    stream: BufReader<Box<dyn Io>>,
    note: Note,
}

impl Call {
    #[cfg(madsim)]
    fn new(stream: Box<dyn Io>, note: Note) -> Call {
        Call { stream: BufReader::new(stream), note }
    }

    /// The next line without its end, or `None` when the caller has hung up or is gone.
    pub async fn read_line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    /// Answers with a line. A caller that is gone does not hear it.
    pub async fn write_line(&mut self, line: &str) {
        let _ = self.stream.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// Notes in the trace that something happened here; properties read it as the event `name`
    /// with the field `what`.
    pub fn note(&self, name: &'static str, what: &str) {
        (self.note)(name, what);
    }
}

/// A registered model: where it listens and what it does.
#[derive(Clone)]
#[cfg_attr(not(madsim), expect(dead_code, reason = "a plain build starts no world"))]
pub(crate) struct Model {
    pub name: String,
    pub port: u16,
    pub answer: Arc<dyn Fn(Call) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Model {
    pub fn new<F, Fut>(name: &str, port: u16, answer: F) -> Model
    where
        F: Fn(Call) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let answer = Arc::new(move |call| -> BoxFuture<'static, ()> { Box::pin(answer(call)) });
        Model { name: name.to_owned(), port, answer }
    }

    /// Starts it as a process of the world, one task per call.
    #[cfg(madsim)]
    pub fn start(&self, world: &durasim_sim::World) {
        let model = self.clone();
        world.process(&self.name, &self.name, move |process| {
            let model = model.clone();
            Box::pin(async move {
                let listener = process.listen(model.port).expect("the port is free");
                while let Ok(stream) = listener.accept().await {
                    let noted = process.clone();
                    let note: Note = Arc::new(move |name, what| {
                        let labels = durasim_sim::Labels::none();
                        noted.note(labels, name, vec![("what", what.into())]);
                    });
                    let call = Call::new(Box::new(stream), note);
                    drop(process.spawn("call", (model.answer)(call)));
                }
            })
        });
    }
}
