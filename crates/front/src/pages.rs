//! CORS is for pages: a request without an Origin is not from one, and goes past that layer.

use std::task::{Context, Poll, ready};

use futures_util::future::Either;
use http::{Request, header};
use tower::{Layer, Service};
use tower_http::cors::{Cors, CorsLayer};

/// Puts CORS in the way of requests that have an Origin.
#[derive(Debug, Clone)]
pub(crate) struct PagesLayer(pub(crate) CorsLayer);

/// See [`PagesLayer`].
#[derive(Debug, Clone)]
pub(crate) struct Pages<S> {
    to_pages: Cors<S>,
    to_others: S,
}

impl<S: Clone> Layer<S> for PagesLayer {
    type Service = Pages<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Pages {
            to_pages: self.0.layer(inner.clone()),
            to_others: inner,
        }
    }
}

impl<S, B> Service<Request<B>> for Pages<S>
where
    S: Service<Request<B>>,
    Cors<S>: Service<Request<B>, Response = S::Response, Error = S::Error>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<<Cors<S> as Service<Request<B>>>::Future, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        ready!(self.to_pages.poll_ready(cx))?;
        self.to_others.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.headers().contains_key(header::ORIGIN) {
            Either::Left(self.to_pages.call(request))
        } else {
            Either::Right(self.to_others.call(request))
        }
    }
}
