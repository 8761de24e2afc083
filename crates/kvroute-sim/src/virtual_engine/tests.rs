use super::*;

fn engine() -> VirtualEngine {
    let config = SimConfig { kv_blocks: 64, block_size: BlockSize::new(4).unwrap(), ..SimConfig::default() };
    VirtualEngine::new(&SimConfig { prefill_tps: 1000, decode_tps: 100, step_tokens: 20, ..config }).unwrap()
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Runs to the end: every token with its time, and every event.
fn run(engine: &mut VirtualEngine, mut now: Duration) -> (Vec<(Duration, VirtualToken)>, Vec<KvEvent>) {
    let (mut tokens, mut events) = (Vec::new(), Vec::new());
    while let Some(due) = engine.next_due() {
        now = now.max(due);
        let progress = engine.advance(now);
        tokens.extend(progress.tokens.into_iter().map(|token| (now, token)));
        events.extend(progress.events);
    }
    (tokens, events)
}

#[test]
fn what_the_events_tell_is_what_the_next_request_reuses() {
    let mut engine = engine();
    let first = engine.submit(&[7; 13], 6, ms(5)).unwrap();
    let (tokens, events) = run(&mut engine, ms(5));
    assert!(tokens.iter().all(|(_, token)| token.request == first && token.reused_tokens == 0));
    let answer: Vec<_> = tokens.iter().map(|(_, token)| token.token).collect();
    assert_eq!((answer.len(), tokens.last().unwrap().1.is_last), (6, true));
    let stored = events.iter().map(|event| match event {
        KvEvent::Stored(blocks) => blocks.hashes.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(stored.sum::<usize>(), 4, "the last token is generated and not computed: 18 of 19");

    let conversation: Vec<_> = [7; 13].into_iter().chain(answer).chain([1, 2]).collect();
    let second = engine.submit(&conversation, 1, ms(1000)).unwrap();
    let (tokens, _) = run(&mut engine, ms(1000));
    assert_eq!((tokens[0].1.request, tokens[0].1.reused_tokens), (second, 16));
    let stats = engine.stats();
    assert_eq!((stats.requests, stats.prompt_tokens, stats.reused_tokens), (2, 13 + 21, 16));
}

#[test]
fn a_cancelled_request_says_no_more() {
    let mut engine = engine();
    let request = engine.submit(&[7; 50], 5, ms(0)).unwrap();
    engine.advance(ms(10));
    engine.cancel(request);
    assert!(run(&mut engine, ms(10)).0.is_empty());
    assert_eq!(engine.stats().kv_blocks_held, 0);
}

#[test]
fn what_does_not_fit_the_context_is_refused() {
    let mut engine = engine();
    assert_eq!(engine.submit(&[1; 255], 2, ms(0)), None);
    assert_eq!(engine.submit(&[], 2, ms(0)), None);
    assert!(engine.submit(&[1; 255], 1, ms(0)).is_some());
}
