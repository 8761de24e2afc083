//! Nobody listens where a worker was.

use kvroute_testkit::Fault;

use super::site::{Question, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_refuses_connections_costs_its_clients_nothing() {
    let site = Site::start(|_| {}).await;
    site.spoiled().set(Fault::Refuse);
    for question in Question::all().cycle().take(8) {
        assert!(site.ask(question).await.is_whole(), "{question:?}");
    }
    site.is_sound().await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_refuse_each_request_is_told_so_until_they_are_back() {
    let site = Site::start(|pool| pool.queue.timeout = std::time::Duration::from_millis(100)).await;
    site.spoiled().set(Fault::Refuse);
    site.other().set(Fault::Refuse);
    for question in Question::all() {
        let seen = site.ask(question).await;
        let (status, code) = seen.error();
        assert!([(502, "upstream_broke"), (503, "no_worker")].contains(&(status, code)), "{seen:?}");
    }
    site.spoiled().set(Fault::None);
    site.other().set(Fault::None);
    site.until_whole(Question::all().next().unwrap().of_the_spoiled()).await;
    site.is_sound().await;
    site.stop().await;
}
