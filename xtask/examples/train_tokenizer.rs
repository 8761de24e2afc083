//! Trains the demo tokenizer from its corpus, or with `--check` proves that the committed file is what training gives.
//!
//! It is an example and not a command of `xtask` itself so that the everyday commands do not wait for the
//! `tokenizers` crate to compile. The result is the same bytes on every machine: the trainer breaks ties between
//! equally frequent pairs by their ids, and the ids follow from the sorted byte alphabet.

#![expect(clippy::print_stderr, reason = "a command-line tool speaks to its user")]

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, TokenizerBuilder, TokenizerImpl};

/// Size of the learnt vocabulary; the special tokens below come after it, and together they make 2,048 rows.
const LEARNT_TOKENS: usize = 2048 - SPECIAL_TOKENS.len() - MARKUP_TOKENS.len();

/// Tokens that steer the engine and never appear in an answer's text.
const SPECIAL_TOKENS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// Tokens of the chat template's tool protocol: one id each, but part of an answer's text.
const MARKUP_TOKENS: [&str; 4] = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];

/// How text is cut into words before pairs are merged: the rule of the Qwen2 family in the spelling of llama.cpp, which
/// implements exactly this one under the name `qwen2`.
const WORDS: &str = concat!(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])",
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

type Demo = TokenizerImpl<
    BPE,
    tokenizers::NormalizerWrapper,
    PreTokenizerWrapper,
    tokenizers::PostProcessorWrapper,
    ByteLevel,
>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/demo-tokenizer");
    let target = folder.join("tokenizer.json");
    let corpus = std::fs::read_to_string(folder.join("corpus.txt")).context("corpus.txt cannot be read")?;
    let trained = train(&corpus)?;

    if std::env::args().any(|argument| argument == "--check") {
        let committed = std::fs::read_to_string(&target).context("tokenizer.json cannot be read")?;
        ensure!(
            committed == trained,
            "tokenizer.json is not what corpus.txt gives; run `cargo xtask train-tokenizer`"
        );
        return Ok(());
    }
    std::fs::write(&target, trained).context("tokenizer.json cannot be written")
}

/// The text of `tokenizer.json`, in the format of Hugging Face `tokenizers`.
fn train(corpus: &str) -> Result<String> {
    let mut trainer = BpeTrainer::builder()
        .vocab_size(LEARNT_TOKENS)
        .min_frequency(2)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let mut tokenizer = untrained()?;
    tokenizer.train(&mut trainer, std::iter::once(corpus)).map_err(anyhow::Error::from_boxed)?;
    let learnt = tokenizer.get_vocab_size(false);
    ensure!(
        learnt == LEARNT_TOKENS,
        "corpus.txt gives only {learnt} of {LEARNT_TOKENS} tokens; make it longer"
    );

    tokenizer.add_special_tokens(&SPECIAL_TOKENS.map(|text| AddedToken::from(text, true)));
    tokenizer.add_tokens(&MARKUP_TOKENS.map(|text| AddedToken::from(text, false).normalized(false)));
    tokenizer.to_string(false).map_err(anyhow::Error::from_boxed)
}

/// Byte-level BPE without a normalizer: llama.cpp applies none, and any text survives a round trip.
fn untrained() -> Result<Demo> {
    let pattern = SplitPattern::Regex(WORDS.to_owned());
    let split =
        Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(anyhow::Error::from_boxed)?;
    let bytes = ByteLevel::new(false, false, false);
    TokenizerBuilder::default()
        .with_model(BPE::default())
        .with_normalizer(None)
        .with_pre_tokenizer(Some(Sequence::new(vec![split.into(), bytes.into()]).into()))
        .with_post_processor(None)
        .with_decoder(Some(bytes))
        .build()
        .map_err(anyhow::Error::from_boxed)
}
