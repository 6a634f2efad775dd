//! Requests that no proper client sends.

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::DEADLINE;

/// Sends exactly these bytes to `address` and reads until the other side closes or has sent what
/// Content-Length announces. Returns the head of the answer and its body.
///
/// # Errors
/// When the connection fails, or ends without a whole head.
pub async fn exchange(address: &str, bytes: &[u8]) -> anyhow::Result<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes).await?;
    timeout(DEADLINE, read(&mut stream))
        .await
        .context("no answer")?
}

async fn read(stream: &mut TcpStream) -> anyhow::Result<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some((head, body)) = split(&read) {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let length = name.eq_ignore_ascii_case("content-length");
                length.then(|| value.trim().parse::<usize>().ok())?
            });
            if length.is_some_and(|length| body.len() >= length) {
                return Ok((head, body));
            }
        }
        if stream.read_buf(&mut read).await? == 0 {
            return split(&read).context("the connection was closed");
        }
    }
}

fn split(read: &[u8]) -> Option<(String, Vec<u8>)> {
    let end = read.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = read.split_at(end + 4);
    Some((String::from_utf8_lossy(head).into_owned(), body.to_vec()))
}
