//! Which blocks of a stream are whole, and what becomes of those that have another size than the others.
//!
//! A stream has one block size, and an index that took blocks of two sizes would know neither. But the size of one event
//! proves little. A radix tree stores the short rest of a page with a size of its own, an unfinished end is shorter than
//! a block, and a broken event may say anything: the router must neither follow it nor go deaf for those that are right.
//! So a size stands by its evidence, weakest first:
//!
//! * a *lower tier* said so: a guess, until the device says anything;
//! * a *single* block: it may be a rest. A larger one shows that it was, and replaces it with all that was made of it;
//! * a *chain*: a block that another one follows is whole, since nothing can continue a rest;
//! * *told*: by the engine's own probe, or by a snapshot of this stream. The truth until the engine restarts;
//! * *required*: by the operator. The truth for as long as it stands in the configuration.
//!
//! A smaller block that nothing follows is a rest and says nothing. Every other block of another size contradicts a
//! size of the last three kinds: it is refused and counted, what is known stays, and the source says both sizes until the
//! right one has come a number of times again. That number doubles each time, so that a stream that contradicts itself
//! for ever does not fill the log. Where the other size comes several times in a row, with none of the right size in
//! between, it was the first size that was wrong, and the other one replaces it: a probe can only repeat what the engine
//! is configured with, and engines that spread one block over several devices announce larger ones. What was refused
//! until then is missing, and is fetched anew where the engine can give it. A clear that the engine announced takes
//! learned evidence back to a single block's, because nothing that is known speaks for the old size any more. Only what
//! the operator requires is never overruled: that is an error, and stays one.

use kvroute_core::{BlockSize, EngineHash, StoredBlocks, Tier};

/// Stores in a row that overrule a size; doubled each time, as a stream that swings would clear the rank each time.
const FIRST_MAJORITY: u32 = 8;
/// Stores of the right size that end a contradiction; doubled each time.
const FIRST_CALM: u32 = 8;
const MOST: u32 = 1 << 20;

/// What is known of a rank's block size before its events are heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockSizeClaim {
    /// Nothing: the events tell.
    #[default]
    Unknown,
    /// The engine's probe or a snapshot says so. The events may prove it wrong.
    Told(BlockSize),
    /// The operator says so. Events that say otherwise are an error.
    Required(BlockSize),
}

/// What is to be done with stored blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They are whole.
    Take,
    /// They are whole, and what was taken before them was not.
    TakeAfterClear,
    /// They have no identity here, which is as it should be.
    LeaveOut,
    /// They contradict the others.
    Refuse,
}

/// Two sizes where there can be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TwoSizes {
    /// The size that stood.
    pub(super) before: BlockSize,
    /// The size that was seen then.
    pub(super) then: BlockSize,
}

/// The sizes of one rank's blocks.
#[derive(Clone, Debug)]
pub(super) struct BlockSizes {
    size: Option<(BlockSize, Evidence)>,
    /// Name and size of the last block on the device: the next one may follow it.
    tail: Option<(BlockSize, EngineHash)>,
    /// Whether blocks were left out as rests that a later change of the size shows to have been whole.
    has_left_out: bool,
    /// Another size, and how many stores in a row had it.
    rival: Option<(BlockSize, u32)>,
    majority: u32,
    contradiction: Option<TwoSizes>,
    /// Stores of the right size since the last contradiction, and how many of them end it.
    agreed: u32,
    calm: u32,
    has_ever_agreed: bool,
    /// Blocks that are missing because the size that refused them is overruled.
    loss: Option<TwoSizes>,
}

/// What a size stands by, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    LowerTier,
    Single,
    Chain,
    Told,
    Required,
}

// === impl BlockSizes ===

impl BlockSizes {
    /// Nothing was heard yet.
    pub(super) fn new(claim: BlockSizeClaim) -> Self {
        let size = match claim {
            BlockSizeClaim::Unknown => None,
            BlockSizeClaim::Told(size) => Some((size, Evidence::Told)),
            BlockSizeClaim::Required(size) => Some((size, Evidence::Required)),
        };
        Self {
            size,
            tail: None,
            has_left_out: false,
            rival: None,
            majority: FIRST_MAJORITY,
            contradiction: None,
            agreed: 0,
            calm: FIRST_CALM,
            has_ever_agreed: false,
            loss: None,
        }
    }

    /// Another process of the engine is about to be heard: it may be configured otherwise than the one before.
    pub(super) fn restart(&mut self) {
        let size = self.size.filter(|(_, evidence)| *evidence == Evidence::Required);
        *self = Self { size, ..Self::new(BlockSizeClaim::Unknown) };
    }

