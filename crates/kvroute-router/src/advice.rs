//! What would happen to a request, without anything happening to it.
//!
//! The steps are those of a request that is served, and what they leave behind is left out: no request is counted, no
//! stage entered, no time of a decision measured, nothing booked, taught or recorded, and the random numbers of the
//! selection stay where they are. So the next decision is the one that it would have been without the question. Nor
//! does advice stand in line: it tells where the request would go at this moment.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use kvroute_openai::{ClientRequest, Endpoint};

use crate::admission::Unplaced;
use crate::decisions::DecisionRecord;
use crate::error::RouteError;
use crate::hints::Hints;
use crate::placing::{Asked, DecisionTimer};
use crate::pool::Pool;
use crate::router::Shared;

/// A request that somebody asks about, as the data plane would get it.
#[derive(Clone, Debug)]
pub struct AdviceRequest {
    /// Where it would be sent.
    pub endpoint: Endpoint,
    /// Its whole body.
    pub body: Bytes,
    /// Its headers; all of them are taken as a trusted caller's.
    pub headers: HeaderMap,
}

// === impl Shared ===

impl Shared {
    /// The decision that the request would get now. Fails as the request would, but for the queue.
    pub(crate) async fn advise(&self, question: AdviceRequest) -> Result<DecisionRecord, RouteError> {
        let AdviceRequest { endpoint, body, headers } = question;
        let request = ClientRequest::parse(endpoint, body).map_err(RouteError::bad_request)?;
        let hints = Hints::read(&headers, true)?;
        let pool = self.find_pool(request.model.as_deref())?;
        let request = Arc::new(request);
        let counted = pool.counter().count(&request, &pool).await;
        let counting = counted.map_err(RouteError::bad_request)?;
        let hints = self.bound(&pool, &request, hints)?;
        let asked = Asked {
            request: &request,
            counting: &counting,
            prompt_lengths: &counting.prompt_lengths(),
            hints: &hints,
            salt: request.cache_salt.as_deref(),
            phase: pool.first_phase(),
            engine: None,
            tried: &[],
        };
        pool.advise(&asked).map_err(|unplaced| self.unplaced(&pool, unplaced))
    }
}

// === impl Pool ===

impl Pool {
    fn advise(&self, asked: &Asked<'_>) -> Result<DecisionRecord, Unplaced> {
        let fleet = self.fleet();
        let mut untimed = DecisionTimer::start();
        let (_hashed, advice) = self.inquire(&fleet, asked, &mut untimed, |inquiry| {
            self.desk()
                .advise(inquiry, |particulars| self.record(inquiry, particulars, asked, Duration::ZERO))
        });
        advice.map_err(|nobody| match (nobody.refusal, self.lane(asked)) {
            (Some(refusal), _) if !refusal.may_pass => Unplaced::Unservable(refusal.message),
            (_, Err(unplaced)) => unplaced,
            (_, Ok(lane)) if self.gate().room().is_hopeless(&lane) => Unplaced::Hopeless(lane),
            (_, Ok(lane)) => Unplaced::NoWorker(lane),
        })
    }
}
