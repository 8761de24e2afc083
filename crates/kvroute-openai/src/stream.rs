//! Reads a stream of server-sent events while it passes.
//!
//! Bytes go out as they came in. Only a `data:` line whose end has not arrived yet is held back, because until
//! then nobody can tell whether it has to be taken out; a client could not have used half an event anyway.
//! A line that never ends stops being looked at, so memory stays bounded.

mod forward;
mod line;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use kvroute_core::TokenId;

use self::forward::Forward;
use self::line::Verdict;
use crate::response::PartReader;
use crate::{Delivered, Endpoint, ErrorBody, Observation, TokenIds, UsageCorrection};

/// What happens to the usage-only chunk (`choices: []`) of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageChunk {
    /// The client asked for it: every byte passes.
    Forward,
    /// The router asked for it: taken out, with its blank line.
    Withhold,
}

/// Splits a stream into lines under any chunking, reads the few fields that matter, and says what to forward.
#[derive(Debug)]
pub struct StreamScanner {
    usage_chunk: UsageChunk,
    place: Place,
    /// The start of a `data:` line whose end has not arrived.
    held: Vec<u8>,
    /// What passes in the place of the line that was judged last.
    edited: Vec<u8>,
    /// Lines of the current event were forwarded, and its blank line was not yet.
    event_open: bool,
    /// The blank line that comes next belongs to an event that was taken out.
    swallow_blank: bool,
    done: bool,
    reader: PartReader,
}

/// Where in a line the stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At its start, or inside one that is held back.
    Line,
    /// Inside one that is being forwarded unread.
    Passing,
    /// Behind a carriage return that ended it; a line feed would still be part of that ending.
    AfterReturn {
        /// Whether the line was forwarded.
        forwarded: bool,
    },
}

// === impl StreamScanner ===

impl StreamScanner {
    /// Longest line that is looked into; a longer one passes as it is. A fuzzer never writes a megabyte by itself.
    pub const MAX_LINE: usize = if cfg!(fuzzing) { 1 << 10 } else { 1 << 20 };

    /// The same where token ids are withheld: the ids of a prompt of two million tokens are one line.
    pub const MAX_LINE_WITH_IDS: usize = 16 * Self::MAX_LINE;

    /// Starts before the first byte, without a look at token ids.
    pub fn new(usage_chunk: UsageChunk) -> Self {
        Self::with_token_ids(usage_chunk, TokenIds::Ignore)
    }

    /// The same for a stream whose token ids are treated like that.
    pub fn with_token_ids(usage_chunk: UsageChunk, token_ids: TokenIds) -> Self {
        Self {
            usage_chunk,
            place: Place::Line,
            held: Vec::new(),
            edited: Vec::new(),
            event_open: false,
            swallow_blank: false,
            done: false,
            reader: PartReader::new(token_ids),
        }
    }

    /// Corrects the counts of tokens that the client sees, wherever usage appears.
    #[must_use]
    pub fn correcting(self, correction: UsageCorrection) -> Self {
        Self { reader: self.reader.correcting(correction), ..self }
    }

    /// Keeps what the client of one text gets, so that another engine can go on with it; or goes on with what was kept.
    #[must_use]
    pub fn keeping(self, delivered: Delivered) -> Self {
        Self { reader: self.reader.keeping(delivered), ..self }
    }

    /// What was kept; `None` where nothing is.
    pub fn delivered(&self) -> Option<&Delivered> {
        self.reader.delivered()
    }

    /// Whether the engine told that it died, in a stream that another one may go on with. That error and all behind it are
    /// withheld: there is nothing more to read.
    pub const fn has_died(&self) -> bool {
        self.reader.has_died()
    }

    /// The engine broke off, and another one goes on: drops the unfinished line and returns what closes the event that
    /// the client has only a part of, and what was kept.
    pub fn suspend(&mut self) -> (Bytes, Option<Delivered>) {
        let separator = Bytes::from_static(self.drop_unfinished());
        (separator, self.reader.take_delivered().map(|delivered| *delivered))
    }

    /// Takes the next bytes from the engine and returns those to forward now (maybe none). What was seen in
    /// them is appended to `observations`, token ids stand in [`StreamScanner::token_ids`] until the next call. Only an
    /// unfinished `data:` line is held back.
    pub fn push(&mut self, chunk: &Bytes, observations: &mut Vec<Observation>) -> Bytes {
        self.reader.clear_token_ids();
        let mut forward = Forward::new(chunk);
        let mut start = self.line_feed_of_a_return(chunk, &mut forward);
        while start < chunk.len() {
            let Some(length) = memchr::memchr2(b'\n', b'\r', &chunk[start..]) else {
                self.hold(start, &mut forward);
                break;
            };
            let end = start + length;
            let next = end + if chunk[end..].starts_with(b"\r\n") { 2 } else { 1 };
            let forwarded = self.end_line(start, end, next, &mut forward, observations);
            if chunk[end] == b'\r' && next == chunk.len() && next == end + 1 {
                self.place = Place::AfterReturn { forwarded };
            }
            start = next;
        }
        forward.finish()
    }

