//! A connection on which a test writes what no proper client sends.

use manifold_testkit::{DEADLINE, Gateway};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Headers by name and value.
pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

/// An open HTTP/1 connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// An answer, read whole. Those with a status below 200 are answers of their own.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The status line and the headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Wire {
    pub(crate) async fn open(gateway: &Gateway) -> Self {
        Self {
            stream: TcpStream::connect(gateway.authority()).await.unwrap(),
            unread: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        timeout(DEADLINE, self.stream.write_all(bytes))
            .await
            .unwrap()
    }

    /// The next answer; none when the gateway has closed the connection in order.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let head = self.head().await?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: String::new(),
        };
        let body = if matches!(status, 100..200 | 204 | 304) {
            Vec::new()
        } else if answer.header("transfer-encoding") == Some("chunked") {
            self.chunks().await
        } else if let Some(length) = answer.header("content-length") {
            let length = length.parse().unwrap();
            self.take(length).await
        } else {
            while self.more().await {}
            std::mem::take(&mut self.unread)
        };
        answer.body = String::from_utf8(body).unwrap();
        Some(answer)
    }

    /// The head of an answer that has no body, whatever it says of one: that to HEAD.
    pub(crate) async fn head(&mut self) -> Option<String> {
        let end = loop {
            match find(&self.unread, b"\r\n\r\n") {
                Some(at) => break at + 4,
                None if self.more().await => {}
                None => {
                    assert!(self.unread.is_empty(), "half a head: {:?}", self.unread);
                    return None;
                }
            }
        };
        let head = self.take(end).await;
        Some(String::from_utf8(head).unwrap().to_ascii_lowercase())
    }

    /// That many bytes as they come.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(self.more().await, "closed in the middle");
        }
        self.unread.drain(..count).collect()
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let end = loop {
                match find(&self.unread, b"\r\n") {
                    Some(at) => break at + 2,
                    None => assert!(self.more().await, "closed in the middle"),
                }
            };
            let line = String::from_utf8(self.take(end).await).unwrap();
            let length = usize::from_str_radix(line.trim(), 16).unwrap();
            all.extend(self.take(length).await);
            self.take(2).await;
            if length == 0 {
                return all;
            }
        }
    }

    async fn more(&mut self) -> bool {
        let read = timeout(DEADLINE, self.stream.read_buf(&mut self.unread));
        read.await.unwrap().unwrap() > 0
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key == name).then(|| value.trim())
        })
    }

    /// The message in the body, which is JSON.
    pub(crate) fn message(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// The head of a POST to `/mcp` with these headers beside the usual ones.
pub(crate) fn post_head(headers: Headers<'_>) -> String {
    let mut head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                    accept: application/json, text/event-stream\r\n"
        .to_owned();
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head + "\r\n"
}

/// A whole POST to `/mcp`.
pub(crate) fn post(headers: Headers<'_>, body: &str) -> Vec<u8> {
    let length = body.len().to_string();
    let mut all = headers.to_vec();
    all.push(("content-length", &length));
    (post_head(&all) + body).into_bytes()
}

fn find(all: &[u8], what: &[u8]) -> Option<usize> {
    all.windows(what.len()).position(|window| window == what)
}
