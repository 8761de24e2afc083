use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::task::JoinSet;

use super::*;

/// Work that goes on until the sender is dropped, or something is sent.
fn endless() -> (Sender<()>, impl FnOnce() + Send + 'static) {
    let (end, until): (_, Receiver<()>) = channel();
    (end, move || until.recv().unwrap_or_default())
}

/// Gives a future its first chance, which it must not finish with.
async fn begin<F: Future>(mut future: Pin<&mut F>) {
    tokio::select! {
        biased;
        _ = &mut future => panic!("it had to wait for something"),
        () = ready(()) => {}
    }
}

#[tokio::test]
async fn more_ran_at_once_than_there_are_cores() {
    let long_work = LongWork::at_once(2);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut pieces = JoinSet::new();
    for _ in 0..32 {
        let (long_work, running, most) = (long_work.clone(), Arc::clone(&running), Arc::clone(&most));
        let work = move || {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(2));
            running.fetch_sub(1, Ordering::SeqCst);
        };
        pieces.spawn(async move { long_work.run(work).await.unwrap() });
    }
    pieces.join_all().await;
    assert!(most.load(Ordering::SeqCst) <= 2, "{most:?} at once");
    assert_eq!(long_work.free(), 2);
}

#[tokio::test]
async fn as_many_run_at_once_as_there_are_turns() {
    let (long_work, both) = (LongWork::at_once(2), Arc::new(Barrier::new(2)));
    let meet = || {
        let both = Arc::clone(&both);
        long_work.run(move || both.wait())
    };
    let (one, other) = tokio::join!(meet(), meet());
    assert!(one.unwrap().is_leader() != other.unwrap().is_leader());
}

#[tokio::test]
async fn whoever_leaves_the_line_gives_up_its_place_and_its_work_is_never_done() {
    let long_work = LongWork::at_once(1);
    let (end, work) = endless();
    let mut first = Box::pin(long_work.run(work));
    begin(first.as_mut()).await;
    let was_done = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&was_done);
    let mut leaver = Box::pin(long_work.run(move || counted.fetch_add(1, Ordering::SeqCst)));
    let mut last = Box::pin(long_work.run(|| "done"));
    begin(leaver.as_mut()).await;
    begin(last.as_mut()).await;
    drop(leaver);
    drop(end);
    first.await.unwrap();
    assert_eq!(last.await.unwrap(), "done");
    assert_eq!(was_done.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn work_that_nobody_waits_for_any_more_keeps_its_turn_to_its_end() {
    let long_work = LongWork::at_once(1);
    let (end, work) = endless();
    let mut left = Box::pin(long_work.run(work));
    begin(left.as_mut()).await;
    drop(left);
    assert_eq!(long_work.free(), 0, "its thread still runs");
    let mut next = Box::pin(long_work.run(|| "done"));
    begin(next.as_mut()).await;
    drop(end);
    assert_eq!(next.await.unwrap(), "done");
}

#[tokio::test]
async fn those_who_wait_are_served_in_the_order_of_their_coming() {
    let long_work = LongWork::at_once(1);
    let (end, work) = endless();
    let mut first = Box::pin(long_work.run(work));
    begin(first.as_mut()).await;
    let (served, order) = channel();
    let mut waiting = JoinSet::new();
    for number in 0..8 {
        let (long_work, served) = (long_work.clone(), served.clone());
        let mut piece = Box::pin(async move { long_work.run(move || served.send(number)).await });
        begin(piece.as_mut()).await;
        waiting.spawn(piece);
    }
    drop(end);
    first.await.unwrap();
    waiting.join_all().await.into_iter().for_each(|sent| sent.unwrap().unwrap());
    assert_eq!(order.try_iter().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
}

#[tokio::test]
async fn work_that_panics_is_told_and_gives_its_turn_back() {
    let long_work = LongWork::at_once(1);
    assert!(long_work.run(|| panic!("on purpose")).await.unwrap_err().is_panic());
    assert_eq!(long_work.run(|| "done").await.unwrap(), "done");
}

#[test]
fn all_pools_of_a_process_share_as_many_turns_as_it_has_cores() {
    let (one, other) = (LongWork::of_this_process(), LongWork::of_this_process());
    assert!(Arc::ptr_eq(&one.turns, &other.turns));
    assert!(one.free() <= available_parallelism().unwrap().get());
}
