use proptest::prelude::*;

use kvroute_core::BlockExtras;

use super::*;

fn size(tokens: u32) -> BlockSize {
    BlockSize::new(tokens).unwrap()
}

fn store(tokens: u32, hashes: &[u64], parent: Option<u64>, tier: Tier) -> StoredBlocks {
    StoredBlocks {
        hashes: hashes.iter().map(|hash| EngineHash::Int(*hash)).collect(),
        parent: parent.map(EngineHash::Int),
        tokens: Vec::new(),
        block_size: size(tokens),
        tier,
        salt: None,
        adapter: None,
        extras: BlockExtras::default(),
    }
}

/// Sizes with short names for their inputs.
struct Stream {
    sizes: BlockSizes,
    next: u64,
}

impl Stream {
    fn of(claim: BlockSizeClaim) -> Self {
        Self { sizes: BlockSizes::new(claim), next: 0 }
    }

    fn fresh_names(&mut self) -> [u64; 2] {
        self.next += 2;
        [self.next, self.next + 1]
    }

    /// One block that nothing is known to follow.
    fn single(&mut self, tokens: u32) -> Verdict {
        let [one, _] = self.fresh_names();
        self.sizes.judge(&store(tokens, &[one], None, Tier::Device))
    }

    /// Two blocks, one behind the other.
    fn chain(&mut self, tokens: u32) -> Verdict {
        let names = self.fresh_names();
        self.sizes.judge(&store(tokens, &names, None, Tier::Device))
    }

    fn chains(&mut self, tokens: u32, count: usize) -> Vec<Verdict> {
        (0..count).map(|_| self.chain(tokens)).collect()
    }

    fn seen(&self) -> Option<(u32, u32)> {
        self.sizes.contradiction().map(|(TwoSizes { before, then }, _)| (before.get(), then.get()))
    }

    fn loss(&mut self) -> Option<(u32, u32)> {
        self.sizes.take_loss().map(|TwoSizes { before, then }| (before.get(), then.get()))
    }
}

/// Each kind of size that one event must not overturn.
fn settled() -> [Stream; 3] {
    let mut learned = Stream::of(BlockSizeClaim::Unknown);
    learned.chain(16);
    let mut told = Stream::of(BlockSizeClaim::Told(size(16)));
    told.single(16);
    let mut required = Stream::of(BlockSizeClaim::Required(size(16)));
    required.single(16);
    [learned, told, required]
}

#[test]
fn a_single_contradiction_is_refused_shown_with_both_sizes_and_ends_by_agreement() {
    for mut stream in settled() {
        for _ in 0..2 {
            assert_eq!(stream.single(32), Verdict::Refuse);
            assert_eq!(stream.seen(), Some((16, 32)));
            let needed = stream.sizes.calm as usize;
            assert_eq!(stream.chains(16, needed - 1), vec![Verdict::Take; needed - 1]);
            assert_eq!(stream.seen(), Some((16, 32)));
            assert_eq!((stream.chain(16), stream.seen()), (Verdict::Take, None));
        }
        assert_eq!((stream.sizes.calm, stream.loss()), (4 * FIRST_CALM, None));
    }
}

#[test]
fn smaller_blocks_contradict_once_one_follows_the_other() {
    for mut stream in settled() {
        assert_eq!([stream.single(5), stream.single(5)], [Verdict::LeaveOut; 2]);
        assert_eq!(stream.seen(), None);
        assert_eq!((stream.chain(8), stream.seen()), (Verdict::Refuse, Some((16, 8))));
    }
    for mut stream in settled() {
        assert_eq!(stream.sizes.judge(&store(8, &[900], None, Tier::Device)), Verdict::LeaveOut);
        let behind = store(8, &[901], Some(900), Tier::Device);
        assert_eq!(stream.sizes.judge(&behind), Verdict::Refuse);
        let behind_another_size = store(4, &[902], Some(901), Tier::Device);
        assert_eq!(stream.sizes.judge(&behind_another_size), Verdict::LeaveOut);
    }
}

#[test]
fn the_other_size_wins_by_a_run_without_the_right_one_unless_the_operator_requires_it() {
    let run = FIRST_MAJORITY as usize;
    let [learned, told, mut required] = settled();
    for mut stream in [learned, told] {
        assert_eq!(stream.chains(32, run - 1), vec![Verdict::Refuse; run - 1]);
        stream.chain(16);
        assert_eq!(stream.chains(32, run - 1), vec![Verdict::Refuse; run - 1]);
        assert_eq!((stream.chain(32), stream.loss()), (Verdict::TakeAfterClear, Some((16, 32))));
        assert_eq!((stream.seen(), stream.loss(), stream.chain(32)), (None, None, Verdict::Take));
        // A stream that swings swings ever slower.
        assert_eq!(stream.chains(16, 2 * run - 1), vec![Verdict::Refuse; 2 * run - 1]);
        assert_eq!(stream.chain(16), Verdict::TakeAfterClear);
    }
    assert_eq!(required.chains(32, 1000), vec![Verdict::Refuse; 1000]);
    assert_eq!(required.seen(), Some((16, 32)));
}

#[test]
fn a_run_of_different_sizes_is_no_majority() {
    let [mut learned, ..] = settled();
    for _ in 0..FIRST_MAJORITY {
        assert_eq!([learned.chain(32), learned.chain(64)], [Verdict::Refuse; 2]);
    }
}

