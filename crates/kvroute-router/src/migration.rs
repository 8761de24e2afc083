//! A stream that broke off goes on with another worker.
//!
//! The next worker gets the prompt together with what was generated, and its stream is spliced to what the client has: one
//! answer, one id, one usage. Only tokens whose text the client has are handed on. What the broken worker had generated
//! beyond that text (it may hold text back) is generated anew, so nothing is shown twice and nothing is left out. Where it
//! cannot be proven which tokens those are, the stream ends with an error event, as it does where migration is off; the
//! event says why. As long as the client has nothing that was generated, the request is simply sent again.
//!
//! To the books a continuation is a further attempt of the same request. The broken one has failed and teaches the history
//! nothing; the prompt of the next one holds the first part of the answer, so that it teaches all of it.

mod splice;

use std::sync::Arc;

use kvroute_core::{TokenId, Tokens, WorkerId};
use kvroute_metrics::{MigrationReason, RequestOutcome, RequestRecorder};
use kvroute_openai::{AnswerSoFar, ClientRequest, Delivered, Endpoint, Obstacle};

pub(crate) use self::splice::Continuation;
use crate::admission::Unplaced;
use crate::attempt::Attempt;
use crate::counting::Counting;
use crate::counting::prompts::{Origin, TokenizedPrompts};
use crate::error::Reason;
use crate::pool::Pool;
use crate::rank::Rank;
use crate::retries::Why;
use crate::route::Route;

/// What it takes to continue a stream.
#[derive(Debug)]
pub(crate) struct Migration {
    pool: Arc<Pool>,
    /// The request as its client sent it.
    route: Arc<Route>,
    /// Workers that its stream broke on.
    broken: Vec<WorkerId>,
}

/// A stream that broke, and what is still open of it.
#[derive(Debug)]
pub(crate) struct BrokenStream {
    pub(crate) reason: MigrationReason,
    pub(crate) worker: WorkerId,
    pub(crate) recorder: RequestRecorder,
    pub(crate) delivered: Delivered,
}

/// What stands against the next part.
enum Stuck {
    /// The answer, or what is known of it.
    Obstacle(Obstacle),
    /// There is nobody left who could be asked.
    Nobody,
}

/// What the next worker is asked, and how much of the answer it is told.
struct NextPart {
    route: Arc<Route>,
    /// Generated tokens behind the client's own prompt.
    kept: usize,
}

/// Said where every worker that could go on is gone, unwell or leaving.
const NO_OTHER_WORKER: &str = "no other worker can take it";

// === impl Migration ===

impl Migration {
    /// For the stream of an attempt; `None` where it ends with its worker: migration is off, or no other worker may serve
    /// the request.
    pub(crate) fn of(route: &Arc<Route>, attempt: &Attempt) -> Option<Self> {
        let pool = Arc::clone(attempt.pool());
        let may_move = route.hints.pin.is_none() && route.request.may_start_over();
        (pool.config().migrations > 0 && may_move).then(|| Self {
            pool,
            route: Arc::clone(route),
            broken: Vec::new(),
        })
    }

    /// The span of the request.
    pub(crate) fn span(&self) -> tracing::Span {
        self.route.trail.span()
    }

    /// Keeps what the client gets from the first part on.
    pub(crate) fn nothing_delivered(&self) -> Delivered {
        let uncounted = self.prompt().is_none().then_some(Obstacle::UncountedPrompt);
        Delivered::new(self.route.request.obstacle().or(uncounted))
    }

    /// Why a stream that breaks now ends; `None` where it may go on.
    pub(crate) fn refusal(&self, delivered: &Delivered) -> Option<String> {
        let most = self.pool.config().migrations;
        if self.broken.len() >= most as usize {
            let often = if most == 1 { "once".to_owned() } else { format!("{most} times") };
            return Some(format!("it was continued {often}, as often as pool.migrations lets it"));
        }
        delivered.obstacle().filter(|_| !delivered.is_blank()).map(|obstacle| obstacle.to_string())
    }

    /// Sends what is left of the request to another worker.
    ///
    /// # Errors
    /// Why nobody goes on with it. The books of the request are closed then.
    pub(crate) async fn go_on(mut self, stream: BrokenStream) -> Result<Continuation, Reason> {
        let BrokenStream { reason, worker, mut recorder, delivered } = stream;
        self.broken.push(worker);
        let NextPart { route, kept } = match self.next_part(&delivered).await {
            Ok(next) => next,
            Err(stuck) => {
                self.close(recorder);
                return Err(stuck.said());
            }
        };
        recorder.continues(Tokens::from(kept));
        self.route.trail.continues(Tokens::from(kept));
        let answer = Box::pin(self.pool.answer(&route, recorder, self.broken.clone()));
        match answer.await {
            Ok(answered) => {
                let continuation = Continuation::of(answered, self, delivered, kept)?;
                continuation.pool().metrics().migrated(reason);
                Ok(continuation)
            }
            Err(unsent) => {
                let said = said_of(&unsent.why);
                unsent.end(RequestOutcome::Failed, &self.route.trail);
                Err(said)
            }
        }
    }

