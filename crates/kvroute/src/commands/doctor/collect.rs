//! Asks workers everything, all of them at once.

use std::time::Duration;

use futures_util::future::join_all;
use kvroute_engine::{HttpClient as EngineClient, Probe, fetch_load, probe};

use super::collected::{Examined, Parity, Patient, StreamCheck, Trial};
use super::parity::{Counter, ParityCheck};
use super::sockets::{self, OpenStream};
use super::subjects::{Counting, Subject, Subjects};
use super::trial;
use crate::http_client::HttpClient;

/// As long as a router would wait at most.
const LOAD_PATIENCE: Duration = Duration::from_secs(10);

/// Asks; sends completions only where that is wanted.
pub(super) async fn collect(subjects: Subjects, sends: bool) -> Vec<Patient> {
    let client = HttpClient::new();
    let examined = subjects.0.into_iter().map(|subject| examine(client.for_engines(), subject, sends));
    join_all(examined).await
}

/// The model that a worker is asked for.
pub(super) fn model_of<'a>(subject: &'a Subject, found: &'a Probe) -> Option<&'a str> {
    let base = found.models.iter().find(|model| model.parent.is_none());
    subject.model.as_deref().or_else(|| base.map(|model| model.id.as_str()))
}

async fn examine(client: &EngineClient, subject: Subject, sends: bool) -> Patient {
    let examined = match probe(client, &subject.url).await {
        Ok(found) => Ok(examine_found(client, &subject, found, sends).await),
        Err(error) => Err(error),
    };
    Patient { subject, examined }
}

async fn examine_found(client: &EngineClient, subject: &Subject, found: Probe, sends: bool) -> Examined {
    let load = fetch_load(client, &subject.url, found.engine, LOAD_PATIENCE).await;
    let parity = parity(client, subject, &found).await;
    let opened = sockets::open(&found, &subject.settings).await;
    let counter = Counter::of(subject, found.engine);
    let trial = match sends {
        true => trial::run(client, subject, &found, &counter).await,
        false => Trial::NotSent("--passive leaves it out"),
    };
    let streams: Vec<StreamCheck> = match trial {
        Trial::Done(_) => join_all(opened.into_iter().map(OpenStream::listen)).await,
        Trial::NotSent(_) | Trial::Refused(_) => opened.into_iter().map(OpenStream::unheard).collect(),
    };
    Examined { probe: found, load, streams, trial, parity }
}

async fn parity(client: &EngineClient, subject: &Subject, found: &Probe) -> Parity {
    match (&subject.tokenizer, model_of(subject, found)) {
        (Counting::Off, _) => Parity::Off,
        (Counting::Engine, _) | (_, None) => Parity::NoTokenizer,
        (Counting::Here(tokenizer), Some(model)) => {
            Parity::Compared(ParityCheck::run(client, &subject.url, found, model, tokenizer).await)
        }
    }
}
