//! The workloads by name. Each is made from a seed and stands for something that users of routers complain about.

mod bursts;
mod changing;
mod hot;
mod serial;
mod sessions;

use anyhow::Result;

use super::plan::Plan;

/// A kind of traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) plan: fn(u64) -> Result<Plan>,
}

pub(super) const ALL: &[Workload] = &[
    Workload {
        name: "idle-ties",
        about: "an idle fleet, requests that share nothing, one at a time",
        plan: |seed| Ok(serial::idle_ties(seed)),
    },
    Workload {
        name: "paced-sessions",
        about: "conversations with one system prompt, one request at a time: no load at any decision",
        plan: |seed| Ok(serial::paced_sessions(seed)),
    },
    Workload {
        name: "hot-head",
        about: "one shared head with 200 tails",
        plan: |seed| Ok(hot::hot_head(seed)),
    },
    Workload {
        name: "cold-burst",
        about: "64 equal prompts at once that nobody has cached",
        plan: |seed| Ok(bursts::cold_burst(seed)),
    },
    Workload {
        name: "slow-prefill",
        about: "long prompts, slow prefill, short answers",
        plan: |seed| Ok(hot::slow_prefill(seed)),
    },
    Workload {
        name: "long-answers",
        about: "short prompts, answers of very different length",
        plan: |seed| Ok(hot::long_answers(seed)),
    },
    Workload {
        name: "new-worker",
        about: "an empty worker joins four warm ones",
        plan: |seed| Ok(changing::new_worker(seed)),
    },
    Workload {
        name: "ramp-up",
        about: "300 empty workers, traffic grows from nothing",
        plan: |seed| Ok(bursts::ramp_up(seed)),
    },
    Workload {
        name: "scale-out",
        about: "four empty workers join four warm ones",
        plan: |seed| Ok(changing::scale_out(seed)),
    },
    Workload {
        name: "stuck-worker",
        about: "one of eight accepts requests and never answers",
        plan: |seed| Ok(changing::stuck_worker(seed)),
    },
    Workload {
        name: "agents",
        about: "recorded sessions of coding agents, each turn after the answer before it",
        plan: sessions::agents,
    },
];
