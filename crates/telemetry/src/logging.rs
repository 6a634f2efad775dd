//! Log lines on stderr: text for people, JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::TelemetryError;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sets up logging for the whole process. `directives` are a level or the directives of `RUST_LOG`.
///
/// # Errors
/// When the directives can't be read, or logging is set up already.
pub fn start_logging(directives: &str, format: LogFormat) -> Result<(), TelemetryError> {
    let filter = EnvFilter::builder()
        .parse(directives)
        .map_err(|error| TelemetryError::Level(error.to_string()))?;
    let json = match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if json {
        lines.json().flatten_event(true).boxed()
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).boxed()
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(|_| TelemetryError::Twice)
}
