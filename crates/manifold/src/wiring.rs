//! From a configuration to the settings of the crates: each gets its own few values.

use std::{collections::HashMap, ffi::OsString, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use manifold_config::{CacheScope, Config, ExposeSecret, Isolation, Names, Start, Transport};
use manifold_link::{Connector, HttpClient, HttpTarget, Limits, Patience, Target};
use manifold_protocol::{Naming, ServerName, uri::UriPrefix};
use manifold_routing::{
    CacheHint, Server, ServerIndex, ServerSettings, ToolFilter, View, events::Observer,
};
use manifold_supervisor::{
    ChildSpec, RestartPolicy, StopPolicy, Supervisor, SupervisorOptions, WardenCommand, environment,
};
use tokio_util::task::TaskTracker;

/// The hidden subcommand that the supervisor starts its warden with.
pub(crate) const WARDEN: &str = "warden";

/// The supervisor of all children. Its warden is this same program.
pub(crate) fn supervisor(config: &Config) -> Supervisor {
    Supervisor::new(SupervisorOptions {
        starts_at_a_time: config.limits.children_starting,
        warden: Some(WardenCommand {
            // Works also after the file was replaced by an upgrade.
            program: "/proc/self/exe".into(),
            args: vec![WARDEN.into()],
        }),
    })
}

/// All servers, in the order of the file.
pub(crate) fn servers(
    config: &Config,
    supervisor: &Supervisor,
    tasks: &TaskTracker,
    observer: &Arc<dyn Observer>,
) -> anyhow::Result<Vec<Server>> {
    let mut clients = HashMap::new();
    config
        .servers
        .iter()
        .map(|server| {
            let connector = connector(config, server, supervisor, tasks, &mut clients)
                .with_context(|| format!("servers.{}", server.name.as_str()))?;
            Ok(Server::new(
                settings(&config.names, server),
                connector,
                tasks.clone(),
                observer.clone(),
            ))
        })
        .collect()
}

fn settings(names: &Names, server: &manifold_config::Server) -> ServerSettings {
    let filter = server.tools.clone();
    ServerSettings {
        name: ServerName::new(server.name.as_str()),
        naming: Arc::new(Naming::Prefixed {
            prefix: server.prefix.as_str().into(),
            separator: names.separator.as_str().into(),
            max_length: names.max_length,
        }),
        mark: UriPrefix::new(server.prefix.as_str()),
        enabled: server.enabled,
        required: server.required,
        isolation: match server.isolation {
            Isolation::Session => manifold_routing::Isolation::Session,
            Isolation::Shared => manifold_routing::Isolation::Shared,
        },
        restart: RestartPolicy {
            initial: server.restart.initial,
            max: server.restart.max,
            stable_after: server.restart.stable_after,
        },
        patience: Patience {
            silence: server.timeouts.request,
            max: server.timeouts.request_max,
        },
        list: server.timeouts.list,
        max_links: server.max_links,
        seat_wait: server.timeouts.connect,
        link_idle: server.link_idle,
        expose_stderr: server.expose_stderr,
        permits: Arc::new(move |name: &str| filter.permits(name)),
        lazy: server.start == Start::Lazy,
        spare: server.spare,
        hint: CacheHint {
            ttl_ms: u64::try_from(server.cache.ttl.as_millis()).unwrap_or(u64::MAX),
            public: server.cache.scope == CacheScope::Public,
        },
        forward_headers: match &server.transport {
            Transport::Stdio { .. } => Vec::new(),
            Transport::Http {
                forward_headers, ..
            } => forward_headers
                .iter()
                .map(|name| name.to_ascii_lowercase().into())
                .collect(),
        },
    }
}

/// All views, in the order of the file.
pub(crate) fn views(config: &Config) -> Vec<View> {
    config
        .views
        .iter()
        .map(|view| View {
            name: view.name.as_str().into(),
            members: config
                .servers
                .iter()
                .enumerate()
                .filter(|(_, server)| view.servers.contains(&server.name))
                .map(|(index, server)| (ServerIndex(index), passing(view, &server.name)))
                .collect(),
        })
        .collect()
}

/// Which tools of a server pass through a view.
fn passing(view: &manifold_config::View, server: &manifold_config::ServerName) -> ToolFilter {
    let globs = view.tools.iter().find(|(name, _)| name == server);
    let globs = globs.map(|(_, globs)| globs.clone()).unwrap_or_default();
    Arc::new(move |name: &str| globs.iter().any(|glob| glob.matches(name)))
}

fn connector(
    config: &Config,
    server: &manifold_config::Server,
    supervisor: &Supervisor,
    tasks: &TaskTracker,
    clients: &mut Clients,
) -> anyhow::Result<Connector> {
    let target = match &server.transport {
        Transport::Stdio {
            command,
            args,
            env,
            inherit_env,
            cwd,
        } => {
            let mut variables = environment::allowed(std::env::vars_os(), inherit_env);
            for (name, value) in env {
                let name = OsString::from(name);
                variables.retain(|(inherited, _)| *inherited != name);
                variables.push((name, value.expose_secret().into()));
            }
            Target::Child {
                supervisor: supervisor.clone(),
                spec: Box::new(ChildSpec {
                    label: server.name.as_str().to_owned(),
                    program: command.into(),
                    args: args.iter().map(OsString::from).collect(),
                    env: variables,
                    cwd: cwd.clone(),
                    stop: StopPolicy {
                        close: server.stop.close,
                        term: server.stop.term,
                    },
                    line_limit: config.limits.message,
                }),
            }
        }
        Transport::Http { url, headers, .. } => Target::Http(Box::new(HttpTarget {
            client: client(clients, server.timeouts.connect, url)?,
            uri: url.parse::<Uri>().context("the URL can't be used")?,
            headers: header_map(headers)?,
        })),
    };
    let limits = Limits {
        start: server.timeouts.start,
        message: config.limits.message,
    };
    Ok(Connector::new(target, limits, tasks.clone()))
}

/// Clients by `timeouts.connect`, and whether they speak TLS.
type Clients = HashMap<(Duration, bool), HttpClient>;

/// The client that servers of one kind share. Root certificates are loaded only if some server needs them.
fn client(clients: &mut Clients, connect: Duration, url: &str) -> anyhow::Result<HttpClient> {
    let tls = !url.starts_with("http://");
    if let Some(client) = clients.get(&(connect, tls)) {
        return Ok(client.clone());
    }
    let client = if tls {
        HttpClient::new(connect)?
    } else {
        HttpClient::plain(connect)
    };
    clients.insert((connect, tls), client.clone());
    Ok(client)
}

fn header_map(headers: &[(String, manifold_config::SecretString)]) -> anyhow::Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let Ok(header) = HeaderName::try_from(name) else {
            bail!("the header name {name:?} can't be used");
        };
        let mut value = HeaderValue::from_str(value.expose_secret())
            .map_err(|_| anyhow::anyhow!("the value of the header {name} can't be used"))?;
        value.set_sensitive(true);
        map.insert(header, value);
    }
    Ok(map)
}
