//! How runs change: the only code that writes what lookups read.
//!
//! Every distinct block is in exactly one run. That holds because a block is looked for in the only two places
//! where it can be, right behind its parent and at the head of a run, before it is added; and because it never
//! moves. A block that is new is appended to its parent's run where that changes nothing but the length, so
//! that one conversation on one rank becomes one run; otherwise it heads a run of its own.
//!
//! Writers come one at a time. Whatever a run referred to is freed only after its new state was published.

mod numbers;

use kvroute_core::{RankSlot, SequenceHash, Tier};

use crate::cells::{CHUNK, Cells};
use crate::holder::{Held, Holder};
use crate::lineage::{Lineage, Parent};
use crate::pages::Pages;
use crate::run::{Location, RECORD, RUN_LIMIT, RunId, RunPlace, RunState};
use crate::segments::{Layers, Segment, SegmentCells};
use crate::sets::Sets;
use crate::shelf::Shelf;

/// The writer's half: what is free, what is shared, and room to work.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) pages: Pages,
    pub(crate) lineage: Lineage,
    sets: Sets,
    record_chunks: usize,
    /// Runs that were ever used; zero names none.
    fresh_run: u32,
    free_run: u32,
    free_runs: u32,
    heads_bytes: usize,
    layers: Layers,
    scratch: Vec<Segment>,
    pub(crate) era: u8,
}

/// Blocks that are stored between two looks at the budget.
pub(crate) const PIECE: usize = 64;
/// Free cells that let a piece be stored although no page is empty.
const SPARE: usize = 1024;

/// Blocks of one run, one rank and one tier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) slot: RankSlot,
    pub(crate) tier: Tier,
    pub(crate) run: RunId,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

// === impl Store ===

impl Store {
    pub(crate) fn new(shelf: &Shelf) -> Self {
        Self { heads_bytes: shelf.heads.bytes(), ..Self::default() }
    }