    /// The engine announced that its cache is empty.
    pub(super) fn cleared(&mut self) {
        (self.tail, self.has_left_out, self.loss) = (None, false, None);
        if let Some((_, evidence)) = self.size.as_mut().filter(|(_, evidence)| *evidence < Evidence::Told) {
            *evidence = (*evidence).min(Evidence::Single);
            (self.rival, self.contradiction) = (None, None);
        }
    }

    /// Both sizes, while blocks are refused; and whether any was ever of the right size.
    pub(super) fn contradiction(&self) -> Option<(TwoSizes, bool)> {
        self.contradiction.map(|sizes| (sizes, self.has_ever_agreed))
    }

    /// Both sizes, where the first was overruled since this was last asked and no clear came behind it: blocks are
    /// missing that were refused or left out until then.
    pub(super) const fn take_loss(&mut self) -> Option<TwoSizes> {
        self.loss.take()
    }

    /// Looks at stored blocks, in the order of the stream.
    pub(super) fn judge(&mut self, stored: &StoredBlocks) -> Verdict {
        let StoredBlocks { block_size, hashes, parent, tier, .. } = stored;
        if *tier != Tier::Device {
            return self.judge_lower(*block_size);
        }
        self.judge_run(*block_size, *parent, hashes.len(), hashes.last().copied())
    }

    /// As [`BlockSizes::judge`], for so many blocks on the device behind a parent, of which a further store may follow
    /// the last.
    pub(super) fn judge_run(
        &mut self,
        new: BlockSize,
        parent: Option<EngineHash>,
        blocks: usize,
        last: Option<EngineHash>,
    ) -> Verdict {
        let is_chain = blocks > 1 || (parent.is_some() && self.tail == parent.map(|parent| (new, parent)));
        self.tail = last.map(|last| (new, last));
        let Some((size, evidence)) = self.size else { return self.adopt(new, is_chain) };
        if size == new {
            self.agree(is_chain);
            return Verdict::Take;
        }
        if evidence == Evidence::LowerTier {
            self.adopt(new, is_chain);
            return Verdict::TakeAfterClear;
        }
        if new < size && !is_chain {
            self.has_left_out = true;
            return Verdict::LeaveOut;
        }
        self.contradict(TwoSizes { before: size, then: new }, evidence, is_chain)
    }

    /// On lower tiers blocks may be several of the device's in one.
    fn judge_lower(&mut self, new: BlockSize) -> Verdict {
        let (size, _) = *self.size.get_or_insert((new, Evidence::LowerTier));
        if size == new { Verdict::Take } else { Verdict::LeaveOut }
    }

    fn adopt(&mut self, new: BlockSize, is_chain: bool) -> Verdict {
        self.size = Some((new, Evidence::of_device(is_chain)));
        (self.rival, self.contradiction, self.has_left_out) = (None, None, false);
        self.has_ever_agreed = true;
        Verdict::Take
    }

    fn agree(&mut self, is_chain: bool) {
        self.has_ever_agreed = true;
        self.rival = None;
        if let Some((_, evidence)) = &mut self.size {
            *evidence = (*evidence).max(Evidence::of_device(is_chain));
        }
        if self.contradiction.is_some() {
            self.agreed += 1;
            if self.agreed >= self.calm {
                self.contradiction = None;
                self.calm = (self.calm * 2).min(MOST);
            }
        }
    }

    fn contradict(&mut self, sizes: TwoSizes, evidence: Evidence, is_chain: bool) -> Verdict {
        if evidence == Evidence::Single {
            self.loss = (self.has_left_out && sizes.then < sizes.before).then_some(sizes).or(self.loss);
            self.adopt(sizes.then, is_chain);
            return Verdict::TakeAfterClear;
        }
        let before = self.rival.filter(|(size, _)| *size == sizes.then).map_or(0, |(_, stores)| stores);
        self.rival = Some((sizes.then, before.saturating_add(1)));
        if evidence != Evidence::Required && before >= self.majority - 1 {
            self.majority = (self.majority * 2).min(MOST);
            self.loss = Some(sizes);
            self.adopt(sizes.then, is_chain);
            return Verdict::TakeAfterClear;
        }
        self.contradiction = Some(sizes);
        self.agreed = 0;
        Verdict::Refuse
    }
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self::new(BlockSizeClaim::Unknown)
    }
}

// === impl Evidence ===

impl Evidence {
    const fn of_device(is_chain: bool) -> Self {
        if is_chain { Self::Chain } else { Self::Single }
    }
}

#[cfg(test)]
mod tests;
