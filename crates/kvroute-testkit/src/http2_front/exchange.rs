//! One stream: a request that passes to the engine, and what comes back of the answer.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::{Http2Fault, Shared};

/// A reset takes back what is not written yet, and the library does not tell when it is.
const ARRIVES_WITHIN: Duration = Duration::from_millis(50);

/// A stream between its beginning and its end.
#[derive(Debug)]
pub(super) struct Exchange {
    shared: Arc<Shared>,
    /// `None` for a probe.
    fault: Option<Http2Fault>,
}

/// Why a stream ends before its answer has.
#[derive(Debug)]
enum Early {
    /// The router has reset it.
    Left(Reason),
    /// The engine has none.
    NoAnswer,
}

// === impl Exchange ===

impl Exchange {
    /// A stream that meets this fault.
    pub(super) fn new(fault: Option<Http2Fault>, shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), fault }
    }

    /// Asks the engine and passes on what it answers.
    pub(super) async fn run(self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        if let Some(Http2Fault::Refuse(reason)) = self.fault {
            respond.send_reset(reason);
            return;
        }
        let answer = tokio::select! {
            left = poll_fn(|context| respond.poll_reset(context)) => Err(left_by(left)),
            answer = self.ask(request) => answer.ok_or(Early::NoAnswer),
        };
        match answer {
            Err(Early::Left(reason)) => self.left(reason),
            Err(Early::NoAnswer) => respond.send_reset(Reason::INTERNAL_ERROR),
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                let mut response = Response::from_parts(head, ());
                response.headers_mut().remove(CONNECTION);
                response.headers_mut().remove(TRANSFER_ENCODING);
                *response.version_mut() = http::Version::HTTP_2;
                let Ok(stream) = respond.send_response(response, false) else { return };
                self.pass(body, stream).await;
            }
        }
    }

    /// The engine's answer; `None` if there is none.
    async fn ask(&self, request: Request<RecvStream>) -> Option<Response<Incoming>> {
        let (mut head, mut body) = request.into_parts();
        let mut whole = BytesMut::new();
        while let Some(piece) = body.data().await {
            let piece = piece.ok()?;
            body.flow_control().release_capacity(piece.len()).ok()?;
            whole.extend_from_slice(&piece);
        }
        let path = head.uri.path_and_query()?;
        head.uri = format!("http://{}{path}", self.shared.engine).parse().ok()?;
        head.version = http::Version::HTTP_11;
        head.headers.remove(HOST);
        self.shared.client.request(Request::from_parts(head, Full::new(whole.freeze()))).await.ok()
    }

    async fn pass(&self, mut body: Incoming, mut stream: SendStream<Bytes>) {
        let mut room = match self.fault {
            Some(Http2Fault::ResetAt(bytes, reason)) => Some((bytes, reason)),
            _ => None,
        };
        loop {
            let frame = tokio::select! {
                left = poll_fn(|context| stream.poll_reset(context)) => {
                    if let Early::Left(reason) = left_by(left) {
                        self.left(reason);
                    }
                    return;
                }
                frame = body.frame() => frame,
            };
            let mut piece = match frame {
                None => break,
                Some(Err(_)) => return stream.send_reset(Reason::INTERNAL_ERROR),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            if let Some((bytes, reason)) = &mut room {
                let is_last = *bytes <= piece.len();
                piece.truncate(*bytes);
                *bytes -= piece.len();
                if is_last {
                    let _ = stream.send_data(piece, false);
                    tokio::time::sleep(ARRIVES_WITHIN).await;
                    return stream.send_reset(*reason);
                }
            }
            if stream.send_data(piece, false).is_err() {
                return;
            }
        }
        let _ = stream.send_data(Bytes::new(), true);
    }

    /// Probes are left alone by whoever asks: only requests for an answer are noted.
    fn left(&self, reason: Reason) {
        if self.fault.is_some() {
            self.shared.resets.lock().push(reason);
        }
    }
}

fn left_by(reset: Result<Reason, h2::Error>) -> Early {
    match reset {
        Ok(reason) => Early::Left(reason),
        Err(_broken) => Early::NoAnswer,
    }
}
