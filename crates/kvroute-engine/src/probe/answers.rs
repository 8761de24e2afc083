//! What a worker answered to a set of questions; absent answers are simply not there.

use futures_util::future::join_all;
use http::StatusCode;

use crate::HttpClient;
use crate::http::{Answer, get};

/// Answers by path.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    answers: Vec<(&'static str, Answer)>,
    /// Paths of which nobody knows whether they exist: no answer came, or the server failed.
    unanswered: Vec<&'static str>,
}

// === impl Answers ===

impl Answers {
    /// Asks all paths at once.
    pub(crate) async fn ask(client: &HttpClient, url: &str, paths: &'static [&'static str]) -> Self {
        let asked = paths.iter().map(|path| async move { (*path, get(client, url, path).await) });
        let mut found = Self::default();
        for (path, asked) in join_all(asked).await {
            match asked {
                Ok(answer) if !answer.status.is_server_error() => found.answers.push((path, answer)),
                _ => found.unanswered.push(path),
            }
        }
        found
    }

    /// Paths that were asked and gave no proper answer: what they would have told is unknown, not absent.
    pub(crate) fn unanswered(&self) -> &[&'static str] {
        &self.unanswered
    }

    /// The body of a good answer.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.find(path)?.text()
    }

    /// A good answer in the shape that is needed.
    pub(crate) fn json<'a, T: serde::Deserialize<'a>>(&'a self, path: &str) -> Option<T> {
        self.find(path)?.json()
    }

    /// Whether a path is there, but is not for asking: it changes something.
    pub(crate) fn is_only_posted(&self, path: &str) -> bool {
        self.find(path).is_some_and(|answer| answer.status == StatusCode::METHOD_NOT_ALLOWED)
    }

    fn find(&self, path: &str) -> Option<&Answer> {
        self.answers.iter().find(|(asked, _)| *asked == path).map(|(_, answer)| answer)
    }
}

impl FromIterator<(&'static str, Answer)> for Answers {
    fn from_iter<T: IntoIterator<Item = (&'static str, Answer)>>(answers: T) -> Self {
        Self { answers: answers.into_iter().collect(), unanswered: Vec::new() }
    }
}
