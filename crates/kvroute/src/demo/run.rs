//! One policy's run: drive the workload, show how it goes, and read the result once everything is at rest.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::client::Client;
use super::driver::Driver;
use super::fleet::{Fleet, MODEL};
use super::outcome::Outcome;
use super::plan::{Plan, Workload};
use super::progress::Progress;
use super::view::View;
use crate::failure::Failure;

/// Drives the whole workload through a fleet. `earlier` runs are shown beside this one.
pub(crate) async fn run(
    plan: &Plan,
    policy: &str,
    fleet: &Fleet,
    earlier: &[Outcome],
    view: &mut View,
) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let progress = Arc::new(Progress::default());
    let driver = Driver {
        client: Client::new(),
        base: fleet.data_url(),
        model: MODEL.to_owned(),
        concurrency: plan.concurrency,
        deadline: plan.duration.map(|duration| started + duration),
        progress: Arc::clone(&progress),
    };
    let mut ticks = interval(view.interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let driven = drive(&driver, &plan.workload);
    tokio::pin!(driven);
    loop {
        tokio::select! {
            () = &mut driven => break,
            _ = ticks.tick() => {
                let funnel = fleet.scrape().await?.funnel();
                let present = Outcome::of(policy, &progress, funnel, started.elapsed());
                let shown: Vec<Outcome> = earlier.iter().cloned().chain([present]).collect();
                view.draw(&shown, progress.finished(), plan.requests());
            }
        }
    }
    result(policy, fleet, &progress, started.elapsed()).await
}

async fn drive(driver: &Driver, workload: &Workload) {
    match workload {
        Workload::Conversations(conversations, answer_tokens) => {
            driver.hold(conversations, *answer_tokens).await;
        }
        Workload::Recording(recording, pace) => {
            driver.replay(recording, *pace).await;
        }
    }
}

async fn result(
    policy: &str,
    fleet: &Fleet,
    progress: &Progress,
    elapsed: Duration,
) -> Result<Outcome, Failure> {
    let funnel = fleet.scrape_at_rest().await?.funnel();
    let mut outcome = Outcome::of(policy, progress, funnel, elapsed);
    outcome.engine_reused = Some(fleet.engine_reused_tokens().await?);
    Ok(outcome)
}
