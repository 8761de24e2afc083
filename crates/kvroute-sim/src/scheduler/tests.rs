use kvroute_core::{BlockSize, TokenId};
use kvroute_openai::ClientRequest;
use proptest::prelude::*;

use super::*;
use crate::cache::CacheUse;
use crate::encoder::PromptEncoder;

struct ThreeWords;

impl PromptEncoder for ThreeWords {
    fn encode(&self, _: &ClientRequest) -> Result<Vec<Vec<TokenId>>, String> {
        Err(String::from("the scheduler encodes nothing"))
    }

    fn decode(&self, tokens: &[TokenId]) -> String {
        format!("{tokens:?}")
    }

    fn plain_ids(&self) -> Vec<TokenId> {
        vec![7, 8, 9]
    }

    fn vocabulary_size(&self) -> u32 {
        10
    }
}

fn scheduler(kv_blocks: u32, prefill_tps: u64, decode_tps: u64) -> Scheduler {
    scheduler_of(SimConfig { kv_blocks, prefill_tps, decode_tps, ..SimConfig::default() })
}

fn scheduler_of(config: SimConfig) -> Scheduler {
    let config = SimConfig { block_size: BlockSize::new(4).unwrap(), ..config };
    Scheduler::new(&config, Arc::new(Words::new(&ThreeWords).unwrap()))
}

/// Steps of 20 prompt tokens, which take 20 ms, or without any 10 ms.
fn stepping(kv_blocks: u32) -> Scheduler {
    let config = SimConfig { kv_blocks, prefill_tps: 1000, decode_tps: 100, ..SimConfig::default() };
    scheduler_of(SimConfig { step_tokens: 20, ..config })
}

fn sequence(number: u64, prompt: &[TokenId], max_tokens: u64, arrived: Duration) -> Sequence {
    let prompt = Prompt {
        tokens: prompt,
        cache_use: &CacheUse::default(),
        arriving: 0,
        is_kept: false,
        max_tokens,
        seed: 1,
    };
    Sequence::new(SequenceId::new(number), prompt, 0, arrived)
}

