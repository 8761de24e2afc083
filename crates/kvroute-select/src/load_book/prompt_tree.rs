//! The prompts in flight of all ranks, as one tree of runs.
//!
//! A decision must know of every rank how much of a prompt is expected there, and a prompt of eight thousand tokens has
//! five hundred blocks: looked up by rank and kept block by block, both are hundreds of misses. Prompts in flight are
//! chains that share their heads, so blocks that the same prompts hold are one run with one count a rank. A prompt is
//! found by the first blocks of its runs and compared at their ends, and all ranks are met on the way.

use kvroute_core::{Blocks, PrehashedMap, RankSlot, SequenceHash};

/// A run of the tree. Valid as long as a prompt that ends there is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunId(u32);

/// Runs of blocks, found by their first block.
#[derive(Debug, Default)]
pub(super) struct PromptTree {
    runs: Vec<Run>,
    free: Vec<RunId>,
    heads: PrehashedMap<SequenceHash, RunId>,
}

/// Consecutive blocks that the same prompts hold.
#[derive(Debug, Default)]
struct Run {
    before: Option<RunId>,
    blocks: Vec<SequenceHash>,
    /// Ordered by slot, each with at least one prompt.
    users: Vec<(RankSlot, Users)>,
}

/// Prompts of one rank that hold a run.
#[derive(Clone, Copy, Debug, Default)]
struct Users {
    all: u32,
    /// Those that are not computed yet, and so are about to bring it.
    unfinished: u32,
}

/// What a prompt came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// Where it ends; `None` if nothing of it is in the tree.
    pub(super) end: Option<RunId>,
    /// Blocks that no other prompt on the rank holds.
    pub(super) new: Blocks,
    /// Blocks at its end that are not in the tree: their hashes belong to another prefix.
    pub(super) left_out: Blocks,
}

// === impl PromptTree ===

impl PromptTree {
    /// Adds an unfinished prompt of a rank.
    pub(super) fn add(&mut self, slot: RankSlot, prompt: &[SequenceHash]) -> Placed {
        let (mut end, mut at, mut new) = (None, 0, 0);
        while at < prompt.len() {
            let Some(run) = self.next_run(end, &prompt[at..]) else { break };
            let run_blocks = self.runs[run.index()].blocks.len();
            if self.runs[run.index()].join(slot) {
                new += run_blocks;
            }
            (end, at) = (Some(run), at + run_blocks);
        }
        Placed { end, new: Blocks::from(new), left_out: Blocks::from(prompt.len() - at) }
    }

    /// The prompt that ends there, or another one that ends there too, is computed.
    pub(super) fn finish(&mut self, slot: RankSlot, end: RunId) {
        let mut next = Some(end);
        while let Some(run) = next {
            let run = &mut self.runs[run.index()];
            if let Some(users) = run.users_of(slot) {
                users.unfinished = users.unfinished.saturating_sub(1);
            }
            next = run.before;
        }
    }

    /// Takes a prompt out. Returns the blocks that no other prompt on the rank holds.
    pub(super) fn remove(&mut self, slot: RankSlot, end: RunId, was_unfinished: bool) -> Blocks {
        let (mut next, mut gone) = (Some(end), 0);
        while let Some(id) = next {
            let run = &mut self.runs[id.index()];
            next = run.before;
            if run.leave(slot, was_unfinished) {
                gone += run.blocks.len();
            }
            if run.users.is_empty() {
                self.forget(id);
            }
        }
        Blocks::from(gone)
    }

    /// Writes down for each slot how many leading blocks of a prompt unfinished prompts there are about to bring; leaves
    /// the others as they are.
    pub(super) fn expected(&self, prompt: &[SequenceHash], mut tell: impl FnMut(RankSlot, usize)) {
        let mut at = 0;
        while let Some(run) = prompt.get(at).and_then(|head| self.heads.get(head)) {
            let run = &self.runs[run.index()];
            let matched = equal_blocks(&run.blocks, &prompt[at..]);
            at += matched;
            for (slot, _) in run.users.iter().filter(|(_, users)| users.unfinished > 0) {
                tell(*slot, at);
            }
            if matched < run.blocks.len() {
                return;
            }
        }
    }

