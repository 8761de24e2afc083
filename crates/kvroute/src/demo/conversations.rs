//! The built-in workload: conversations of several turns, in groups that share a long system prompt.
//!
//! That is what makes KV routing worth anything: the system prompt of a group, and the growing history of one
//! conversation, are prefixes that some engine has computed already. The text is composed of the demo
//! tokenizer's own training text, so that it looks like language and tokens stay about as long as words.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::tokenizer::DEMO_CORPUS;

/// What the conversations are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChatShape {
    /// System prompts; each conversation has one of them.
    pub(crate) groups: usize,
    /// Words of a system prompt, about.
    pub(crate) system_words: usize,
    /// Turns of a conversation, at least and at most.
    pub(crate) turns: (usize, usize),
    /// Words of a question, about.
    pub(crate) question_words: usize,
    /// Tokens of an answer.
    pub(crate) answer_tokens: u64,
    /// Longest time that the user thinks before a question. Without it all conversations would take turns in
    /// lockstep, and round robin would return each of them to its engine by mere arithmetic.
    pub(crate) longest_pause: Duration,
}

/// One conversation before it is held: the answers come from the engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub(crate) system: Arc<str>,
    pub(crate) turns: Vec<Turn>,
}

/// One question, and how long the user thinks before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) pause: Duration,
    pub(crate) question: String,
}

// === impl ChatShape ===

impl ChatShape {
    /// More system prompts than one engine's cache can hold, and fewer than four can.
    pub(crate) const DEMO: Self = Self {
        groups: 20,
        system_words: 600,
        turns: (3, 5),
        question_words: 30,
        answer_tokens: 16,
        longest_pause: Duration::from_millis(2400),
    };
}

/// Conversations with so many turns in all. Equal seeds give equal texts.
pub(crate) fn conversations(shape: &ChatShape, requests: usize, seed: u64) -> Vec<Conversation> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let sentences = sentences(DEMO_CORPUS);
    let systems: Vec<Arc<str>> = (1..=shape.groups)
        .map(|group| {
            let rules = text(&sentences, shape.system_words, &mut rng);
            Arc::from(format!("You answer for desk {group}. {rules}"))
        })
        .collect();
    let mut deck: Vec<Arc<str>> = Vec::new();
    let mut left = requests;
    let mut made = Vec::new();
    while left > 0 {
        let count = rng.random_range(shape.turns.0..=shape.turns.1).min(left);
        let Some(system) = deal(&mut deck, &systems, &mut rng) else { break };
        let turns: Vec<Turn> = (0..count).map(|_| turn(shape, &sentences, &mut rng)).collect();
        made.push(Conversation { system, turns });
        left -= count;
    }
    made
}

/// The next system prompt of a shuffled deck, so that every group has its share of the conversations.
fn deal(deck: &mut Vec<Arc<str>>, systems: &[Arc<str>], rng: &mut ChaCha8Rng) -> Option<Arc<str>> {
    if deck.is_empty() {
        deck.extend_from_slice(systems);
        deck.shuffle(rng);
    }
    deck.pop()
}

fn turn(shape: &ChatShape, sentences: &[&str], rng: &mut ChaCha8Rng) -> Turn {
    let pause = shape.longest_pause.mul_f64(rng.random_range(0.0..1.0));
    Turn { pause, question: text(sentences, shape.question_words, rng) }
}

/// Whole sentences, drawn until there are enough words.
fn text(sentences: &[&str], words: usize, rng: &mut ChaCha8Rng) -> String {
    let mut text = String::new();
    let mut so_far = 0;
    while so_far < words {
        let Some(sentence) = sentences.choose(rng) else { break };
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(sentence);
        so_far += sentence.split(' ').count();
    }
    text
}

/// English sentences of running text; other scripts, lists, code and dialogue marks of the corpus are left out.
fn sentences(corpus: &str) -> Vec<&str> {
    corpus
        .lines()
        .flat_map(|line| line.split_inclusive(". "))
        .map(str::trim)
        .filter(|sentence| {
            sentence.ends_with('.') && sentence.starts_with(|first: char| first.is_uppercase())
        })
        .filter(|sentence| sentence.is_ascii() && (4..40).contains(&sentence.split(' ').count()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_turns_add_up_to_the_requests() {
        for requests in [1, 7, 100] {
            let made = conversations(&ChatShape::DEMO, requests, 1);
            assert_eq!(made.iter().map(|one| one.turns.len()).sum::<usize>(), requests);
        }
    }

    #[test]
    fn equal_seeds_give_equal_texts_and_others_do_not() {
        let make = |seed| conversations(&ChatShape::DEMO, 20, seed);
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn system_prompts_are_shared_within_a_group_and_differ_from_the_start_between_groups() {
        let made = conversations(&ChatShape::DEMO, 1000, 1);
        let systems: BTreeSet<&str> = made.iter().map(|one| &*one.system).collect();
        assert_eq!(systems.len(), ChatShape::DEMO.groups);
        assert!(made.len() > 2 * systems.len());
        let heads: BTreeSet<&str> = systems.iter().map(|system| &system[..60]).collect();
        assert_eq!(heads.len(), systems.len());
    }

    #[test]
    fn the_corpus_gives_enough_sentences() {
        assert!(sentences(DEMO_CORPUS).len() > 100, "{}", sentences(DEMO_CORPUS).len());
    }
}
