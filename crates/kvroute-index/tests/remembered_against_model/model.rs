//! A remembered rank as lists: which blocks there are, when each was used last, and what every attempt has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kvroute_index::ReportedReuse;

/// A prompt in a small tree of prompts, one bit a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    blocks: usize,
    bits: u32,
}

#[derive(Default)]
pub(crate) struct Model {
    ttl: Option<Duration>,
    /// Last use, and how many uses had ended before it did.
    blocks: BTreeMap<Path, (Duration, u64)>,
    attempts: BTreeMap<u64, Attempt>,
    ends: u64,
}

#[derive(Default)]
struct Attempt {
    placed: Duration,
    prompts: Vec<Prompt>,
    partial: u64,
    output: u64,
}

struct Prompt {
    path: Path,
    is_partial: bool,
    /// Blocks that were known when it was placed, or all once it is computed.
    pinned: usize,
    /// Those of them that others used at that time.
    in_use: usize,
    is_computed: bool,
}

impl Path {
    pub(crate) fn new(bits: u32, blocks: usize) -> Self {
        Self { bits: bits & ((1 << blocks) - 1), blocks }
    }

    pub(crate) fn all(depth: usize) -> impl Iterator<Item = Self> {
        (1..=depth).flat_map(|blocks| (0..1 << blocks).map(move |bits| Self { bits, blocks }))
    }

    pub(crate) fn tokens(self, size: u32) -> Vec<u32> {
        (0..self.blocks)
            .flat_map(|block| (0..size).map(move |at| (self.bits >> block & 1) * 10 + at))
            .collect()
    }

    fn cut(self, blocks: usize) -> Self {
        Self::new(self.bits, blocks)
    }

    fn prefixes(self) -> impl DoubleEndedIterator<Item = Self> {
        (1..=self.blocks).map(move |blocks| self.cut(blocks))
    }

    fn is_at_or_behind(self, front: Self) -> bool {
        self.blocks >= front.blocks && self.cut(front.blocks) == front
    }
}

impl Model {
    pub(crate) fn new(ttl: Option<Duration>) -> Self {
        Self { ttl, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn remembers(&self, path: Path) -> bool {
        self.blocks.contains_key(&path)
    }

    pub(crate) fn is_running(&self, id: u64) -> bool {
        self.attempts.contains_key(&id)
    }

    pub(crate) fn placed(&mut self, id: u64, path: Path, is_partial: bool, now: Duration) {
        let in_use = path.prefixes().take_while(|block| self.is_in_use(*block)).count();
        let pinned = path.prefixes().take_while(|block| self.blocks.contains_key(block)).count();
        let attempt =
            self.attempts.entry(id).or_insert_with(|| Attempt { placed: now, ..Attempt::default() });
        attempt.partial += u64::from(is_partial);
        attempt.prompts.push(Prompt { path, is_partial, pinned, in_use, is_computed: false });
    }

    /// Whether room must be made.
    pub(crate) fn grew(&mut self, id: u64, output: u64, now: Duration) -> bool {
        self.compute(id, now);
        match self.attempts.get_mut(&id) {
            Some(attempt) if attempt.output < output => {
                attempt.output = output;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn finished(&mut self, id: u64, now: Duration) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        for prompt in attempt.prompts.iter().filter(|prompt| prompt.is_computed) {
            for block in prompt.path.prefixes().rev() {
                if !self.is_in_use(block) {
                    self.ends += 1;
                    self.blocks.insert(block, (now, self.ends));
                }
            }
        }
    }

    /// What was dropped; `None` where the report says nothing against the prediction.
    pub(crate) fn reported(
        &mut self,
        id: u64,
        reuse: ReportedReuse,
        size: u32,
        now: Duration,
    ) -> Option<Vec<Path>> {
        self.compute(id, now);
        let attempt = self.attempts.get(&id)?;
        let [prompt] = &attempt.prompts[..] else { return None };
        let size = u64::from(size);
        let tokens = prompt.path.blocks as u64 * size + u64::from(prompt.is_partial);
        let reusable = tokens.saturating_sub(1) / size * size;
        let kept = reuse.reused.get() / size;
        if reuse.reused.get() >= reuse.predicted.get().min(reusable) {
            return None;
        }
        if kept < prompt.in_use as u64 {
            return None;
        }
        let lost = prompt.path.cut(kept as usize + 1);
        let is_stale = |path: &Path, last_use: Duration| {
            path.is_at_or_behind(lost) && !self.is_pinned(*path) && last_use <= attempt.placed
        };
        let stale = self.blocks.iter().filter(|(path, (last_use, _))| is_stale(path, *last_use));
        let stale: Vec<_> = stale.map(|(path, _)| *path).collect();
        self.blocks.retain(|path, _| !stale.contains(path));
        Some(stale)
    }

    pub(crate) fn expire(&mut self, now: Duration) {
        let Some(ttl) = self.ttl else { return };
        let is_over = |path: &Path, last_use: Duration| !self.is_pinned(*path) && last_use + ttl <= now;
        let over = self.blocks.iter().filter(|(path, (last_use, _))| is_over(path, *last_use));
        let over: Vec<_> = over.map(|(path, _)| *path).collect();
        self.blocks.retain(|path, _| !over.contains(path));
    }

    pub(crate) fn make_room(&mut self, limit: u64) {
        while self.used() > limit {
            let free = self.blocks.iter().filter(|(path, _)| !self.is_pinned(**path));
            let Some(oldest) = free.min_by_key(|(_, age)| **age).map(|(path, _)| *path) else { break };
            self.blocks.remove(&oldest);
        }
    }

    fn used(&self) -> u64 {
        let private = |attempt: &Attempt| {
            let pending = attempt.prompts.iter().map(|prompt| (prompt.path.blocks - prompt.pinned) as u64);
            attempt.partial + attempt.output + pending.sum::<u64>()
        };
        self.blocks.len() as u64 + self.attempts.values().map(private).sum::<u64>()
    }

    fn compute(&mut self, id: u64, now: Duration) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        for prompt in &mut attempt.prompts {
            prompt.is_computed = true;
            prompt.pinned = prompt.path.blocks;
            for block in prompt.path.prefixes() {
                self.blocks.entry(block).or_insert((now, u64::MAX));
            }
        }
    }

    fn is_pinned(&self, block: Path) -> bool {
        self.pinned(|_| true).contains(&block)
    }

    fn is_in_use(&self, block: Path) -> bool {
        self.pinned(|prompt| prompt.is_computed).contains(&block)
    }

    fn pinned(&self, which: impl Fn(&Prompt) -> bool) -> BTreeSet<Path> {
        let prompts = self.attempts.values().flat_map(|attempt| &attempt.prompts);
        let pinned = prompts.filter(|prompt| which(prompt));
        pinned.flat_map(|prompt| prompt.path.prefixes().take(prompt.pinned)).collect()
    }
}