    /// The run that a prompt goes on with, made or cut so that the prompt holds all of it. `None` if the one that begins
    /// with the same block belongs elsewhere.
    fn next_run(&mut self, before: Option<RunId>, prompt: &[SequenceHash]) -> Option<RunId> {
        let Some(&run) = self.heads.get(&prompt[0]) else { return Some(self.grow(before, prompt.to_vec())) };
        let known = &self.runs[run.index()];
        if known.before != before {
            return None;
        }
        match equal_blocks(&known.blocks, prompt) {
            matched if matched == known.blocks.len() => Some(run),
            matched => Some(self.cut(run, matched)),
        }
    }

    fn grow(&mut self, before: Option<RunId>, blocks: Vec<SequenceHash>) -> RunId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.runs.push(Run::default());
            RunId(self.runs.len() as u32 - 1)
        });
        self.heads.insert(blocks[0], id);
        self.runs[id.index()] = Run { before, blocks, users: Vec::new() };
        id
    }

    /// Cuts a run in two and returns the one in front. The one behind stays what it was called, since prompts end there.
    fn cut(&mut self, id: RunId, length: usize) -> RunId {
        let run = &mut self.runs[id.index()];
        let behind = run.blocks.split_off(length);
        let (in_front, before, users) =
            (std::mem::replace(&mut run.blocks, behind), run.before, run.users.clone());
        self.heads.insert(self.runs[id.index()].blocks[0], id);
        let front = self.grow(before, in_front);
        self.runs[front.index()].users = users;
        self.runs[id.index()].before = Some(front);
        front
    }

    fn forget(&mut self, id: RunId) {
        let run = std::mem::take(&mut self.runs[id.index()]);
        if self.heads.get(&run.blocks[0]) == Some(&id) {
            self.heads.remove(&run.blocks[0]);
        }
        self.free.push(id);
        if self.heads.is_empty() {
            *self = Self::default();
        }
    }

    /// Runs.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.runs.capacity()
    }
}

// === impl Run ===

impl Run {
    /// One more prompt of a rank. True if it is the rank's first one.
    fn join(&mut self, slot: RankSlot) -> bool {
        let place = self.users.binary_search_by_key(&slot, |(slot, _)| *slot);
        let at = place.unwrap_or_else(|at| {
            self.users.insert(at, (slot, Users::default()));
            at
        });
        let users = &mut self.users[at].1;
        users.all += 1;
        users.unfinished += 1;
        place.is_err()
    }

    /// One prompt of a rank less. True if it was the rank's last one.
    fn leave(&mut self, slot: RankSlot, was_unfinished: bool) -> bool {
        let Ok(at) = self.users.binary_search_by_key(&slot, |(slot, _)| *slot) else { return false };
        let users = &mut self.users[at].1;
        users.all -= 1;
        users.unfinished -= u32::from(was_unfinished);
        let is_last = users.all == 0;
        if is_last {
            self.users.remove(at);
        }
        is_last
    }

    fn users_of(&mut self, slot: RankSlot) -> Option<&mut Users> {
        let at = self.users.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        Some(&mut self.users[at].1)
    }
}

// === impl RunId ===

impl RunId {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Leading blocks that are equal; the first ones are. Hashes are chained: once they differ, they stay so.
fn equal_blocks(run: &[SequenceHash], prompt: &[SequenceHash]) -> usize {
    let shorter = run.len().min(prompt.len());
    if run[shorter - 1] == prompt[shorter - 1] {
        return shorter;
    }
    let (mut low, mut high) = (1, shorter - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if run[middle] == prompt[middle] {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
