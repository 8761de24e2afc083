//! Whole responses: everything is generated before the head is sent.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use kvroute_core::TokenId;
use kvroute_openai::Endpoint;
use serde_json::json;

use super::FINGERPRINT;
use super::dialect;
use super::error::{ApiError, json_response};
use super::generate::Answer;
use super::shapes::chat::{ChatChoice, ChatResponse};
use super::shapes::completion::{ChoiceIds, CompletionChoice, CompletionResponse};
use super::shapes::message::MessageBody;
use super::shapes::usage::PrivateData;

/// What one choice said.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) ids: Vec<TokenId>,
}

/// Waits for every choice and answers.
pub(super) async fn respond(mut answer: Answer) -> Result<Response, ApiError> {
    let choices = collect(&mut answer).await?;
    answer.hand_over(choices.first().and_then(|choice| choice.ids.first()).copied())?;
    if let Some(dialect) = dialect::of(answer.app.config.flavour) {
        return Ok(finished(&answer, dialect.whole(&answer, &choices).to_string()));
    }
    let body = match answer.request.endpoint {
        Endpoint::ChatCompletions => chat(&answer, &choices),
        Endpoint::Responses => response(&answer, &choices),
        Endpoint::Messages => message(&answer, &choices),
        _ => completion(&answer, &choices),
    }?;
    Ok(finished(&answer, body))
}

/// The body, or half of it.
fn finished(answer: &Answer, body: String) -> Response {
    match answer.faults.break_after_chunks {
        Some(_) => cut(body),
        None => json_response(StatusCode::OK, body),
    }
}

async fn collect(answer: &mut Answer) -> Result<Vec<Choice>, ApiError> {
    let mut choices = vec![Choice::default(); answer.request.total_choices()];
    while !answer.ticket.is_finished() {
        let Some(token) = answer.next().await? else { break };
        answer.usage.count(&token);
        let is_swallowed = answer.swallows(token.choice as usize);
        let choice = &mut choices[token.choice as usize];
        if !is_swallowed {
            choice.text.push_str(answer.app.words.text(token.word));
        }
        choice.ids.push(answer.app.words.id(token.word));
    }
    Ok(choices)
}

fn chat(answer: &Answer, choices: &[Choice]) -> Result<String, ApiError> {
    let shows_ids = answer.request.return_token_ids;
    let response = ChatResponse {
        id: &answer.request.id,
        object: "chat.completion",
        created: answer.created,
        model: &answer.app.config.model,
        choices: (0..).zip(choices).map(|(index, choice)| chat_choice(answer, index, choice)).collect(),
        service_tier: (),
        system_fingerprint: FINGERPRINT,
        usage: answer.usage.whole(),
        prompt_logprobs: (),
        prompt_token_ids: shows_ids.then_some(answer.request.prompt_of(0)),
        prompt_text: (),
        kv_transfer_params: answer.handed.as_ref(),
        ec_transfer_params: (),
        metrics: (),
        engine_data: private(answer, choices),
    };
    Ok(serde_json::to_string(&response)?)
}

fn chat_choice<'a>(answer: &'a Answer, index: usize, choice: &'a Choice) -> ChatChoice<'a> {
    let ids = answer.request.return_token_ids.then_some(&choice.ids[..]);
    let told = ChatChoice::new(index, &choice.text, ids);
    match answer.call(index) {
        None => told,
        Some(call) => {
            let function = call.function(&choice.text);
            told.calling(json!([{ "id": call.id, "type": "function", "function": function }]))
        }
    }
}

fn completion(answer: &Answer, choices: &[Choice]) -> Result<String, ApiError> {
    let response = CompletionResponse {
        id: &answer.request.id,
        object: "text_completion",
        created: answer.created,
        model: &answer.app.config.model,
        choices: (0..).zip(choices).map(|(index, choice)| completion_choice(answer, index, choice)).collect(),
        service_tier: (),
        system_fingerprint: FINGERPRINT,
        usage: answer.usage.whole(),
        kv_transfer_params: answer.handed.as_ref(),
        ec_transfer_params: (),
        metrics: (),
        engine_data: private(answer, choices),
    };
    Ok(serde_json::to_string(&response)?)
}

fn private<'a>(answer: &Answer, choices: &'a [Choice]) -> Option<PrivateData<'a>> {
    let ids = match choices {
        [only] => answer.faults.private_token_ids.then_some(&only.ids[..]),
        _ => None,
    };
    PrivateData::new(answer.usage.private(), ids)
}

fn response(answer: &Answer, choices: &[Choice]) -> Result<String, ApiError> {
    let text = choices.first().map_or("", |choice| &choice.text);
    let item = answer.item_id();
    let body = serde_json::to_string(&answer.ended_response(&item, text, answer.usage.private()))?;
    answer.keep(text);
    Ok(body)
}

fn message(answer: &Answer, choices: &[Choice]) -> Result<String, ApiError> {
    let text = choices.first().map_or("", |choice| &choice.text);
    let (usage, private) = (answer.usage.message(), answer.usage.private());
    let body = MessageBody::new(&answer.request.id, &answer.app.config.model, text, usage, private);
    Ok(serde_json::to_string(&body)?)
}

fn completion_choice<'a>(answer: &'a Answer, index: usize, choice: &'a Choice) -> CompletionChoice<'a> {
    let mut ids = ChoiceIds::default();
    if answer.request.return_token_ids {
        ids = ChoiceIds { prompt: Some(answer.request.prompt_of(index)), generated: Some(&choice.ids) };
    }
    CompletionChoice::new(index, &choice.text, ids)
}

/// The first half of a body that promises the whole one.
fn cut(body: String) -> Response {
    let length = body.len();
    let half = Bytes::from(body).slice(..length / 2);
    let pieces = stream::unfold(Some(half), async |half| match half {
        Some(half) if !half.is_empty() => Some((Ok(half), Some(Bytes::new()))),
        _ => {
            // The half is on its way before the connection breaks.
            tokio::task::yield_now().await;
            Some((Err(std::io::Error::other("injected fault: the response is cut")), None))
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CONTENT_LENGTH, header::HeaderValue::from(length));
    response
}