    /// Bytes of everything that lookups read, and of the books about it.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.bytes()
            + self.record_chunks * CHUNK * 8
            + self.heads_bytes
            + self.sets.bytes()
            + self.lineage.bytes()
    }

    /// True if a new block behind `parent` can lengthen its run without telling its holders anew.
    pub(crate) fn can_append(&mut self, shelf: &Shelf, parent: Location, slot: RankSlot, tier: Tier) -> bool {
        let state = shelf.runs.state(parent.run());
        if parent.offset() + 1 != state.len() || state.len() >= RUN_LIMIT {
            return false;
        }
        if let Held::One(only) = state.holder().held() {
            return only == slot && tier == Tier::Device;
        }
        let is_only_holder = |at: Tier| {
            let expected = if at == tier { Holder::one(slot) } else { Holder::NOBODY };
            shelf.holder(parent, at) == expected
        };
        Tier::ALL.into_iter().all(is_only_holder)
    }

    /// How many of `count` blocks from a location on a rank does not hold on a tier, up to the first that it does.
    pub(crate) fn unheld(&self, shelf: &Shelf, at: Location, count: u32, slot: RankSlot, tier: Tier) -> u32 {
        if matches!(shelf.runs.state(at.run()).holder().held(), Held::Segments(_)) {
            let offsets = at.offset()..at.offset() + count;
            let places = offsets.map(|offset| Location::new(at.run(), offset));
            return places.take_while(|place| !shelf.holds(*place, slot, tier)).count() as u32;
        }
        if shelf.holds(at, slot, tier) { 0 } else { count }
    }

    /// Makes sure that a store of a few blocks finds what it needs; false if that takes a chunk too many.
    pub(crate) fn prepare(&mut self, shelf: &Shelf, mut may_grow: impl FnMut(usize) -> bool) -> bool {
        let has_runs = self.free_runs as usize >= PIECE
            || (self.fresh_run as usize + 1 + PIECE) * (RECORD as usize) < self.record_chunks * CHUNK;
        if !has_runs {
            let lineage_bytes = CHUNK / RECORD as usize * 4;
            if !may_grow(self.bytes() + CHUNK * 8 + lineage_bytes) || !self.grow_records(shelf) {
                return false;
            }
        }
        let has_cells =
            self.pages.empty_pages() > 0 || (self.pages.free() > SPARE && self.pages.has_piece(8));
        has_cells || (may_grow(self.bytes() + CHUNK * 8) && self.pages.grow(shelf.cells()))
    }

    /// Fills a reserved run with new blocks of one rank. Returns how many of them it took.
    pub(crate) fn fill(
        &mut self,
        shelf: &Shelf,
        (run, parent): (RunId, Parent),
        hashes: impl ExactSizeIterator<Item = SequenceHash>,
        slot: RankSlot,
        tier: Tier,
    ) -> u32 {
        let wished = (hashes.len() as u32).min(RUN_LIMIT);
        let Some(cell) = self.take_hashes(shelf, wished) else { return 0 };
        let len = wished.min(self.pages.size_at(cell));
        let mut head = None;
        for (hash, at) in hashes.zip(cell..cell + len) {
            head = head.or(Some(hash));
            shelf.cells().set(at, hash.get());
        }
        let parent = self.lineage.attach(parent);
        shelf.runs.relocate(run, RunPlace::new(cell, self.era, parent));
        let state = shelf.runs.state(run);
        if tier == Tier::Device {
            shelf.runs.publish(run, state.next(len, Holder::one(slot)));
        } else {
            self.layers.tiers.iter_mut().for_each(Vec::clear);
            self.layers.tiers[tier.index()].push(Segment { end: len, holder: Holder::one(slot) });
            self.publish_layers(shelf, run, state, len);
        }
        if let Some(head) = head {
            self.heads_bytes += shelf.heads.insert(head, run);
        }
        len
    }

    /// Lengthens a run by new blocks of its last block's only holder. Returns how many of them it took.
    pub(crate) fn append(
        &mut self,
        shelf: &Shelf,
        run: RunId,
        hashes: impl ExactSizeIterator<Item = SequenceHash>,
        slot: RankSlot,
        tier: Tier,
    ) -> u32 {
        let state = shelf.runs.state(run);
        let old = state.len();
        let wished = (old + hashes.len() as u32).min(RUN_LIMIT);
        let room = self.make_long(shelf, run, old, wished);
        let len = wished.min(room);
        if len == old {
            return 0;
        }
        let state = shelf.runs.state(run);
        let place = shelf.runs.place(run);
        for (hash, at) in hashes.zip(place.cell() + old..place.cell() + len) {
            shelf.cells().set(at, hash.get());
        }
        if matches!(state.holder().held(), Held::Segments(_)) {
            self.layers.load(shelf.cells(), state);
            self.layers.extend(len);
            self.rewrite(shelf, run, state, Span { slot, tier, run, from: old, to: len }, true);
        } else {
            shelf.runs.publish(run, state.next(len, state.holder()));
        }
        self.touch(shelf, run);
        len - old
    }

    /// Adds a rank to the holders of a span.
    pub(crate) fn add(&mut self, shelf: &Shelf, span: Span) {
        let state = shelf.runs.state(span.run);
        self.layers.load(shelf.cells(), state);
        self.rewrite(shelf, span.run, state, span, true);
        self.touch(shelf, span.run);
    }

    /// Takes a rank off the holders of a span. What nobody holds any more at the run's end is cut off.
    pub(crate) fn remove(&mut self, shelf: &Shelf, span: Span) {
        let state = shelf.runs.state(span.run);
        let is_whole_end = span.to == state.len() && span.tier == Tier::Device;
        if is_whole_end && state.holder() == Holder::one(span.slot) {
            self.cut(shelf, span.run, state, span.from);
            return;
        }
        self.layers.load(shelf.cells(), state);
        self.rewrite(shelf, span.run, state, span, false);
    }

    /// Notes that a run is in use.
    pub(crate) fn touch(&self, shelf: &Shelf, run: RunId) {
        let place = shelf.runs.place(run);
        if place.era() != self.era {
            shelf.runs.relocate(run, place.used_in(self.era));
        }
    }

    /// Every run that is in use.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RunId> + use<> {
        (1..=self.fresh_run).map(RunId::new)
    }

    /// Shortens a run that one rank holds.
    fn cut(&mut self, shelf: &Shelf, run: RunId, state: RunState, len: u32) {
        if len == 0 {
            self.free(shelf, run, state);
            return;
        }
        self.lineage.shorten(run, len);
        shelf.runs.publish(run, state.next(len, state.holder()));
        self.make_short(shelf, run, len);
    }

    /// Changes the holders of a span in the layers that were loaded, and publishes them.
    fn rewrite(&mut self, shelf: &Shelf, run: RunId, state: RunState, span: Span, is_added: bool) {
        let Self { layers, scratch, sets, pages, .. } = self;
        let len = state.len().max(span.to);
        let cells = shelf.cells();
        layers.change(span.tier, (span.from, span.to, len), scratch, |holder| {
            change_holder(sets, cells, pages, holder, span.slot, is_added)
        });
        let held = layers.held_len();
        if held == 0 {
            self.free(shelf, run, state);
            return;
        }
        self.layers.truncate(held);
        self.publish_layers(shelf, run, state, held);
        if held < state.len() {
            self.lineage.shorten(run, held);
            self.make_short(shelf, run, held);
        }
    }

    fn publish_layers(&mut self, shelf: &Shelf, run: RunId, state: RunState, len: u32) {
        let cells = shelf.cells();
        let holder = match self.layers.cells_needed() {
            0 => self.layers.holder(Tier::Device, 0),
            needed => {
                let Some(cell) = take(&mut self.pages, cells, needed) else { return };
                self.layers.write(cells, cell);
                Holder::segments(cell)
            }
        };
        self.layers.tiers.iter().flatten().for_each(|segment| Sets::acquire(cells, segment.holder));
        shelf.runs.publish(run, state.next(len, holder));
        self.release(shelf, state.holder());
    }

    /// Frees what an outdated state referred to.
    fn release(&mut self, shelf: &Shelf, holder: Holder) {
        let cells = shelf.cells();
        let Held::Segments(cell) = holder.held() else {
            self.sets.release(cells, &mut self.pages, holder);
            return;
        };
        for tier in Tier::ALL {
            for segment in SegmentCells::of(cells, cell, tier).iter(cells) {
                self.sets.release(cells, &mut self.pages, segment.holder);
            }
        }
        self.pages.give(cells, cell);
    }

    fn free(&mut self, shelf: &Shelf, run: RunId, state: RunState) {
        let place = shelf.runs.place(run);
        shelf.heads.remove(shelf.runs.hash(place, 0), run);
        shelf.runs.publish(run, state.next(0, Holder::NOBODY));
        self.release(shelf, state.holder());
        self.pages.give(shelf.cells(), place.cell());
        if let Some(parent) = self.lineage.detach(place.parent())
            && shelf.runs.state(parent).len() == 0
        {
            self.return_run(shelf, parent);
        }
        if self.lineage.shorten(run, 0) {
            self.return_run(shelf, run);
        }
    }

    /// Room for so many hashes, or for as many as there is memory for at one place.
    fn take_hashes(&mut self, shelf: &Shelf, wished: u32) -> Option<u32> {
        let cells = shelf.cells();
        self.pages
            .take(cells, wished)
            .or_else(|| self.pages.take_smaller(cells, wished))
            .or_else(|| take(&mut self.pages, cells, wished))
    }

    /// Moves a run's hashes to where `wished` of them have room. Returns the room that there is.
    fn make_long(&mut self, shelf: &Shelf, run: RunId, len: u32, wished: u32) -> u32 {
        let place = shelf.runs.place(run);
        let room = self.pages.size_at(place.cell());
        if room >= wished {
            return room;
        }
        let Some(cell) = self.pages.take(shelf.cells(), wished) else { return room };
        self.move_hashes(shelf, run, len, cell);
        self.pages.size_at(cell)
    }

    /// Gives back what a run that became much shorter does not need.
    fn make_short(&mut self, shelf: &Shelf, run: RunId, len: u32) {
        let place = shelf.runs.place(run);
        if self.pages.size_at(place.cell()) <= 2 * Pages::round_up(len) + 2 {
            return;
        }
        if let Some(cell) = self.pages.take(shelf.cells(), len) {
            self.move_hashes(shelf, run, len, cell);
        }
    }

    pub(crate) fn move_hashes(&mut self, shelf: &Shelf, run: RunId, len: u32, cell: u32) {
        let place = shelf.runs.place(run);
        let cells = shelf.cells();
        for offset in 0..len {
            cells.set(cell + offset, cells.get(place.cell() + offset));
        }
        shelf.runs.relocate(run, place.moved_to(cell));
        let state = shelf.runs.state(run);
        shelf.runs.publish(run, state.next(state.len(), state.holder()));
        self.pages.give(cells, place.cell());
    }
}

/// A piece of at least so many cells, at the price of one more chunk.
fn take(pages: &mut Pages, cells: &Cells, wished: u32) -> Option<u32> {
    if let Some(piece) = pages.take(cells, wished) {
        return Some(piece);
    }
    pages.grow(cells);
    pages.take(cells, wished)
}

fn change_holder(
    sets: &mut Sets,
    cells: &Cells,
    pages: &mut Pages,
    holder: Holder,
    slot: RankSlot,
    is_added: bool,
) -> Holder {
    for attempt in 0..2 {
        let changed = if is_added {
            sets.with(cells, pages, holder, slot)
        } else {
            sets.without(cells, pages, holder, slot)
        };
        if let Some(changed) = changed {
            return changed;
        }
        if attempt == 0 {
            pages.grow(cells);
        }
    }
    holder
}
