//! One request to an engine's replay socket, and everything that it answers.

use std::time::Duration;

use bytes::Bytes;
use kvroute_zmtp::{Dealer, Endpoint, ZmtpError};
use tokio::sync::mpsc;

use super::message::{EventMessage, replay_request};

/// Longest silence within a replay. Engines serve it between two steps, which takes a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a replay brings; `Ended` and `Failed` are the last.
#[derive(Debug)]
pub(super) enum ReplayEvent {
    Batch {
        sequence: u64,
        payload: Bytes,
    },
    Ended,
    /// Why.
    Failed(String),
}

/// Asks for every message from a number on. Ends early when the receiver is gone.
pub(super) async fn replay(endpoint: Endpoint, from: u64, events: mpsc::Sender<ReplayEvent>) {
    let end = match forward(&endpoint, from, &events).await {
        Ok(()) => ReplayEvent::Ended,
        Err(error) => ReplayEvent::Failed(error.to_string()),
    };
    // A caller that has lost interest is no failure.
    let _ = events.send(end).await;
}

#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Silent,
    #[error("the answer is no kv event message: is this the replay port?")]
    Unreadable,
}

async fn forward(
    endpoint: &Endpoint,
    from: u64,
    events: &mpsc::Sender<ReplayEvent>,
) -> Result<(), ReplayError> {
    let mut dealer = Dealer::connect(endpoint).await?;
    dealer.send(&replay_request(from)).await?;
    loop {
        let answer = tokio::time::timeout(PATIENCE, dealer.receive()).await;
        let message = answer.map_err(|_| ReplayError::Silent)??;
        match EventMessage::read(&message).ok_or(ReplayError::Unreadable)? {
            EventMessage::End => return Ok(()),
            EventMessage::Batch { sequence, payload } => {
                if events.send(ReplayEvent::Batch { sequence, payload }).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}
