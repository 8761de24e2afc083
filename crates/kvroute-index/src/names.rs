//! The engine's names of the blocks of one rank on one tier.
//!
//! Open addressing in buckets of eight. A name that finds its bucket full goes to the next one that is not, and
//! every bucket counts the names that passed it: a missing name ends its search at the first bucket that none
//! passed, which is nearly always its own, and a removal needs no mark that stays behind. Twelve bytes a name
//! and a quarter. Tables are cut into small shards: growing one takes microseconds, and little memory beside.

use crate::engine_key::EngineKey;
use crate::run::Location;

/// Names in a shard before shards are cut in two.
const SHARD_LIMIT: usize = 2048;
const BUCKET: usize = 8;
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
    buckets: Vec<Bucket>,
    fills: Vec<Fill>,
    len: usize,
}

/// Names from the front on, and what they stand for.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Bucket {
    keys: [u64; BUCKET],
    locations: [u32; BUCKET],
}

#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    /// Names in the bucket.
    used: u8,
    /// Names that are further on because this bucket was full; the largest value stays for ever.
    passed: u8,
}

/// Where a missing name belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    key: u64,
    shard: usize,
    home: usize,
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
        if self.len == 0 {
            return None;
        }
        self.find(key).ok()
    }

    /// What a name stands for, or where it can be inserted.
    #[inline]
    pub(crate) fn find(&self, key: EngineKey) -> Result<Location, Place> {
        let (key, spread) = (key.get(), spread(key.get()));
        let shard = self.shard_of(spread);
        let Some(names) = self.shards.get(shard) else { return Err(Place { key, shard, home: 0 }) };
        let home = names.home(spread << self.shard_bits);
        match names.search(home, key) {
            Some((bucket, at)) => Ok(Location::from_raw(names.buckets[bucket].locations[at])),
            None => Err(Place { key, shard, home }),
        }
    }

    /// Reads the memory in which a name is looked for. Doing so for several names before they are looked up lets
    /// the memory answer all of them at once.
    pub(crate) fn touch(&self, key: EngineKey) -> u64 {
        let spread = spread(key.get());
        let Some(names) = self.shards.get(self.shard_of(spread)) else { return 0 };
        let home = names.home(spread << self.shard_bits);
        let Some(bucket) = names.buckets.get(home) else { return 0 };
        bucket.keys[0] ^ u64::from(bucket.locations[BUCKET - 1]) ^ u64::from(names.fills[home].used)
    }

    /// Inserts a name at the place that [`Names::find`] gave; nothing changed since.
    pub(crate) fn insert(&mut self, place: Place, location: Location) {
        self.len += 1;
        if let Some(shard) = self.shards.get_mut(place.shard)
            && shard.has_room()
        {
            shard.put(place.home, place.key, location.get());
            return;
        }
        self.grow(place.shard);
        let spread = spread(place.key);
        let shard = self.shard_of(spread);
        let within = spread << self.shard_bits;
        let names = &mut self.shards[shard];
        names.put(names.home(within), place.key, location.get());
    }

    /// Takes a name out.
    pub(crate) fn remove(&mut self, key: EngineKey) -> Option<Location> {
        let (key, spread) = (key.get(), spread(key.get()));
        let shard = self.shard_of(spread);
        let bits = self.shard_bits;
        let names = self.shards.get_mut(shard)?;
        let home = names.home(spread << bits);
        let (bucket, at) = names.search(home, key)?;
        let location = Location::from_raw(names.buckets[bucket].locations[at]);
        names.take(home, bucket, at);
        self.len -= 1;
        if names.is_sparse() {
            self.resize(shard);
        }
        Some(location)
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
        let mut tight = Shard::with_room(names.len + names.len / 8);
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

    fn grow(&mut self, shard: usize) {
        if self.shards.is_empty() {
            self.shards = vec![Shard::default()];
            self.bytes = size_of::<Shard>();
        }
        if self.shards[shard].len < SHARD_LIMIT {
            self.resize(shard);
        } else {
            self.split();
        }
    }

    fn resize(&mut self, shard: usize) {
        let bits = self.shard_bits;
        let names = &mut self.shards[shard];
        self.bytes -= names.bytes();
        let mut rebuilt = Shard::for_names(names.len);
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
            let is_upper = |key: EngineKey| spread(key.get()) >> (64 - bits) & 1 == 1;
            let upper = shard.each().filter(|(key, _)| is_upper(*key)).count();
            // Hardly more room than before: the halves grow one by one, not all at this moment.
            let halves_of = |names: usize| Shard::with_room(names + names / 8);
            let mut pair = [halves_of(shard.len - upper), halves_of(upper)];
            shard.each().for_each(|(key, location)| {
                pair[usize::from(is_upper(key))].put_again(key, location, bits);
            });
            halves.extend(pair);
        }
        self.shards = halves;
        self.bytes = self.shards.iter().map(|shard| shard.bytes() + size_of::<Shard>()).sum();
    }
}

