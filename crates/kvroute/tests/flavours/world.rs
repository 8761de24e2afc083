//! A column: one engine behind one router, and how a cell is played and judged.

use http_body_util::BodyExt;
use kvroute_core::BlockSize;
use kvroute_sim::{Flavour, SimConfig, SimEngine};
use kvroute_testkit::{Answer, Fleet, Ledger, server_config};
use serde_json::Value;

use crate::figures::Figures;
use crate::scenario::{End, Scenario};

const BLOCK: u32 = 16;

/// A router in front of one engine.
pub(crate) struct World {
    flavour: Flavour,
    fleet: Fleet,
}

// === impl World ===

impl World {
    pub(crate) async fn of(flavour: Flavour) -> Self {
        let config = SimConfig {
            flavour,
            block_size: BlockSize::new(BLOCK).unwrap(),
            // In four slots each has the same room.
            kv_blocks: if flavour == Flavour::LlamaCpp { 512 } else { 128 },
            max_model_len: Some(2048),
            // Whoever leaves in mid stream leaves before the end.
            decode_tps: 500,
            ..SimConfig::default()
        };
        let fleet = Fleet::start_unfollowed(vec![config], |urls| server_config(urls, "kv")).await;
        Self { flavour, fleet }
    }

    pub(crate) async fn end(self) {
        self.fleet.stop().await;
    }

    /// Plays a scenario twice and judges each time.
    pub(crate) async fn play(&self, scenario: Scenario) {
        if let Some(incident) = scenario.before {
            self.engine().cause(incident).await;
        }
        self.engine().set_faults((scenario.faults)()).await.unwrap();
        for time in ["first", "second"] {
            let cell = format!("{}, {}, {time} time", self.flavour, scenario.name);
            let before = self.figures(&cell).await;
            self.ask(scenario, &cell).await;
            let figures = self.figures(&cell).await.since(before);
            self.judge(scenario, figures, time == "second", &cell);
        }
    }

    fn engine(&self) -> &SimEngine {
        &self.fleet.engines[0]
    }

    async fn ask(&self, scenario: Scenario, cell: &str) {
        let (url, body) = (self.fleet.data(scenario.path), (scenario.body)());
        if scenario.end == End::Left {
            let mut answer = self.fleet.client.open(&url, &body).await.into_body();
            assert!(answer.frame().await.is_some_and(|frame| frame.is_ok()), "{cell}: nothing came");
            return;
        }
        let answer = self.fleet.client.post(&url, &body).await;
        let status = if let End::Refused(status) = scenario.end { status } else { 200 };
        assert_eq!(answer.status, status, "{cell}: {}", answer.text());
        if scenario.end == End::Answered {
            check_answer(&answer, &body, cell);
        }
    }

    /// The figures when nothing is under way and the router knows all that the engine published.
    async fn figures(&self, cell: &str) -> Figures {
        let workers = self.fleet.admin("/api/workers");
        let knows = |answer: &Answer| {
            let (worker, stats) = (&answer.json()[0], self.engine().stats());
            let is_idle = stats.running + stats.waiting + stats.kv_blocks_held == 0;
            let is_told = self.flavour == Flavour::LlamaCpp
                || worker["ranks"][0]["blocks"].as_u64() == Some(stats.kv_contents_cached);
            worker["state"] == "ready" && is_idle && is_told
        };
        self.fleet.client.until(&workers, knows).await;
        let scrape = self.fleet.at_rest().await;
        let faults = Ledger::of(&scrape).faults();
        assert!(faults.is_empty(), "{cell}: {faults:#?}");
        Figures::new(&scrape, self.engine().stats())
    }

    fn judge(&self, scenario: Scenario, figures: Figures, is_warm: bool, cell: &str) {
        assert_eq!(figures.mismatched, 0, "{cell}: the prompt was not counted as the engine counts it");
        match scenario.end {
            End::Answered => {
                assert_eq!(
                    (figures.reported, figures.reused),
                    (1, figures.engine_reused),
                    "{cell}: {figures:?}"
                );
                assert!(figures.reused > 0 || !is_warm, "{cell}: nothing was reused");
                self.judge_expectation(figures, cell);
            }
            End::Left => assert_eq!((figures.reported, figures.reused), (0, 0), "{cell}: {figures:?}"),
            End::Refused(_) => {
                let came = (figures.reported, figures.reused, figures.engine_prompt_tokens);
                assert_eq!(came, (0, 0, 0), "{cell}: {figures:?}");
            }
        }
    }

    /// Where the engine tells its cache, the router knew what would be reused.
    fn judge_expectation(&self, figures: Figures, cell: &str) {
        if self.flavour == Flavour::LlamaCpp {
            return;
        }
        let Some(expected) = figures.expected else { panic!("{cell}: no index was asked") };
        let block = u64::from(BLOCK);
        let reusable = (figures.engine_prompt_tokens - 1) / block * block;
        assert_eq!(expected.min(reusable), figures.reused, "{cell}: {figures:?}");
    }
}

/// An answer has as many choices as were asked for, and each has ended as it should.
fn check_answer(answer: &Answer, body: &Value, cell: &str) {
    let text = answer.text();
    let asked = body["n"].as_u64().unwrap_or(1);
    let parts: Vec<Value> = match body["stream"] == true {
        false => vec![answer.json()],
        true => {
            assert!(text.ends_with("data: [DONE]\n\n"), "{cell}: {text}");
            let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
            data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
        }
    };
    let choices = parts.iter().flat_map(|part| part["choices"].as_array().unwrap());
    let reason = if body["tools"].is_null() { "length" } else { "tool_calls" };
    let ends = choices.filter(|choice| choice["finish_reason"] == reason).count() as u64;
    assert_eq!(ends, asked, "{cell}: {text}");
}
