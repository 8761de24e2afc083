//! The attempts that run on a remembered rank: which blocks they use, and the room they take besides.

use std::time::Duration;

use kvroute_core::{Blocks, PromptBlocks, SequenceHash, Tokens};

use super::blocks::{Node, RememberedBlocks};

/// One attempt, from its placement to its end.
#[derive(Clone, Debug)]
pub(super) struct Running {
    placed: Duration,
    chains: Vec<Chain>,
    /// Partial last blocks of its prompts.
    partial: u64,
    output: u64,
}

/// One prompt of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    tokens: Tokens,
    /// All of its blocks, until it is computed.
    hashes: Vec<SequenceHash>,
    /// Its leading blocks that are remembered, pinned by it.
    nodes: Vec<Node>,
    is_computed: bool,
    /// How many of them others used when it was placed.
    in_use: usize,
    /// When the last one of the blocks that were known at placement had been used.
    last_use: Option<Duration>,
}

// === impl Running ===

impl Running {
    pub(super) const fn new(placed: Duration) -> Self {
        Self { placed, chains: Vec::new(), partial: 0, output: 0 }
    }

    /// Adds a prompt. Returns the room that it takes besides remembered blocks.
    pub(super) fn add(&mut self, chain: Chain, prompt: &PromptBlocks) -> u64 {
        let complete = prompt.block_size().tokens(prompt.blocks());
        let partial = u64::from(prompt.tokens() > complete);
        let taken = partial + chain.pending();
        self.partial += partial;
        self.chains.push(chain);
        taken
    }

    /// Takes the number of output blocks so far. Returns how many are new.
    pub(super) fn grow(&mut self, output: Blocks) -> u64 {
        let taken = output.get().min(u64::from(u32::MAX)).saturating_sub(self.output);
        self.output += taken;
        taken
    }

    /// Room that it takes besides remembered blocks.
    pub(super) fn private(&self) -> u64 {
        self.partial + self.output + self.chains.iter().map(Chain::pending).sum::<u64>()
    }

    /// True if nothing is left to compute: prompts are computed together, so the last one tells.
    pub(super) fn is_computed(&self) -> bool {
        self.chains.last().is_none_or(|chain| chain.is_computed)
    }

    pub(super) fn chains_to_compute(&mut self) -> impl Iterator<Item = &mut Chain> {
        self.chains.iter_mut().filter(|chain| !chain.is_computed)
    }

    /// The one prompt of an attempt that has no other, and when it was placed.
    pub(super) fn only_chain(&self) -> Option<(&Chain, Duration)> {
        match &self.chains[..] {
            [chain] => Some((chain, self.placed)),
            _ => None,
        }
    }

    /// Gives its blocks free.
    pub(super) fn release(self, blocks: &mut RememberedBlocks, now: Duration) {
        for chain in self.chains {
            chain.release(blocks, now);
        }
    }
}

// === impl Chain ===

impl Chain {
    /// Pins what is known of a prompt.
    pub(super) fn pin(prompt: &PromptBlocks, blocks: &mut RememberedBlocks) -> Self {
        let hashes = prompt.hashes().to_vec();
        let nodes: Vec<_> = hashes.iter().map_while(|hash| blocks.find(*hash)).collect();
        let in_use = nodes.iter().take_while(|node| blocks.last_use(**node).is_none()).count();
        let last_use = nodes.last().and_then(|node| blocks.last_use(*node));
        nodes.iter().for_each(|node| blocks.pin(*node));
        Self { tokens: prompt.tokens(), hashes, nodes, is_computed: false, in_use, last_use }
    }

    /// Length of the prompt.
    pub(super) const fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// True if another attempt used the block at a position when this one was placed.
    pub(super) fn was_in_use(&self, position: Blocks) -> bool {
        position < Blocks::from(self.in_use)
    }

    /// When the last block that was known at placement had been used; `None` where none was known.
    pub(super) const fn last_use(&self) -> Option<Duration> {
        self.last_use
    }

    /// Its block at a position, if it is remembered.
    pub(super) fn node(&self, position: Blocks) -> Option<Node> {
        usize::try_from(position.get()).ok().and_then(|position| self.nodes.get(position)).copied()
    }

    /// Its blocks that are still to be computed.
    fn pending(&self) -> u64 {
        if self.is_computed { 0 } else { (self.hashes.len() - self.nodes.len()) as u64 }
    }

    /// Remembers all of its blocks, as far as there is room, and uses them. Returns those, and adds to `evicted` what
    /// had to leave for them.
    pub(super) fn compute(
        &mut self,
        blocks: &mut RememberedBlocks,
        now: Duration,
        evicted: &mut Vec<SequenceHash>,
    ) -> Vec<SequenceHash> {
        self.is_computed = true;
        let mut hashes = std::mem::take(&mut self.hashes);
        for hash in &hashes[self.nodes.len()..] {
            let Some(node) = blocks.find_or_insert(*hash, self.nodes.last().copied(), evicted) else { break };
            blocks.pin(node);
            self.nodes.push(node);
        }
        self.nodes.iter().for_each(|node| blocks.start_use(*node, now));
        hashes.truncate(self.nodes.len());
        hashes
    }

    /// Unpins its blocks. What it used becomes the most recent, its last block before the others, so that it leaves
    /// before them; what it did not come to use keeps its age.
    fn release(self, blocks: &mut RememberedBlocks, now: Duration) {
        if self.is_computed {
            self.nodes.iter().rev().for_each(|node| blocks.end_use(*node, now));
        } else {
            self.nodes.iter().for_each(|node| blocks.unpin(*node));
        }
    }
}
