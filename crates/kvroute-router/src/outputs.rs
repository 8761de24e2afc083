//! What the answers of one attempt were made of, on its way into the history.
//!
//! A prompt is taught when all of its answers have come to a normal end; the blocks that were generated are taught with it
//! where it is known which tokens they are. An engine that told only some of them would give a chain that nobody ever asks
//! for, so ids are believed only where they agree with the engine's own count, or where every piece of text came with ids.

use std::collections::BTreeMap;

use kvroute_core::{
    BlockExtras, BlockSize, ExtraKey, Namespace, PrefixHasher, PromptBlocks, PromptItem, SequenceHash,
    TokenId, Tokens,
};
use kvroute_history::OutputTail;
use kvroute_openai::{FinishReason, Observation, TokenSpan};

/// Follows the answers to the prompts of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    size: BlockSize,
    /// Answers to each prompt.
    choices_a_prompt: u32,
    prompts: Vec<PromptEnd>,
    /// Those that were seen: what a client asks for is no reason to make room for it.
    choices: BTreeMap<u32, Choice>,
    /// The engine's own count of what it generated, in all choices.
    counted: Option<Tokens>,
    /// The choice that got text last, as long as no ids have come for it.
    without_ids: Option<u32>,
    has_failed: bool,
}

/// The place in a prompt's chain of blocks where an answer goes on.
#[derive(Clone, Debug)]
pub(crate) struct PromptEnd {
    parent: PrefixHasher,
    /// Tokens behind the last complete block.
    rest: Vec<TokenId>,
    /// Complete blocks, and their size.
    blocks: (usize, BlockSize),
    /// What the block behind them depends on beside its tokens.
    keys: Vec<ExtraKey>,
}

/// What an attempt's answers teach.
#[derive(Debug, Default)]
pub(crate) struct LearnedOutputs {
    /// Tokens that were generated and are not taught, because it is not known which they are.
    pub(crate) untracked: Tokens,
    choices_a_prompt: u32,
    /// Blocks of each choice that has any, by its index.
    blocks: BTreeMap<u32, Vec<SequenceHash>>,
}

/// One answer.
#[derive(Clone, Debug)]
struct Choice {
    tail: OutputTail,
    completed: Vec<SequenceHash>,
    /// Tokens whose ids are known.
    tracked: Tokens,
    /// Pieces that came without ids: at least one token each.
    pieces_without_ids: Tokens,
    /// Ids came that could not be read, so nothing behind them has a place.
    is_broken: bool,
    has_ended: bool,
}

// === impl PromptEnd ===

impl PromptEnd {
    /// Of a prompt and its blocks.
    pub(crate) fn of(tokens: &[TokenId], blocks: &PromptBlocks, namespace: Namespace) -> Self {
        let hashes = blocks.hashes();
        let parent =
            hashes.last().map_or_else(|| PrefixHasher::root(namespace), |last| PrefixHasher::after(*last));
        let covered = hashes.len() * blocks.block_size().get() as usize;
        let rest = tokens.get(covered..).unwrap_or_default().to_vec();
        Self { parent, rest, blocks: (hashes.len(), blocks.block_size()), keys: Vec::new() }
    }

    /// The same where images and their like stand in the prompt: one may reach into the block that the answer completes.
    pub(crate) fn with_items(self, items: &[PromptItem]) -> Self {
        if items.is_empty() {
            return self;
        }
        let (complete, size) = self.blocks;
        let extras = BlockExtras::of_items(items, size, complete + 1);
        Self { keys: extras.of_block(complete).collect(), ..self }
    }
}

// === impl Outputs ===

impl Outputs {
    /// Before anything has come. The prompts end in their order, in blocks of `size`.
    pub(crate) fn new(size: BlockSize, choices_a_prompt: u32, prompts: Vec<PromptEnd>) -> Self {
        Self {
            size,
            choices_a_prompt: choices_a_prompt.max(1),
            prompts,
            choices: BTreeMap::new(),
            counted: None,
            without_ids: None,
            has_failed: false,
        }
    }

    /// Size of the blocks that it makes.
    pub(crate) const fn block_size(&self) -> BlockSize {
        self.size
    }

    /// Takes what was seen in the answer; `token_ids` came with it.
    pub(crate) fn observe(&mut self, observation: &Observation, token_ids: &[TokenId]) {
        if let Observation::Generated { choice, ids } = observation {
            self.generated(*choice, ids.map(|span: TokenSpan| span.of(token_ids)));
            return;
        }
        self.piece_had_no_ids();
        match observation {
            Observation::Content { choice } => self.without_ids = Some(*choice),
            Observation::Finish { reason: FinishReason::Aborted, .. } | Observation::Error => {
                self.has_failed = true;
            }
            Observation::Finish { choice, .. } => {
                if let Some(choice) = self.choice(*choice) {
                    choice.has_ended = true;
                }
            }
            Observation::Usage(counts) => {
                self.counted = counts.completion.map(Tokens::new).or(self.counted);
            }
            Observation::Generated { .. } | Observation::Report(_) | Observation::Done => {}
        }
    }

