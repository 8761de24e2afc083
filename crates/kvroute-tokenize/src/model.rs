//! The model inside a tokenizer: what a word becomes.
//!
//! Around it everything is the `tokenizers` library: added tokens, normalisation, cutting, what is put around a text, and
//! decoding. Its own byte-pair model has each token twice as a string of its own and reads its file by way of two trees of
//! JSON: for 150,000 tokens 25 MB stay, and 167 MB are taken while it is read, of which an allocator does not give everything
//! back. [`BytePairs`] is the same model in 8 MB, read in one pass over the file's text; tests compare it with the library's.
//! Models of other kinds, and options of this one that no model of today uses, are left to the library.

mod pairs;
mod read;
mod vocabulary;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use kvroute_core::TokenId;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::{
    DecoderWrapper, Model as _, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Token,
    TokenizerImpl,
};

pub(crate) use self::pairs::BytePairs;
use crate::EncodeError;

/// The library's tokenizer around a model of ours.
pub(crate) type Tokenizer =
    TokenizerImpl<Model, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// What makes tokens of a word.
pub(crate) enum Model {
    /// Byte pairs without any option but that of whole words.
    Pairs(BytePairs),
    /// Anything else.
    Library(Box<ModelWrapper>),
}

// === impl Model ===

impl Model {
    /// The library's own model out of a whole `tokenizer.json`.
    ///
    /// # Errors
    /// What the library says about it.
    pub(crate) fn of_the_library(file: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct File {
            model: ModelWrapper,
        }
        Ok(Self::Library(Box::new(serde_json::from_str::<File>(file)?.model)))
    }

    /// Whether it is made of pairs, and a word has the same ids each time.
    pub(crate) fn is_steady_pairs(&self) -> bool {
        match self {
            Self::Pairs(_) => true,
            Self::Library(model) => match model.as_ref() {
                ModelWrapper::BPE(pairs) => pairs.dropout.is_none_or(|dropout| dropout <= 0.0),
                _ => false,
            },
        }
    }

    /// Appends the ids of a word, written in the model's characters.
    ///
    /// # Errors
    /// The library's.
    pub(crate) fn append_ids(&self, word: &str, ids: &mut Vec<TokenId>) -> Result<(), EncodeError> {
        match self {
            Self::Pairs(pairs) => pairs.append_ids(word, ids),
            Self::Library(model) => {
                let tokens = model.tokenize(word).map_err(EncodeError::tokenizer)?;
                ids.extend(tokens.into_iter().map(|token| token.id));
            }
        }
        Ok(())
    }

    /// The largest id of the model's own tokens.
    pub(crate) fn largest_id(&self) -> Option<TokenId> {
        match self {
            Self::Pairs(pairs) => pairs.vocabulary().largest_id(),
            Self::Library(model) => model.get_vocab().into_values().max(),
        }
    }
}

impl<'de> Deserialize<'de> for Model {
    /// Only from text that outlives it, which is looked at as it stands.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        if let Some(pairs) = read::byte_pairs(text) {
            return Ok(Self::Pairs(pairs));
        }
        let model = serde_json::from_str(text).map_err(de::Error::custom)?;
        Ok(Self::Library(Box::new(model)))
    }
}

impl tokenizers::Model for Model {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, sequence: &str) -> tokenizers::Result<Vec<Token>> {
        match self {
            Self::Pairs(pairs) => Ok(pairs.tokens(sequence)),
            Self::Library(model) => model.tokenize(sequence),
        }
    }

    fn token_to_id(&self, token: &str) -> Option<TokenId> {
        match self {
            Self::Pairs(pairs) => pairs.vocabulary().id(token),
            Self::Library(model) => model.token_to_id(token),
        }
    }

    fn id_to_token(&self, id: TokenId) -> Option<String> {
        match self {
            Self::Pairs(pairs) => pairs.vocabulary().token(id).map(str::to_owned),
            Self::Library(model) => model.id_to_token(id),
        }
    }

    fn get_vocab(&self) -> HashMap<String, TokenId> {
        match self {
            Self::Pairs(pairs) => {
                pairs.vocabulary().iter().map(|(id, token)| (token.to_owned(), id)).collect()
            }
            Self::Library(model) => model.get_vocab(),
        }
    }

    fn get_vocab_size(&self) -> usize {
        match self {
            Self::Pairs(pairs) => pairs.vocabulary().len(),
            Self::Library(model) => model.get_vocab_size(),
        }
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        match self {
            Self::Pairs(_) => Err("this model is only read".into()),
            Self::Library(model) => model.save(folder, prefix),
        }
    }

    fn get_trainer(&self) -> TrainerWrapper {
        match self {
            Self::Pairs(_) => TrainerWrapper::BpeTrainer(tokenizers::models::bpe::BpeTrainer::default()),
            Self::Library(model) => model.get_trainer(),
        }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pairs(pairs) => pairs.fmt(formatter),
            Self::Library(model) => model.fmt(formatter),
        }
    }
}
