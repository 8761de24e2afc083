//! What time alone changes in a pool: gauges that fade, and room for those who wait.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::pool::Pool;

/// How often the fading gauges are shown anew.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// How often it is seen whether there is room by now, while somebody waits. Most room is made by an answer that begins
/// or ends, which is told at once; a worker that gets well and a prompt whose end nobody sees are told by nobody.
const LOOKED_EVERY: Duration = Duration::from_millis(50);

/// Keeps a pool up to date until it is gone or told to stop.
pub(crate) async fn keep(pool: Weak<Pool>, stop: CancellationToken) {
    let _stopped = stop.run_until_cancelled(keep_up(pool)).await;
}

async fn keep_up(pool: Weak<Pool>) {
    while let Some(kept) = pool.upgrade() {
        show(&kept).await;
    }
}

async fn show(pool: &Arc<Pool>) {
    pool.desk().show(&pool.fleet().ranks);
    if let Some(history) = pool.history() {
        history.settle(pool.fleet().block_sizes().into_iter().min());
        history.show();
    }
    tokio::select! {
        () = sleep(SHOWN_EVERY) => {}
        () = let_in(pool) => {}
    }
}

async fn let_in(pool: &Arc<Pool>) {
    loop {
        pool.gate().occupied().await;
        sleep(LOOKED_EVERY).await;
        pool.gate().wake();
    }
}
