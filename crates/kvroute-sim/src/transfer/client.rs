//! The engine that fetches KV.

use std::io;
use std::time::Duration;

use kvroute_core::TokenId;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Kv, digest};

/// How fetching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    /// It is here.
    Kv(Kv),
    /// It was not there, or is that of another prompt.
    Nothing,
    /// Nobody answered in time.
    TimedOut,
}

/// Fetches the KV of a prompt from another engine.
pub(crate) async fn pull(host: &str, port: u16, key: &str, prompt: &[TokenId], patience: Duration) -> Pulled {
    match tokio::time::timeout(patience, ask(host, port, key)).await {
        Err(_) => Pulled::TimedOut,
        Ok(Ok(Some(kv))) if kv.digest == digest(prompt) => Pulled::Kv(kv),
        Ok(Ok(told)) => {
            tracing::warn!(host, port, key, is_of_another_prompt = told.is_some(), "kv is not handed over");
            Pulled::Nothing
        }
        Ok(Err(error)) => {
            tracing::warn!(host, port, key, %error, "kv cannot be fetched");
            Pulled::Nothing
        }
    }
}

async fn ask(host: &str, port: u16, key: &str) -> io::Result<Option<Kv>> {
    let stream = TcpStream::connect((host, port)).await?;
    let mut stream = BufReader::new(stream);
    stream.write_all(format!("{key}\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await?;
    let mut words = answer.split_whitespace();
    let is_there = words.next() == Some("ok");
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [tokens, digest, reused] if is_there => Ok(Some(Kv { tokens, digest, reused })),
        _ => Ok(None),
    }
}
