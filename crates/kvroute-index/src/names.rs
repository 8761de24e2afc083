//! The engine's names of the blocks of one rank on one tier.
//!
//! Open addressing in lines of five, each as large as a line of the processor's cache, so that most calls read one
//! line and nothing else. A name that finds its line full goes to the next one that is not, and every line counts
//! the names that passed it: a missing name ends its search at the first line that none passed, which is nearly
//! always its own, and a removal needs no mark that stays behind. Thirteen bytes a name and a quarter. Tables are
//! cut into small shards: growing one takes microseconds, and little memory beside.

use crate::engine_key::EngineKey;
use crate::run::Location;

/// Lines of a shard before all shards are cut in two.
const SHARD_LINES: usize = 448;
/// Names in a line.
const LINE: usize = 5;
/// Odd; spreads names that are small or regular numbers over all bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Locations by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    shards: Vec<Shard>,
    shard_bits: u32,
    len: usize,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    lines: Vec<Line>,
    len: usize,
    /// Names that it takes before it grows.
    limit: usize,
}

/// Names from the front on, and what they stand for.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line {
    keys: [u64; LINE],
    locations: [u32; LINE],
    /// Names in the line.
    used: u8,
    /// Names that are further on because this line was full; the largest value stays for ever.
    passed: u8,
}

// === impl Names ===

impl Names {
    /// Names in the table.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// True without names.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the table.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a name stands for.
    pub(crate) fn get(&self, key: EngineKey) -> Option<Location> {
        let (key, spread) = (key.get(), spread(key.get()));
        let names = self.shards.get(self.shard_of(spread))?;
        let (line, at) = names.search(names.home(spread << self.shard_bits), key)?;
        Some(Location::from_raw(names.lines[line].locations[at]))
    }

    /// Reads the memory in which a name is looked for. Doing so for several names before they are looked up lets
    /// the memory answer all of them at once.
    #[inline]
    pub(crate) fn touch(&self, key: EngineKey) -> u8 {
        let spread = spread(key.get());
        let Some(names) = self.shards.get(self.shard_of(spread)) else { return 0 };
        names.lines.get(names.home(spread << self.shard_bits)).map_or(0, |line| line.used)
    }

    /// Inserts a name; false if it is there already.
    #[inline]
    pub(crate) fn insert(&mut self, key: EngineKey, location: Location) -> bool {
        let (key, spread) = (key.get(), spread(key.get()));
        let shard = self.shard_of(spread);
        let within = spread << self.shard_bits;
        let Some(names) = self.shards.get_mut(shard) else {
            self.insert_grown(shard, key, location);
            return true;
        };
        let home = names.home(within);
        if names.search(home, key).is_some() {
            return false;
        }
        if names.len < names.limit {
            names.put(home, key, location.get());
            self.len += 1;
        } else {
            self.insert_grown(shard, key, location);
        }
        true
    }

    /// Takes a name out.
    #[inline]
    pub(crate) fn remove(&mut self, key: EngineKey) -> Option<Location> {
        let (key, spread) = (key.get(), spread(key.get()));
        let shard = self.shard_of(spread);
        let bits = self.shard_bits;
        let names = self.shards.get_mut(shard)?;
        let home = names.home(spread << bits);
        let (line, at) = names.search(home, key)?;
        let location = names.take(home, line, at);
        self.len -= 1;
        if names.is_sparse() {
            self.resize(shard);
        }
        Some(Location::from_raw(location))
    }

    /// Every name, in no meaningful order.
    pub(crate) fn each(&self) -> impl Iterator<Item = (EngineKey, Location)> + '_ {
        self.shards.iter().flat_map(Shard::each)
    }

    /// Number of shards.
    pub(crate) const fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The names of one shard.
    pub(crate) fn shard(&self, shard: usize) -> impl Iterator<Item = (EngineKey, Location)> + '_ {
        self.shards.get(shard).into_iter().flat_map(Shard::each)
    }

    /// Gives back what a shard does not need.
    pub(crate) fn compact(&mut self, shard: usize) {
        let bits = self.shard_bits;
        let Some(names) = self.shards.get_mut(shard) else { return };
        let mut tight = Shard::with_room(names.len);
        if tight.bytes() >= names.bytes() {
            return;
        }
        tight.put_all(names, bits);
        self.bytes -= names.bytes() - tight.bytes();
        *names = tight;
    }

    /// Takes the last shard's names off the table; `None` if none is left. Only good for emptying all of it.
    pub(crate) fn take_shard(&mut self) -> Option<Vec<Location>> {
        let shard = self.shards.pop()?;
        self.len -= shard.len;
        self.bytes -= shard.bytes() + size_of::<Shard>();
        Some(shard.each().map(|(_, location)| location).collect())
    }

    fn shard_of(&self, spread: u64) -> usize {
        if self.shard_bits == 0 { 0 } else { (spread >> (64 - self.shard_bits)) as usize }
    }

    #[cold]
    fn insert_grown(&mut self, shard: usize, key: u64, location: Location) {
        if self.shards.is_empty() {
            self.shards = vec![Shard::with_room(0)];
            self.bytes = size_of::<Shard>() + self.shards[0].bytes();
        } else if self.shards[shard].lines.len() < SHARD_LINES || self.is_lopsided() {
            self.resize(shard);
        } else {
            self.split();
        }
        let spread = spread(key);
        let shard = self.shard_of(spread);
        let names = &mut self.shards[shard];
        names.put(names.home(spread << self.shard_bits), key, location.get());
        self.len += 1;
    }

    /// True if names crowd in few shards, so that more shards would not part them.
    fn is_lopsided(&self) -> bool {
        self.len < self.shards.len() * limit_of(SHARD_LINES) / 2
    }

    /// Gives a shard the room that its names and some more need.
    fn resize(&mut self, shard: usize) {
        let bits = self.shard_bits;
        let names = &mut self.shards[shard];
        self.bytes -= names.bytes();
        let mut rebuilt = Shard::with_room(names.len + names.len / 16);
        rebuilt.put_all(names, bits);
        *names = rebuilt;
        self.bytes += names.bytes();
    }

    /// Cuts every shard in two.
    fn split(&mut self) {
        self.shard_bits += 1;
        let bits = self.shard_bits;
        let mut halves = Vec::with_capacity(2 * self.shards.len());
        for shard in std::mem::take(&mut self.shards) {
            let upper = shard.lines.iter().map(|line| line.upper(bits)).sum();
            let mut pair = [shard.len - upper, upper].map(Shard::with_room);
            for line in &shard.lines {
                for (key, location) in line.names() {
                    let spread = spread(key);
                    let half = &mut pair[(spread >> (64 - bits) & 1) as usize];
                    half.put(half.home(spread << bits), key, location);
                }
            }
            halves.extend(pair);
        }
        self.shards = halves;
        self.bytes = self.shards.iter().map(|shard| shard.bytes() + size_of::<Shard>()).sum();
    }
}

