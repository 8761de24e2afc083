//! The fleet in virtual time: engines, an index that follows their events, and a selector that is told what a router
//! would see. One event after the other, in the order of their times; equal times in the order in which they were
//! planned. Nothing else decides what happens, so a seed gives the same run every time.

mod worker;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kvroute_core::{
    AttemptId, CachedTokens, HashedPrompts, KvEvent, Namespace, RankKey, RankSlot, Removal, TokenId, Tokens,
};
use kvroute_index::{IndexOptions, Prefixes, ReportedIndex};
use kvroute_replay::{PromptSynthesizer, TokenRange};
use kvroute_select::{
    Affinity, AffinityKey, CostWeights, Exclusion, ForeignLoad, Policy, Question, RankView, Selector,
};
use kvroute_sim::VirtualToken;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::plan::{BLOCK_SIZE, Plan, Prompt};
use super::record::Record;
use crate::random::mix;
use worker::Worker;

/// From an engine's change to the index.
const EVENT_LAG: Duration = Duration::from_millis(5);

/// Tokens at the start of a prompt that make it belong with others.
const HEAD_TOKENS: usize = 256;

/// Block size of the recorded sessions.
const RECORDED_BLOCK: u32 = 64;

/// Everything of one run.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    plan: &'a Plan,
    weights: CostWeights,
    uses_index: bool,
    agenda: BTreeMap<(Duration, u64), Event>,
    planned: u64,
    now: Duration,
    workers: Vec<Worker>,
    views: Vec<RankView>,
    slots: Vec<RankSlot>,
    selector: Selector,
    index: ReportedIndex,
    found: Prefixes,
    cached: Vec<CachedTokens>,
    random: ChaCha8Rng,
    synthesizer: PromptSynthesizer,
    conversations: HashMap<u64, Vec<TokenId>>,
    requests: HashMap<u64, Request>,
    records: Vec<Record>,
}

#[derive(Debug)]
enum Event {
    Ask { chain: usize, turn: usize },
    Work { worker: usize },
    Tell { worker: usize, events: Vec<KvEvent> },
    Join { worker: usize },
    Stick { worker: usize },
    GiveUp { request: u64 },
}

/// A request under way.
#[derive(Debug)]
struct Request {
    chain: usize,
    turn: usize,
    attempt: AttemptId,
    worker: usize,
    prompt: Vec<TokenId>,
    answer: Vec<TokenId>,
    record: Record,
}

// === impl Fleet ===

impl<'a> Fleet<'a> {
    /// Plays a plan to its end.
    pub(super) fn play(
        plan: &'a Plan,
        policy: Box<dyn Policy>,
        weights: CostWeights,
        seed: u64,
    ) -> Result<Vec<Record>> {
        let mut fleet = Self::new(plan, policy, weights, seed)?;
        while let Some(((at, _), event)) = fleet.agenda.pop_first() {
            fleet.now = at;
            fleet.happen(event)?;
        }
        Ok(fleet.records)
    }

    fn new(plan: &'a Plan, policy: Box<dyn Policy>, weights: CostWeights, seed: u64) -> Result<Self> {
        let config = plan.engine.config(seed);
        let workers: Result<Vec<Worker>, _> = (0..plan.workers).map(|_| Worker::new(&config)).collect();
        let slots: Vec<RankSlot> = (0..plan.workers as u32).map(RankSlot::new).collect();
        let allowed = TokenRange::new(10_000..110_000).context("ids of recorded prompts")?;
        let recorded = kvroute_core::BlockSize::new(RECORDED_BLOCK).context("block size of the recording")?;
        let mut fleet = Self {
            plan,
            weights,
            uses_index: policy.uses_index(),
            agenda: BTreeMap::new(),
            planned: 0,
            now: Duration::ZERO,
            workers: workers.context("engine settings")?,
            views: slots.iter().map(|slot| view(*slot)).collect(),
            slots,
            selector: Selector::new(policy, Vec::new()),
            index: ReportedIndex::new(IndexOptions::default()),
            found: Prefixes::default(),
            cached: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            synthesizer: PromptSynthesizer::new(recorded, allowed, seed),
            conversations: HashMap::new(),
            requests: HashMap::new(),
            records: Vec::new(),
        };
        fleet.open();
        Ok(fleet)
    }