    /// The ids of the prompt; `None` where they are not known.
    fn prompt(&self) -> Option<&[TokenId]> {
        match &*self.route.counting {
            Counting::Exact(prompts) => prompts.only(),
            Counting::Uncounted(..) => None,
        }
    }

    async fn next_part(&self, delivered: &Delivered) -> Result<NextPart, Stuck> {
        if delivered.is_blank() {
            return Ok(NextPart { route: Arc::clone(&self.route), kept: 0 });
        }
        if let Some(obstacle) = delivered.obstacle() {
            return Err(obstacle.into());
        }
        let prompt = self.prompt().ok_or(Obstacle::UncountedPrompt)?;
        match self.route.request.endpoint {
            Endpoint::Completions => Ok(self.completion(prompt, delivered)?),
            _ => self.chat(prompt, delivered).await,
        }
    }

    /// The ids of the prompt and of the text are the next prompt.
    fn completion(&self, prompt: &[TokenId], delivered: &Delivered) -> Result<NextPart, Obstacle> {
        let tokenizer = self.pool.counter().tokenizer().ok_or(Obstacle::NoTokenizer)?;
        let decode = |ids: &[TokenId]| tokenizer.decode(ids);
        let kept = delivered.tokens_of_text(prompt, decode).ok_or(Obstacle::TextAndIds)?;
        let generated = &delivered.token_ids()[..kept];
        let request = self.request(prompt, generated, delivered)?;
        let ids = TokenizedPrompts::new(vec![[prompt, generated].concat()], Origin::Client);
        Ok(self.part(request, ids, kept))
    }

    /// The text is the last message of the next chat, which must be the prompt and generated tokens once it is rendered.
    async fn chat(&self, prompt: &[TokenId], delivered: &Delivered) -> Result<NextPart, Stuck> {
        // As long as it is not known which tokens the text is, the bounds stay as they are.
        let probe = Arc::new(self.request(prompt, &[], delivered)?);
        let counted = self.pool.counter().count(&probe, &self.pool).await;
        let Ok(Counting::Exact(chats)) = counted else { return Err(self.uncounted_chat()) };
        let rendered = chats.only().ok_or(Obstacle::UncountedChat)?;
        let kept = delivered.tokens_of_chat(prompt, rendered).ok_or(Obstacle::Rendering)?;
        let request = self.request(prompt, &delivered.token_ids()[..kept], delivered)?;
        Ok(self.part(request, chats, kept))
    }

    /// Where the workers count, those that could go on are those that could be asked.
    fn uncounted_chat(&self) -> Stuck {
        let is_left =
            |rank: &Arc<Rank>| rank.worker.takes_requests() && !self.broken.contains(&rank.name.worker);
        match self.pool.fleet().ranks.iter().any(is_left) {
            true => Obstacle::UncountedChat.into(),
            false => Stuck::Nobody,
        }
    }

    fn request(
        &self,
        prompt: &[TokenId],
        generated: &[TokenId],
        delivered: &Delivered,
    ) -> Result<ClientRequest, Obstacle> {
        self.route.request.continued(AnswerSoFar { prompt, generated, text: delivered.text() })
    }

    fn part(&self, request: ClientRequest, ids: TokenizedPrompts, kept: usize) -> NextPart {
        let counting = Counting::Exact(ids);
        let route = Route {
            request: Arc::new(request),
            prompt_lengths: counting.prompt_lengths(),
            counting: Arc::new(counting),
            ..Route::clone(&self.route)
        };
        NextPart { route: Arc::new(route), kept }
    }

    fn close(&self, recorder: RequestRecorder) {
        recorder.finish(RequestOutcome::Failed);
        self.route.trail.ended(RequestOutcome::Failed);
    }
}

// === impl Stuck ===

impl Stuck {
    fn said(&self) -> Reason {
        match self {
            Self::Obstacle(obstacle) => obstacle.to_string().into(),
            Self::Nobody => NO_OTHER_WORKER.into(),
        }
    }
}

impl From<Obstacle> for Stuck {
    fn from(obstacle: Obstacle) -> Self {
        Self::Obstacle(obstacle)
    }
}

/// Whether an attempt's engine is asked for token ids because another one may have to go on with its answer.
pub(crate) fn needs_token_ids(attempt: &Attempt, request: &ClientRequest) -> bool {
    attempt.pool().config().migrations > 0 && request.obstacle().is_none()
}

/// Why the request found no other worker, or why that one brought no answer.
fn said_of(why: &Why) -> Reason {
    match why {
        Why::Failed(error) => Reason::of(error),
        Why::Unplaced(Unplaced::NoWorker(_) | Unplaced::Hopeless(_)) => NO_OTHER_WORKER.into(),
        Why::Unplaced(Unplaced::QueueFull { .. } | Unplaced::QueueTimeout { .. }) => {
            "every other worker is busy".into()
        }
        Why::Unplaced(Unplaced::Unservable(lacks)) => (*lacks).into(),
        Why::Unplaced(Unplaced::Stopping) => "the router is stopping".into(),
    }
}
