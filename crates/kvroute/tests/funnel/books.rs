//! Three accounts of one run that must be one: what clients saw, what the router wrote into its log, what it counted. A
//! fourth, the engines' own, is held against the log worker by worker.

use std::collections::BTreeMap;

use kvroute_sim::SimEngine;
use kvroute_testkit::{CapturedLog, Exposition, LogEntry};
use serde_json::Value;

use super::user::{Record, Seen};
use super::world::{Cast, Setting};

/// The line that the router writes of each request when it is over. Of several attempts it tells of the last one.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    model: String,
    outcome: String,
    status: Option<u64>,
    attempts: u64,
    worker: String,
    input: Option<u64>,
    /// F1, which may be above the others.
    history: Option<u64>,
    /// A, F2 and F3.
    stages: [Option<u64>; 3],
    reused: Option<u64>,
    report: String,
}

/// What clients and log say, request by request.
#[derive(Debug)]
pub(crate) struct Books {
    setting: &'static Setting,
    records: Vec<Record>,
    lines: BTreeMap<String, Line>,
}

/// Largest number that a report may tell.
const LARGEST_COUNT: u64 = 1 << 53;

/// More than any prompt of the run has.
const ANY_PROMPT: u64 = 65_536;

const OUTCOMES: [&str; 4] = ["completed", "failed", "cancelled", "rejected"];

/// Whether an entry of the log is the line of a request of the run.
pub(crate) fn is_of_the_run(entry: &LogEntry) -> bool {
    entry.message == "request" && entry.field("request_id").contains("run-")
}

// === impl Line ===

impl Line {
    fn read(entry: &LogEntry) -> Self {
        let text = |name: &str| entry.field(name).trim_matches('"').to_owned();
        let number = |name: &str| entry.field(name).parse().ok();
        Self {
            model: text("model"),
            outcome: text("outcome"),
            status: number("status"),
            attempts: number("attempts").unwrap_or_default(),
            worker: text("worker"),
            input: number("input_tokens"),
            history: number("history_cached_tokens"),
            stages: ["best_cached_tokens", "best_eligible_cached_tokens", "selected_cached_tokens"]
                .map(number),
            reused: number("reused_tokens"),
            report: text("report"),
        }
    }
}

// === impl Books ===

