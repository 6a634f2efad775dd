//! The tower stack, outside in: counting, panics, Host and Origin, CORS, the endpoint.

use std::{convert::Infallible, fmt::Display, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use hyper::body::Incoming;
use manifold_routing::Router;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::{BoxError, Service, ServiceBuilder};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowHeaders, AllowOrigin, CorsLayer},
};

use crate::{
    endpoint::Endpoint,
    guard::GuardLayer,
    headers,
    metrics::{HttpObserver, ObserveLayer},
    pages::PagesLayer,
    policy::Policy,
    shared::{FrontSettings, Shared},
};

/// What the front is made of.
#[derive(Debug)]
pub struct Front {
    /// Bounds and paths.
    pub settings: FrontSettings,
    /// Which hosts and origins are served.
    pub policy: Policy,
    /// The core.
    pub router: Arc<Router>,
    /// Who counts.
    pub observer: Arc<dyn HttpObserver>,
    /// Where calls run whose client has gone.
    pub tasks: TaskTracker,
    /// Cancelled when no new work is taken.
    pub draining: CancellationToken,
}

/// The whole stack as one service.
pub fn stack(
    front: Front,
) -> impl Service<
    Request<Incoming>,
    Response = Response<
        impl http_body::Body<Data = Bytes, Error: Into<BoxError> + Display> + Send + 'static,
    >,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ Sync
+ 'static {
    let policy = Arc::new(front.policy);
    let shared = Shared::new(front.settings, front.router, front.tasks, front.draining);
    ServiceBuilder::new()
        .layer(ObserveLayer(front.observer))
        .layer(CatchPanicLayer::new())
        .layer(GuardLayer(policy.clone()))
        .layer(PagesLayer(cors(policy)))
        .service(Endpoint(Arc::new(shared)))
}

/// Browser clients of allowed origins may send and read what the protocol needs. The guard has refused all
/// other origins before.
fn cors(policy: Arc<Policy>) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(
            move |origin: &HeaderValue, _: &http::request::Parts| {
                origin
                    .to_str()
                    .is_ok_and(|origin| policy.allows_origin(origin))
            },
        ))
        .allow_methods([Method::GET, Method::POST, Method::DELETE, Method::OPTIONS])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            headers::SESSION_ID,
            headers::PROTOCOL_VERSION,
            header::WWW_AUTHENTICATE,
            header::RETRY_AFTER,
        ])
}
