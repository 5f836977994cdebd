//! HTTP to the collector: one request on a connection of its own, within a time.

use crate::limits::MAX_ANSWER_BYTES;
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Where `http:` is, unless an address says otherwise.
const HTTP_PORT: u16 = 80;

/// The last error: the library that asks says no more than that there was one.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }
}

/// The library's way to the collector.
#[derive(Debug)]
pub(crate) struct Collector {
    /// For connecting, sending and the answer together.
    pub time: Duration,
    pub last_error: LastError,
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = match timeout(self.time, send(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {:?}", self.time).into()),
        };
        if let Err(error) = &answer {
            self.last_error.set(error.to_string());
        }
        answer
    }
}

async fn send(request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut head, body) = request.into_parts();
    let host = head.uri.host().ok_or("an address without a host")?;
    let port = head.uri.port_u16().unwrap_or(HTTP_PORT);
    let name = HeaderValue::from_str(&format!("{host}:{port}"))?;
    // An IPv6 address is in brackets there and nowhere else.
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((plain, port)).await?;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse::<Uri>()?;
    head.headers.insert(HOST, name);
    let request = Request::from_parts(head, Full::new(body));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await?;
    // It has an end with the answer's.
    connection.abort();
    Ok(Response::from_parts(head, body.to_bytes()))
}
