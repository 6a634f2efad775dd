//! `manifold serve`: everything is wired, runs until a signal, and is taken down in order.

use std::{net::SocketAddr, process::ExitCode, sync::Arc};

use anyhow::Context;
use manifold_config::Config;
use manifold_front::{Front, FrontSettings, Policy};
use manifold_routing::{Router, RouterSettings, Sessions, events::Observer};
use manifold_supervisor::Supervisor;
use manifold_telemetry::Metrics;
use tokio::{net::TcpListener, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

use crate::{
    admin::{self, Admin},
    cli::say,
    drain::{Budget, Signals},
    observe::Counting,
    startup, wiring,
};

/// Runs the gateway. The exit code says whether it was asked to stop and has drained.
pub(crate) fn run(config: Config) -> ExitCode {
    match start(config) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start(config: Config) -> anyhow::Result<ExitCode> {
    let runtime = startup::runtime(&config, config.log.level.as_str())?;
    let code = runtime.block_on(serve(config));
    // The process ends with everything in it. A shutdown would drop the warden's keeper, which ends the warden
    // before it has ended the children that are left.
    std::mem::forget(runtime);
    code
}

/// What runs, in the order in which it is taken down.
struct Running {
    draining: CancellationToken,
    connections: TaskTracker,
    /// No client is listened to any more.
    deaf: CancellationToken,
    router: Arc<Router>,
    core: TaskTracker,
    supervisor: Supervisor,
    admin: CancellationToken,
}

async fn serve(config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("can't listen for signals")?;
    let budget = Budget::of(&config);
    let clients = bind(config.listen.address, "listen.address").await?;
    let operators = bind(config.admin.address, "admin.address").await?;
    let bound = clients.local_addr().context("listen.address")?;
    let admin_bound = operators.local_addr().context("admin.address")?;
    warn_of_open_doors(&config, bound);

    let revision = option_env!("MANIFOLD_REVISION").unwrap_or("unknown");
    let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION"), revision)?);
    let counting = Counting(metrics.clone());
    let observer: Arc<dyn Observer> = Arc::new(counting.clone());
    let core = TaskTracker::new();
    let supervisor = wiring::supervisor(&config);
    let servers = wiring::servers(&config, &supervisor, &core, &observer)?;
    let sessions = Sessions::new(config.sessions.max, config.sessions.idle_timeout);
    let settings = RouterSettings {
        list: config.timeouts.list,
        views: wiring::views(&config),
    };
    let router = Router::start(servers, sessions, settings, core.clone(), observer);

    let running = Running {
        draining: CancellationToken::new(),
        connections: TaskTracker::new(),
        deaf: CancellationToken::new(),
        router: router.clone(),
        core,
        supervisor,
        admin: CancellationToken::new(),
    };
    let front = manifold_front::stack(Front {
        settings: FrontSettings {
            path: config.listen.path.clone(),
            request_body: config.limits.request_body,
            concurrent_requests: config.limits.concurrent_requests,
            keepalive: config.timeouts.keepalive,
            page_size: (config.limits.page_size > 0).then_some(config.limits.page_size),
        },
        policy: Policy::new(
            bound,
            config.listen.allowed_hosts.clone(),
            config.listen.allowed_origins.clone(),
        ),
        router: router.clone(),
        observer: Arc::new(counting),
        tasks: running.connections.clone(),
        draining: running.draining.clone(),
    });
    let admin = admin::service(Arc::new(Admin {
        router,
        metrics,
        draining: running.draining.clone(),
        started: Instant::now(),
        policy: Policy::new(admin_bound, Vec::new(), Vec::new()),
        loopback: admin_bound.ip().is_loopback(),
        token: config.admin.token.clone(),
        path: config.listen.path.clone(),
    }));
    running.core.spawn(manifold_front::serve(
        clients,
        front,
        running.draining.clone(),
        running.deaf.clone(),
        running.connections.clone(),
    ));
    running.core.spawn(manifold_front::serve(
        operators,
        admin,
        running.admin.clone(),
        running.admin.clone(),
        running.core.clone(),
    ));
    info!(
        listen = %bound, path = config.listen.path, admin = %admin_bound,
        "manifold serves http://{bound}{}, and operators on http://{admin_bound}", config.listen.path,
    );

    signals.next().await;
    info!("asked to stop: draining");
    let stopped = tokio::select! {
        drained = running.drain(budget) => Stopped::Drained(drained),
        () = signals.next() => Stopped::Hurried,
    };
    Ok(stopped.exit_code())
}

enum Stopped {
    /// All the way; says whether everything ended in its time.
    Drained(bool),
    /// A second signal came. The warden ends what is left.
    Hurried,
}

impl Stopped {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Drained(true) => {
                info!("drained");
                ExitCode::SUCCESS
            }
            Self::Drained(false) => {
                error!("not drained within timeouts.shutdown: what was left is ended now");
                ExitCode::FAILURE
            }
            Self::Hurried => {
                warn!("asked again to stop: not waiting for calls in flight");
                ExitCode::FAILURE
            }
        }
    }
}

impl Running {
    /// Takes everything down in order. Returns whether all of it ended in time.
    async fn drain(&self, budget: Budget) -> bool {
        let end = Instant::now() + budget.all;
        // Not ready, no new sessions and calls; open streams end, calls in flight go on.
        self.draining.cancel();
        self.connections.close();
        let calls = tokio::time::timeout(budget.calls, self.connections.wait()).await;
        if calls.is_err() {
            warn!("calls are still in flight: they are given up");
        }
        self.deaf.cancel();
        // Downstream sessions get their DELETE, children their stop ladder.
        self.router.stop();
        let down = async {
            self.supervisor.shutdown().await;
            self.admin.cancel();
            self.core.close();
            self.core.wait().await;
            // Calls that were given up have an answer by now: let it go out.
            self.connections.wait().await;
        };
        tokio::time::timeout_at(end, down).await.is_ok() && calls.is_ok()
    }
}

async fn bind(address: SocketAddr, key: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("can't listen on {address} ({key}): is it in use?"))
}

fn warn_of_open_doors(config: &Config, bound: SocketAddr) {
    if bound.ip().is_loopback() {
        return;
    }
    warn!(
        "{bound} is reached from other machines and there is no authentication: everybody there can use every \
         server. Modern clients share one link per server."
    );
    if config.listen.allowed_hosts.is_empty() {
        warn!("only the bound address is served as a host: name others in listen.allowed_hosts");
    }
}
