//! What befalls the wild engines in the course of a run, each at its share of the requests.

use kvroute_sim::{Faults, Incident, OddReport, PrivateReport, SimEngine};
use kvroute_testkit::engine;

use super::user::Progress;
use super::world::{Cast, successor};

/// Every way to misreport, in one answer of three.
fn odd() -> Faults {
    let odd_reports = vec![
        OddReport::Missing,
        OddReport::Null,
        OddReport::Negative,
        OddReport::Fraction,
        OddReport::Text,
        OddReport::Overflow,
        OddReport::AbovePrompt,
        OddReport::WrongPrompt,
    ];
    Faults { odd_reports, odd_report_percent: Some(33), ..Faults::default() }
}

async fn switch(engine: &SimEngine, faults: Faults) {
    engine.set_faults(faults).await.unwrap();
}

/// A liar that loses events, and is restarted.
pub(crate) async fn befall_the_liar(liar: SimEngine, progress: &Progress) -> SimEngine {
    switch(&liar, odd()).await;
    progress.reaches(250).await;
    switch(&liar, Faults { lose_events_percent: 60, no_replay: true, ..odd() }).await;
    progress.reaches(400).await;
    switch(&liar, odd()).await;
    liar.cause(Incident::Reset).await;
    progress.reaches(550).await;
    liar.cause(Incident::Restart).await;
    progress.reaches(560).await;
    switch(&liar, Faults { engine_data: Some(PrivateReport::FirstChunk), ..Faults::default() }).await;
    progress.reaches(850).await;
    switch(&liar, Faults { engine_data: Some(PrivateReport::LastChunk), ..odd() }).await;
    progress.reaches(1_000).await;
    switch(&liar, Faults::default()).await;
    liar
}

/// One that breaks off, refuses, and is wiped without a word.
pub(crate) async fn befall_the_breaker(breaker: SimEngine, progress: &Progress) -> SimEngine {
    let none = Faults::default;
    for (permille, faults) in [
        (50, Faults { break_after_chunks: Some(2), ..none() }),
        (110, Faults { refuse_status: Some(500), ..none() }),
        (125, Faults { refuse_status: Some(507), ..none() }),
        (150, Faults { refuse_status: Some(429), ..none() }),
        (180, none()),
        (300, Faults { garbage_after_chunks: Some(1), ..none() }),
        (350, Faults { truncated_usage: true, ..none() }),
        (400, none()),
    ] {
        progress.reaches(permille).await;
        switch(&breaker, faults).await;
    }
    breaker.cause(Incident::Wipe).await;
    progress.reaches(600).await;
    breaker.cause(Incident::Reset).await;
    progress.reaches(650).await;
    breaker.cause(Incident::LateReset).await;
    progress.reaches(750).await;
    breaker.cause(Incident::Wipe).await;
    progress.reaches(950).await;
    breaker.cause(Incident::Reset).await;
    progress.reaches(1_000).await;
    breaker
}

/// One that dies again and again, and comes back as another.
pub(crate) async fn befall_the_mortal(mut mortal: SimEngine, cast: &Cast, progress: &Progress) -> SimEngine {
    let address = mortal.address();
    for (death, birth) in [(200, 300), (600, 640), (720, 730), (800, 810), (900, 910)] {
        progress.reaches(death).await;
        mortal.stop().await;
        progress.reaches(birth).await;
        mortal = engine(successor(cast, address)).await;
        progress.reaches(birth + 60).await;
        mortal.cause(Incident::Reset).await;
    }
    mortal
}

/// The two homes of sessions that must not leave them.
pub(crate) async fn befall_the_homes(
    homes: Vec<SimEngine>,
    cast: &Cast,
    progress: &Progress,
) -> Vec<SimEngine> {
    let [one, other] = <[SimEngine; 2]>::try_from(homes).unwrap();
    progress.reaches(350).await;
    switch(&one, Faults { hang: true, ..Faults::default() }).await;
    progress.reaches(375).await;
    switch(&one, odd()).await;
    progress.reaches(500).await;
    let address = other.address();
    other.stop().await;
    progress.reaches(520).await;
    let other = engine(successor(cast, address)).await;
    progress.reaches(1_000).await;
    switch(&one, Faults::default()).await;
    vec![one, other]
}
