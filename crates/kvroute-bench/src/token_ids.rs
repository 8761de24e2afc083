//! What it costs to ask an engine for the ids of generated tokens: bytes on the way from it, and time to read them.

use std::hint::black_box;

use anyhow::{Result, ensure};
use bytes::Bytes;
use kvroute_core::{BlockSize, Namespace, PrefixHasher, SequenceHash, TokenId};
use kvroute_history::OutputTail;
use kvroute_openai::{Observation, StreamScanner, TokenIds, Unasked, UsageChunk};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::machine;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, three_digits};

/// Streams of chats as vLLM sends them, with and without token ids, on one thread.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TokenIdsArgs {
    /// Ids that the model has: how long an id is as text.
    #[arg(long, default_value_t = 151_936)]
    vocabulary: TokenId,
    /// Chunks of a stream, one token each.
    #[arg(long, default_value_t = 1_000)]
    tokens: usize,
    /// Repetitions; the tables show their lower quartile.
    #[arg(long, default_value_t = 61)]
    reps: usize,
}

/// How one stream is treated.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    has_ids: bool,
    mode: TokenIds,
}

const CASES: [Case; 4] = [
    Case { name: "not asked for, not looked for", has_ids: false, mode: TokenIds::Ignore },
    Case { name: "not there, looked for", has_ids: false, mode: TokenIds::Read },
    Case { name: "asked for by the client: read", has_ids: true, mode: TokenIds::Read },
    Case {
        name: "asked for by the router: read, taken out",
        has_ids: true,
        mode: TokenIds::Withhold(Unasked::Null),
    },
];

const PROMPTS: [usize; 4] = [100, 1_000, 10_000, 100_000];

/// Measures chunks, the first chunk with its prompt, and the hashing of what was read.
pub(crate) fn run(args: &TokenIdsArgs) -> Result<()> {
    println!("{}, load average {}", machine::describe(), machine::load_average());
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let ids: Vec<TokenId> = (0..args.tokens).map(|_| random.random_range(0..args.vocabulary)).collect();
    println!("\n{}", chunks(args, &ids)?);
    println!("{}", first_chunks(args, &mut random)?);
    println!("{}", hashing(args, &ids));
    Ok(())
}

/// One token a chunk.
fn chunks(args: &TokenIdsArgs, ids: &[TokenId]) -> Result<Table> {
    let mut table = Table::new(1, ["a chunk of one token", "bytes", "to the client", "ns"]);
    let count = ids.len() as f64;
    for case in CASES {
        let pieces: Vec<Bytes> = ids.iter().map(|id| chunk(case.has_ids.then_some(*id))).collect();
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let forwarded = forwarded(case.mode, &pieces, if case.has_ids { ids.len() } else { 0 })?;
        let time = quartile(args, || forwarded_bytes(case.mode, &pieces));
        let cells = [bytes as f64, forwarded as f64, time].map(|figure| three_digits(figure / count));
        table.push([vec![case.name.to_owned()], cells.to_vec()].concat());
    }
    Ok(table)
}

/// The chunk that brings the prompt's ids, once a choice.
fn first_chunks(args: &TokenIdsArgs, random: &mut ChaCha8Rng) -> Result<Table> {
    let mut table =
        Table::new(1, ["the first chunk, by tokens of the prompt", "bytes more", "us more", "ns a token"]);
    for tokens in PROMPTS {
        let prompt: Vec<TokenId> = (0..tokens).map(|_| random.random_range(0..args.vocabulary)).collect();
        let (plain, asked) = (first_chunk(None), first_chunk(Some(&prompt)));
        let withheld = CASES[3].mode;
        ensure!(
            forwarded(withheld, std::slice::from_ref(&asked), 0)? == plain.len(),
            "the list is still there"
        );
        let less = quartile(args, || forwarded_bytes(TokenIds::Ignore, std::slice::from_ref(&plain)));
        let more = quartile(args, || forwarded_bytes(withheld, std::slice::from_ref(&asked))) - less;
        table.push(vec![
            tokens.to_string(),
            (asked.len() - plain.len()).to_string(),
            three_digits(more / 1e3),
            three_digits(more / tokens as f64),
        ]);
    }
    Ok(table)
}

/// From ids to the hashes of blocks, token by token.
fn hashing(args: &TokenIdsArgs, ids: &[TokenId]) -> Table {
    let mut table = Table::new(1, ["hashing what was read, by tokens in a block", "ns a token"]);
    for tokens in [16, 32, 64] {
        let Ok(size) = BlockSize::new(tokens) else { continue };
        let mut completed: Vec<SequenceHash> = Vec::with_capacity(ids.len());
        let time = quartile(args, || {
            completed.clear();
            let mut tail = OutputTail::new(size, PrefixHasher::root(Namespace::DEFAULT), &[]);
            ids.iter().for_each(|id| tail.push(std::slice::from_ref(id), &mut completed));
            completed.len()
        });
        table.push(vec![tokens.to_string(), three_digits(time / ids.len() as f64)]);
    }
    table
}

fn chunk(id: Option<TokenId>) -> Bytes {
    let ids = id.map_or_else(|| "null".to_owned(), |id| format!("[{id}]"));
    Bytes::from(format!(
        "data: {{\"id\":\"chatcmpl-bc4d27d15056d2ac\",\"object\":\"chat.completion.chunk\",\"created\":1795974321,\
         \"model\":\"qwen3\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" forging\"}},\"logprobs\":null,\
         \"finish_reason\":null,\"token_ids\":{ids}}}]}}\n\n"
    ))
}

fn first_chunk(prompt: Option<&[TokenId]>) -> Bytes {
    let ids = prompt.map_or_else(|| "null".to_owned(), |ids| format!("{ids:?}").replace(' ', ""));
    Bytes::from(format!(
        "data: {{\"id\":\"chatcmpl-bc4d27d15056d2ac\",\"object\":\"chat.completion.chunk\",\"created\":1795974321,\
         \"model\":\"qwen3\",\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\
         \"logprobs\":null,\"finish_reason\":null}}],\"prompt_token_ids\":{ids},\"prompt_text\":null}}\n\n"
    ))
}

/// Bytes that reach the client, once all ids were seen.
fn forwarded(mode: TokenIds, pieces: &[Bytes], ids: usize) -> Result<usize> {
    let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, mode);
    let (mut bytes, mut seen) = (0, 0);
    for piece in pieces {
        let mut observations = Vec::new();
        bytes += scanner.push(piece, &mut observations).len();
        let lists = observations.iter().filter_map(|observation| match observation {
            Observation::Generated { ids, .. } => *ids,
            _ => None,
        });
        seen += lists.map(|span| span.of(scanner.token_ids()).len()).sum::<usize>();
    }
    ensure!(seen == ids, "{seen} of {ids} ids were read");
    Ok(bytes)
}

fn forwarded_bytes(mode: TokenIds, pieces: &[Bytes]) -> usize {
    let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, mode);
    let (mut observations, mut bytes) = (Vec::new(), 0);
    for piece in pieces {
        observations.clear();
        bytes += black_box(scanner.push(piece, &mut observations)).len();
    }
    bytes
}

/// Nanoseconds of one call: the lower quartile, because other work on the machine only makes it slower.
fn quartile(args: &TokenIdsArgs, mut work: impl FnMut() -> usize) -> f64 {
    const CALLS: u32 = 20;
    let mut times: Vec<f64> = (0..args.reps.max(1))
        .map(|_| {
            let watch = Stopwatch::start();
            for _ in 0..CALLS {
                black_box(work());
            }
            watch.worked().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}
