//! The first layer that may say no: Host and Origin.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::Either;
use http::{Request, Response, header};
use tower::{Layer, Service};

use crate::{body::Body, error::Refusal, policy::Policy};

/// Refuses requests for other hosts and from foreign pages.
#[derive(Debug, Clone)]
pub(crate) struct GuardLayer(pub(crate) Arc<Policy>);

/// See [`GuardLayer`].
#[derive(Debug, Clone)]
pub(crate) struct Guard<S> {
    inner: S,
    policy: Arc<Policy>,
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Guard {
            inner,
            policy: self.0.clone(),
        }
    }
}

impl<S, B> Service<Request<B>> for Guard<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match check(&self.policy, &request) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(refusal) => Either::Right(ready(Ok(refusal.respond(None)))),
        }
    }
}

fn check<B>(policy: &Policy, request: &Request<B>) -> Result<(), Refusal> {
    let headers = request.headers();
    // HTTP/2 has the host in the URI, HTTP/1 in one header; a second one would be somebody's trick.
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (request.uri().authority(), hosts.next()) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(host)) => host.to_str().unwrap_or_default(),
        (None, None) => "",
    };
    if hosts.next().is_some() || !policy.allows_host(host) {
        return Err(Refusal::Host {
            host: host.chars().take(255).collect(),
            served: policy.describe_hosts(),
        });
    }
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        if !policy.allows_origin(origin) {
            return Err(Refusal::Origin(origin.chars().take(255).collect()));
        }
    }
    Ok(())
}
