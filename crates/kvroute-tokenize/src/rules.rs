//! How engines prepare a chat for the template.

/// How a chat is normalised before the template sees it: engines differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChatRules {
    /// As Hugging Face's `apply_chat_template` gets it: untouched.
    #[default]
    Plain,
    /// As vLLM's typed request model leaves it.
    Vllm,
}