    fn open(&mut self) {
        for join in &self.plan.joins {
            self.views[join.worker].excluded = Some(Exclusion::Unhealthy);
            self.schedule(join.at, Event::Join { worker: join.worker });
        }
        if let Some(stuck) = self.plan.stuck {
            self.schedule(stuck.from, Event::Stick { worker: stuck.worker });
        }
        for (chain, start) in self.plan.chains.iter().map(|chain| chain.start).enumerate() {
            self.schedule(start, Event::Ask { chain, turn: 0 });
        }
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), event);
    }

    fn happen(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Ask { chain, turn } => self.ask(chain, turn),
            Event::Work { worker } => {
                self.work(worker);
                Ok(())
            }
            Event::Tell { worker, events } => self.tell(worker, &events),
            Event::Join { worker } => {
                self.views[worker].excluded = None;
                Ok(())
            }
            Event::Stick { worker } => {
                self.stick(worker);
                Ok(())
            }
            Event::GiveUp { request } => self.give_up(request),
        }
    }

    fn tell(&self, worker: usize, events: &[KvEvent]) -> Result<()> {
        for event in events {
            let applied = self.index.apply(self.slots[worker], event, &mut |_: Removal| ());
            ensure!(
                applied.orphaned + applied.dropped + applied.rejected == 0,
                "the index lost a part of what worker {worker} told it: {applied:?}"
            );
        }
        Ok(())
    }

    fn ask(&mut self, chain: usize, turn: usize) -> Result<()> {
        if self.now >= self.plan.ends {
            return Ok(());
        }
        let asked = &self.plan.chains[chain].turns[turn];
        let prompt = self.prompt(&asked.prompt);
        let record = Record {
            asked: self.now,
            is_measured: self.now >= self.plan.measured_from,
            input: prompt.len() as u64,
            ..Record::default()
        };
        self.place(chain, turn, prompt, record)
    }

    fn prompt(&self, prompt: &Prompt) -> Vec<TokenId> {
        let (mut tokens, new) = match prompt {
            Prompt::Once(texts) => (Vec::new(), texts),
            Prompt::Continues { conversation, new } => {
                (self.conversations.get(conversation).cloned().unwrap_or_default(), new)
            }
            Prompt::Recorded(request, place) => return self.synthesizer.prompt(*place, request),
        };
        new.iter().for_each(|text| text.append_to(&mut tokens));
        tokens
    }

    fn place(&mut self, chain: usize, turn: usize, prompt: Vec<TokenId>, record: Record) -> Result<()> {
        let asked = &self.plan.chains[chain].turns[turn];
        let prompts = [prompt];
        let mut hashed = HashedPrompts::default();
        if self.uses_index {
            hashed = HashedPrompts::new(&prompts, &[BLOCK_SIZE], Namespace::DEFAULT, || ());
            self.index.cached_tokens(&hashed, &self.slots, &mut self.found, &mut self.cached);
        }
        let [prompt] = prompts;
        let question = Question {
            ranks: &self.views,
            cached: self.uses_index.then_some(&*self.cached),
            hashed: &hashed,
            prompt_lengths: &[Tokens::new(prompt.len() as u64)],
            choices: 1,
            shows_first_token: true,
            takes_over: false,
            weights: self.weights,
            affinity: Affinity { session: asked.session.map(AffinityKey::new), head: Some(head(&prompt)) },
            is_pinned: false,
            now: self.now,
        };
        let shadows = &mut ChaCha8Rng::seed_from_u64(0);
        let decided = self.selector.decide(&question, &mut self.random, shadows);
        let decided = decided.ok().context("no worker is eligible")?;
        let worker = decided.position;
        let id = self.planned;
        self.planned += 1;
        self.workers[worker].submit(id, &prompt, asked.output, self.now)?;
        let answer = Vec::new();
        let request = Request { chain, turn, attempt: decided.attempt, worker, prompt, answer, record };
        self.requests.insert(id, request);
        self.patience(worker, id);
        self.expect_work(worker);
        Ok(())
    }

    /// Whoever asks a stuck worker waits so long and no longer.
    fn patience(&mut self, worker: usize, request: u64) {
        if let Some(stuck) = self.plan.stuck.filter(|stuck| stuck.worker == worker && stuck.from <= self.now)
        {
            self.schedule(self.now + stuck.patience, Event::GiveUp { request });
        }
    }

    fn expect_work(&mut self, worker: usize) {
        if let Some(due) = self.workers[worker].newly_due(self.now) {
            self.schedule(due, Event::Work { worker });
        }
    }

    fn work(&mut self, worker: usize) {
        let Some(progress) = self.workers[worker].advance(self.now) else { return };
        for (request, token) in progress.tokens {
            self.take_token(worker, request, token);
        }
        if self.uses_index && !progress.events.is_empty() {
            self.schedule(self.now + EVENT_LAG, Event::Tell { worker, events: progress.events });
        }
        self.expect_work(worker);
    }

    fn take_token(&mut self, worker: usize, id: u64, token: VirtualToken) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let book = self.selector.book_mut();
        if request.answer.is_empty() {
            book.first_token(request.attempt, self.now);
            request.record.first.get_or_insert(self.now);
            request.record.reused = token.reused_tokens;
        }
        book.output(request.attempt, 0, Tokens::new(1), self.now);
        request.answer.push(token.token);
        if token.is_last {
            book.release(request.attempt, self.now);
            request.record.worker = worker;
            request.record.output = request.answer.len() as u64;
            request.record.last = self.now;
            self.finish(id);
        }
    }

    fn finish(&mut self, id: u64) {
        let Some(request) = self.requests.remove(&id) else { return };
        self.records.push(request.record);
        let turns = &self.plan.chains[request.chain].turns;
        if let Prompt::Continues { conversation, .. } = &turns[request.turn].prompt {
            let mut said = request.prompt;
            said.extend(request.answer);
            self.conversations.insert(*conversation, said);
        }
        let turn = request.turn + 1;
        if let Some(next) = turns.get(turn) {
            self.schedule(self.now + next.pause, Event::Ask { chain: request.chain, turn });
        }
    }

    fn stick(&mut self, worker: usize) {
        self.workers[worker].stick();
        let mut waiting: Vec<u64> =
            self.requests.iter().filter(|(_, r)| r.worker == worker).map(|(id, _)| *id).collect();
        waiting.sort_unstable();
        waiting.into_iter().for_each(|request| self.patience(worker, request));
    }

    /// The client asks again, and not the worker that did not answer.
    fn give_up(&mut self, id: u64) -> Result<()> {
        let Some(request) = self.requests.remove(&id) else { return Ok(()) };
        self.selector.book_mut().release(request.attempt, self.now);
        let record = Record { retries: request.record.retries + 1, ..request.record };
        let healthy = self.views[request.worker].excluded.replace(Exclusion::Unhealthy);
        let placed = self.place(request.chain, request.turn, request.prompt, record);
        self.views[request.worker].excluded = healthy;
        placed
    }
}

fn view(slot: RankSlot) -> RankView {
    RankView {
        slot,
        key: RankKey::new(mix(u64::from(slot.get()))),
        block_size: BLOCK_SIZE,
        has_credit: true,
        foreign: ForeignLoad::default(),
        excluded: None,
    }
}

fn head(prompt: &[TokenId]) -> AffinityKey {
    let head = prompt.iter().take(HEAD_TOKENS);
    AffinityKey::new(head.fold(0, |state, token| mix(state ^ u64::from(*token)).wrapping_add(1)))
}

#[cfg(test)]
mod tests;
