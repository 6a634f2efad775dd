//! `manifold check --connect`: every server is started once, asked what it has, and stopped.

use std::{io::Write, process::ExitCode, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesOrdered};
use manifold_config::Config;
use manifold_link::LinkError;
use manifold_protocol::Kind;
use manifold_routing::{
    Inspection, Server,
    events::{Event, Observer},
};
use tokio_util::task::TaskTracker;

use crate::{cli::say, startup, wiring};

/// Starts the servers of a configuration. The exit code says whether all of them are up.
pub(crate) fn connect(config: Config) -> ExitCode {
    match startup::runtime(&config, "error").and_then(|runtime| {
        let all_up = runtime.block_on(inspect(config))?;
        // The process ends with everything in it; see the same place of `serve`.
        std::mem::forget(runtime);
        Ok(all_up)
    }) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn inspect(config: Config) -> anyhow::Result<bool> {
    let tasks = TaskTracker::new();
    let supervisor = wiring::supervisor(&config);
    let observer: Arc<dyn Observer> = Arc::new(Nobody);
    let servers = wiring::servers(&config, &supervisor, &tasks, &observer)?;
    let width = servers.iter().map(|server| server.name().as_str().len());
    let width = width.max().unwrap_or(0);
    // All at once, told in the order of the file. The supervisor sees to it that few start at a time.
    let mut looks: FuturesOrdered<_> = servers
        .into_iter()
        .map(|server| async move {
            let server = Arc::new(server);
            let seen = match server.settings().enabled {
                true => Some(server.inspect().await),
                false => None,
            };
            (server, seen)
        })
        .collect();
    let mut all_up = true;
    while let Some((server, seen)) = looks.next().await {
        all_up &= !matches!(seen, Some(Err(_)));
        tell(&format!(
            "{:width$}  {}",
            server.name().as_str(),
            line(&server, seen)
        ));
    }
    drop(looks);
    supervisor.shutdown().await;
    tasks.close();
    // The DELETEs of HTTP sessions; a server that does not answer them is not waited for.
    drop(tokio::time::timeout(config.timeouts.connect, tasks.wait()).await);
    Ok(all_up)
}

fn line(server: &Server, seen: Option<Result<Inspection, LinkError>>) -> String {
    match seen {
        None => "disabled".to_owned(),
        Some(Ok(seen)) => {
            let counts = Kind::ALL
                .into_iter()
                .filter(|kind| seen.hello.lists(*kind))
                .map(|kind| match (seen.lists.get(kind), kind.word()) {
                    (Some(_), word) => counted(seen.lists.count(kind), word),
                    (None, word) => format!("{word}s not given"),
                })
                .collect::<Vec<_>>();
            let counts = match counts.is_empty() {
                true => "no lists".to_owned(),
                false => counts.join(", "),
            };
            let version = seen.version;
            let took = seconds(seen.started_in);
            format!(
                "up: {} {version}, {counts}, started in {took}",
                version.era()
            )
        }
        Some(Err(error)) => match server.log_tail(1).pop() {
            Some(last) => format!("down: {error}; last on stderr: {}", last.text),
            None => format!("down: {error}"),
        },
    }
}

fn counted(count: usize, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {word}{plural}")
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Writes to stdout, which carries the findings and nothing else.
fn tell(text: &str) {
    // Nobody reads them when stdout is gone.
    drop(writeln!(std::io::stdout(), "{text}"));
}

/// Counts nothing.
#[derive(Debug)]
struct Nobody;

impl Observer for Nobody {
    fn observe(&self, _: &Event<'_>) {}
}
