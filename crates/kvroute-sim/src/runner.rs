//! The task that drives the scheduler: takes orders, does what is due, publishes, delivers.
//!
//! Per round, in this order: orders, work, events out, statistics, tokens to the handlers. A client that has its
//! answer therefore finds it in `/stats`, and the blocks of an answer are announced before the answer is complete.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kvroute_core::TokenId;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cache::CacheUse;
use crate::events::EventPublisher;
use crate::scheduler::{Generated, PrefillReport, Progress, Prompt, Scheduler, Sequence, SequenceId};
use crate::stats::EngineStats;
use crate::words::WordIndex;

/// The prompts of one request.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    /// Ids of each prompt, at least one each.
    pub(crate) prompts: Arc<[Vec<TokenId>]>,
    /// Answers to each prompt, at least 1.
    pub(crate) choices: u32,
    /// Tokens of each answer, at least 1.
    pub(crate) max_tokens: u64,
    /// How the cache may be used.
    pub(crate) cache_use: CacheUse,
    /// Leading tokens of each prompt whose KV comes from another engine.
    pub(crate) arriving: usize,
    /// Whether the room is kept at the end, until [`KeptRoom`] gives it back.
    pub(crate) is_kept: bool,
}

/// Room of a request that has ended, kept for another engine to take the KV. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct KeptRoom {
    ids: Vec<SequenceId>,
    orders: mpsc::UnboundedSender<Order>,
}

/// One token of one choice of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    /// Position among the request's choices: prompts in order, the choices of each together.
    pub(crate) choice: u32,
    pub(crate) word: WordIndex,
    /// How the choice's prompt was computed.
    pub(crate) prefill: PrefillReport,
    /// Whether the choice ends here.
    pub(crate) is_last: bool,
}

/// A request under way. Dropping it stops its sequences.
#[derive(Debug)]
pub(crate) struct Ticket {
    tokens: mpsc::UnboundedReceiver<Token>,
    ids: Vec<SequenceId>,
    unfinished: usize,
    orders: mpsc::UnboundedSender<Order>,
}

/// The engine as its HTTP handlers see it.
#[derive(Clone, Debug)]
pub(crate) struct EngineHandle {
    orders: mpsc::UnboundedSender<Order>,
    next_id: Arc<AtomicU64>,
    stats: Arc<Mutex<EngineStats>>,
}

#[derive(Debug)]
enum Order {
    Generate { generation: Generation, ids: Vec<SequenceId>, tokens: mpsc::UnboundedSender<Token> },
    Cancel(Vec<SequenceId>),
    GiveBack { ids: Vec<SequenceId>, is_expired: bool },
    Slots { answer: oneshot::Sender<Vec<(usize, bool)>> },
    ResetCache { preempt_running: bool, done: oneshot::Sender<bool> },
    EmptyCache { told: Told, done: oneshot::Sender<()> },
}

/// How an emptied cache is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    AtOnce,
    WithTheNextStep,
    Never,
}

/// Owns everything that the engine's task changes.
#[derive(Debug)]
pub(crate) struct Runner {
    scheduler: Scheduler,
    seed: u64,
    publisher: EventPublisher,
    orders: mpsc::UnboundedReceiver<Order>,
    outputs: HashMap<SequenceId, (u32, mpsc::UnboundedSender<Token>)>,
    stats: Arc<Mutex<EngineStats>>,
    started: Instant,
}

// === impl Ticket ===

impl Ticket {
    /// The next token; `None` when the engine stopped.
    pub(crate) async fn next(&mut self) -> Option<Token> {
        let token = self.tokens.recv().await?;
        self.unfinished -= usize::from(token.is_last);
        Some(token)
    }

    /// A token that is there already.
    pub(crate) fn ready(&mut self) -> Option<Token> {
        let token = self.tokens.try_recv().ok()?;
        self.unfinished -= usize::from(token.is_last);
        Some(token)
    }