impl Books {
    /// Every request has its line but those whose clients left before the router saw them.
    pub(crate) fn open(setting: &'static Setting, records: Vec<Record>, log: &CapturedLog) -> Self {
        let mut lines = BTreeMap::new();
        for entry in log.entries(is_of_the_run) {
            let id = entry.field("request_id").trim_matches('"').to_owned();
            assert!(lines.insert(id.clone(), Line::read(&entry)).is_none(), "{id} has two lines");
        }
        for Record { plan, seen } in &records {
            let is_there = lines.contains_key(&plan.id());
            assert!(is_there || matches!(seen, Seen::Left), "{} has no line: {seen:?}", plan.id());
        }
        assert!(lines.len() <= records.len());
        Self { setting, records, lines }
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Requests that ended so, after so many attempts, with this status (or none, because nobody was left to be answered), and
    /// this worth of their report.
    pub(crate) fn ended(&self, outcome: &str, attempts: u64, status: Option<u64>, report: &str) -> usize {
        let is_such = |line: &&Line| {
            let ended = (line.outcome.as_str(), line.attempts, line.status, line.report.as_str());
            ended == (outcome, attempts, status, report)
        };
        self.lines.values().filter(is_such).count()
    }

    /// Requests that had more than one attempt.
    pub(crate) fn tried_again(&self) -> usize {
        self.lines.values().filter(|line| line.attempts > 1).count()
    }

    /// What the clients saw is what the log says of each of their requests.
    pub(crate) fn assert_clients_and_log_agree(&self) {
        for record in &self.records {
            if let Some(line) = self.lines.get(&record.plan.id()) {
                assert_agree(record, line, self.setting);
            }
        }
    }

    /// The same of how each request ended, where its line does not tell of all of its attempts.
    pub(crate) fn assert_clients_and_log_end_alike(&self) {
        for record in &self.records {
            if let Some(line) = self.lines.get(&record.plan.id()) {
                assert_ended_alike(record, line);
            }
        }
    }

    /// The log, summed up, is what the router counted, model by model.
    pub(crate) fn assert_log_and_metrics_agree(&self, scrape: &Exposition) {
        for cast in self.setting.casts {
            let mut sums = Sums::default();
            for record in &self.records {
                let line = self.lines.get(&record.plan.id()).filter(|line| line.model == cast.model);
                line.into_iter().for_each(|line| sums.add(line, record.plan.is_list));
            }
            sums.assert(scrape, cast, self.setting.reports);
        }
    }

    /// An engine reused what its reports say, and at most the prompts of those requests that ended without one.
    pub(crate) fn assert_engine_agrees(&self, engine: &SimEngine) {
        let told: u64 = self.of(engine).filter_map(|(_, line)| line.reused).sum();
        let (name, reused, untold) = (engine.address(), engine.stats().reused_tokens, self.untold_by(engine));
        let is_explained = (told..=told + untold).contains(&reused);
        assert!(is_explained, "{name} reused {reused}: told {told}, untold at most {untold}");
    }

    /// Tokens that an engine may have reused without telling it. Engines refuse before they compute anything; what the router
    /// says of a broken answer is 502 and above.
    pub(crate) fn untold_by(&self, engine: &SimEngine) -> u64 {
        let untold = self.of(engine).filter(|(record, line)| {
            let is_refused = matches!(record.seen, Seen::Refused(..=500));
            line.reused.is_none() && !record.plan.is_salted && !is_refused
        });
        untold.map(|(_, line)| line.input.unwrap_or(ANY_PROMPT)).sum()
    }

    /// The requests that an engine had last.
    fn of(&self, engine: &SimEngine) -> impl Iterator<Item = (&Record, &Line)> {
        let name = engine.address().to_string();
        self.records.iter().filter_map(move |record| {
            let line = self.lines.get(&record.plan.id()).filter(|line| line.worker == name)?;
            Some((record, line))
        })
    }
}

fn assert_ended_alike(record: &Record, line: &Line) {
    let Record { plan, seen } = record;
    let what = format!("{plan:?}\n{seen:?}\n{line:?}");
    match seen {
        Seen::Left => {}
        Seen::Whole(_) => assert_eq!(line.outcome, "completed", "{what}"),
        Seen::Broken => assert_eq!(line.outcome, "failed", "{what}"),
        Seen::Refused(status) => {
            assert_eq!(line.status, Some(u64::from(*status)), "{what}");
            // What a worker refuses is the client's own fault; what it fails of is not.
            let has_failed = line.attempts > 0 && *status >= 500;
            assert_eq!(line.outcome, if has_failed { "failed" } else { "rejected" }, "{what}");
        }
    }
}

fn assert_agree(record: &Record, line: &Line, setting: &Setting) {
    assert_ended_alike(record, line);
    let Record { plan, seen } = record;
    let what = format!("{plan:?}\n{seen:?}\n{line:?}");
    if line.attempts == 0 {
        return;
    }
    assert_eq!(line.model, plan.cast.model, "{what}");
    let is_counted = plan.cast.counts && plan.path.ends_with("completions");
    assert_eq!(line.input.is_some(), is_counted, "{what}");
    assert!(plan.prompt.is_none() || line.input.is_none() || plan.prompt == line.input, "{what}");
    assert_eq!(line.stages[0].is_some(), is_counted && plan.cast.has_view, "{what}");
    assert_eq!(line.history.is_some(), line.stages[0].is_some() && setting.remembers, "{what}");
    assert!(line.history <= line.input, "{what}");
    assert!(line.stages[2] <= line.stages[1] && line.stages[1] <= line.stages[0], "{what}");
    assert!(line.stages[0] <= line.input, "{what}");
    if let Seen::Whole(Some(usage)) = seen {
        let (report, reused) = expected(record, line, usage);
        // What an engine says in its private report passes nobody.
        let is_private = !["missing", "ambiguous"].contains(&line.report.as_str()) && line.report != report;
        let has_private = is_private && report != "reported" && line.report == "reported";
        assert!(line.report == report || has_private, "expected {report}: {what}");
        assert!(has_private || line.reused == reused, "expected {reused:?}: {what}");
    }
}

/// What the usage of a whole answer is worth, by the table of outcomes.
fn expected(record: &Record, line: &Line, usage: &Value) -> (&'static str, Option<u64>) {
    if record.plan.is_list {
        return ("ambiguous", None);
    }
    let (prompt, cached) =
        (usage["prompt_tokens"].as_u64(), &usage["prompt_tokens_details"]["cached_tokens"]);
    if usage["prompt_tokens_details"].is_null()
        || usage["prompt_tokens_details"].get("cached_tokens").is_none()
    {
        return ("missing", None);
    }
    if line.input.is_some_and(|input| prompt != Some(input)) {
        return ("mismatched", None);
    }
    match cached.as_u64().filter(|count| *count <= LARGEST_COUNT) {
        None => ("invalid", None),
        reused if line.input.is_none() => ("unchecked", reused),
        reused if reused > prompt => ("impossible", reused),
        reused => ("reported", reused),
    }
}

/// The lines of one model, added up.
#[derive(Debug, Default)]
struct Sums {
    requests: BTreeMap<String, u64>,
    attempts: BTreeMap<String, u64>,
    reports: BTreeMap<String, u64>,
    counted: u64,
    input: u64,
    /// F1, A, F2 and F3.
    stages: [u64; 4],
    reused: u64,
    /// Input of attempts that others of the same request came after; of those only this is known.
    repeated: u64,
}

// === impl Sums ===

impl Sums {
    /// Attempts before the last one ended without an answer.
    fn add(&mut self, line: &Line, is_list: bool) {
        let (earlier, input) = (line.attempts.saturating_sub(1), line.input.unwrap_or_default());
        *self.requests.entry(line.outcome.clone()).or_default() += 1;
        if line.attempts > 0 {
            let outcome = if line.outcome == "rejected" { "failed" } else { &line.outcome };
            *self.attempts.entry(outcome.to_owned()).or_default() += 1;
            *self.attempts.entry("failed".to_owned()).or_default() += earlier;
            let unreported = if is_list { "ambiguous" } else { "unfinished" };
            *self.reports.entry(line.report.clone()).or_default() += 1;
            *self.reports.entry(unreported.to_owned()).or_default() += earlier;
        }
        self.counted += line.input.map_or(0, |_| line.attempts);
        self.input += input * line.attempts;
        self.repeated += input * earlier;
        self.reused += line.reused.unwrap_or_default();
        let [anywhere, best, selected] = line.stages;
        for (sum, stage) in self.stages.iter_mut().zip([line.history, anywhere, best, selected]) {
            *sum += stage.unwrap_or_default();
        }
    }

