//! How long a run of random faults takes, and by which seed.

/// A run of random faults: `KVROUTE_FAULT_SECONDS` and `KVROUTE_FAULT_SEED`, or what is usual for it.
#[derive(Clone, Copy, Debug)]
pub struct FaultRun {
    /// How long faults are injected.
    pub seconds: u64,
    /// What they and the traffic are drawn by.
    pub seed: u64,
}

// === impl FaultRun ===

impl FaultRun {
    /// As the environment says, and as usual where it says nothing.
    pub fn from_environment(usual: Self) -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
        };
        Self {
            seconds: number("KVROUTE_FAULT_SECONDS").unwrap_or(usual.seconds),
            seed: number("KVROUTE_FAULT_SEED").unwrap_or(usual.seed),
        }
    }
}
