//! Which engine is simulated.

use std::fmt;
use std::str::FromStr;

/// An engine whose wire formats can be spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// vLLM, as of version 0.32.
    #[default]
    Vllm,
    /// SGLang, as of version 0.5.23.
    Sglang,
    /// `trtllm-serve` of TensorRT-LLM, as its source tells it.
    TrtLlm,
    /// `llama-server` of llama.cpp.
    LlamaCpp,
}

/// The name of an engine that is not simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("engine flavour {name:?} is not supported; use one of {}", Flavour::NAMES)]
pub struct UnsupportedFlavour {
    name: String,
}

// === impl Flavour ===

impl Flavour {
    /// Every flavour.
    pub const ALL: [Self; 4] = [Self::Vllm, Self::Sglang, Self::TrtLlm, Self::LlamaCpp];
    /// Their names, for help texts.
    pub const NAMES: &str = "vllm, sglang, trtllm, llamacpp";

    /// Whether it publishes KV events on ZeroMQ.
    pub(crate) const fn publishes(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang)
    }

    /// Whether it can be started so that it does not report reuse.
    pub(crate) const fn can_hide_reuse(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang)
    }

    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::TrtLlm => "trtllm",
            Self::LlamaCpp => "llamacpp",
        }
    }
}

impl FromStr for Flavour {
    type Err = UnsupportedFlavour;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|flavour| flavour.name() == name);
        found.ok_or_else(|| UnsupportedFlavour { name: name.to_owned() })
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flavour_is_read_as_it_is_written() {
        for flavour in Flavour::ALL {
            assert_eq!(flavour.to_string().parse(), Ok(flavour));
        }
        assert_eq!(Flavour::ALL.map(Flavour::name).join(", "), Flavour::NAMES);
    }

    #[test]
    fn others_are_refused_by_name() {
        let message = "tgi".parse::<Flavour>().unwrap_err().to_string();
        assert_eq!(
            message,
            r#"engine flavour "tgi" is not supported; use one of vllm, sglang, trtllm, llamacpp"#
        );
    }
}
