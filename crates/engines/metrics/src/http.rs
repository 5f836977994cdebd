//! HTTP of the endpoint: one request for each connection, each with its limits.

use crate::endpoint::{Source, Unread};
use crate::exposition::{Format, exposition};
use crate::family::Family;
use crate::limits::{
    CONNECTION_TIME, KEEP_TIME, MAX_CONNECTIONS, MAX_HEADERS, MAX_REQUEST_BYTES, READ_TIME,
    REQUEST_TIME,
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, oneshot};
use tokio::time::timeout;

/// Where the figures are.
const PATH: &str = "/metrics";
/// After an error of the system's, as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers connections until it is to stop.
pub(crate) async fn serve(
    listener: TcpListener,
    source: Arc<dyn Source>,
    mut stopped: oneshot::Receiver<()>,
) {
    let pages = Arc::new(Pages {
        source,
        last: Mutex::new(None),
    });
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            // It is never closed.
            let place = Arc::clone(&room).acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        tokio::select! {
            _ = &mut stopped => return,
            (place, accepted) = next => match accepted {
                Ok((stream, _)) => {
                    let pages = Arc::clone(&pages);
                    tokio::spawn(async move {
                        let _place = place;
                        answer_one(stream, pages).await;
                    });
                }
                Err(error) => {
                    tracing::debug!("no connection for metrics: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// One request, and its answer.
async fn answer_one(stream: TcpStream, pages: Arc<Pages>) {
    let service = service_fn(move |request| {
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(pages.answer(&request).await) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(MAX_REQUEST_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(CONNECTION_TIME, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a reader of metrics: {error}"),
        Err(_) => tracing::debug!("a reader of metrics took too long"),
    }
}

/// Figures for all who ask.
struct Pages {
    source: Arc<dyn Source>,
    /// The last figures read, and when.
    last: Mutex<Option<(Instant, Vec<Family>)>>,
}

impl Pages {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if request.uri().path() != PATH {
            let text = format!("there is nothing here: the figures are at {PATH}\n");
            return plain(StatusCode::NOT_FOUND, text);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut refused = plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "they can be read only\n".to_owned(),
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allowed);
            return refused;
        }
        let accept = request.headers().get(ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        let format = Format::accepted(accept.unwrap_or_default());
        let read = match timeout(READ_TIME, self.read()).await {
            Ok(read) => read,
            Err(_) => Err(Unread(format!(
                "the figures could not be read within {} s: this process is too busy",
                READ_TIME.as_secs()
            ))),
        };
        let told = read.and_then(|families| {
            exposition(families, format)
                .map_err(|_| Unread("a figure cannot be written".to_owned()))
        });
        match told {
            Ok(told) => response(StatusCode::OK, format.content_type(), told),
            Err(unread) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{unread}\n")),
        }
    }

    /// The figures of now, or of a moment ago.
    async fn read(&self) -> Result<Vec<Family>, Unread> {
        let mut last = self.last.lock().await;
        if let Some((read, families)) = &*last
            && read.elapsed() < KEEP_TIME
        {
            return Ok(families.clone());
        }
        let source = Arc::clone(&self.source);
        let read = tokio::task::spawn_blocking(move || source.read()).await;
        let families = read.map_err(|_| Unread("reading the figures failed".to_owned()))??;
        *last = Some((Instant::now(), families.clone()));
        Ok(families)
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text)
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
