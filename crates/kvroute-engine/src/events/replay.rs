//! One request to an engine's replay socket, and everything that it answers.
//!
//! While it answers, live messages wait, so an answer must come to an end. The engine's buffer is bounded and is sent in
//! one go, in the order of its numbers; the rank is caught up in seconds. So an answer is given up that is silent for
//! long, that does not move on in its numbers, that has brought more than any buffer holds, or that was waited for longer
//! than what it brought is worth: a fixed time and a little for each message, and never more than some minutes. Only
//! waiting counts. A router that is slow to apply what came must not take its own time for the engine's.
//!
//! An engine sends with libzmq's ROUTER, which throws messages away without a word once 1,000 of them wait for a reader.
//! So an answer is read into memory as fast as it comes, and applied behind that. The bound is more than engines keep by
//! default (10,000 messages of some kilobytes); beyond it the reader waits for the applier. What is thrown away all the
//! same, as on a network slower than the engine's loop, shows as a gap in the numbers, or as silence where the end
//! should be: the engine sends in one loop, so there silence is short of patience, and the rest is asked for again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kvroute_zmtp::{Dealer, Endpoint, ZmtpError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::message::{EventMessage, replay_request};

/// Longest silence within a replay. Engines serve it between two steps, which takes a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest silence once an answer flows. To give it up too early costs the engine a part of an answer, and nothing else.
const PATIENCE_WITHIN: Duration = Duration::from_secs(1);

/// Waiting in all that any answer is granted, however little it brings: a network that is lost and found again.
const GRACE: Duration = Duration::from_secs(30);
/// Further waiting that each message earns. Engines send thousands a second; this is far below what a long way to them
/// costs.
const PER_MESSAGE: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(600);
/// Engines keep 10,000 messages unless told otherwise.
const MOST_MESSAGES: u32 = 1 << 20;

/// What is read ahead of what is applied, at most: messages, and bytes of their payloads.
pub(super) const AHEAD_MESSAGES: usize = 1 << 17;
const AHEAD_BYTES: u32 = 64 << 20;

/// What a replay brings; all but `Batch` are the last.
#[derive(Debug)]
pub(super) enum ReplayEvent {
    Batch {
        sequence: u64,
        payload: Bytes,
        /// Its place in memory, free again when it is dropped.
        place: OwnedSemaphorePermit,
    },
    Ended,
    /// The rest of it did not arrive. Why.
    BrokeOff(String),
    /// It is none that could be used. Why.
    Failed(String),
}

/// Asks for every message from a number on. Ends early when the receiver is gone.
pub(super) async fn replay(endpoint: Endpoint, from: u64, events: mpsc::Sender<ReplayEvent>) {
    let end = match forward(&endpoint, from, &events).await {
        Ok(()) => ReplayEvent::Ended,
        Err(error @ (ReplayError::Silent(_) | ReplayError::Zmtp(_))) => {
            ReplayEvent::BrokeOff(error.to_string())
        }
        Err(error) => ReplayEvent::Failed(error.to_string()),
    };
    // A caller that has lost interest is no failure.
    let _ = events.send(end).await;
}

#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the answer is no kv event message: is this the replay port?")]
    Unreadable,
    #[error("after {} s of waiting it had brought only {messages} messages, and no end", waited.as_secs())]
    Trickle { messages: u32, waited: Duration },
    #[error(
        "message {sequence} came behind {before}, so this is no replay in order: is this the replay port?"
    )]
    OutOfOrder { before: u64, sequence: u64 },
    #[error("it brought {MOST_MESSAGES} messages and no end")]
    Endless,
}

/// How far an answer has come.
#[derive(Debug, Default)]
struct Progress {
    messages: u32,
    last: Option<u64>,
    waited: Duration,
}

async fn forward(
    endpoint: &Endpoint,
    from: u64,
    events: &mpsc::Sender<ReplayEvent>,
) -> Result<(), ReplayError> {
    let mut dealer = Dealer::connect(endpoint).await?;
    dealer.send(&replay_request(from)).await?;
    let mut progress = Progress::default();
    let places = Arc::new(Semaphore::new(AHEAD_BYTES as usize));
    loop {
        let (asked, patience) = (Instant::now(), progress.patience());
        let answer = tokio::time::timeout(patience, dealer.receive()).await;
        let message = answer.map_err(|_| ReplayError::Silent(patience))??;
        progress.wait(asked.elapsed())?;
        match EventMessage::read(&message).ok_or(ReplayError::Unreadable)? {
            EventMessage::End => return Ok(()),
            EventMessage::Batch { sequence, payload } => {
                progress.bring(sequence)?;
                let bytes = u32::try_from(payload.len()).map_or(AHEAD_BYTES, |bytes| bytes.min(AHEAD_BYTES));
                let Ok(place) = Arc::clone(&places).acquire_many_owned(bytes).await else { return Ok(()) };
                if events.send(ReplayEvent::Batch { sequence, payload, place }).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

// === impl Progress ===

impl Progress {
    /// The first message alone says little: it is the one that was known, and the engine may still be at work.
    const fn patience(&self) -> Duration {
        if self.messages > 1 { PATIENCE_WITHIN } else { PATIENCE }
    }

    fn wait(&mut self, waited: Duration) -> Result<(), ReplayError> {
        self.waited += waited;
        let granted = (GRACE + PER_MESSAGE * self.messages).min(LONGEST);
        if self.waited > granted {
            return Err(ReplayError::Trickle { messages: self.messages, waited: self.waited });
        }
        Ok(())
    }

    fn bring(&mut self, sequence: u64) -> Result<(), ReplayError> {
        if let Some(before) = self.last.filter(|last| sequence <= *last) {
            return Err(ReplayError::OutOfOrder { before, sequence });
        }
        if self.messages >= MOST_MESSAGES {
            return Err(ReplayError::Endless);
        }
        self.last = Some(sequence);
        self.messages += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages that an endless answer brings before it is given up, with such a pause before each.
    fn brought(pause: Duration) -> (u64, ReplayError) {
        let mut progress = Progress::default();
        for sequence in 0.. {
            if let Err(error) = progress.wait(pause).and_then(|()| progress.bring(sequence)) {
                return (sequence, error);
            }
        }
        unreachable!()
    }

    #[test]
    fn an_answer_that_trickles_is_given_up_and_one_that_flows_is_not() {
        let (messages, error) = brought(Duration::from_secs(4));
        assert!(messages <= 8 && matches!(error, ReplayError::Trickle { .. }), "{messages}: {error}");
        let (messages, error) = brought(Duration::from_millis(20));
        assert!((2_000..4_000).contains(&messages), "{messages}: {error}");
        let (messages, error) = brought(Duration::from_millis(9));
        assert!(messages > 60_000 && matches!(error, ReplayError::Trickle { .. }), "{messages}: {error}");
    }

    #[test]
    fn an_answer_without_an_end_is_given_up_however_fast_it_is() {
        let (messages, error) = brought(Duration::ZERO);
        assert_eq!(messages, u64::from(MOST_MESSAGES));
        assert!(matches!(error, ReplayError::Endless), "{error}");
    }

    #[test]
    fn numbers_must_rise() {
        for repeated in [4, 5] {
            let mut progress = Progress::default();
            progress.bring(5).unwrap();
            let error = progress.bring(repeated).unwrap_err();
            assert!(error.to_string().contains(&repeated.to_string()), "{error}");
        }
    }
}
