//! The same families, kept as the `prometheus` crate is usually used: vectors of metrics, and labels looked up with each
//! update. The accounting itself is the project's, so that only the way to the counters differs.

mod families;
mod sink;

use std::time::Duration;

use anyhow::Result;
use kvroute_core::{Phase, Tokens};
use kvroute_funnel::{AttemptLedger, Close};
use kvroute_metrics::{Endpoint, RequestOutcome, Stage, WorkerType};
use prometheus::{Registry, TextEncoder};

use super::clock::Clock;
use super::contestant::{Answer, Telemetry};
use super::story::{DP_RANK, POLICY, RANKS, SHADOW, Story, model_name, worker_name};
use families::Families;
use sink::PlainSink;

pub(crate) struct Plain {
    registry: Registry,
    families: Families,
    models: Vec<Model>,
}

struct Model {
    name: String,
    workers: Vec<String>,
}

/// When the content of a stream came.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    first: Duration,
    last: Duration,
    chunks: u32,
}

const PHASE: &str = Phase::Aggregated.as_str();
const WORKER_TYPE: &str = WorkerType::Decode.as_str();

// === impl Plain ===

impl Telemetry for Plain {
    const NAME: &'static str = "prometheus";

    fn new(models: usize) -> Result<Self> {
        let registry = Registry::new();
        let families = Families::register(&registry)?;
        Ok(Self { registry, families, models: (0..models).map(Model::new).collect() })
    }

    fn stages(&self, clock: &mut impl Clock) {
        for stage in Stage::ALL {
            let labels = [stage.as_str(), PHASE];
            self.families.stage_requests.with_label_values(&labels).inc();
            let since = clock.elapsed();
            let took = clock.elapsed() - since;
            self.families.stage_seconds.with_label_values(&labels).observe(took.as_secs_f64());
            self.families.stage_requests.with_label_values(&labels).dec();
        }
    }

    fn decision(&self, model: usize, story: &Story, clock: &mut impl Clock) {
        let (families, model) = (&self.families, self.models[model].name.as_str());
        self.overhead(clock);
        families.decisions.with_label_values(&[model, POLICY, story.reason]).inc();
        let overlap = story.overlap;
        families.hit_rate.observe(overlap.selected / overlap.prompt);
        if overlap.selected < overlap.best {
            families.non_max_overlap.with_label_values(&[WORKER_TYPE]).inc();
            let lost = families.overlap_blocks_lost.with_label_values(&[WORKER_TYPE]);
            lost.observe(overlap.best - overlap.selected);
        }
        families.shadow_input.with_label_values(&[model, SHADOW]).inc_by(story.input().get());
        families.shadow_selected.with_label_values(&[model, SHADOW]).inc_by(story.shadow.get());
        families.decisions_recorded.with_label_values(&[model]).inc();
    }

    fn attempt(&self, model: usize, story: &Story) {
        let Model { name, workers } = &self.models[model];
        let sink = PlainSink {
            families: &self.families,
            model: name,
            worker: &workers[story.rank],
            speed: story.speed,
        };
        let mut ledger = AttemptLedger::open(story.opening, sink);
        ledger.dispatched();
        ledger.report(&story.report);
        if let Some(loss) = ledger.close(Close::Completed).pending {
            loss.stale_index();
        }
    }

    fn answer(&self, model: usize, story: &Story, answer: Answer, clock: &mut impl Clock) {
        let Model { name, workers } = &self.models[model];
        let worker = workers[story.rank].as_str();
        let mut pace = Pace::default();
        // Booked, and the prompt computed.
        self.load(worker, story);
        self.load(worker, story);
        for _ in 0..answer.pieces() {
            let since_headers = clock.elapsed();
            if answer.is_streamed() {
                if pace.chunks == 0 {
                    self.first_token(worker, story, since_headers);
                }
                pace.chunk(since_headers);
            }
            self.load(worker, story);
        }
        // Released.
        self.load(worker, story);
        self.finished(name, worker, story.output, pace);
    }

    fn exposition(&self) -> Result<String> {
        Ok(TextEncoder::new().encode_to_string(&self.registry.gather())?)
    }
}

impl Plain {
    fn overhead(&self, clock: &mut impl Clock) {
        let families = &self.families;
        let histograms = [
            &families.block_hashing_ms,
            &families.sequence_hashing_ms,
            &families.find_matches_ms,
            &families.scheduling_ms,
        ];
        let mut before = Duration::ZERO;
        let marks = histograms.map(|_| clock.elapsed());
        for (histogram, mark) in histograms.into_iter().zip(marks) {
            histogram.observe(milliseconds(mark.saturating_sub(before)));
            before = mark;
        }
        families.decision_ms.observe(milliseconds(before));
    }

    fn load(&self, worker: &str, story: &Story) {
        let labels = [worker, DP_RANK, WORKER_TYPE];
        let (blocks, tokens) = (story.load.decode_blocks.get(), story.load.prefill_tokens.get());
        self.families.active_decode_blocks.with_label_values(&labels).set(blocks.cast_signed());
        self.families.active_prefill_tokens.with_label_values(&labels).set(tokens.cast_signed());
    }

    fn first_token(&self, worker: &str, story: &Story, since_headers: Duration) {
        let labels = [worker, DP_RANK, WORKER_TYPE];
        let seconds = since_headers.as_secs_f64();
        self.families.first_token_seconds.observe(seconds);
        self.families.last_first_token_seconds.with_label_values(&labels).set(seconds);
        let input = story.input().get().cast_signed();
        self.families.last_input_tokens.with_label_values(&labels).set(input);
    }

    fn finished(&self, model: &str, worker: &str, output: Tokens, pace: Pace) {
        if let Some(seconds) = pace.inter_token_seconds(output) {
            let labels = [worker, DP_RANK, WORKER_TYPE];
            self.families.inter_token_seconds.observe(seconds);
            self.families.last_inter_token_seconds.with_label_values(&labels).set(seconds);
        }
        self.families.output_tokens.observe(output.get() as f64);
        let labels = [model, Endpoint::ChatCompletions.as_str(), RequestOutcome::Completed.as_str()];
        self.families.requests.with_label_values(&labels).inc();
    }
}

// === impl Model ===

impl Model {
    fn new(number: usize) -> Self {
        let workers = (0..RANKS).map(|rank| worker_name(number, rank)).collect();
        Self { name: model_name(number), workers }
    }
}

// === impl Pace ===

impl Pace {
    const fn chunk(&mut self, since_headers: Duration) {
        if self.chunks == 0 {
            self.first = since_headers;
        }
        self.last = since_headers;
        self.chunks += 1;
    }

    fn inter_token_seconds(self, output: Tokens) -> Option<f64> {
        let elapsed = self.last.saturating_sub(self.first);
        let is_known = self.chunks > 0 && output.get() >= 2;
        is_known.then(|| elapsed.as_secs_f64() / (output.get() - 1) as f64)
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
