//! From text to ids: the library that engines use, a published fast one, and kvroute's, which knows what it saw before.

mod texts;

use std::hint::black_box;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use kvroute_core::TokenId;
use kvroute_openai::Prompt;
use kvroute_tokenize::{ChatRules, PromptTokenizer};
use tokenizers::Tokenizer;

use self::texts::Texts;
use crate::machine;
use crate::stopwatch::Stopwatch;
use crate::table::{Table, three_digits};

/// Chats under one model's tokenizer, on one thread: fresh ones, and a conversation that grows by a turn.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TokenizeArgs {
    /// Folder with a model's `tokenizer.json`.
    #[arg(long, value_name = "FOLDER", default_value_os_t = default_folder())]
    tokenizer: PathBuf,
    /// Texts of each length; the tables show the median.
    #[arg(long, default_value_t = 41)]
    reps: usize,
}

/// Qwen3's, where `cargo xtask peers` names it.
fn default_folder() -> PathBuf {
    PathBuf::from(std::env::var_os("KVROUTE_TOKENIZERS").unwrap_or_default()).join("qwen3")
}

/// Who makes ids of texts.
struct Contestants {
    library: Tokenizer,
    fast: fastokens::Tokenizer,
    folder: PathBuf,
}

/// One way of making ids, over a list of texts that it sees one behind the other.
struct Figure {
    name: &'static str,
    /// Microseconds of the median text.
    micros: f64,
}

const LENGTHS: [usize; 2] = [1_000, 8_000];

/// Measures and checks that all make the same ids.
pub(crate) fn run(args: &TokenizeArgs) -> Result<()> {
    println!("{}, load average {}", machine::describe(), machine::load_average());
    let contestants = Contestants::load(&args.tokenizer)?;
    for tokens in LENGTHS {
        let figures = contestants.measure(tokens, args.reps.max(3))?;
        println!("\n{}", table(tokens, &figures));
    }
    println!("resident: {} MiB", machine::resident_bytes().unwrap_or_default() >> 20);
    Ok(())
}

fn table(tokens: usize, figures: &[Figure]) -> Table {
    let heading = format!("{tokens} tokens");
    let mut table = Table::new(1, [heading.as_str(), "us", "times the library's speed"]);
    for figure in figures {
        let ratio = figures[0].micros / figure.micros;
        table.push(vec![figure.name.to_owned(), three_digits(figure.micros), three_digits(ratio)]);
    }
    table
}

// === impl Contestants ===

impl Contestants {
    fn load(folder: &std::path::Path) -> Result<Self> {
        let file = folder.join("tokenizer.json");
        let missing = || format!("{}; name a model folder by --tokenizer", file.display());
        let library = Tokenizer::from_file(&file).map_err(anyhow::Error::msg).with_context(missing)?;
        let fast = fastokens::Tokenizer::from_file(&file).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Self { library, fast, folder: folder.to_owned() })
    }

    fn ours(&self) -> Result<PromptTokenizer> {
        Ok(PromptTokenizer::load(&self.folder)?)
    }

    fn measure(&self, tokens: usize, reps: usize) -> Result<Vec<Figure>> {
        let mut texts = Texts::new(7);
        let fresh: Vec<String> = (0..reps).map(|_| texts.chat(tokens)).collect();
        let turns = texts.growing_chat(tokens, reps);
        let known_words = self.ours()?;
        texts.pages().iter().try_for_each(|page| encode(&known_words, page).map(drop))?;
        let conversation = self.ours()?;
        encode(&conversation, &turns[0])?;
        let expected = |text: &String| self.by_the_library(text);
        Ok(vec![
            median("the library: fresh text", &fresh, expected, |text| self.by_the_library(text))?,
            median("fastokens: fresh text", &fresh, expected, |text| {
                self.fast.encode(text).map_err(|error| anyhow::anyhow!("{error}"))
            })?,
            median("kvroute: nothing known", &fresh[..reps.min(5)], expected, {
                let mut cold = (0..reps.min(5) * 2).map(|_| self.ours()).collect::<Result<Vec<_>>>()?;
                move |text| encode(&cold.pop().context("one for each text")?, text)
            })?,
            median("kvroute: fresh text of known words", &fresh, expected, |text| {
                encode(&known_words, text)
            })?,
            median("kvroute: a conversation, a turn longer", &turns[1..], expected, |text| {
                encode(&conversation, text)
            })?,
        ])
    }

    fn by_the_library(&self, text: &str) -> Result<Vec<TokenId>> {
        Ok(self.library.encode_fast(text, false).map_err(anyhow::Error::msg)?.get_ids().to_vec())
    }
}

fn encode(tokenizer: &PromptTokenizer, text: &str) -> Result<Vec<TokenId>> {
    let prompt = Prompt::Texts { texts: vec![text.to_owned()], add_special_tokens: false };
    Ok(tokenizer.encode(&prompt, ChatRules::Vllm)?.remove(0))
}

/// Each text once, in order; then checks the last one's ids.
fn median(
    name: &'static str,
    texts: &[String],
    expected: impl Fn(&String) -> Result<Vec<TokenId>>,
    mut make: impl FnMut(&str) -> Result<Vec<TokenId>>,
) -> Result<Figure> {
    let mut times = Vec::with_capacity(texts.len());
    for text in texts {
        let watch = Stopwatch::start();
        let ids = black_box(make(text)?);
        times.push(watch.worked().as_secs_f64() * 1e6);
        ensure!(ids == expected(text)?, "{name} makes other ids than the library");
    }
    times.sort_by(f64::total_cmp);
    Ok(Figure { name, micros: times[times.len() / 2] })
}
