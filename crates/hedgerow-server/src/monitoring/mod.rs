//! The numbers of a running server: `/metrics` for Prometheus, and a page with its data.
//!
//! | path | |
//! |---|---|
//! | `/` | the page: one file, which asks for the data each second |
//! | `/status.json` | the data of the page |
//! | `/metrics` | the text format of Prometheus, version 0.0.4 |
//!
//! It has an address of its own, since whoever may look at numbers is not always a client. A
//! request reads counters in memory; it costs no I/O.

mod prometheus;
mod status;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::serve::next_of;
use crate::server::Server;

const PAGE: &str = include_str!("page.html");
/// The connections at once; more wait.
const CONNECTIONS_MAX: usize = 32;
/// The time that a client has for the head of its request.
const HEAD_SECONDS: u64 = 10;

/// Answers until the server ends.
pub(crate) async fn run(server: Arc<Server>, listener: TcpListener) {
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else {
            return;
        };
        let (stream, server) = (next_of(Some(&listener)).await, server.clone());
        tokio::spawn(async move {
            serve(server, stream).await;
            drop(permit);
        });
    }
}

async fn serve(server: Arc<Server>, stream: TcpStream) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(answer(&server, &request)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(HEAD_SECONDS))
        .serve_connection(TokioIo::new(stream), answer);
    // The other side is gone, or has sent what is no request; there is nobody to tell.
    let _ = served.await;
}

fn answer(server: &Server, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let collected = |text: fn(&Server) -> String| tokio::task::block_in_place(|| text(server));
    let (status, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => (StatusCode::OK, "text/html; charset=utf-8", PAGE.to_owned()),
        (&Method::GET, "/status.json") => {
            let text = collected(status::text);
            (StatusCode::OK, "application/json", text)
        }
        (&Method::GET, "/metrics") => {
            let text = collected(prometheus::text);
            (StatusCode::OK, "text/plain; version=0.0.4", text)
        }
        _ => {
            let text = "expected GET of /, /status.json or /metrics\n".to_owned();
            (StatusCode::NOT_FOUND, "text/plain", text)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
