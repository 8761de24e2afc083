//! Streams of engines other than vLLM.

use super::AnswerStream;
use crate::http::dialect::{Dialect, Piece};
use crate::runner::Token;

// === impl AnswerStream ===

impl AnswerStream {
    /// Writes one token, and what surrounds it.
    pub(super) fn write_foreign(&mut self, dialect: &dyn Dialect, token: &Token) {
        let choice = token.choice as usize;
        self.answer.usage.prefilled(token);
        if !std::mem::replace(&mut self.has_opened, true)
            && let Some(chunk) = dialect.opening(&self.answer)
        {
            self.events.chunk(&chunk);
        }
        let is_first = !std::mem::replace(&mut self.begun[choice], true);
        if is_first {
            for chunk in dialect.begin(&self.answer, choice) {
                self.events.padded_chunk(&chunk, dialect.pads_begin());
            }
        }
        self.answer.usage.count(token);
        let text = if self.answer.swallows(choice) { "" } else { self.answer.app.words.text(token.word) };
        let id = self.answer.app.words.id(token.word);
        let piece = Piece { choice, text, id, is_first, is_last: token.is_last };
        dialect.piece(&self.answer, piece).iter().for_each(|chunk| self.events.chunk(chunk));
        if let Some(chunk) = dialect.end(&self.answer, choice).filter(|_| token.is_last) {
            self.events.chunk(&chunk);
        }
    }

    /// Writes what ends the stream.
    pub(super) fn end_foreign(&mut self, dialect: &dyn Dialect) {
        if self.answer.is_cut_short() {
            let choices = 0..self.answer.request.total_choices();
            let ends = choices.filter_map(|choice| dialect.end(&self.answer, choice));
            ends.for_each(|chunk| self.events.chunk(&chunk));
        }
        if let Some(chunk) = dialect.usage(&self.answer) {
            self.events.usage_chunk(&chunk);
        }
        self.events.done();
    }
}
