//! Whether the router's tokens are the engines': proven, not assumed.
//!
//! Everything cache-aware here rests on the router cutting a prompt into the very tokens that the engine computes. A wrong
//! template, another tokenizer or a missing first token breaks that without an error anywhere: requests are answered, and no
//! prefix is ever found. So each worker's engine is compared with: by ids when it joins and then for a sample of its traffic,
//! as far as it has a tokenize endpoint, and by the prompt length that every report tells.
//!
//! What is judged is a kind of prompt on a worker ([`state`]). What follows from it is the pool's: where a worker contradicts
//! and none proves the router right, prompts of that kind are no longer counted by the router's own tokenizer. While some
//! worker proves it, its ids are the right ones for that worker, and the one that differs is only named.

mod check;
mod evidence;
mod known_prompts;
mod reuse;
mod state;
mod witness;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use arc_swap::ArcSwap;
use kvroute_core::WorkerId;
use kvroute_engine::{ChatStyle, EngineKind};
use kvroute_metrics::{IdentityCheck, IdentityMetrics, IdentityState};
use parking_lot::Mutex;

pub(crate) use self::check::{compare_again, joined};
pub(crate) use self::evidence::PromptKind;
use self::evidence::{Evidence, Finding, Hint};
use self::state::WorkerIdentity;
pub(crate) use self::witness::{Reported, Witness};
use crate::log_gate::LogGate;
use crate::pool::Pool;
use crate::rank::Rank;

/// What is known of the workers of one pool.
#[derive(Debug, Default)]
pub(crate) struct PoolIdentity {
    members: ArcSwap<Members>,
    /// A bit for each kind of prompt that the router's tokenizer is not trusted with.
    distrusted: AtomicU8,
    /// Held while the verdicts are read for it, so that the latest of them is the last that is heard.
    judging: Mutex<()>,
    /// Requests of distrusted kinds, to let one through once in a while.
    distrusted_requests: AtomicU32,
    /// What differs is told once in a while, of ids and of lengths apart: ids tell more, and come more rarely.
    complaints_of_ids: LogGate,
    complaints_of_lengths: LogGate,
}

/// The workers of one moment, and what they have in common.
#[derive(Clone, Debug, Default)]
struct Members {
    by_id: BTreeMap<WorkerId, Arc<Member>>,
    /// How most of their engines prepare chats. It is remembered when the last of them leaves: those who wait for a worker
    /// wait for one of these.
    style: Option<ChatStyle>,
    /// Ids that every one of their models has, as far as their engines tell.
    vocabulary: Option<u32>,
}

/// One worker.
#[derive(Debug)]
struct Member {
    worker: WorkerId,
    rank: Arc<Rank>,
    /// Number of ids that its model knows, where its engine tells.
    vocabulary: Option<u32>,
    known: Mutex<WorkerIdentity>,
    metrics: IdentityMetrics,
    /// Requests of each kind that it got.
    requests: [AtomicU32; PromptKind::ALL.len()],
    /// Whether it is being asked for ids: one question at a time.
    is_asked: AtomicBool,
    /// Kinds that its engine cannot tokenize.
    cannot: AtomicU8,
}

/// One in so many requests of a distrusted kind is still looked at with the router's own tokenizer: it may be right again.
const STILL_TRIED: u32 = 16;

// === impl PoolIdentity ===

impl PoolIdentity {
    /// A worker has joined: nothing is known of it yet.
    fn insert(&self, pool: &Pool, rank: &Arc<Rank>, vocabulary: Option<u32>) -> Arc<Member> {
        let member = Arc::new(Member::new(pool, rank, vocabulary));
        self.members.rcu(|members| members.with(&member));
        self.judge(pool);
        member
    }

    /// A worker has left, and what was known of it.
    pub(crate) fn left(&self, pool: &Pool, worker: &WorkerId) {
        let gone = self.member(worker);
        self.members.rcu(|members| members.without(worker));
        if let Some(member) = gone {
            member.metrics.close();
            self.judge(pool);
        }
    }