    /// Whether every choice has ended.
    pub(crate) const fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// The room of the request, where it is kept at the end.
    pub(crate) fn kept_room(&self) -> KeptRoom {
        KeptRoom { ids: self.ids.clone(), orders: self.orders.clone() }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_finished() {
            return;
        }
        // The engine may have stopped before its clients.
        let _ = self.orders.send(Order::Cancel(std::mem::take(&mut self.ids)));
    }
}

// === impl KeptRoom ===

impl KeptRoom {
    /// Gives it back: the KV was taken.
    pub(crate) fn give_back(self) {
        drop(self);
    }

    /// Gives it back because nobody came, which is counted.
    pub(crate) fn expire(mut self) {
        self.order(true);
    }

    fn order(&mut self, is_expired: bool) {
        let ids = std::mem::take(&mut self.ids);
        if !ids.is_empty() {
            // An engine that stopped keeps nothing.
            let _ = self.orders.send(Order::GiveBack { ids, is_expired });
        }
    }
}

impl Drop for KeptRoom {
    fn drop(&mut self) {
        self.order(false);
    }
}

// === impl EngineHandle ===

impl EngineHandle {
    /// Queues a request.
    pub(crate) fn generate(&self, generation: Generation) -> Ticket {
        let count = generation.prompts.len() as u64 * u64::from(generation.choices);
        let first = self.next_id.fetch_add(count, Ordering::Relaxed);
        let ids: Vec<_> = (first..first + count).map(SequenceId::new).collect();
        let (sender, tokens) = mpsc::unbounded_channel();
        // A stopped engine drops the sender, which the ticket reports.
        let _ = self.orders.send(Order::Generate { generation, ids: ids.clone(), tokens: sender });
        Ticket { tokens, unfinished: ids.len(), ids, orders: self.orders.clone() }
    }

    /// Empties the cache; false when it was refused.
    pub(crate) async fn reset_cache(&self, preempt_running: bool) -> bool {
        let (done, answer) = oneshot::channel();
        let _ = self.orders.send(Order::ResetCache { preempt_running, done });
        answer.await.unwrap_or(false)
    }

    /// Empties the cache at any price: running sequences are preempted.
    pub(crate) async fn empty_cache(&self, told: Told) {
        let (done, emptied) = oneshot::channel();
        let _ = self.orders.send(Order::EmptyCache { told, done });
        // An engine that stopped has an empty cache too.
        let _ = emptied.await;
    }

    pub(crate) fn stats(&self) -> EngineStats {
        *self.stats.lock()
    }

    /// Tokens in each slot, and whether it is busy; nothing where there are no slots.
    pub(crate) async fn slots(&self) -> Vec<(usize, bool)> {
        let (answer, slots) = oneshot::channel();
        let _ = self.orders.send(Order::Slots { answer });
        slots.await.unwrap_or_default()
    }
}

// === impl Runner ===

impl Runner {
    pub(crate) fn new(scheduler: Scheduler, seed: u64, publisher: EventPublisher) -> (Self, EngineHandle) {
        let (sender, orders) = mpsc::unbounded_channel();
        let stats = Arc::new(Mutex::new(scheduler.stats()));
        let handle = EngineHandle { orders: sender, next_id: Arc::default(), stats: Arc::clone(&stats) };
        let outputs = HashMap::new();
        (Self { scheduler, seed, publisher, orders, outputs, stats, started: Instant::now() }, handle)
    }

