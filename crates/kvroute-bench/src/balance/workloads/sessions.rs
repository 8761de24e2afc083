//! Recorded sessions of coding agents: long prompts that grow, short pauses, a few sessions with most of the work.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use kvroute_core::Tokens;
use kvroute_replay::{Session, SessionOptions, read_sessions_file};

use crate::balance::dice::Dice;
use crate::balance::plan::{Chain, Plan, Prompt, TYPICAL, Turn};

/// Kept with their reader, so that nothing else is needed to run it.
const RECORDING: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../kvroute-replay/fixtures/kv-cache-tester-sessions-65.jsonl.gz");

/// What fits the engine's cache several times.
const LONGEST: Tokens = Tokens::new(65_536);

/// Nobody waits longer for the next turn: an hour's pause would only make the run longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Times that each session is played, every time with ids of its own.
const TIMES: usize = 2;

/// Sessions on four workers, begun at any time in the first quarter of an hour.
pub(super) fn agents(seed: u64) -> Result<Plan> {
    let options =
        SessionOptions { shared_preamble: true, max_isl: Some(LONGEST), ..SessionOptions::default() };
    let trace = read_sessions_file(Path::new(RECORDING), &options).context("recorded sessions")?;
    let mut dice = Dice::new(seed);
    let mut chains = Vec::new();
    let mut place = 0;
    for time in 0..TIMES {
        for session in &trace.sessions {
            let start = Duration::from_secs_f64(900.0 * dice.unit());
            chains.push(Chain { start, turns: turns(session, time, chains.len(), &mut place) });
        }
    }
    Ok(Plan { chains, ..Plan::of(TYPICAL, 4) })
}

fn turns(session: &Session, time: usize, number: usize, place: &mut usize) -> Vec<Turn> {
    let turn = |(request, position): (&kvroute_replay::SessionRequest, usize)| {
        let mut recorded = request.to_trace_request();
        recorded.blocks.iter_mut().for_each(|id| *id = played(*id, time));
        Turn {
            pause: if position == 0 { Duration::ZERO } else { request.pause.min(LONGEST_PAUSE) },
            output: recorded.output.get(),
            prompt: Prompt::Recorded(recorded, *place + position),
            session: Some(number as u64),
        }
    };
    let turns = session.requests.iter().zip(0..).map(turn).collect();
    *place += session.requests.len();
    turns
}

/// Ids of the shared preamble stay, those of sessions differ from one time to the next.
const fn played(id: u64, time: usize) -> u64 {
    const SHARED: u64 = 1 << 33;
    if id < SHARED { id } else { id | (time as u64) << 56 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_share_their_preamble_and_nothing_else_with_another_time() {
        let plan = agents(3).unwrap();
        let half = plan.chains.len() / TIMES;
        let blocks = |chain: usize| match &plan.chains[chain].turns[0].prompt {
            Prompt::Recorded(request, _) => request.blocks.clone(),
            other => panic!("{other:?}"),
        };
        let (first, again) = (blocks(0), blocks(half));
        let shared = first.iter().zip(&again).take_while(|(a, b)| a == b).count();
        assert!(shared > 100 && shared < first.len(), "{shared} of {}", first.len());
        assert!(first[shared..].iter().all(|id| !again.contains(id)));
    }
}