    /// Whether prompts of a kind are not to be counted by the router's own tokenizer.
    pub(crate) fn distrusts(&self, kind: PromptKind) -> bool {
        self.distrusted.load(Ordering::Relaxed) & kind.bit() != 0
    }

    /// Whether a request of a distrusted kind is one that the router's own tokenizer is tried with.
    pub(crate) fn tries_again(&self) -> bool {
        self.distrusted_requests.fetch_add(1, Ordering::Relaxed) % STILL_TRIED == STILL_TRIED - 1
    }

    /// Ids that the model has, as far as its engines tell: the fewest.
    pub(crate) fn vocabulary(&self) -> Option<u32> {
        self.members.load().vocabulary
    }

    /// Ids that a worker's model has, where its engine told.
    pub(crate) fn vocabulary_of(&self, worker: &WorkerId) -> Option<u32> {
        self.member(worker)?.vocabulary
    }

    /// How chats are prepared: as the engine kind that most workers have does it, of equally many the first one by name.
    pub(crate) fn style(&self) -> Option<ChatStyle> {
        self.members.load().style
    }

    /// State of a worker and its reason; `None` where its prompts are not counted.
    pub(crate) fn status(&self, worker: &WorkerId) -> Option<(IdentityState, String)> {
        let member = self.member(worker)?;
        let known = member.known.lock();
        Some((known.state(), known.reason()))
    }

    fn member(&self, worker: &WorkerId) -> Option<Arc<Member>> {
        self.members.load().by_id.get(worker).cloned()
    }

    /// Takes a comparison, and whatever follows from it.
    fn learn(&self, pool: &Pool, member: &Member, evidence: Evidence) {
        member.metrics.checked(evidence.finding.check());
        let (has_changed, before, after, text_is_right) = {
            let mut known = member.known.lock();
            let before = known.state();
            let has_changed = known.add(evidence);
            (has_changed, before, known.state(), known.verdict(PromptKind::Text).is_proven())
        };
        member.metrics.set_state(after);
        if !evidence.finding.is_equal() {
            self.complain(pool, member, &evidence, text_is_right);
        }
        if has_changed {
            self.judge(pool);
        }
        member.tell(pool, before, after);
    }

    /// The worker was asked for ids and did not tell.
    fn could_not_ask(&self, member: &Member, why: String) {
        member.metrics.checked(IdentityCheck::Failed);
        member.known.lock().could_not_ask(why);
    }

    fn complain(&self, pool: &Pool, member: &Member, evidence: &Evidence, text_is_right: bool) {
        let is_of_ids = evidence.finding.is_of_ids();
        let gate = if is_of_ids { &self.complaints_of_ids } else { &self.complaints_of_lengths };
        let Some(unlogged) = gate.open() else { return };
        let (model, worker, kind) = (pool.model(), &member.worker, evidence.kind.as_str());
        let hint = Hint::of(evidence.kind, evidence.finding, text_is_right).as_str();
        match evidence.finding {
            Finding::OtherIds(difference) => tracing::warn!(
                %model, %worker, kind, position = difference.position, router_id = difference.router,
                engine_id = difference.engine, router_tokens = difference.lengths.0.get(),
                engine_tokens = difference.lengths.1.get(), hint, unlogged,
                "identity mismatch: the worker's engine makes other tokens of a prompt than the router"
            ),
            Finding::OtherLength { router, engine } => tracing::warn!(
                %model, %worker, kind, router_tokens = router.get(), engine_tokens = engine.get(), hint, unlogged,
                "identity mismatch: the worker counts another prompt length than the router"
            ),
            Finding::EqualIds | Finding::EqualLength => {}
        }
    }

    /// Decides anew which kinds the router's tokenizer is trusted with.
    fn judge(&self, pool: &Pool) {
        let _one_after_the_other = self.judging.lock();
        let members = self.members.load();
        let is_of_style = |member: &&Arc<Member>| Some(member.rank.engine.chat_style()) == members.style;
        let of_style = || members.by_id.values().filter(is_of_style);
        for kind in PromptKind::ALL {
            let verdicts: Vec<_> = of_style().map(|member| member.known.lock().verdict(kind)).collect();
            let is_distrusted = verdicts.iter().any(|verdict| verdict.is_mismatch())
                && !verdicts.iter().any(|verdict| verdict.is_proven());
            self.distrust(pool, kind, is_distrusted);
        }
    }

