//! The listener for operators.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use manifold_config::{ExposeSecret, SecretString};
use manifold_front::Policy;
use manifold_routing::Router;
use manifold_telemetry::{Metrics, ServerSample};
use serde::Serialize;
use subtle::ConstantTimeEq;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{Service, service_fn};

use crate::status;

/// What the admin listener shows.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) router: Arc<Router>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) draining: CancellationToken,
    pub(crate) started: Instant,
    pub(crate) policy: Policy,
    /// Whether the address is one that only this machine reaches.
    pub(crate) loopback: bool,
    pub(crate) token: Option<SecretString>,
    /// The path of the endpoint, for `/status/sessions`.
    pub(crate) path: String,
}

type Answer = Response<Full<Bytes>>;

/// The listener's service.
pub(crate) fn service(
    admin: Arc<Admin>,
) -> impl Service<Request<Incoming>, Response = Answer, Error = Infallible, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    service_fn(move |request: Request<Incoming>| {
        let answer = answer(&admin, &request);
        async move { Ok(answer) }
    })
}

fn answer<B>(admin: &Admin, request: &Request<B>) -> Answer {
    let path = request.uri().path();
    let path = match path.strip_suffix('/') {
        Some(rest) if !rest.is_empty() => rest,
        _ => path,
    };
    // Probes and scrapers come by any name and without credentials.
    match (request.method(), path) {
        (&Method::GET, "/healthz") => return text(StatusCode::OK, "ok\n"),
        (&Method::GET, "/readyz") => return readyz(admin),
        (&Method::GET, "/metrics") => return metrics(admin),
        (_, "/healthz" | "/readyz" | "/metrics") => return not_allowed("GET"),
        _ => {}
    }
    if let Some(refusal) = refused(admin, request) {
        return refusal;
    }
    match (request.method(), path) {
        (&Method::GET, "/status") => json(&status::status(
            &admin.router,
            admin.started.elapsed().as_secs(),
            admin.draining.is_cancelled(),
        )),
        (&Method::GET, "/status/sessions") => json(&status::sessions(&admin.router, &admin.path)),
        (_, "/status" | "/status/sessions") => not_allowed("GET"),
        (method, path) => match restart_of(path) {
            Some(name) if method == Method::POST => restart(admin, name),
            Some(_) => not_allowed("POST"),
            None => text(StatusCode::NOT_FOUND, "not found\n"),
        },
    }
}

/// Pages and strangers learn nothing and change nothing.
fn refused<B>(admin: &Admin, request: &Request<B>) -> Option<Answer> {
    let headers = request.headers();
    if !admin.loopback {
        let Some(token) = &admin.token else {
            return Some(text(
                StatusCode::FORBIDDEN,
                "forbidden: set admin.token to use this on an address that others reach\n",
            ));
        };
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "))
            .unwrap_or_default();
        let same: bool = given
            .as_bytes()
            .ct_eq(token.expose_secret().as_bytes())
            .into();
        if !same {
            let mut answer = text(StatusCode::UNAUTHORIZED, "unauthorized\n");
            answer
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Some(answer);
        }
        return None;
    }
    let host = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => headers
            .get(header::HOST)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default(),
    };
    let page = headers.contains_key(header::ORIGIN);
    if page || !admin.policy.allows_host(host) {
        return Some(text(StatusCode::FORBIDDEN, "forbidden\n"));
    }
    None
}

fn readyz(admin: &Admin) -> Answer {
    if admin.draining.is_cancelled() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    if !admin.router.is_ready() {
        return text(
            StatusCode::SERVICE_UNAVAILABLE,
            "a required server has not been up yet\n",
        );
    }
    text(StatusCode::OK, "ready\n")
}

fn metrics(admin: &Admin) -> Answer {
    let servers: Vec<_> = admin
        .router
        .servers()
        .iter()
        .map(|server| (server.name().as_str(), server.links()))
        .collect();
    let samples: Vec<_> = servers
        .iter()
        .map(|(server, links)| {
            let logs = || links.iter().filter_map(|(link, _)| link.child());
            ServerSample {
                server,
                links: links.len(),
                stderr_lines: logs().map(|child| child.log().stderr_lines()).sum(),
                noise_lines: logs().map(|child| child.log().noise_lines()).sum(),
            }
        })
        .collect();
    match admin
        .metrics
        .scrape(admin.router.sessions().len(), &samples)
    {
        Ok(body) => with_type(StatusCode::OK, "text/plain; version=0.0.4", body.into()),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("the metrics can't be written: {error}\n"),
        ),
    }
}

/// NAME of `/servers/NAME/restart`.
fn restart_of(path: &str) -> Option<&str> {
    path.strip_prefix("/servers/")?.strip_suffix("/restart")
}

fn restart(admin: &Admin, name: &str) -> Answer {
    if admin.router.restart(name) {
        return text(StatusCode::ACCEPTED, "restarting\n");
    }
    text(StatusCode::NOT_FOUND, "no such server is enabled\n")
}

fn json<T: Serialize>(value: &T) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => with_type(StatusCode::OK, "application/json", body.into()),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("the status can't be written: {error}\n"),
        ),
    }
}

fn not_allowed(verbs: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    answer
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(verbs));
    answer
}

fn text(status: StatusCode, body: &str) -> Answer {
    with_type(
        status,
        "text/plain; charset=utf-8",
        Bytes::copy_from_slice(body.as_bytes()),
    )
}

fn with_type(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
