//! A tokenizer small enough to be read: words with their leading space, and single bytes.

use std::sync::Arc;

use kvroute_openai::{ClientRequest, Prompt};
use kvroute_sim::{Flavour, PromptEncoder};

/// Ids below are bytes.
const FIRST_WORD: u32 = 256;
const WORDS: u32 = 64;
/// Recorded requests hold ids of a large vocabulary.
const VOCABULARY: u32 = 152_000;

/// Words are `" w000"` to `" w063"`; every other byte is a token.
pub(crate) struct ByteEncoder;

pub(crate) fn encoder() -> Arc<dyn PromptEncoder> {
    Arc::new(ByteEncoder)
}

fn word(id: u32) -> String {
    format!(" w{:03}", id - FIRST_WORD)
}

pub(crate) fn encode_text(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let (mut ids, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let known = bytes.get(at..at + 5).and_then(|piece| std::str::from_utf8(piece).ok());
        let number =
            known.and_then(|piece| piece.strip_prefix(" w")).and_then(|digits| digits.parse::<u32>().ok());
        match number.filter(|number| *number < WORDS) {
            Some(number) => {
                ids.push(FIRST_WORD + number);
                at += 5;
            }
            None => {
                ids.push(u32::from(bytes[at]));
                at += 1;
            }
        }
    }
    ids
}

fn render(messages: &str) -> String {
    let messages: Vec<serde_json::Value> = serde_json::from_str(messages).unwrap();
    let mut text = String::new();
    for message in messages {
        let (role, content) = (message["role"].as_str().unwrap(), message["content"].as_str().unwrap());
        text += &format!("<{role}>{content}</>\n");
    }
    text + "<assistant>"
}

impl PromptEncoder for ByteEncoder {
    fn encode(&self, request: &ClientRequest) -> Result<Vec<Vec<u32>>, String> {
        Ok(match &request.prompt {
            Prompt::Chat(chat) => vec![encode_text(&render(chat.messages.as_str()))],
            Prompt::Texts { texts, .. } => texts.iter().map(|text| encode_text(text)).collect(),
            Prompt::TokenLists(lists) => lists.clone(),
            Prompt::Foreign(conversation) => return Err(format!("not a chat: {conversation:?}")),
        })
    }

    fn render(&self, _: Flavour, request: &ClientRequest) -> Result<String, String> {
        match &request.prompt {
            Prompt::Chat(chat) => Ok(render(chat.messages.as_str())),
            other => Err(format!("not a chat: {other:?}")),
        }
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::new();
        for token in tokens {
            match *token {
                byte @ 0..FIRST_WORD => bytes.push(byte as u8),
                id if id < FIRST_WORD + WORDS => bytes.extend(word(id).bytes()),
                _ => bytes.push(b'?'),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn plain_ids(&self) -> Vec<u32> {
        (FIRST_WORD..FIRST_WORD + WORDS).collect()
    }

    fn vocabulary_size(&self) -> u32 {
        VOCABULARY
    }
}