// === impl Shard ===

impl Shard {
    /// Empty, with a third more room than those names need.
    fn for_names(names: usize) -> Self {
        Self::with_room(names + names / 3)
    }

    fn with_room(names: usize) -> Self {
        let buckets = names.div_ceil(BUCKET) + 1;
        Self { buckets: vec![Bucket::default(); buckets], fills: vec![Fill::default(); buckets], len: 0 }
    }

    fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>() + self.fills.capacity() * size_of::<Fill>()
    }

    fn each(&self) -> impl Iterator<Item = (EngineKey, Location)> + '_ {
        self.buckets.iter().zip(&self.fills).flat_map(|(bucket, fill)| {
            let used = usize::from(fill.used);
            let names = bucket.keys[..used].iter().zip(&bucket.locations[..used]);
            names.map(|(key, location)| (EngineKey::from_raw(*key), Location::from_raw(*location)))
        })
    }

    fn home(&self, within: u64) -> usize {
        ((u128::from(within) * self.buckets.len() as u128) >> 64) as usize
    }

    fn has_room(&self) -> bool {
        self.len * 16 < self.buckets.len() * BUCKET * 15
    }

    fn is_sparse(&self) -> bool {
        self.len * 5 < self.buckets.len() * BUCKET * 2 && self.buckets.len() > 2
    }

    /// Bucket and position of a name.
    #[inline]
    fn search(&self, home: usize, key: u64) -> Option<(usize, usize)> {
        let mut bucket = home;
        for _ in 0..self.buckets.len() {
            let fill = self.fills[bucket];
            let mut equal = 0;
            for (at, other) in self.buckets[bucket].keys.iter().enumerate() {
                equal |= u32::from(*other == key) << at;
            }
            let found = equal & ((1 << fill.used) - 1);
            if found != 0 {
                return Some((bucket, found.trailing_zeros() as usize));
            }
            if fill.passed == 0 {
                return None;
            }
            bucket = self.behind(bucket);
        }
        None
    }

    /// Puts a name that is not there; there is room.
    fn put(&mut self, home: usize, key: u64, location: u32) {
        let mut bucket = home;
        loop {
            let fill = &mut self.fills[bucket];
            let at = usize::from(fill.used);
            if at < BUCKET {
                fill.used += 1;
                self.buckets[bucket].keys[at] = key;
                self.buckets[bucket].locations[at] = location;
                self.len += 1;
                return;
            }
            fill.passed = fill.passed.saturating_add(1);
            bucket = self.behind(bucket);
        }
    }

    fn put_all(&mut self, from: &Self, shard_bits: u32) {
        for (bucket, fill) in from.buckets.iter().zip(&from.fills) {
            for at in 0..usize::from(fill.used).min(BUCKET) {
                let home = self.home(spread(bucket.keys[at]) << shard_bits);
                self.put(home, bucket.keys[at], bucket.locations[at]);
            }
        }
    }

    fn put_again(&mut self, key: EngineKey, location: Location, shard_bits: u32) {
        let home = self.home(spread(key.get()) << shard_bits);
        self.put(home, key.get(), location.get());
    }

    fn take(&mut self, home: usize, bucket: usize, at: usize) {
        let last = usize::from(self.fills[bucket].used) - 1;
        let names = &mut self.buckets[bucket];
        names.keys[at] = names.keys[last];
        names.locations[at] = names.locations[last];
        self.fills[bucket].used -= 1;
        self.len -= 1;
        let mut passed = home;
        while passed != bucket {
            let fill = &mut self.fills[passed];
            fill.passed -= u8::from(fill.passed != u8::MAX);
            passed = self.behind(passed);
        }
    }

    fn behind(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }
}

fn spread(key: u64) -> u64 {
    (key ^ key >> 32).wrapping_mul(SPREAD)
}

#[cfg(test)]
mod tests;
