//! A small HTTP service over a database, used by several tests.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use durasim_sim::{BoxFuture, Labels, Process, SimStream};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Frame};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

/// A body of numbered chunks, one every so often; notes its own end.
pub struct Chunks {
    me: Process,
    label: String,
    left: u32,
    pause: Duration,
    sleep: Option<BoxFuture<'static, ()>>,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let this = &mut *self;
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(this.me.world().sleep(this.pause)));
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        this.sleep = None;
        this.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(format!("chunk {}\n", this.left))))))
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let labels = Labels::none().request(&*self.label);
        self.me.note(labels, "body.dropped", vec![("left", self.left.into())]);
    }
}

/// Serves `GET /<name>`: writes a row, then streams `chunks` chunks.
pub fn server(chunks: u32, pause: Duration) -> impl Fn(Process) -> BoxFuture<'static, ()> {
    move |me| {
        Box::pin(async move {
            let db = me.open_sqlite("app.sqlite").unwrap();
            db.pragma_update(None, "journal_mode", "wal").unwrap();
            db.pragma_update(None, "synchronous", "normal").unwrap();
            db.execute_batch("create table if not exists t (name text)").unwrap();
            let db = std::sync::Arc::new(std::sync::Mutex::new(db));
            let listener = me.listen(80).unwrap();
            loop {
                let stream = listener.accept().await.unwrap();
                let (me, db) = (me.clone(), db.clone());
                let actor = stream.label().clone();
                me.clone().spawn(&actor, async move {
                    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                        let label = request.uri().path().to_owned();
                        db.lock().unwrap().execute("insert into t values (?)", [&label]).unwrap();
                        let me = me.clone();
                        let body = Chunks { me, label, left: chunks, pause, sleep: None };
                        async move { Ok::<_, Infallible>(Response::new(body)) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        })
    }
}

pub async fn connect(me: &Process) -> std::io::Result<SimStream> {
    me.connect("server", 80).await
}

/// One request on a connection of its own; gives up after `limit` chunks. The bytes it got.
pub async fn get(me: Process, path: String, limit: usize) -> Result<usize, String> {
    let stream = connect(&me).await.map_err(|e| e.kind().to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    let driver = me.spawn("connection", async move {
        let _ = connection.await;
    });
    let request = Request::get(&path).header("host", "server").body(Empty::<Bytes>::new());
    let response = sender.send_request(request.unwrap()).await.map_err(|e| e.to_string())?;
    let mut body = response.into_body();
    let mut got = 0;
    for _ in 0..limit {
        match body.frame().await {
            None => break,
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(frame)) => got += frame.data_ref().map_or(0, Bytes::len),
        }
    }
    me.note(Labels::none().request(&*path), "client.done", vec![("bytes", got.into())]);
    drop(body);
    driver.abort();
    Ok(got)
}
