//! Asking an engine for ids, off the way of any request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kvroute_core::{TokenId, WorkerId};
use kvroute_openai::{ClientRequest, Prompt};

use super::evidence::{Evidence, Finding, PromptKind, fingerprint};
use super::witness::LONGEST;
use super::{Member, known_prompts};
use crate::counting::TokenizedPrompts;
use crate::counting::engine::ask_one;
use crate::pool::Pool;
use crate::rank::Rank;

/// A prompt and the router's ids of it.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) kind: PromptKind,
    pub(super) prompt: Prompt,
    pub(super) ids: Vec<TokenId>,
}

/// A worker joined: its engine is asked about some ordinary prompts, if the router has a tokenizer to compare with.
pub(crate) fn joined(pool: &Arc<Pool>, rank: &Arc<Rank>, vocabulary: Option<u32>) {
    let member = pool.counter().identity().insert(pool, rank, vocabulary);
    if !pool.counter().has_tokenizer() {
        return;
    }
    let asker = Arc::clone(pool);
    spawn(pool, async move {
        for prompt in known_prompts::all() {
            compare_known(&asker, &member, prompt).await;
        }
    });
}

/// The router's tokenizer is tried with a prompt that a worker has just told the ids of.
pub(crate) fn compare_again(
    pool: &Arc<Pool>,
    worker: &WorkerId,
    request: &Arc<ClientRequest>,
    prompts: &TokenizedPrompts,
) {
    if request.body().len() > LONGEST {
        return;
    }
    let identity = pool.counter().identity();
    let (Some(engine), Some(kind), Some(member)) =
        (prompts.only(), PromptKind::of(&request.prompt), identity.member(worker))
    else {
        return;
    };
    let (comparer, request, engine) = (Arc::clone(pool), Arc::clone(request), engine.to_vec());
    spawn(pool, async move {
        let counter = comparer.counter();
        let Some(ids) = counter.own_ids(&request.prompt, member.rank.engine) else { return };
        let finding = Finding::of_ids(&ids, &engine);
        counter.identity().learn(
            &comparer,
            &member,
            Evidence { kind, prompt: fingerprint(&engine), finding },
        );
    });
}

/// Asks a worker about a prompt of its traffic, unless it is just being asked.
pub(super) fn ask(pool: &Arc<Pool>, member: &Arc<Member>, question: impl FnOnce() -> Question) {
    if member.is_asked.swap(true, Ordering::AcqRel) {
        return;
    }
    let (asker, asked, question) = (Arc::clone(pool), Arc::clone(member), question());
    spawn(pool, async move {
        compare(&asker, &asked, question).await;
        asked.is_asked.store(false, Ordering::Release);
    });
}

async fn compare_known(pool: &Pool, member: &Member, prompt: Prompt) {
    let Some(kind) = PromptKind::of(&prompt) else { return };
    let Some(ids) = pool.counter().own_ids(&prompt, member.rank.engine) else { return };
    compare(pool, member, Question { kind, prompt, ids }).await;
}

async fn compare(pool: &Pool, member: &Member, question: Question) {
    let Question { kind, prompt, ids } = question;
    let identity = pool.counter().identity();
    if member.cannot.load(Ordering::Relaxed) & kind.bit() != 0 {
        return;
    }
    match ask_one(pool, &member.rank, &prompt).await {
        Ok(lists) => {
            let [engine] = lists.as_slice() else { return };
            let finding = Finding::of_ids(&ids, engine);
            identity.learn(pool, member, Evidence { kind, prompt: fingerprint(&ids), finding });
        }
        Err(unasked) => {
            if unasked.is_unable {
                member.cannot.fetch_or(kind.bit(), Ordering::Relaxed);
            }
            identity.could_not_ask(member, unasked.problem);
        }
    }
}

/// A task of the pool's that ends with the router.
fn spawn(pool: &Pool, work: impl Future<Output = ()> + Send + 'static) {
    let cut = pool.streams().cut.clone();
    drop(pool.streams().tasks.spawn(async move {
        let _cut_short = cut.run_until_cancelled(work).await;
    }));
}
