//! Weights from the command line.

use std::str::FromStr;

use anyhow::{Context, bail};
use kvroute_select::CostWeights;

/// One weight and its value.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    name: String,
    value: f64,
}

// === impl Setting ===

impl Setting {
    /// The default weights with these in their places.
    pub(super) fn apply(settings: &[Self]) -> anyhow::Result<CostWeights> {
        let mut weights = CostWeights::default();
        for Self { name, value } in settings {
            let known = weights.by_name();
            let names = known.each_ref().map(|(known, _)| *known).join(", ");
            let Some((_, weight)) = known.into_iter().find(|(known, _)| known == name) else {
                bail!("no weight is called {name}; there are {names}");
            };
            *weight = *value;
        }
        weights.validate()?;
        Ok(weights)
    }
}

impl FromStr for Setting {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').context("a weight is set as NAME=VALUE")?;
        let value = value.parse().with_context(|| format!("{value} is no number"))?;
        Ok(Self { name: name.to_owned(), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(texts: &[&str]) -> anyhow::Result<CostWeights> {
        let settings: anyhow::Result<Vec<Setting>> = texts.iter().map(|text| text.parse()).collect();
        Setting::apply(&settings?)
    }

    #[test]
    fn weights_are_set_by_their_configured_names() {
        let set = weights(&["decode_weight=0.5", "temperature=1"]).unwrap();
        assert_eq!(set, CostWeights { decode: 0.5, temperature: 1.0, ..CostWeights::default() });
    }

    #[test]
    fn a_weight_that_is_unknown_or_out_of_range_is_named() {
        let message = |text| weights(&[text]).unwrap_err().to_string();
        assert!(message("decode=1").starts_with("no weight is called decode; there are prefill_scale, "));
        assert!(message("host_weight=-1").starts_with("host_weight is -1; it must be"));
        assert_eq!(message("host_weight=x"), "x is no number");
        assert_eq!(message("host_weight"), "a weight is set as NAME=VALUE");
    }
}
