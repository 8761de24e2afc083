//! Why an answer that broke off cannot be continued by another engine.

/// What stands against it. Each is said so that it ends the sentence "it was not continued, because …".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Obstacle {
    /// An API whose answers are more than one text.
    #[error("only chats and completions can be continued")]
    Endpoint,
    /// A whole answer: its client has nothing of it yet.
    #[error("it is no stream")]
    NotAStream,
    /// `n`, `best_of` or a beam search.
    #[error("it has more than one choice")]
    Choices,
    /// A list of prompts.
    #[error("it has more than one prompt")]
    Prompts,
    /// Images, audio and the like.
    #[error("its prompt is more than text")]
    Multimodal,
    /// The answer is bound to a grammar, whose state is the engine's own.
    #[error("its answer is bound to a grammar")]
    Guided,
    /// A parser of the engine looks for calls.
    #[error("it offers tools")]
    Tools,
    /// What was generated counts in every further draw.
    #[error("it penalises what was generated before")]
    Penalties,
    /// The answer begins with the prompt.
    #[error("its answer begins with the prompt")]
    Echo,
    /// The prompt has log probabilities, which would be those of another prompt.
    #[error("it asks for log probabilities of the prompt")]
    PromptLogprobs,
    /// Log probabilities of a completion tell where in the answer each token stands.
    #[error("it asks for places of tokens in the answer")]
    TextOffsets,
    /// The chat's own last message is continued already.
    #[error("it continues a message of its own")]
    ContinuesMessage,
    /// A completion without a bound: the engine's own default is not known.
    #[error("it has no max_tokens")]
    Unbounded,
    /// Members that speak to one engine, or change its prompt.
    #[error("it has a member that only its own engine can heed")]
    EngineMember,
    /// The choice has told its end.
    #[error("it was complete but for its last events")]
    Finished,
    /// The engine told an error of its own.
    #[error("the worker answered with an error")]
    Error,
    /// The client got something that could not be read.
    #[error("a part of it could not be read")]
    Unread,
    /// The client got reasoning, a call, or a refusal.
    #[error("it holds more than text")]
    OtherThanText,
    /// Text came without the ids of its tokens.
    #[error("the ids of its tokens are not known")]
    NoTokenIds,
    /// It is more than is kept.
    #[error("it is too long")]
    TooLong,
    /// The prompt was not tokenized.
    #[error("the ids of its prompt are not known")]
    UncountedPrompt,
    /// The chat that ends with the text was not tokenized, though the prompt was.
    #[error("nobody could tell the ids of the chat with it as last message")]
    UncountedChat,
    /// Nobody here can tell which text ids stand for.
    #[error("no tokenizer is here to compare its text with the ids of its tokens")]
    NoTokenizer,
    /// No tokens can be named whose text is exactly what the client has.
    #[error("its text and the ids of its tokens do not agree")]
    TextAndIds,
    /// The text ends as a stop text begins, which the next engine would not see whole.
    #[error("a stop text may have begun")]
    StopBegun,
    /// The bound of generated tokens is reached.
    #[error("every token that it may have was generated")]
    NothingLeft,
    /// A chat with the text as its last message is not the prompt and what was generated.
    #[error("the chat with it as last message is another prompt")]
    Rendering,
}