    /// Runs until it is told to stop, then closes the event sockets.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while let Some(order) = stop.run_until_cancelled(self.next_order()).await {
            if let Some(order) = order {
                self.obey(order);
            }
            while let Ok(order) = self.orders.try_recv() {
                self.obey(order);
            }
            let progress = self.scheduler.advance(self.started.elapsed());
            self.hand_out(progress);
        }
        self.publisher.close().await;
    }

    /// The next order, or `None` when work is due.
    async fn next_order(&mut self) -> Option<Order> {
        let due = self.scheduler.next_due();
        tokio::select! {
            biased;
            // The engine keeps a handle for as long as this task runs, so the channel does not end.
            Some(order) = self.orders.recv() => Some(order),
            () = until(self.started, due) => None,
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Generate { generation, ids, tokens } => self.submit(&generation, &ids, &tokens),
            Order::Cancel(ids) => {
                ids.iter().for_each(|id| drop(self.outputs.remove(id)));
                self.scheduler.cancel(&ids);
                self.tell_at_once();
            }
            Order::GiveBack { ids, is_expired } => {
                if self.scheduler.give_back(&ids) > 0 && is_expired {
                    self.scheduler.count_expired_lease();
                }
                *self.stats.lock() = self.scheduler.stats();
            }
            // Whoever asked may have gone.
            Order::Slots { answer } => drop(answer.send(self.scheduler.slots())),
            Order::ResetCache { preempt_running, done } => {
                let is_reset = self.scheduler.reset_cache(preempt_running);
                if is_reset {
                    self.publisher.will_tell_reset();
                }
                // Whoever asked may have gone; the reset stands.
                let _ = done.send(is_reset);
            }
            Order::EmptyCache { told, done } => {
                self.empty_cache(told);
                *self.stats.lock() = self.scheduler.stats();
                let _ = done.send(());
            }
        }
    }

    fn empty_cache(&mut self, told: Told) {
        match told {
            Told::Never => {
                self.scheduler.wipe_cache();
                self.publisher.will_not_tell_reset();
            }
            Told::WithTheNextStep => {
                self.scheduler.reset_cache(true);
                self.publisher.will_tell_reset();
            }
            Told::AtOnce => {
                self.scheduler.reset_cache(true);
                self.publisher.publish(&self.scheduler.take_changes());
            }
        }
    }

    /// Where blocks of an answer are cached when it ends, that is told even if nothing else is going on.
    fn tell_at_once(&mut self) {
        if !self.scheduler.stores_at_end() {
            return;
        }
        let changes = self.scheduler.take_changes();
        if !changes.is_empty() {
            self.publisher.publish(&changes);
        }
    }

    fn submit(&mut self, generation: &Generation, ids: &[SequenceId], tokens: &mpsc::UnboundedSender<Token>) {
        let arrived = self.started.elapsed();
        let mut sequences = Vec::with_capacity(ids.len());
        let mut ids = ids.iter().zip(0u32..);
        for prompt_tokens in generation.prompts.iter() {
            let prompt = Prompt {
                tokens: prompt_tokens,
                cache_use: &generation.cache_use,
                arriving: generation.arriving,
                is_kept: generation.is_kept,
                max_tokens: generation.max_tokens,
                seed: self.seed,
            };
            for (choice, (id, position)) in (0..generation.choices).zip(ids.by_ref()) {
                self.outputs.insert(*id, (position, tokens.clone()));
                sequences.push(Sequence::new(*id, prompt, choice, arrived));
            }
        }
        self.scheduler.submit(sequences);
    }

    fn hand_out(&mut self, progress: Progress) {
        progress.batches.iter().for_each(|changes| self.publisher.publish(changes));
        *self.stats.lock() = self.scheduler.stats();
        progress.tokens.into_iter().for_each(|generated| self.deliver(generated));
    }

    fn deliver(&mut self, generated: Generated) {
        let Generated { sequence, word, prefill, is_last } = generated;
        if let Some((choice, tokens)) = self.outputs.get(&sequence) {
            // A handler that has just gone cancels by its ticket.
            let _ = tokens.send(Token { choice: *choice, word, prefill, is_last });
        }
        if is_last {
            self.outputs.remove(&sequence);
        }
    }
}

async fn until(started: Instant, due: Option<Duration>) {
    match due {
        None => std::future::pending().await,
        // Work that takes no time still lets the handlers run.
        Some(due) if due <= started.elapsed() => tokio::task::yield_now().await,
        Some(due) => tokio::time::sleep_until(started + due).await,
    }
}
