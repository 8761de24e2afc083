//! A real llama.cpp server: what it lacks by its nature is a hint, and its counting is compared with ours.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kvroute_testkit::Client;

use crate::command::examine;
use crate::folders::{Folder, demo};

struct Server {
    child: Child,
    url: String,
}

// === impl Server ===

impl Server {
    /// Starts it and waits until it has loaded its model. `None`, said aloud, without a llama.cpp server.
    async fn start(more: &[&str]) -> Option<Self> {
        let Some(program) = std::env::var_os("KVROUTE_LLAMA_SERVER") else {
            assert!(std::env::var_os("KVROUTE_REQUIRE_PEERS").is_none(), "KVROUTE_LLAMA_SERVER is not set");
            eprintln!("skipped: set KVROUTE_LLAMA_SERVER to a llama-server (`cargo xtask test` builds one)");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/llama/tiny-demo.gguf");
        let mut command = Command::new(program);
        command.arg("--model").arg(model).args(["--alias", "tiny-demo", "--host", "127.0.0.1"]);
        command.args([
            "--port",
            &port.to_string(),
            "--ctx-size",
            "4096",
            "--parallel",
            "2",
            "--threads",
            "1",
        ]);
        command
            .args(["--threads-http", "2", "--jinja", "--no-warmup", "--no-ui", "--log-disable"])
            .args(more);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let server = Self { child, url: format!("http://127.0.0.1:{port}") };
        server.loaded().await;
        Some(server)
    }

    async fn loaded(&self) {
        let address = self.url.trim_start_matches("http://");
        while tokio::net::TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Client::default().until(&format!("{}/health", self.url), |answer| answer.status == 200).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; there is nothing more to do then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_real_server_is_proved_by_its_reports() {
    let Some(server) = Server::start(&["--metrics"]).await else { return };
    let found = examine(&[&server.url]).await;
    assert_eq!(found.code, 0, "{}", found.report);
    assert_eq!(found.found(0), [("hint", "events_impossible"), ("hint", "tokenizer_remote")]);
    let worker = &found.report["workers"][0];
    assert_eq!((&worker["engine"], &worker["models"][0]), (&"llama.cpp".into(), &"tiny-demo".into()));
    assert_eq!((&worker["context_length"], &worker["vocabulary"]), (&2048.into(), &2048.into()));
    assert_eq!(worker["conformance"]["verdict"], "reports_only");
    let [prompt, reused] =
        ["prompt_tokens", "reused_tokens"].map(|key| worker["conformance"][key].as_u64().unwrap());
    assert_eq!(reused, prompt - 1, "{worker}");
}

#[tokio::test]
async fn a_real_server_without_metrics_is_told_the_flag() {
    let Some(server) = Server::start(&[]).await else { return };
    let found = examine(&[&server.url, "--passive"]).await;
    assert!(found.told("load_untold").contains("start llama-server with --metrics"), "{}", found.report);
}

/// Its chats are left to it by a router, so a template here is of no weight.
#[tokio::test]
async fn the_text_of_a_real_server_is_compared_and_its_chats_are_left_to_it() {
    let Some(server) = Server::start(&["--metrics"]).await else { return };
    let folder = Folder::with_config(|config| {
        let template = config["chat_template"].as_str().unwrap().replace("<|im_start|>", "<|im_start|> ");
        config["chat_template"] = template.into();
    });
    for path in [&demo(), folder.argument()] {
        let found = examine(&[&server.url, "--tokenizer", path]).await;
        assert_eq!(
            (found.code, found.found(0)),
            (0, vec![("hint", "events_impossible")]),
            "{}",
            found.report
        );
        let parity = &found.report["workers"][0]["parity"];
        assert_eq!((&parity["compared"], &parity["equal"]), (&4.into(), &4.into()), "{}", found.report);
    }
    let other = Folder::with_words_swapped();
    let found = examine(&[&server.url, "--tokenizer", other.argument()]).await;
    assert_eq!(
        found.found(0),
        [("error", "other_tokenizer"), ("hint", "events_impossible")],
        "{}",
        found.report
    );
}
