//! How engines prepare a chat for the template.

/// How a chat is normalised before the template sees it: engines differ.
///
/// llama.cpp has no rules here: it renders with a Jinja of its own, whose output differs with its version, so its
/// chats are left to the server's own endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChatRules {
    /// As Hugging Face's `apply_chat_template` gets it: untouched.
    #[default]
    Plain,
    /// As vLLM's typed request model leaves it.
    Vllm,
    /// As SGLang's typed request model leaves it.
    Sglang,
}

// === impl ChatRules ===

impl ChatRules {
    /// Whether a request can switch the tokenizer's own special tokens on or off.
    pub(crate) const fn heeds_add_special_tokens(self) -> bool {
        !matches!(self, Self::Sglang)
    }
}
