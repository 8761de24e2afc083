//! What one attempt occupies, and how it grows.
//!
//! Complete prompt blocks with a hash are shared between attempts and counted by the rank. Everything else
//! belongs to the attempt: blocks that were not hashed, the partial last block of the prompt, and the output.
//! Each choice continues the partial block in a copy of its own, as engines do.

use std::time::Duration;

use kvroute_core::{BlockSize, Blocks, RankSlot, Tokens};

use super::prompt_tree::{PromptTree, RunId};
use super::{BookedPrompt, Booking};

/// Choices of one prompt that are followed apart; further ones are added to these. Engines accept far fewer,
/// and a number from a client's request must not size an allocation.
const MAX_CHOICES: u32 = 256;

/// Output of one choice beyond which it no longer grows: longer than any context, short enough that no sum
/// of choices overflows.
const MAX_OUTPUT: u64 = 1 << 32;

/// What the sequences of one attempt are thought to read at the most, so that no sum over attempts overflows.
const MAX_CONTEXT: u64 = 1 << 40;

/// One attempt's share of its rank's load.
#[derive(Debug)]
pub(super) struct BookedAttempt {
    slot: RankSlot,
    block_size: BlockSize,
    choices: u32,
    booked_at: Duration,
    shows_first_token: bool,
    /// Whether its prompts are still to be computed, be it without a token that is not cached.
    is_unfinished: bool,
    /// Tokens that are still to be computed.
    prefill: Tokens,
    /// Tokens that its sequences read at every step.
    context: Tokens,
    /// Where its prompts end among those in flight.
    ends: Vec<RunId>,
    /// Blocks that no other attempt shares.
    private: Blocks,
    prompts: Vec<PromptGrowth>,
}

/// What output added to a rank's load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    pub(super) blocks: Blocks,
    pub(super) context: Tokens,
}

/// The growing end of one prompt.
#[derive(Debug)]
struct PromptGrowth {
    /// Tokens of the prompt in its partial last block.
    partial: Tokens,
    /// Output of each choice; grows as choices show up.
    outputs: Vec<Tokens>,
    /// Blocks of the choices that have output.
    grown: Blocks,
}

// === impl BookedAttempt ===

impl BookedAttempt {
    /// Also returns the blocks that no other attempt on the rank has.
    pub(super) fn new(slot: RankSlot, booking: &Booking<'_>, tree: &mut PromptTree) -> (Self, Blocks) {
        let size = booking.block_size;
        let unhashed = |prompt: &BookedPrompt<'_>| {
            size.complete_blocks(prompt.tokens).saturating_sub(Blocks::from(prompt.hashes.len()))
        };
        let prompts: Vec<_> =
            booking.prompts.iter().map(|prompt| PromptGrowth::new(prompt.tokens, size)).collect();
        let (mut ends, mut new, mut left_out) = (Vec::with_capacity(1), Blocks::ZERO, Blocks::ZERO);
        for prompt in booking.prompts {
            let placed = tree.add(slot, prompt.hashes);
            ends.extend(placed.end);
            new += placed.new;
            left_out += placed.left_out;
        }
        let attempt = Self {
            slot,
            block_size: size,
            choices: booking.choices.clamp(1, MAX_CHOICES),
            booked_at: booking.now,
            context: context_of(booking),
            shows_first_token: booking.shows_first_token,
            is_unfinished: true,
            prefill: booking.prefill,
            ends,
            private: booking.prompts.iter().map(unhashed).sum::<Blocks>()
                + prompts.iter().map(|prompt| prompt.blocks(size)).sum()
                + left_out,
            prompts,
        };
        (attempt, new)
    }

    pub(super) const fn slot(&self) -> RankSlot {
        self.slot
    }

    pub(super) const fn prefill(&self) -> Tokens {
        self.prefill
    }

    pub(super) const fn context(&self) -> Tokens {
        self.context
    }

    pub(super) const fn booked_at(&self) -> Duration {
        self.booked_at
    }

    pub(super) const fn shows_first_token(&self) -> bool {
        self.shows_first_token
    }

    pub(super) const fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Takes its prompts out of those in flight. Returns the blocks that no other attempt on the rank has.
    pub(super) fn leave(&self, tree: &mut PromptTree) -> Blocks {
        self.ends.iter().map(|end| tree.remove(self.slot, *end, self.is_unfinished)).sum()
    }

    pub(super) const fn private(&self) -> Blocks {
        self.private
    }

    /// Ends the prefill. Returns the tokens that it freed.
    pub(super) fn finish_prefill(&mut self, tree: &mut PromptTree) -> Tokens {
        self.ends.iter().for_each(|end| tree.finish(self.slot, *end));
        self.is_unfinished = false;
        std::mem::take(&mut self.prefill)
    }

    /// Adds output to a choice.
    pub(super) fn grow(&mut self, choice: u32, tokens: Tokens) -> Growth {
        let Some(last) = self.prompts.len().checked_sub(1) else { return Growth::default() };
        let prompt = (choice / self.choices) as usize;
        let taken = self.prompts[prompt.min(last)].grow(choice % self.choices, tokens, self.block_size);
        let longer = Tokens::new(self.context.get().saturating_add(tokens.get()).min(MAX_CONTEXT));
        let grown = Growth { blocks: taken, context: longer - self.context };
        self.private += taken;
        self.context = longer;
        grown
    }
}

fn context_of(booking: &Booking<'_>) -> Tokens {
    let prompts: Tokens = booking.prompts.iter().map(|prompt| prompt.tokens).sum();
    let choices = u64::from(booking.choices.clamp(1, MAX_CHOICES));
    Tokens::new(prompts.get().saturating_mul(choices).min(MAX_CONTEXT))
}

// === impl PromptGrowth ===

impl PromptGrowth {
    fn new(prompt: Tokens, size: BlockSize) -> Self {
        let partial = prompt - size.tokens(size.complete_blocks(prompt));
        Self { partial, outputs: Vec::new(), grown: Blocks::ZERO }
    }

    /// Blocks behind the prompt's complete ones: the partial block alone until a choice continues it.
    fn blocks(&self, size: BlockSize) -> Blocks {
        self.grown.max(size.occupied_blocks(self.partial))
    }

    fn grow(&mut self, choice: u32, tokens: Tokens, size: BlockSize) -> Blocks {
        let index = choice as usize;
        if index >= self.outputs.len() {
            self.outputs.resize(index + 1, Tokens::ZERO);
        }
        let before = self.blocks(size);
        let output = self.outputs[index];
        let longer = Tokens::new(output.get().saturating_add(tokens.get()).min(MAX_OUTPUT));
        self.outputs[index] = longer;
        self.grown += self.choice_blocks(longer, size);
        self.grown -= self.choice_blocks(output, size);
        self.blocks(size) - before
    }

    fn choice_blocks(&self, output: Tokens, size: BlockSize) -> Blocks {
        if output.is_zero() { Blocks::ZERO } else { size.occupied_blocks(self.partial + output) }
    }
}