    /// The engine ended the stream: returns what was held back.
    pub fn finish(&mut self, observations: &mut Vec<Observation>) -> Bytes {
        self.reader.clear_token_ids();
        let line = std::mem::take(&mut self.held);
        // Who goes on with a stream that ended so does not forward this line.
        let delivered = self.reader.take_delivered();
        let verdict = self.judge(&line, observations);
        self.reader.put_delivered(delivered);
        match verdict {
            Verdict::Forward => Bytes::from(line),
            Verdict::Replace => Bytes::from(std::mem::take(&mut self.edited)),
            Verdict::Withhold => Bytes::new(),
        }
    }

    /// The ids that the observations of the last call speak of.
    pub fn token_ids(&self) -> &[TokenId] {
        self.reader.token_ids()
    }

    /// The engine broke off: drops the unfinished line and returns an error event that stands on its own,
    /// whatever was forwarded before, in the shape of the endpoint's own errors.
    pub fn break_off(&mut self, error: &ErrorBody, endpoint: Endpoint) -> Bytes {
        let separator = self.drop_unfinished();
        let event = error.to_event(endpoint, self.reader.next_sequence_number());
        Bytes::from([separator, &event].concat())
    }

    /// Whether the event was seen that ends the stream: `data: [DONE]`, or the last one of its API.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// The id of the response, once a stream of `/v1/responses` has told it: what a later request may continue.
    pub fn response_id(&self) -> Option<&str> {
        self.reader.response_id()
    }

    /// Drops the unfinished line. Returns what closes an event that was forwarded in part.
    fn drop_unfinished(&mut self) -> &'static [u8] {
        self.held.clear();
        let is_open = self.event_open || self.place == Place::Passing;
        self.place = Place::Line;
        self.event_open = false;
        if is_open { b"\n\n" } else { b"" }
    }

    const fn longest_line(&self) -> usize {
        if self.reader.withholds_token_ids() { Self::MAX_LINE_WITH_IDS } else { Self::MAX_LINE }
    }

    /// A line feed right behind a carriage return shares the fate of the line that it ends. Returns how many
    /// bytes of the chunk that took.
    fn line_feed_of_a_return(&mut self, chunk: &[u8], forward: &mut Forward<'_>) -> usize {
        let Place::AfterReturn { forwarded } = self.place else { return 0 };
        if chunk.is_empty() {
            return 0;
        }
        self.place = Place::Line;
        let length = usize::from(chunk[0] == b'\n');
        if forwarded {
            forward.keep(0..length);
        }
        length
    }

    /// The chunk ends inside a line that starts (or goes on) at `start`.
    fn hold(&mut self, start: usize, forward: &mut Forward<'_>) {
        let tail = forward.chunk_from(start);
        if self.place == Place::Line {
            let fits = self.held.len() + tail.len() <= self.longest_line();
            if fits && line::may_be_data(&self.held, tail) {
                self.held.extend_from_slice(tail);
                return;
            }
            if line::may_be_data(&self.held, tail) {
                self.reader.unread();
            }
            forward.write(&self.held);
            self.held.clear();
            self.place = Place::Passing;
            self.swallow_blank = false;
        }
        forward.keep(start..start + tail.len());
    }

    /// The line that stands at `start..end` of the chunk (behind what is held) is complete, its ending is
    /// `end..next`. Returns whether it was forwarded.
    fn end_line(
        &mut self,
        start: usize,
        end: usize,
        next: usize,
        forward: &mut Forward<'_>,
        observations: &mut Vec<Observation>,
    ) -> bool {
        if self.place == Place::Passing {
            self.place = Place::Line;
            self.event_open = true;
            forward.keep(start..next);
            return true;
        }
        let mut held = std::mem::take(&mut self.held);
        let in_chunk = forward.chunk_range(start..end);
        let verdict = if held.is_empty() {
            self.judge(in_chunk, observations)
        } else {
            held.extend_from_slice(in_chunk);
            self.judge(&held, observations)
        };
        let is_blank = start == end && held.is_empty();
        match verdict {
            Verdict::Withhold => return false,
            Verdict::Forward if held.is_empty() => forward.keep(start..end),
            Verdict::Forward => forward.write(&held),
            Verdict::Replace => forward.write(&self.edited),
        }
        forward.keep(end..next);
        self.event_open = !is_blank;
        true
    }

    /// What happens to a complete line.
    fn judge(&mut self, line: &[u8], observations: &mut Vec<Observation>) -> Verdict {
        if self.has_died() {
            return Verdict::Withhold;
        }
        if line.is_empty() {
            let swallowed = std::mem::take(&mut self.swallow_blank);
            return if swallowed { Verdict::Withhold } else { Verdict::Forward };
        }
        let seen = observations.len();
        let verdict = if line.len() > self.longest_line() {
            self.reader.unread();
            Verdict::Forward
        } else {
            line::judge(line, self.usage_chunk, &mut self.reader, observations, &mut self.edited)
        };
        self.done |= observations[seen..].contains(&Observation::Done);
        // The blank line stays where it still closes other lines of the same event.
        self.swallow_blank = verdict == Verdict::Withhold && !self.event_open;
        verdict
    }
}
