//! The numbers an operator may turn: refused when they make no order of costs.

use kvroute_core::CachedTokens;

/// Weights of the cost function and the randomness of the pick. Set per pool; a trusted caller may replace
/// them for one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostWeights {
    /// Weight of the prefill term against decode.
    pub prefill_scale: f64,
    /// Credit of a cached block on the device.
    pub device: f64,
    /// Credit of a cached block in the host's memory.
    pub host: f64,
    /// Credit of a cached block on disk.
    pub disk: f64,
    /// Weight of a token that active sequences read at every step, against one that is to be computed.
    pub decode: f64,
    /// Cost of each attempt in flight, in blocks.
    pub request: f64,
    /// Weight of recent work against a rank's fair share.
    pub recent: f64,
    /// 0 picks the lowest cost; above, a softmax over costs normalised to 0..1 is sampled.
    pub temperature: f64,
}

/// A weight that is negative, absurdly large or no number.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}; it must be a number from 0 to {}", CostWeights::MAX)]
pub struct InvalidWeight {
    /// The field of [`CostWeights`], as it is spelled in the configuration.
    pub name: &'static str,
    /// What was given.
    pub value: f64,
}

// === impl CostWeights ===

impl CostWeights {
    /// What a cached prefix is worth, in weighted tokens: each tier by its weight.
    pub fn credit(&self, cached: CachedTokens) -> f64 {
        self.device * cached.device.get() as f64
            + self.host * cached.host.get() as f64
            + self.disk * cached.disk.get() as f64
    }

    /// The largest accepted weight. Far above any use, and small enough that no cost becomes infinite.
    pub const MAX: f64 = 1e6;

    /// Every weight under the name that it has in the configuration and in requests.
    pub const fn by_name(&mut self) -> [(&'static str, &mut f64); 8] {
        [
            ("prefill_scale", &mut self.prefill_scale),
            ("device_weight", &mut self.device),
            ("host_weight", &mut self.host),
            ("disk_weight", &mut self.disk),
            ("decode_weight", &mut self.decode),
            ("request_weight", &mut self.request),
            ("recent_weight", &mut self.recent),
            ("temperature", &mut self.temperature),
        ]
    }

    /// Refuses a weight that is not between 0 and [`CostWeights::MAX`], naming the first one.
    pub fn validate(&self) -> Result<(), InvalidWeight> {
        let mut weights = *self;
        match weights.by_name().into_iter().find(|(_, value)| !(0.0..=Self::MAX).contains(*value)) {
            Some((name, value)) => Err(InvalidWeight { name, value: *value }),
            None => Ok(()),
        }
    }
}

impl Default for CostWeights {
    fn default() -> Self {
        Self {
            prefill_scale: 1.0,
            device: 1.0,
            host: 0.75,
            disk: 0.25,
            decode: 0.03,
            request: 0.0,
            recent: 1.0,
            temperature: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bad_weight_is_named() {
        assert_eq!(CostWeights::default().validate(), Ok(()));
        let weights = CostWeights { host: -0.5, temperature: f64::NAN, ..CostWeights::default() };
        let error = weights.validate().unwrap_err();
        assert_eq!(error.to_string(), "host_weight is -0.5; it must be a number from 0 to 1000000");
        let weights = CostWeights { temperature: f64::INFINITY, ..CostWeights::default() };
        assert_eq!(weights.validate().unwrap_err().name, "temperature");
    }
}
