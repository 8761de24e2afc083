//! The funnel that Prometheus shows, against what the engines counted themselves, and against itself.

use kvroute_metrics::{Row, rows};

use super::database::Database;
use super::world::World;

/// The funnel of one model as Prometheus shows it, in tokens.
struct Shown<'a> {
    database: &'a Database,
    prefix: &'a str,
    model: &'a str,
}

/// Both sides are counted on their own: by the engines when they compute, by the router from what they report. Nothing
/// must have gone wrong until now, and nothing must be going on.
pub(crate) async fn is_what_the_engines_counted(world: &World, database: &Database) {
    for (model, engines) in world.models_with_events_or_memory() {
        let stats = engines.map(|engine| engine.stats());
        let prompt: u64 = stats.iter().map(|stats| stats.prompt_tokens).sum();
        let reused: u64 = stats.iter().map(|stats| stats.reused_tokens).sum();
        assert!(reused > 0, "{model}: nothing was reused");

        let shown = Shown { database, prefix: world.prefix(), model };
        assert_eq!(shown.input().await, prompt, "{model}: input");
        for row in [rows::REPORTED_INPUT, rows::EXPECTED_INPUT, rows::LEDGER_INPUT] {
            assert_eq!(shown.sum(row).await, prompt, "{model}: {}", row.name);
        }
        assert_eq!(shown.sum(rows::WORKER_REUSED).await, reused, "{model}: reused");
        assert_eq!(shown.sum(rows::COMPARED_REPORTED).await, reused, "{model}: compared");
        shown.closes().await;
        if world.nats.is_some() {
            shown.closes_by_history().await;
        }
    }
}

// === impl Shown ===

impl Shown<'_> {
    async fn input(&self) -> u64 {
        let name = rows::INPUT_TOKENS.exposed_name(self.prefix);
        self.ask(&format!("{name}_sum"), "").await
    }

    async fn sum(&self, row: &Row) -> u64 {
        self.ask(&row.exposed_name(self.prefix), "").await
    }

    async fn lost(&self, stage: &str) -> u64 {
        self.ask(rows::REUSE_LOST.name, &format!(", stage=\"{stage}\"")).await
    }

    /// Every token between two stages has its reason.
    async fn closes(&self) {
        let [anywhere, best, selected] = [
            self.sum(rows::ANYWHERE_CACHED).await,
            self.sum(rows::BEST_CACHED).await,
            self.sum(rows::SELECTED_CACHED).await,
        ];
        let [new, residency, unavailable, eligibility, placement, delivery] = [
            self.lost("new").await,
            self.lost("residency").await,
            self.lost("unavailable").await,
            self.lost("eligibility").await,
            self.lost("placement").await,
            self.lost("delivery").await,
        ];
        let (promised, reported) =
            (self.sum(rows::COMPARED_PREDICTED).await, self.sum(rows::COMPARED_REPORTED).await);
        let model = self.model;
        let ledger = self.sum(rows::LEDGER_INPUT).await;
        assert_eq!(
            ledger + self.surplus("residency").await,
            new + residency + unavailable + anywhere,
            "{model}: cached anywhere"
        );
        assert_eq!(anywhere, best + eligibility, "{model}: eligible");
        assert_eq!(best, selected + placement, "{model}: selected");
        let beyond = self.surplus("delivery").await;
        assert_eq!(promised + beyond, reported + delivery, "{model}: delivered");
    }

    /// Everything that came in was new or computed before.
    async fn closes_by_history(&self) {
        let [known, new] = [self.sum(rows::HISTORY_CACHED_BY_MODEL).await, self.lost("new").await];
        assert!(known > 0, "{}: nothing came again", self.model);
        assert_eq!(self.sum(rows::LEDGER_INPUT).await, new + known, "{}: new or known", self.model);
        assert_eq!(self.lost("unavailable").await, 0, "{}", self.model);
    }

    async fn surplus(&self, stage: &str) -> u64 {
        self.ask(rows::REUSE_SURPLUS.name, &format!(", stage=\"{stage}\"")).await
    }

    async fn ask(&self, name: &str, labels: &str) -> u64 {
        let model = self.model;
        self.database.value(&format!("sum({name}{{model=\"{model}\"{labels}}})")).await as u64
    }
}
