//! From the bytes of an answer to what is really sent.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::Fault;

/// One answer on its way.
#[derive(Debug)]
pub(super) struct Spoiler {
    fault: Fault,
    /// Bytes that were let through.
    passed: u64,
    /// Bytes of the body that are still to come, where the head lied about them.
    due: Option<u64>,
    /// What has come of the head, where it is to be changed; `None` once that is done.
    head: Option<BytesMut>,
    has_happened: bool,
}

/// What the connection does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Send(Bytes),
    Pause(Duration),
    /// Wait until it is no longer wanted that answers are held back.
    Hold,
    /// An end without any order.
    Reset,
    /// An end in good order.
    Close,
    /// Nothing more is sent on this connection; if it is half-closed, the client knows.
    Silence {
        half_closed: bool,
    },
}

const GARBAGE: &[u8] = b"\x16\x03\x03\x00\x7a\x00\xff\xfe not a status line\r\n\r\n{\"id\":\"garbage\"}\r\n";
const UPGRADE: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n";
const LENGTH: &[u8] = b"content-length: ";

// === impl Spoiler ===

impl Spoiler {
    pub(super) fn new(fault: Fault) -> Self {
        let changes_head = matches!(fault, Fault::WrongLength(_) | Fault::OversizedHeader(_));
        Self { fault, passed: 0, due: None, head: changes_head.then(BytesMut::new), has_happened: false }
    }

    /// Whether the answer is no longer what the server sent.
    pub(super) const fn has_happened(&self) -> bool {
        self.has_happened
    }

    /// What becomes of the next bytes.
    pub(super) fn steps(&mut self, chunk: Bytes) -> Vec<Step> {
        match self.fault {
            Fault::None | Fault::Refuse => vec![Step::Send(chunk)],
            Fault::ResetAt(position) => self.cut(chunk, position, Step::Reset),
            Fault::EarlyEof(position) => self.cut(chunk, position, Step::Close),
            Fault::StallAt(position) => self.cut(chunk, position, Step::Silence { half_closed: false }),
            Fault::Drip { bytes, every } => self.drip(&chunk, bytes, every),
            Fault::Hold if self.has_happened => vec![Step::Send(chunk)],
            Fault::Hold => self.happen(vec![Step::Hold, Step::Send(chunk)]),
            Fault::HalfClose => self.happen(vec![Step::Silence { half_closed: true }]),
            Fault::Garbage => self.happen(vec![Step::Send(Bytes::from_static(GARBAGE)), Step::Close]),
            Fault::Upgrade => self
                .happen(vec![Step::Send(Bytes::from_static(UPGRADE)), Step::Silence { half_closed: false }]),
            Fault::Informational(status) => self.precede(chunk, status),
            Fault::OversizedHeader(bytes) => self.pad(chunk, bytes),
            Fault::WrongLength(by) => self.lie(chunk, by),
        }
    }

    fn happen(&mut self, steps: Vec<Step>) -> Vec<Step> {
        self.has_happened = true;
        steps
    }

    fn cut(&mut self, mut chunk: Bytes, position: u64, end: Step) -> Vec<Step> {
        let left = position.saturating_sub(self.passed);
        if (chunk.len() as u64) < left {
            self.passed += chunk.len() as u64;
            return vec![Step::Send(chunk)];
        }
        self.passed = position;
        let kept = chunk.split_to(left as usize);
        let steps = if kept.is_empty() { vec![end] } else { vec![Step::Send(kept), end] };
        self.happen(steps)
    }

    fn drip(&mut self, chunk: &Bytes, bytes: usize, every: Duration) -> Vec<Step> {
        let drops = chunk.chunks(bytes.max(1)).map(|drop| chunk.slice_ref(drop));
        let steps = drops.flat_map(|drop| [Step::Send(drop), Step::Pause(every)]).collect();
        self.happen(steps)
    }

    fn precede(&mut self, chunk: Bytes, status: u16) -> Vec<Step> {
        if self.has_happened {
            return vec![Step::Send(chunk)];
        }
        let early = Bytes::from(format!("HTTP/1.1 {status} Early\r\nx-early: yes\r\n\r\n"));
        self.happen(vec![Step::Send(early), Step::Send(chunk)])
    }

    fn pad(&mut self, chunk: Bytes, bytes: usize) -> Vec<Step> {
        let Some((head, body)) = self.head_and_body(&chunk) else { return self.held_back(chunk) };
        self.happen(vec![Step::Send(Bytes::from(padded(&head, bytes))), Step::Send(body)])
    }

    fn lie(&mut self, chunk: Bytes, by: i64) -> Vec<Step> {
        if let Some(due) = self.due {
            return self.lied(chunk, due);
        }
        let Some((head, body)) = self.head_and_body(&chunk) else { return self.held_back(chunk) };
        let Some((changed, length)) = lengthened(&head, by) else {
            return vec![Step::Send(head), Step::Send(body)];
        };
        self.has_happened = true;
        [vec![Step::Send(Bytes::from(changed))], self.lied(body, length)].concat()
    }

    /// The rest of a body, and the end of the connection behind it: the client cannot know otherwise what was a lie.
    fn lied(&mut self, chunk: Bytes, due: u64) -> Vec<Step> {
        let left = due.saturating_sub(chunk.len() as u64);
        self.due = Some(left);
        match left {
            0 => vec![Step::Send(chunk), Step::Close],
            _ => vec![Step::Send(chunk)],
        }
    }

    /// Head and what follows it, once the head is whole. Before that and behind it `None`.
    fn head_and_body(&mut self, chunk: &[u8]) -> Option<(Bytes, Bytes)> {
        let mut head = self.head.take()?;
        head.extend_from_slice(chunk);
        let Some(end) = find(&head, b"\r\n\r\n") else {
            self.head = Some(head);
            return None;
        };
        let body = head.split_off(end + 4).freeze();
        Some((head.freeze(), body))
    }

    /// A piece of the head waits for the rest of it, a piece of the body does not.
    fn held_back(&self, chunk: Bytes) -> Vec<Step> {
        if self.head.is_some() { Vec::new() } else { vec![Step::Send(chunk)] }
    }
}

/// The head with one more header, at its beginning.
fn padded(head: &[u8], bytes: usize) -> Vec<u8> {
    let status = find(head, b"\r\n").map_or(head.len(), |end| end + 2);
    [&head[..status], b"x-padding: ", "a".repeat(bytes).as_bytes(), b"\r\n", &head[status..]].concat()
}

/// The head with another length, and the true one; `None` where it names none.
fn lengthened(head: &[u8], by: i64) -> Option<(Vec<u8>, u64)> {
    let start = find(&head.to_ascii_lowercase(), LENGTH)? + LENGTH.len();
    let end = start + find(&head[start..], b"\r\n")?;
    let length: u64 = std::str::from_utf8(&head[start..end]).ok()?.trim().parse().ok()?;
    let changed = length.saturating_add_signed(by).to_string();
    Some(([&head[..start], changed.as_bytes(), &head[end..]].concat(), length))
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}