    fn assert(&self, scrape: &Exposition, cast: &Cast, reports: &[&str]) {
        let model = ("model", cast.model);
        let sum = |name: &str, labels: &[(&str, &str)]| {
            let labels = [&[model], labels].concat();
            scrape.sum(name, &labels).unwrap_or_default() as u64
        };
        let input = "dynamo_component_router_input_sequence_tokens";
        let prefix = |stage: &str| format!("dynamo_component_router_kv_{stage}_cached_prefix_tokens_total");
        let metrics = [
            sum(&format!("{input}_count"), &[]),
            sum(&format!("{input}_sum"), &[]),
            sum("kvroute_router_repeated_input_tokens_total", &[]),
            sum("dynamo_component_router_kv_worker_reused_tokens_total", &[]),
        ];
        let told = [self.counted, self.input, self.repeated, self.reused];
        assert_eq!(told, metrics, "{}: attempts, F0, what of it was repeated, F4", cast.model);
        let stages = [
            "kvroute_router_history_cached_tokens_total",
            "kvroute_router_best_cached_prefix_tokens_total",
            &prefix("best_eligible"),
            &prefix("selected"),
        ];
        for (told, name) in self.stages.into_iter().zip(stages) {
            let (counted, most) = (sum(name, &[]), told + self.repeated);
            assert!(
                (told..=most).contains(&counted),
                "{}: {name} is {counted}, told {told} to {most}",
                cast.model
            );
        }
        let of_outcomes = |name: &str, told: &BTreeMap<String, u64>, outcomes: &[&str]| {
            for outcome in outcomes {
                let counted = sum(name, &[("outcome", outcome)]);
                let told = told.get(*outcome).copied().unwrap_or_default();
                assert_eq!(told, counted, "{}: {name} {outcome}", cast.model);
            }
        };
        of_outcomes("kvroute_requests_total", &self.requests, &OUTCOMES);
        of_outcomes("kvroute_attempts_total", &self.attempts, &OUTCOMES[..3]);
        of_outcomes("kvroute_router_reuse_reports_total", &self.reports, reports);
    }
}
