//! What a request has in common with others that may want the same rank.

use kvroute_openai::{ClientRequest, Prompt};
use kvroute_select::{Affinity, AffinityKey};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes of the prompt that make its head, as the client wrote it: whether the prompt is tokenized makes no difference.
const HEAD: usize = 1024;

/// The keys of a request.
pub(crate) fn of(request: &ClientRequest, session: Option<AffinityKey>) -> Affinity {
    Affinity { session, head: Some(AffinityKey::new(head(&request.prompt))) }
}

fn head(prompt: &Prompt) -> u64 {
    let first_bytes = |text: &[u8]| xxh3_64(&text[..text.len().min(HEAD)]);
    match prompt {
        Prompt::Chat(chat) => first_bytes(chat.messages.as_bytes()),
        Prompt::Texts { texts, .. } => first_bytes(texts.first().map_or(&[], |text| text.as_bytes())),
        Prompt::TokenLists(lists) => {
            let mut hasher = Xxh3::new();
            let ids = lists.first().into_iter().flatten().take(HEAD / size_of::<u32>());
            ids.for_each(|id| hasher.update(&id.to_le_bytes()));
            hasher.digest()
        }
        Prompt::Foreign(conversation) => first_bytes(conversation.as_bytes()),
    }
}