    /// Whether every answer to every prompt has come to a normal end, and none has failed.
    pub(crate) fn all_finished(&self) -> bool {
        let ended = self.choices.values().filter(|choice| choice.has_ended).count() as u64;
        !self.has_failed && ended > 0 && ended == self.expected()
    }

    /// What is to be taught of the answers, behind the blocks of their prompts. For answers that have all finished.
    pub(crate) fn learned(mut self) -> LearnedOutputs {
        self.piece_had_no_ids();
        let all: Tokens = self.choices.values().map(|choice| choice.tracked).sum();
        // A count below is none of all choices.
        let counted = self.counted.filter(|counted| *counted >= all);
        let is_complete = counted == Some(all);
        let has_gap = self.choices.values().any(Choice::has_gap);
        let is_explained = is_complete || has_gap || counted.is_none();
        let unheard: Tokens = self.choices.values().map(|choice| choice.pieces_without_ids).sum();
        let generated = counted.unwrap_or(all + unheard);
        let believed = |choice: &Choice| is_explained && choice.is_believed(is_complete);
        let tracked: Tokens =
            self.choices.values().filter(|choice| believed(choice)).map(|choice| choice.tracked).sum();
        let blocks = self.choices.into_iter().filter(|(_, choice)| believed(choice));
        LearnedOutputs {
            untracked: generated.saturating_sub(tracked),
            choices_a_prompt: self.choices_a_prompt,
            blocks: blocks.map(|(index, choice)| (index, choice.completed)).collect(),
        }
    }

    fn generated(&mut self, choice: u32, ids: Option<&[TokenId]>) {
        let expected_here = self.without_ids == Some(choice);
        if expected_here {
            self.without_ids = None;
        } else {
            self.piece_had_no_ids();
        }
        if let Some(choice) = self.choice(choice) {
            choice.take(ids);
        }
    }

    /// The piece before was the only word of its part about its choice.
    fn piece_had_no_ids(&mut self) {
        let Some(index) = self.without_ids.take() else { return };
        if let Some(choice) = self.choice(index) {
            choice.pieces_without_ids += Tokens::new(1);
        }
    }

    /// The choice with this index; `None` for one that nobody asked for.
    fn choice(&mut self, index: u32) -> Option<&mut Choice> {
        let prompt = self.prompts.get((index / self.choices_a_prompt) as usize)?;
        Some(self.choices.entry(index).or_insert_with(|| Choice {
            tail: OutputTail::new(self.size, prompt.parent, &prompt.rest).with_keys(&prompt.keys),
            completed: Vec::new(),
            tracked: Tokens::ZERO,
            pieces_without_ids: Tokens::ZERO,
            is_broken: false,
            has_ended: false,
        }))
    }

    fn expected(&self) -> u64 {
        u64::from(self.choices_a_prompt) * self.prompts.len() as u64
    }
}

// === impl Choice ===

impl Choice {
    fn take(&mut self, ids: Option<&[TokenId]>) {
        match ids {
            Some(ids) if !self.is_broken => {
                self.tail.push(ids, &mut self.completed);
                self.tracked += Tokens::from(ids.len());
            }
            // How many they were is not known, either.
            _ => {
                self.is_broken = true;
                self.pieces_without_ids += Tokens::new(1);
            }
        }
    }

    fn has_gap(&self) -> bool {
        self.is_broken || !self.pieces_without_ids.is_zero()
    }

    /// Ids may come later than their text, so a gap says nothing where the engine counts no token more than were told.
    fn is_believed(&self, is_complete: bool) -> bool {
        !self.is_broken && (is_complete || self.pieces_without_ids.is_zero())
    }
}

// === impl LearnedOutputs ===

impl LearnedOutputs {
    /// The blocks that follow those of one prompt, for each of its answers that has any.
    pub(crate) fn behind(&self, prompt: usize) -> impl Iterator<Item = &[SequenceHash]> {
        let first = (prompt as u64).saturating_mul(u64::from(self.choices_a_prompt));
        let behind_last = first.saturating_add(u64::from(self.choices_a_prompt));
        let range = u32::try_from(first).unwrap_or(u32::MAX)..u32::try_from(behind_last).unwrap_or(u32::MAX);
        self.blocks.range(range).map(|(_, blocks)| blocks.as_slice()).filter(|blocks| !blocks.is_empty())
    }
}

#[cfg(test)]
mod tests;
