//! What the counting build does: the demo, and a router with simulated engines that a few clients keep busy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::shell::{command, run};

const ENGINES: usize = 2;
const CLIENTS: usize = 8;

/// Requests of each client; each is of one of these lengths in turn.
const REQUESTS: usize = 2_000;
const WORDS: [usize; 4] = [100, 700, 700, 5_000];

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that is ended by its id when nobody needs it any more.
struct Running(Child);

/// Runs the binary and returns the files with its counts, in this folder.
pub(super) fn train(binary: &Path, runs: &Path) -> Result<[PathBuf; 2]> {
    let counts = ["demo", "router"].map(|name| runs.join(format!("{name}.profraw")));
    run_demo(binary, &counts[0])?;
    run_router(binary, &counts[1], &runs.join("engine-%p.profraw"))?;
    Ok(counts)
}

fn run_demo(binary: &Path, counts: &Path) -> Result<()> {
    run(command(binary).args(["demo", "--once"]).env("LLVM_PROFILE_FILE", counts))
}

/// The engines' counts are not used: only the router is to be fast.
fn run_router(binary: &Path, counts: &Path, counts_of_engines: &Path) -> Result<()> {
    let addresses = free_addresses(ENGINES + 2)?;
    let (planes, engines) = addresses.split_at(2);
    let mut running = Vec::new();
    for address in engines {
        let fast = ["--prefill-tps", "0", "--decode-tps", "0", "--kv-events", "none", "--kv-blocks", "16384"];
        let mut engine = command(binary);
        engine.arg("engine").args(["--listen", &address.to_string()]).args(fast);
        running.push(Running::start(engine.env("LLVM_PROFILE_FILE", counts_of_engines))?);
        wait_for(*address, "/health")?;
    }
    let mut router = command(binary);
    router.args([
        "serve",
        "--policy",
        "least-loaded",
        "--set",
        "pool.count=off",
        "--set",
        "log.access=false",
    ]);
    router.args(["--listen", &planes[0].to_string(), "--admin-listen", &planes[1].to_string()]);
    router.args(engines.iter().flat_map(|address| ["--worker".to_owned(), format!("http://{address}")]));
    let (router, listen) = (Running::start(router.env("LLVM_PROFILE_FILE", counts))?, planes[0]);
    wait_for(listen, "/ready")?;
    let clients: Vec<_> =
        (0..CLIENTS).map(|client| thread::spawn(move || ask_often(listen, client))).collect();
    for client in clients {
        client.join().ok().context("a client panicked")??;
    }
    router.end()?;
    running.into_iter().try_for_each(Running::end)
}

/// As many addresses that nobody listens at.
fn free_addresses(count: usize) -> Result<Vec<SocketAddr>> {
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    Ok(listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?)
}

fn wait_for(address: SocketAddr, path: &str) -> Result<()> {
    let pause = Duration::from_millis(100);
    for _ in 0..PATIENCE.as_millis() / pause.as_millis() {
        if is_well(address, path) {
            return Ok(());
        }
        thread::sleep(pause);
    }
    bail!("http://{address}{path} does not answer with 200")
}

fn is_well(address: SocketAddr, path: &str) -> bool {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut answer = String::new();
    let asked = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        stream.read_to_string(&mut answer)
    });
    asked.is_ok() && answer.starts_with("HTTP/1.1 200")
}

/// Streamed chats, one behind the other on one connection.
fn ask_often(address: SocketAddr, client: usize) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    for request in 0..REQUESTS {
        let words = WORDS[request % WORDS.len()];
        let prompt = (0..words)
            .map(|word| format!("word{} ", (word + request) * (client + 1) % 1_000))
            .collect::<String>();
        let body = format!(
            r#"{{"model":"sim","stream":true,"max_tokens":16,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
        );
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        read_answer(&mut stream)?;
    }
    Ok(())
}

/// Reads a chunked answer to its end.
fn read_answer(stream: &mut TcpStream) -> Result<()> {
    let (mut answer, mut piece) = (Vec::new(), [0; 16 << 10]);
    while !answer.ends_with(b"\r\n0\r\n\r\n") {
        let length = stream.read(&mut piece).context("the router is silent")?;
        answer.extend_from_slice(&piece[..length]);
        let is_well = answer.starts_with(b"HTTP/1.1 200") && length > 0;
        ensure!(is_well, "the router answered: {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

// === impl Running ===

impl Running {
    fn start(program: &mut Command) -> Result<Self> {
        Ok(Self(program.spawn().with_context(|| format!("{program:?} cannot be started"))?))
    }

    /// Asks it to end, and waits until it has: counts are written at the end.
    fn end(mut self) -> Result<()> {
        run(command("kill").arg(self.0.id().to_string()))?;
        let status = self.0.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
    }
}