// === impl Shard ===

impl Shard {
    /// Empty, with room for so many names and at least one more.
    fn with_room(names: usize) -> Self {
        let fitting = SIZES.iter().find(|lines| limit_of(**lines) > names);
        let lines = fitting.copied().unwrap_or(names / (LINE - 1) + 1);
        Self { lines: vec![Line::default(); lines], len: 0, limit: limit_of(lines) }
    }

    fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }

    fn each(&self) -> impl Iterator<Item = (EngineKey, Location)> + '_ {
        let names = self.lines.iter().flat_map(Line::names);
        names.map(|(key, location)| (EngineKey::from_raw(key), Location::from_raw(location)))
    }

    #[inline]
    fn home(&self, within: u64) -> usize {
        ((u128::from(within) * self.lines.len() as u128) >> 64) as usize
    }

    fn is_sparse(&self) -> bool {
        self.len * 5 < self.limit * 2 && self.lines.len() > SIZES[0]
    }

    /// Line and position of a name.
    #[inline]
    fn search(&self, home: usize, key: u64) -> Option<(usize, usize)> {
        let line = &self.lines[home];
        match line.position(key) {
            Some(at) => Some((home, at)),
            None if line.passed == 0 => None,
            None => self.search_on(home, key),
        }
    }

    #[inline(never)]
    fn search_on(&self, home: usize, key: u64) -> Option<(usize, usize)> {
        let mut at = self.behind(home);
        while at != home {
            let line = &self.lines[at];
            if let Some(position) = line.position(key) {
                return Some((at, position));
            }
            if line.passed == 0 {
                return None;
            }
            at = self.behind(at);
        }
        None
    }

    /// Puts a name that is not there; there is room.
    #[inline]
    fn put(&mut self, home: usize, key: u64, location: u32) {
        self.len += 1;
        let mut at = home;
        while !self.lines[at].push(key, location) {
            let line = &mut self.lines[at];
            line.passed = line.passed.saturating_add(1);
            at = self.behind(at);
        }
    }

    fn put_all(&mut self, from: &Self, shard_bits: u32) {
        for line in &from.lines {
            for (key, location) in line.names() {
                self.put(self.home(spread(key) << shard_bits), key, location);
            }
        }
    }

    #[inline]
    fn take(&mut self, home: usize, line: usize, at: usize) -> u32 {
        let location = self.lines[line].take(at);
        self.len -= 1;
        let mut passed = home;
        while passed != line {
            let before = &mut self.lines[passed];
            before.passed -= u8::from(before.passed != u8::MAX);
            passed = self.behind(passed);
        }
        location
    }

    fn behind(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() { 0 } else { line + 1 }
    }
}

// === impl Line ===

impl Line {
    #[inline]
    fn names(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let used = usize::from(self.used).min(LINE);
        (0..used).map(|at| (self.keys[at], self.locations[at]))
    }

    /// Names that belong to the upper half of their shard's.
    fn upper(&self, shard_bits: u32) -> usize {
        self.names().filter(|(key, _)| spread(*key) >> (64 - shard_bits) & 1 == 1).count()
    }

    #[inline]
    fn position(&self, key: u64) -> Option<usize> {
        let mut equal = 0;
        for (at, other) in self.keys.iter().enumerate() {
            equal |= u32::from(*other == key) << at;
        }
        let found = equal & ((1 << self.used) - 1);
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    /// Adds a name; false if the line is full.
    #[inline]
    fn push(&mut self, key: u64, location: u32) -> bool {
        let at = usize::from(self.used);
        if at >= LINE {
            return false;
        }
        self.keys[at] = key;
        self.locations[at] = location;
        self.used += 1;
        true
    }

    #[inline]
    fn take(&mut self, at: usize) -> u32 {
        let location = self.locations[at];
        self.used -= 1;
        let last = usize::from(self.used);
        self.keys[at] = self.keys[last];
        self.locations[at] = self.locations[last];
        location
    }
}

/// Lines of a shard: few sizes, so that memory which one shard gives back suits another one.
const SIZES: [usize; 16] = [1, 2, 4, 6, 8, 12, 16, 24, 40, 56, 80, 112, 160, 224, 320, SHARD_LINES];

/// Names that so many lines take: eleven twelfths of the room, so that few names miss their line.
const fn limit_of(lines: usize) -> usize {
    lines * LINE * 11 / 12
}

fn spread(key: u64) -> u64 {
    (key ^ key >> 32).wrapping_mul(SPREAD)
}

#[cfg(test)]
mod tests;
