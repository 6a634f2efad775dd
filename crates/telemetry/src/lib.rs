//! The registry of metrics, and the form of log lines.
//!
//! This crate knows names and labels; what they mean is the business of whoever feeds them.

mod logging;
mod metrics;

pub use logging::{LogFormat, start_logging};
pub use metrics::{Metrics, ServerSample};

use thiserror::Error;

/// Why telemetry can't be set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// A metric is described badly, or twice: a fault of ours.
    #[error("a metric can't be registered: {0}")]
    Metric(#[from] prometheus::Error),
    /// The level is not one.
    #[error("the log level is not usable: {0}")]
    Level(String),
    /// There is a subscriber already.
    #[error("logging is set up twice")]
    Twice,
}
