//! `kvroute explain`: where a running router would send a request, or sent it, and why.
//!
//! The router explains, this command only asks and sets the answer in type: so that it explains every router that it can
//! reach, whatever its version, it reads of the answer what it knows and leaves the rest.

mod access;
mod advice;
mod decision;
mod router;
mod text;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use kvroute_openai::Endpoint;

use self::access::Access;
use self::advice::Question;
use self::decision::Decision;
use self::router::{AdminUrl, RouterClient};
use crate::failure::Failure;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ExplainFlags {
    /// Body of a chat or completions request; - reads standard input
    #[arg(value_name = "REQUEST.json", required_unless_present = "id")]
    request: Option<PathBuf>,
    /// Explain a decision that was taken: its id or that of its request
    #[arg(long, value_name = "ID", conflicts_with_all = ["request", "endpoint", "header"])]
    id: Option<String>,
    /// Address of the router's admin plane
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    admin: AdminUrl,
    /// File with a token of the admin plane, where it needs one
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Authorities of an https admin plane [default: the system's]
    #[arg(long, value_name = "FILE")]
    admin_ca: Option<PathBuf>,
    /// Where the request would be sent [default: by its messages or prompt]
    #[arg(long, value_name = "PATH", value_parser = parse_endpoint)]
    endpoint: Option<Endpoint>,
    /// Header of the request, such as x-session-id=a; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// Print the decision as JSON
    #[arg(long)]
    json: bool,
}

fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    let known = || Endpoint::ALL.map(Endpoint::path).join(" or ");
    Endpoint::named(text).ok_or_else(|| format!("not an endpoint that workers serve; use {}", known()))
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as x-session-id=a")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Asks, and prints the answer.
pub(crate) async fn run(flags: ExplainFlags) -> Result<(), Failure> {
    let access = Access::read(flags.admin_token_file.as_deref(), flags.admin_ca.as_deref())?;
    let router = RouterClient::new(flags.admin, &access);
    let answer = match (&flags.id, &flags.request) {
        (Some(id), _) => router.decision(id).await?,
        (None, path) => {
            let body = read_request(path.as_deref())?;
            router.advice(&Question::new(&body, flags.endpoint, &flags.header)?).await?
        }
    };
    let printed = match flags.json {
        true => format!("{}\n", String::from_utf8_lossy(&answer)),
        false => {
            let decision: Decision = serde_json::from_slice(&answer)
                .map_err(|error| Failure::while_doing("the router's answer is no decision", error))?;
            text::render(&decision, unix_millis())
        }
    };
    output::result(&printed).map_err(|error| Failure::while_doing("cannot print", error))
}

fn read_request(path: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        let mut body = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut body);
        return read.map(|_| body).map_err(|error| Failure::while_doing("cannot read standard input", error));
    };
    std::fs::read(path)
        .map_err(|error| Failure::Usage(format!("cannot read request {}: {error}", path.display())))
}

fn unix_millis() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
