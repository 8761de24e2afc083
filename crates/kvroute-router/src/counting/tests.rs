use std::future::{Future, ready};
use std::path::Path;
use std::pin::Pin;

use bytes::Bytes;
use kvroute_openai::Endpoint;

use super::*;

fn tokenizer() -> Arc<PromptTokenizer> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo-tokenizer");
    Arc::new(PromptTokenizer::load(&folder).unwrap())
}

fn request(words: usize) -> Arc<ClientRequest> {
    let body = format!(r#"{{"model":"sim","prompt":"{}"}}"#, "word ".repeat(words));
    Arc::new(ClientRequest::parse(Endpoint::Completions, Bytes::from(body)).unwrap())
}

/// The result, if the future has it without waiting.
async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    tokio::select! {
        biased;
        result = &mut future => Some(result),
        () = ready(()) => None,
    }
}

#[tokio::test]
async fn a_long_body_waits_for_its_turn_and_a_short_one_for_nothing() {
    let tokenizer = tokenizer();
    let mut counter = PromptCounter::new(CountMode::Exact, Some(Arc::clone(&tokenizer)));
    counter.long_work = LongWork::at_once(1);
    let (end, until) = std::sync::mpsc::channel::<()>();
    let mut occupant = Box::pin(counter.long_work.run(move || until.recv().unwrap_or_default()));
    assert!(at_once(occupant.as_mut()).await.is_none());

    let (short, long) = (request(3000), request(4000));
    assert!(short.body().len() <= ON_THE_SPOT && long.body().len() > ON_THE_SPOT);
    let mut waiting = Box::pin(counter.tokenize(&tokenizer, &long, ChatRules::Plain));
    assert!(at_once(waiting.as_mut()).await.is_none(), "the only turn is taken");
    let mut small = Box::pin(counter.tokenize(&tokenizer, &short, ChatRules::Plain));
    let counted = at_once(small.as_mut()).await;
    assert_eq!(counted, Some(tokenizer.encode(&short.prompt, ChatRules::Plain)));

    drop(end);
    occupant.await.unwrap();
    assert_eq!(counter.long_work.free(), 0, "the next turn is the long one's");
    assert_eq!(waiting.await, tokenizer.encode(&long.prompt, ChatRules::Plain));
}