#[test]
fn only_what_was_never_right_is_blind() {
    let ever = |stream: &Stream| stream.sizes.contradiction().map(|(_, has_ever_agreed)| has_ever_agreed);
    for mut stream in settled() {
        stream.chain(32);
        assert_eq!(ever(&stream), Some(true));
    }
    for claim in [BlockSizeClaim::Told(size(16)), BlockSizeClaim::Required(size(16))] {
        let mut stream = Stream::of(claim);
        stream.chain(32);
        assert_eq!(ever(&stream), Some(false));
        stream.chain(16);
        assert_eq!(ever(&stream), Some(true));
    }
}

#[test]
fn a_restart_takes_any_size_but_for_a_required_one() {
    let [learned, told, mut required] = settled();
    for mut stream in [learned, told] {
        stream.chain(32);
        stream.sizes.restart();
        assert_eq!((stream.seen(), stream.single(8), stream.seen()), (None, Verdict::Take, None));
    }
    required.sizes.restart();
    assert_eq!((required.single(32), required.seen()), (Verdict::Refuse, Some((16, 32))));
}

#[test]
fn an_announced_clear_takes_another_size_where_the_first_was_learned() {
    for other in [8, 32] {
        let [mut learned, mut told, mut required] = settled();
        learned.chain(32);
        learned.sizes.cleared();
        assert_eq!(learned.seen(), None);
        assert_eq!((learned.chain(other), learned.seen()), (Verdict::TakeAfterClear, None));
        assert_eq!((learned.loss(), learned.chain(other)), (None, Verdict::Take));
        for stream in [&mut told, &mut required] {
            stream.sizes.cleared();
            assert_eq!(stream.chain(other), Verdict::Refuse);
        }
    }
}

#[test]
fn a_single_block_that_came_first_yields_and_what_was_left_out_meanwhile_is_a_loss() {
    let mut rest = Stream::of(BlockSizeClaim::Unknown);
    assert_eq!([rest.single(5), rest.single(16)], [Verdict::Take, Verdict::TakeAfterClear]);
    assert_eq!((rest.loss(), rest.single(5)), (None, Verdict::LeaveOut));

    let mut bogus = Stream::of(BlockSizeClaim::Unknown);
    assert_eq!([bogus.single(32), bogus.chain(16)], [Verdict::Take, Verdict::TakeAfterClear]);
    assert_eq!(bogus.loss(), None);

    let mut bogus = Stream::of(BlockSizeClaim::Unknown);
    let verdicts = [bogus.single(32), bogus.single(16), bogus.chain(16)];
    assert_eq!(verdicts, [Verdict::Take, Verdict::LeaveOut, Verdict::TakeAfterClear]);
    assert_eq!(bogus.loss(), Some((32, 16)));
}

#[test]
fn lower_tiers_never_decide() {
    let mut stream = Stream::of(BlockSizeClaim::Unknown);
    let offloaded = |tokens, names: &[u64]| store(tokens, names, None, Tier::Host);
    assert_eq!(stream.sizes.judge(&offloaded(64, &[1, 2])), Verdict::Take);
    assert_eq!(stream.sizes.judge(&offloaded(128, &[3, 4])), Verdict::LeaveOut);
    assert_eq!(stream.single(16), Verdict::TakeAfterClear);
    assert_eq!(stream.sizes.judge(&offloaded(64, &[5, 6])), Verdict::LeaveOut);
    assert_eq!(stream.sizes.judge(&offloaded(16, &[7])), Verdict::Take);
    assert_eq!((stream.seen(), stream.loss()), (None, None));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Single(u32),
    Chain(u32),
    Offload(u32),
    Clear,
    Restart,
}

fn claim() -> impl Strategy<Value = BlockSizeClaim> {
    prop_oneof![
        Just(BlockSizeClaim::Unknown),
        Just(BlockSizeClaim::Told(size(16))),
        Just(BlockSizeClaim::Required(size(16))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let tokens = prop_oneof![Just(8), Just(16), Just(32)];
    prop_oneof![
        4 => tokens.clone().prop_map(Step::Single),
        8 => tokens.clone().prop_map(Step::Chain),
        1 => tokens.prop_map(Step::Offload),
        1 => Just(Step::Clear),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #[test]
    fn between_two_clears_one_size_is_taken_and_no_stream_stays_deaf(
        claim in claim(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut stream = Stream::of(claim);
        let mut taken = None;
        for step in steps {
            let (tokens, verdict) = match step {
                Step::Single(tokens) => (tokens, stream.single(tokens)),
                Step::Chain(tokens) => (tokens, stream.chain(tokens)),
                Step::Offload(tokens) => {
                    (tokens, stream.sizes.judge(&store(tokens, &[1], None, Tier::Host)))
                }
                Step::Clear | Step::Restart => {
                    taken = None;
                    if matches!(step, Step::Clear) { stream.sizes.cleared() } else { stream.sizes.restart() }
                    continue;
                }
            };
            match verdict {
                Verdict::Take => prop_assert_eq!(*taken.get_or_insert(tokens), tokens),
                Verdict::TakeAfterClear => taken = Some(tokens),
                Verdict::LeaveOut => {}
                Verdict::Refuse => prop_assert_eq!(stream.seen().map(|(_, then)| then), Some(tokens)),
            }
            let is_foreign = taken.is_some_and(|taken| taken != 16);
            prop_assert!(!(is_foreign && matches!(claim, BlockSizeClaim::Required(_))));
        }
        let most = 2 * (stream.sizes.majority.max(stream.sizes.calm) as usize);
        let last = if matches!(claim, BlockSizeClaim::Required(_)) { 16 } else { 64 };
        prop_assert_eq!(stream.chains(last, most).pop(), Some(Verdict::Take));
        prop_assert_eq!(stream.seen(), None);
    }
}