    fn distrust(&self, pool: &Pool, kind: PromptKind, is_distrusted: bool) {
        let before = match is_distrusted {
            true => self.distrusted.fetch_or(kind.bit(), Ordering::Relaxed),
            false => self.distrusted.fetch_and(!kind.bit(), Ordering::Relaxed),
        };
        let (model, kind_name) = (pool.model(), kind.as_str());
        match (before & kind.bit() != 0, is_distrusted) {
            (false, true) => {
                let on_mismatch = pool.config().on_mismatch;
                tracing::warn!(
                    %model, kind = kind_name, ?on_mismatch,
                    "prompts of this kind are no longer counted by the router's own tokenizer"
                );
            }
            (true, false) => tracing::info!(
                %model, kind = kind_name,
                "prompts of this kind are counted by the router's own tokenizer again"
            ),
            _ => {}
        }
    }
}

// === impl Members ===

impl Members {
    fn with(&self, member: &Arc<Member>) -> Self {
        let mut by_id = self.by_id.clone();
        by_id.insert(member.worker.clone(), Arc::clone(member));
        self.now(by_id)
    }

    fn without(&self, worker: &WorkerId) -> Self {
        let mut by_id = self.by_id.clone();
        by_id.remove(worker);
        self.now(by_id)
    }

    fn now(&self, by_id: BTreeMap<WorkerId, Arc<Member>>) -> Self {
        let style = style_of(by_id.values().map(|member| member.rank.engine)).or(self.style);
        let vocabulary = by_id.values().filter_map(|member| member.vocabulary).min();
        Self { by_id, style, vocabulary }
    }
}

// === impl Member ===

impl Member {
    fn new(pool: &Pool, rank: &Arc<Rank>, vocabulary: Option<u32>) -> Self {
        let worker = rank.name.worker.clone();
        Self {
            metrics: pool.metrics().identity(&worker),
            worker,
            rank: Arc::clone(rank),
            vocabulary,
            known: Mutex::default(),
            requests: Default::default(),
            is_asked: AtomicBool::new(false),
            cannot: AtomicU8::new(0),
        }
    }

    fn tell(&self, pool: &Pool, before: IdentityState, after: IdentityState) {
        if before == after {
            return;
        }
        let (model, worker, state) = (pool.model(), &self.worker, after.as_str());
        let reason = self.known.lock().reason();
        match after {
            IdentityState::Mismatch => {
                tracing::warn!(%model, %worker, state, reason, "identity of tokens changed");
            }
            IdentityState::Proven | IdentityState::Unproven => {
                tracing::info!(%model, %worker, state, reason, "identity of tokens changed");
            }
        }
    }
}

// === impl PromptKind ===

impl PromptKind {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The style of the kind that most engines are of; of equally many the first one by name.
fn style_of(engines: impl Iterator<Item = EngineKind>) -> Option<ChatStyle> {
    let mut counts = BTreeMap::new();
    for engine in engines {
        counts.entry(engine.as_str()).or_insert_with(|| (0_usize, engine.chat_style())).0 += 1;
    }
    let most = counts.values().map(|(count, _)| *count).max()?;
    counts.values().find(|(count, _)| *count == most).map(|(_, style)| *style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_are_prepared_as_most_engines_do_it_and_as_the_last_one_did() {
        let style = |engines: &[EngineKind]| style_of(engines.iter().copied());
        assert_eq!(style(&[]), None);
        assert_eq!(style(&[EngineKind::Sglang, EngineKind::Vllm, EngineKind::Vllm]), Some(ChatStyle::Vllm));
        assert_eq!(style(&[EngineKind::Vllm, EngineKind::Sglang]), Some(ChatStyle::Sglang));
        let before = Members { style: Some(ChatStyle::Vllm), ..Members::default() };
        assert_eq!(before.now(BTreeMap::new()).style, Some(ChatStyle::Vllm));
    }
}
