//! Waiting for conditions.

use std::time::Duration;

use anyhow::bail;
use tokio::time::Instant;

/// How long anything may take in a test: far more than it does on a loaded machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Looks again and again until `look` returns something.
///
/// # Errors
/// When it does not within [`DEADLINE`]; `what` says what was waited for.
pub async fn eventually<T, F>(what: &str, mut look: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = Option<T>>,
{
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        if Instant::now() > end {
            bail!("waited in vain for {what}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
