//! Requests on several threads, each of which takes a seat, gives it back and is then, now and then, gone.

use std::sync::atomic::AtomicBool;
use std::sync::{OnceLock, Weak};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::*;

/// Seats that are counted without a lock, in the weakest order: whatever orders them is the gate's own.
#[derive(Debug, Default)]
struct Counted {
    taken: AtomicUsize,
    /// Someone who waited is deciding.
    is_deciding: AtomicBool,
    turns: AtomicUsize,
    cancelled: AtomicUsize,
}

const SEATS: usize = 3;

impl Room for Arc<Counted> {
    type Lane = Lane;

    fn has_room(&self, _lane: &Lane) -> bool {
        self.taken.load(Ordering::Relaxed) < SEATS
    }
}

/// One request; `patience` is how often it looks before its client leaves.
async fn request(gate: &Gate<Arc<Counted>>, ticket: Ticket, patience: Option<usize>) {
    let counted = Arc::clone(&gate.room);
    let entered = enter(gate, ticket, Instant::now() + 60 * MINUTE);
    let Some(turn) = unless_gone(entered, patience).await else {
        counted.cancelled.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let turn = turn.unwrap();
    let has_waited = !turn.waited().is_zero();
    if has_waited {
        assert!(!counted.is_deciding.swap(true, Ordering::SeqCst), "two of those who waited decide at once");
    }
    counted.turns.fetch_add(1, Ordering::Relaxed);
    counted.taken.fetch_add(1, Ordering::Relaxed);
    if has_waited {
        counted.is_deciding.store(false, Ordering::SeqCst);
    }
    drop(turn);
    yield_now().await;
    counted.taken.fetch_sub(1, Ordering::Relaxed);
    gate.wake();
}

async fn unless_gone<F: Future>(future: F, patience: Option<usize>) -> Option<F::Output> {
    let gone = async {
        match patience {
            Some(looks) => {
                for _ in 0..looks {
                    yield_now().await;
                }
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        output = future => Some(output),
        () = gone => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_who_stays_is_let_in_however_the_threads_meet() {
    const TASKS: usize = 48;
    const ROUNDS: usize = 300;
    let counted = Arc::new(Counted::default());
    let gate = Arc::new(gate_of(Arc::clone(&counted), &queue(TASKS)));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let gate = Arc::clone(&gate);
        let mut random = ChaCha8Rng::seed_from_u64(task as u64);
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let patience = random.random_bool(0.3).then(|| random.random_range(0..4));
                let ticket = Ticket { priority: random.random_range(0..3), ..ticket(0) };
                request(&gate, ticket, patience).await;
            }
        });
    }
    let all = timeout(2 * MINUTE, tasks.join_all()).await;
    assert!(all.is_ok(), "{} still wait, with {:?}", gate.waiting(), gate.room);
    assert_eq!((gate.waiting(), gate.crowd.load(Ordering::Relaxed)), (0, 0));
    let ended = counted.turns.load(Ordering::Relaxed) + counted.cancelled.load(Ordering::Relaxed);
    assert_eq!(ended, TASKS * ROUNDS);
    assert_eq!(counted.taken.load(Ordering::Relaxed), 0);
}

/// Room that comes while it is looked for, from another thread, and is told at once.
#[derive(Debug, Default)]
struct ComesMeanwhile {
    looks: AtomicUsize,
    gate: OnceLock<Weak<Gate<Arc<Self>>>>,
}

impl Room for Arc<ComesMeanwhile> {
    type Lane = Lane;

    fn has_room(&self, _lane: &Lane) -> bool {
        // The first look is that of the newcomer who has not joined yet.
        if self.looks.fetch_add(1, Ordering::SeqCst) == 1 {
            let gate = self.gate.get().and_then(Weak::upgrade).unwrap();
            std::thread::spawn(move || gate.wake());
            std::thread::sleep(Duration::from_millis(50)); // The wake-up comes while the newcomer is about to join.
            return false;
        }
        self.looks.load(Ordering::SeqCst) > 2
    }
}

#[tokio::test]
async fn room_that_comes_while_a_newcomer_looks_for_it_is_not_lost() {
    let room = Arc::new(ComesMeanwhile::default());
    let gate = Arc::new(gate_of(Arc::clone(&room), &queue(1)));
    room.gate.set(Arc::downgrade(&gate)).unwrap();
    let entered = timeout(2 * MINUTE, enter(&gate, ticket(0), Instant::now() + 60 * MINUTE)).await;
    assert!(entered.unwrap().is_ok());
}
