//! What every command needs that starts servers: logging, TLS, a runtime.

use anyhow::{Context, anyhow};
use manifold_config::{Config, LogFormat};
use manifold_telemetry::start_logging;
use tokio::runtime::Runtime;

/// Sets up the process. `level` is logged unless `RUST_LOG` says otherwise.
pub(crate) fn runtime(config: &Config, level: &str) -> anyhow::Result<Runtime> {
    let format = match config.log.format {
        LogFormat::Auto => manifold_telemetry::LogFormat::Auto,
        LogFormat::Text => manifold_telemetry::LogFormat::Text,
        LogFormat::Json => manifold_telemetry::LogFormat::Json,
    };
    let directives = std::env::var("RUST_LOG").unwrap_or_else(|_| level.to_owned());
    start_logging(&directives, format)?;
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("a TLS provider is installed twice"))?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("can't start the runtime")
}
