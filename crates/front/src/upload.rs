//! The body of a request: read whole, under its limit and in its time.

use std::{fmt::Display, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use http_body_util::BodyExt;

use crate::error::Refusal;

/// How long a body may take to arrive.
const TIME: Duration = Duration::from_secs(60);
/// How long a body over the limit is read on, and thrown away.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Reads a body of up to `limit` bytes. `head` are the headers of its request. Dropping the future loses what was read.
///
/// # Errors
/// When it is over the limit, late, or no body of HTTP.
pub(crate) async fn read<B>(mut body: B, head: &HeaderMap, limit: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let announced = announced(head);
    let reading = async {
        if announced.is_some_and(|length| length > limit) {
            return Err(Refusal::BodyTooLarge(limit));
        }
        gather(&mut body, announced.unwrap_or(0), limit).await
    };
    let read = tokio::time::timeout(TIME, reading)
        .await
        .unwrap_or(Err(Refusal::BodyLate(TIME.as_secs())));
    if matches!(read, Err(Refusal::BodyTooLarge(_))) && is_coming(head, limit) {
        discard(&mut body, discarded(limit)).await;
    }
    read
}

fn announced(head: &HeaderMap) -> Option<usize> {
    let length = head.get(header::CONTENT_LENGTH)?.to_str().ok()?;
    length.parse().ok()
}

/// How much of a body over the limit is thrown away. One that has more to come is not waited for.
fn discarded(limit: usize) -> usize {
    limit.saturating_mul(2)
}

/// Whether a body that is too large is on its way, and worth waiting for. A client that waits for "100 Continue" sends
/// nothing until it is asked, and reading asks (RFC 9110, section 10.1.1).
fn is_coming(head: &HeaderMap, limit: usize) -> bool {
    let near = announced(head).is_none_or(|length| length <= discarded(limit));
    near && !head.contains_key(header::EXPECT)
}

async fn gather<B>(body: &mut B, announced: usize, limit: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    // Most bodies come in one piece, which is taken as it is.
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::BodyBroken(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let have = first.as_ref().map_or(0, Bytes::len) + rest.len();
        if have + data.len() > limit {
            return Err(Refusal::BodyTooLarge(limit));
        }
        match &first {
            None => first = Some(data),
            Some(head) => {
                if rest.is_empty() {
                    rest.reserve(announced.saturating_sub(head.len()));
                }
                rest.extend_from_slice(&data);
            }
        }
    }
    let first = first.unwrap_or_default();
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// Reads on for a while what is not wanted: a client that is still sending when the connection closes sees
/// that, and not its answer.
async fn discard<B>(body: &mut B, most: usize)
where
    B: Body<Data = Bytes> + Unpin,
{
    let reading = async {
        let mut left = most;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(length);
            if left == 0 {
                return;
            }
        }
    };
    // Whoever is slower than that has to do without.
    drop(tokio::time::timeout(DISCARD_TIME, reading).await);
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use futures_util::{Stream, StreamExt, future, stream};
    use http::HeaderValue;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::time::{Instant, sleep};

    use super::*;

    const LIMIT: usize = 100;

    /// A body of pieces of that length, one every `pause`, and how many bytes of it were taken.
    fn pieces(length: usize, pause: Duration) -> (impl Stream<Item = Bytes>, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        let pieces = stream::repeat(()).then(move |()| {
            let count = count.clone();
            async move {
                sleep(pause).await;
                count.fetch_add(length, Ordering::Relaxed);
                Bytes::from(vec![b'x'; length])
            }
        });
        (pieces, taken)
    }

    /// Reads it, and says how long that took.
    async fn timed(
        pieces: impl Stream<Item = Bytes>,
        head: &[(header::HeaderName, &'static str)],
    ) -> (Result<Bytes, Refusal>, Duration) {
        let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
        let head = head.iter().cloned();
        let head = head.map(|(name, value)| (name, HeaderValue::from_static(value)));
        let head: HeaderMap = head.collect();
        let begun = Instant::now();
        let read = read(StreamBody::new(Box::pin(frames)), &head, LIMIT).await;
        (read, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_is_the_greatest_length_that_is_read() {
        for length in [1, 7, LIMIT - 1, LIMIT] {
            for total in [LIMIT - 1, LIMIT, LIMIT + 1] {
                let (pieces, _) = pieces(1, Duration::ZERO);
                let pieces = pieces.take(total).chunks(length);
                let (read, _) = timed(pieces.map(|piece| piece.concat().into()), &[]).await;
                match read {
                    Ok(whole) => assert_eq!((whole.len(), total > LIMIT), (total, false)),
                    Err(refusal) => {
                        assert!(matches!(refusal, Refusal::BodyTooLarge(LIMIT)));
                        assert!(total > LIMIT);
                    }
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_given_up() {
        let second = Duration::from_secs(1);
        let (just, _) = pieces(1, second);
        let (read, took) = timed(just.take(59), &[]).await;
        assert_eq!((read.unwrap().len(), took), (59, 59 * second));
        let (slow, taken) = pieces(1, second);
        let (read, took) = timed(slow.take(90), &[]).await;
        assert!(matches!(read, Err(Refusal::BodyLate(60))), "{read:?}");
        assert_eq!(took, TIME);
        assert!(taken.load(Ordering::Relaxed) <= 60);
        // One that stops in the middle, and one that never begins.
        let (begun, _) = pieces(1, second);
        let stopped = begun.take(5).chain(stream::pending());
        let (read, took) = timed(stopped, &[(header::CONTENT_LENGTH, "10")]).await;
        assert!(matches!(read, Err(Refusal::BodyLate(60))), "{read:?}");
        assert_eq!(took, TIME);
        let (read, took) = timed(stream::pending(), &[]).await;
        assert!(matches!(read, Err(Refusal::BodyLate(60))), "{read:?}");
        assert_eq!(took, TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_over_the_limit_is_read_on_within_bounds() {
        let too_large = |read| assert!(matches!(read, Err(Refusal::BodyTooLarge(LIMIT))));
        // To its end, if that is near.
        for length in ["101", "200"] {
            let (body, taken) = pieces(1, Duration::ZERO);
            let total = length.parse().unwrap();
            let (read, _) = timed(body.take(total), &[(header::CONTENT_LENGTH, length)]).await;
            too_large(read);
            assert_eq!(taken.load(Ordering::Relaxed), total);
        }
        // Without an end, or a slow one.
        let (endless, taken) = pieces(10, Duration::ZERO);
        too_large(timed(endless, &[]).await.0);
        assert_eq!(taken.load(Ordering::Relaxed), LIMIT + 10 + discarded(LIMIT));
        let (slow, _) = pieces(1, Duration::from_secs(3600));
        let (read, took) = timed(slow, &[(header::CONTENT_LENGTH, "101")]).await;
        too_large(read);
        assert_eq!(took, DISCARD_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_far_too_large_or_not_sent_yet_is_not_touched() {
        let expect = (header::EXPECT, "100-continue");
        for head in [
            vec![(header::CONTENT_LENGTH, "201")],
            vec![(header::CONTENT_LENGTH, "10000000000")],
            vec![(header::CONTENT_LENGTH, "101"), expect],
        ] {
            let untouched = stream::poll_fn(|_| panic!("it was read"));
            let (read, took) = timed(untouched, &head).await;
            assert!(matches!(read, Err(Refusal::BodyTooLarge(LIMIT))));
            assert_eq!(took, Duration::ZERO);
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_is_not_late() {
        let broken = stream::once(future::ready(Err::<Frame<Bytes>, _>("no chunk")));
        let read = read(StreamBody::new(broken), &HeaderMap::new(), LIMIT).await;
        assert!(matches!(read, Err(Refusal::BodyBroken(why)) if why == "no chunk"));
    }
}
