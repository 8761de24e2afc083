//! One rank's blocks out of the index and back into it, for snapshots.
//!
//! An exported run is what one record of the index holds for the rank. Its first block names no parent, so where
//! it belongs is found by its head, or by one search through all runs for those that are no heads here.

use std::collections::HashMap;

use kvroute_core::{RankSlot, SequenceHash, Tier};

use crate::change::Change;
use crate::engine_key::EngineKey;
use crate::names::Names;
use crate::run::Location;
use crate::shelf::Shelf;
use crate::storing::Behind;
use crate::writer::Writer;
use crate::{ExportedBlock, ExportedRun, RankExport};

/// Where the first blocks of exported runs are, as far as they are known here.
type Places = HashMap<SequenceHash, Option<Location>>;

// === impl Change ===

impl Change<'_> {
    /// Stores what an export holds.
    pub(crate) fn import(&mut self, export: &RankExport) {
        let mut places = self.places_of(export);
        for run in &export.runs {
            let Some(first) = run.blocks.first() else { continue };
            let behind = match places.get(&first.sequence) {
                Some(Some(at)) => Behind::Here(*at),
                _ => Behind::Nothing,
            };
            let _ = self.store(run.tier, behind, &run.blocks);
            self.note_places(&run.blocks, &mut places);
        }
    }

    /// Stores consecutive blocks whose parent is not known.
    pub(crate) fn import_run(&mut self, tier: Tier, blocks: &[ExportedBlock]) {
        let runs = vec![ExportedRun { tier, blocks: blocks.to_vec() }];
        self.import(&RankExport { block_size: None, runs });
    }

    fn places_of(&self, export: &RankExport) -> Places {
        let firsts = export.runs.iter().filter_map(|run| run.blocks.first());
        let mut places: Places =
            firsts.map(|block| (block.sequence, self.shelf.head(block.sequence))).collect();
        if places.values().all(Option::is_some) {
            return places;
        }
        for run in self.writer.store.runs() {
            let place = self.shelf.runs.place(run);
            for offset in 0..self.shelf.runs.state(run).len() {
                if let Some(found) = places.get_mut(&self.shelf.runs.hash(place, offset)) {
                    *found = Some(Location::new(run, offset));
                }
            }
        }
        places
    }

    fn note_places(&self, blocks: &[ExportedBlock], places: &mut Places) {
        let Some(rank) = self.rank() else { return };
        for block in blocks {
            if let Some(place) = places.get_mut(&block.sequence) {
                *place = rank.locate(EngineKey::from_raw(block.engine_key));
            }
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Everything that a rank holds.
    pub(crate) fn export(&self, shelf: &Shelf, slot: RankSlot) -> RankExport {
        let Some(rank) = self.rank(slot) else { return RankExport::default() };
        let mut runs = Vec::new();
        for tier in Tier::ALL {
            let mut names: Vec<(EngineKey, Location)> = rank.names[tier.index()].each().collect();
            names.sort_unstable_by_key(|(key, at)| (*at, key.get()));
            let mut last: Option<Location> = None;
            for (key, at) in names {
                let block = ExportedBlock { engine_key: key.get(), sequence: shelf.runs.sequence(at) };
                let continues =
                    last.is_some_and(|last| last.run() == at.run() && last.offset() + 1 == at.offset());
                match runs.last_mut() {
                    Some(ExportedRun { blocks, .. }) if continues => blocks.push(block),
                    _ => runs.push(ExportedRun { tier, blocks: vec![block] }),
                }
                last = Some(at);
            }
        }
        RankExport { block_size: rank.block_size, runs }
    }

    /// True if the rank holds a block, searched by what it is and not by its name.
    pub(crate) fn holds(&self, shelf: &Shelf, slot: RankSlot, sequence: SequenceHash) -> bool {
        let Some(rank) = self.rank(slot) else { return false };
        let held = |at: Location| {
            shelf.is_at(at, sequence) && Tier::ALL.into_iter().any(|tier| shelf.holds(at, slot, tier))
        };
        if let Some(at) = shelf.head(sequence) {
            return held(at);
        }
        if rank.locate(EngineKey::from_raw(sequence.get())).is_some_and(held) {
            return true;
        }
        let mut names = rank.names.iter().flat_map(|names| names.each());
        names.any(|(_, at)| shelf.runs.sequence(at) == sequence)
    }

    /// Takes all names of a rank out of it, for forgetting them piece by piece.
    pub(crate) fn start_drain(&mut self, slot: RankSlot) -> Option<Drain> {
        let rank = self.ranks.get_mut(slot.index())?.as_deref_mut()?;
        let orphans = std::mem::take(&mut rank.orphans).len().get() as usize;
        rank.is_draining = true;
        rank.hand = Default::default();
        let had_further = rank.further.iter().any(|count| *count > 0);
        rank.further = Default::default();
        let names = std::mem::take(&mut rank.names);
        self.orphans -= orphans;
        self.names -= names.iter().map(Names::len).sum::<usize>();
        self.lower -= names[1..].iter().map(Names::len).sum::<usize>();
        if had_further {
            let of_rank = u64::from(slot.get());
            self.copies.retain(|key, _| key >> 34 != of_rank);
        }
        Some(Drain { names })
    }
}

/// Names of a rank that is being forgotten.
#[derive(Debug)]
pub(crate) struct Drain {
    names: [Names; Tier::ALL.len()],
}

// === impl Drain ===

impl Drain {
    /// Forgets one shard of names; `None` once nothing is left, else the number of copies.
    pub(crate) fn step(&mut self, change: &mut Change<'_>) -> Option<u64> {
        let tier = Tier::ALL.into_iter().find(|tier| self.names[tier.index()].shards() > 0)?;
        let names = &mut self.names[tier.index()];
        let before = names.bytes();
        let locations = names.take_shard().unwrap_or_default();
        change.writer.table_bytes -= before - names.bytes();
        for at in &locations {
            let is_there = at.offset() < change.shelf.runs.state(at.run()).len();
            if is_there && change.shelf.holds(*at, change.slot, tier) {
                change.leave_run(tier, at.run());
            }
        }
        Some(locations.len() as u64)
    }
}
