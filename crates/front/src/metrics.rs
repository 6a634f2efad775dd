//! The outermost layer: says how each HTTP request was answered, and when streams open and close.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Method, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

/// Something about HTTP that an operator may want to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpEvent {
    /// A request has the head of its answer.
    Answered {
        /// The verb, one of a fixed set.
        verb: &'static str,
        /// The status.
        status: StatusCode,
    },
}

/// Whoever counts HTTP events. It must be quick and must not wait.
pub trait HttpObserver: fmt::Debug + Send + Sync {
    /// Something has happened.
    fn observe(&self, event: &HttpEvent);
}

/// Reports to an observer.
#[derive(Debug, Clone)]
pub(crate) struct ObserveLayer(pub(crate) Arc<dyn HttpObserver>);

/// See [`ObserveLayer`].
#[derive(Debug, Clone)]
pub(crate) struct Observe<S> {
    inner: S,
    observer: Arc<dyn HttpObserver>,
}

pin_project! {
    /// See [`ObserveLayer`].
    pub(crate) struct ObserveFuture<F> {
        #[pin]
        inner: F,
        observer: Arc<dyn HttpObserver>,
        verb: &'static str,
    }
}

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Observe {
            inner,
            observer: self.0.clone(),
        }
    }
}

impl<S, B, C> Service<Request<B>> for Observe<S>
where
    S: Service<Request<B>, Response = Response<C>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ObserveFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ObserveFuture {
            verb: verb(request.method()),
            inner: self.inner.call(request),
            observer: self.observer.clone(),
        }
    }
}

impl<F, C, E> Future for ObserveFuture<F>
where
    F: Future<Output = Result<Response<C>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx));
        if let Ok(response) = &answer {
            this.observer.observe(&HttpEvent::Answered {
                verb: this.verb,
                status: response.status(),
            });
        }
        Poll::Ready(answer)
    }
}

/// A verb for a label: clients may send any.
fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "POST",
        Method::GET => "GET",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