fn submit(scheduler: &mut Scheduler, number: u64, prompt: &[TokenId], max_tokens: u64, arrived: u64) {
    scheduler.submit([sequence(number, prompt, max_tokens, ms(arrived))]);
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Runs to the end by its own due times: when each token of each sequence came.
fn run(scheduler: &mut Scheduler) -> Vec<(Duration, SequenceId)> {
    let mut tokens = Vec::new();
    while let Some(due) = scheduler.next_due() {
        let progress = scheduler.advance(due);
        tokens.extend(progress.tokens.iter().map(|token| (due, token.sequence)));
    }
    tokens
}

fn times_of(tokens: &[(Duration, SequenceId)], number: u64) -> Vec<Duration> {
    let own = tokens.iter().filter(|(_, sequence)| *sequence == SequenceId::new(number));
    own.map(|(at, _)| *at).collect()
}

#[test]
fn prompts_are_computed_one_after_the_other_and_tokens_come_by_the_tick() {
    let mut scheduler = scheduler(64, 1000, 100);
    submit(&mut scheduler, 0, &[1; 50], 3, 0);
    submit(&mut scheduler, 1, &[2; 100], 2, 0);
    let tokens = run(&mut scheduler);
    assert_eq!(times_of(&tokens, 0), [ms(50), ms(60), ms(70)]);
    assert_eq!(times_of(&tokens, 1), [ms(150), ms(160)]);
}

#[test]
fn a_cached_prefix_takes_no_time() {
    let mut scheduler = scheduler(64, 1000, 0);
    submit(&mut scheduler, 0, &[1; 50], 1, 0);
    submit(&mut scheduler, 1, &[1; 50], 1, 10);
    let tokens = run(&mut scheduler);
    assert_eq!(times_of(&tokens, 0), [ms(50)]);
    assert_eq!(times_of(&tokens, 1), [ms(52)], "48 of 50 tokens are cached");
    let stats = scheduler.stats();
    assert_eq!((stats.prompt_tokens, stats.reused_tokens, stats.computed_tokens), (100, 48, 52));
}

#[test]
fn work_without_delay_is_done_in_bounded_portions() {
    let mut scheduler = scheduler(64, 0, 0);
    submit(&mut scheduler, 0, &[1, 2], 20, 0);
    submit(&mut scheduler, 1, &[3, 4], 2, 0);
    let counts: Vec<_> = (0..3).map(|_| scheduler.advance(ms(1)).tokens.len()).collect();
    assert_eq!(counts, [2 + 1 + 16, 3, 0], "first tokens and 16 steps, then the rest");
    assert_eq!(scheduler.next_due(), None);
}

#[test]
fn the_newest_sequence_makes_room_and_is_computed_again() {
    let mut scheduler = scheduler(6, 0, 0);
    submit(&mut scheduler, 0, &[1; 8], 10, 0);
    submit(&mut scheduler, 1, &[2; 8], 10, 0);
    let tokens = run(&mut scheduler);
    assert_eq!((times_of(&tokens, 0).len(), times_of(&tokens, 1).len()), (10, 10));
    let last = |number| tokens.iter().rposition(|(_, sequence)| *sequence == SequenceId::new(number));
    assert!(last(0) < last(1), "the older one is not held up");
    let stats = scheduler.stats();
    assert!(stats.preemptions > 0, "{stats:?}");
    assert_eq!((stats.prompt_tokens, stats.computed_tokens), (16, 16), "the prompt is counted once");
    assert_eq!((stats.finished_sequences, stats.kv_blocks_held), (2, 0));
}

#[test]
fn cancelling_stops_every_phase_and_keeps_complete_blocks() {
    let mut scheduler = scheduler(64, 1000, 10);
    submit(&mut scheduler, 0, &[1; 10], 100, 0);
    submit(&mut scheduler, 1, &[2; 100], 100, 0);
    submit(&mut scheduler, 2, &[3; 10], 100, 0);
    scheduler.advance(ms(20));
    let stats = scheduler.stats();
    assert_eq!((stats.running, stats.waiting, stats.kv_blocks_held), (2, 1, 3 + 25));
    scheduler.cancel(&[SequenceId::new(0), SequenceId::new(1), SequenceId::new(2), SequenceId::new(3)]);
    let stats = scheduler.stats();
    assert_eq!((stats.running, stats.waiting, stats.kv_blocks_held), (0, 0, 0));
    assert_eq!(stats.kv_blocks_used, 2, "those of the computed prompt");
    assert_eq!(scheduler.next_due(), None);
    assert!(scheduler.advance(ms(1000)).tokens.is_empty());
}

#[test]
fn a_reset_with_preemption_is_announced_before_the_blocks_that_follow() {
    let mut scheduler = scheduler(64, 0, 10);
    submit(&mut scheduler, 0, &[1; 9], 100, 0);
    let stored = scheduler.advance(ms(0)).batches;
    assert!(!scheduler.reset_cache(false));
    assert!(scheduler.reset_cache(true));
    let batches = scheduler.advance(ms(1)).batches;
    assert_eq!(batches, [[CacheChange::Cleared, stored[0][0].clone()]]);
}

#[test]
fn a_step_takes_longer_the_more_context_its_sequences_have() {
    let config = SimConfig { kv_blocks: 64, decode_tps: 100, kv_read_tps: 1000, ..SimConfig::default() };
    let mut scheduler = scheduler_of(config);
    submit(&mut scheduler, 0, &[1; 50], 3, 0);
    let tokens = run(&mut scheduler);
    assert_eq!(times_of(&tokens, 0), [ms(0), ms(61), ms(61 + 62)]);
}

#[test]
fn prompts_and_answers_of_common_steps_hold_up_each_other() {
    let mut scheduler = stepping(64);
    submit(&mut scheduler, 0, &[1; 10], 4, 0);
    submit(&mut scheduler, 1, &[2; 30], 2, 15);
    let tokens = run(&mut scheduler);
    // 10 and a step; then 20 of the second prompt beside the first answer, then its last 10.
    assert_eq!(times_of(&tokens, 0), [ms(20), ms(50), ms(70), ms(80)]);
    assert_eq!(times_of(&tokens, 1), [ms(70), ms(80)]);
}

#[test]
fn a_step_computes_several_prompts_and_an_equal_one_reuses_what_it_computes() {
    let mut scheduler = stepping(64);
    for number in 0..3 {
        submit(&mut scheduler, number, &[1; 9], 1, 0);
    }
    submit(&mut scheduler, 3, &[2; 12], 1, 0);
    let tokens = run(&mut scheduler);
    let firsts: Vec<_> = (0..4).map(|number| times_of(&tokens, number)[0]).collect();
    assert_eq!(firsts, [ms(30), ms(30), ms(30), ms(30 + 13)], "9 + 1 + 1 and 9 of 12 fill one step");
    assert_eq!(scheduler.stats().reused_tokens, 16);
}

#[test]
fn a_late_wake_up_takes_nobody_into_a_step_that_began_before_he_came() {
    let mut scheduler = stepping(64);
    submit(&mut scheduler, 0, &[1; 10], 4, 0);
    scheduler.advance(ms(0));
    submit(&mut scheduler, 1, &[2; 10], 1, 25);
    let tokens = scheduler.advance(ms(25)).tokens.len();
    assert_eq!(
        (tokens, scheduler.next_due()),
        (1, Some(ms(30))),
        "10 + 10, then 10 without the second prompt"
    );
}

#[test]
fn common_steps_make_room_and_end_with_cancelled_work() {
    let mut scheduler = stepping(6);
    submit(&mut scheduler, 0, &[1; 8], 10, 0);
    submit(&mut scheduler, 1, &[2; 8], 10, 0);
    submit(&mut scheduler, 2, &[3; 8], 10, 0);
    scheduler.advance(ms(5));
    scheduler.cancel(&[SequenceId::new(1)]);
    let tokens = run(&mut scheduler);
    assert_eq!([0, 1, 2].map(|number| times_of(&tokens, number).len()), [10, 0, 10]);
    let stats = scheduler.stats();
    assert_eq!((stats.finished_sequences, stats.kv_blocks_held, stats.waiting), (2, 0, 0));
}

#[derive(Clone, Debug)]
struct Arrival {
    prompt: Vec<TokenId>,
    max_tokens: u64,
}

fn arrival() -> impl Strategy<Value = Arrival> {
    (prop::collection::vec(0u32..2, 1..24), 1u64..12)
        .prop_map(|(prompt, max_tokens)| Arrival { prompt, max_tokens })
}

proptest! {
    /// Timers are late under load; that must not change what is computed, in which order, or by when.
    #[test]
    fn late_wake_ups_change_nothing(
        arrivals in prop::collection::vec(arrival(), 1..6),
        delays in prop::collection::vec(0u64..40, 1..20),
        step_tokens in prop::sample::select(vec![0u32, 5, 40]),
    ) {
        let start = || {
            let config = SimConfig { kv_blocks: 9, prefill_tps: 2000, decode_tps: 500, ..SimConfig::default() };
            let mut scheduler = scheduler_of(SimConfig { step_tokens, kv_read_tps: 50_000, ..config });
            for (number, arrival) in (0..).zip(&arrivals) {
                submit(&mut scheduler, number, &arrival.prompt, arrival.max_tokens, 0);
            }
            scheduler
        };
        let (mut punctual, mut late) = (start(), start());
        let expected = run(&mut punctual);
        let mut order = Vec::new();
        let mut delays = delays.iter().cycle();
        while let Some(due) = late.next_due() {
            let now = due + ms(*delays.next().unwrap());
            order.extend(late.advance(now).tokens.iter().map(|token| token.sequence));
            prop_assert_eq!(order.len(), expected.iter().filter(|(at, _)| *at <= now).count());
        }
        prop_assert_eq!(order, expected.iter().map(|(_, sequence)| *sequence).collect::<Vec<_>>());
        prop_assert_eq!(late.stats(), punctual.stats());
        prop_assert_eq!(late.stats().kv_blocks_held, 0);
        let wanted: u64 = arrivals.iter().map(|arrival| arrival.max_tokens).sum();
        prop_assert_eq!(late.stats().generated_tokens, wanted);
    }
}
