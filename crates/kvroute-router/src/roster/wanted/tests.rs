use super::*;

fn at(names: &[&str]) -> Vec<WorkerConfig> {
    names.iter().map(|name| WorkerConfig::at(format!("http://{name}:1"))).collect()
}

fn id(name: &str) -> WorkerId {
    WorkerId::new(format!("{name}:1"))
}

fn names(wanted: &Wanted) -> Vec<String> {
    let name =
        |worker: &WorkerConfig| worker.url.trim_start_matches("http://").trim_end_matches(":1").to_owned();
    wanted.workers().map(name).collect()
}

#[test]
fn each_is_wanted_once_by_whoever_is_heard_first() {
    let mut wanted = Wanted::configured(at(&["a", "b"]));
    wanted.discover(at(&["b", "c"]));
    wanted.add(at(&["c"]).remove(0));
    wanted.add(at(&["d"]).remove(0));
    assert_eq!(names(&wanted), ["a", "b", "c", "d"]);
    let sources = ["a", "b", "c", "d", "e"].map(|name| wanted.source(&id(name)));
    let [configured, added] = [WorkerSource::Configured, WorkerSource::Added].map(Some);
    assert_eq!(sources, [configured, configured, added, added, None]);
}

#[test]
fn whoever_was_sent_away_stays_away_until_it_is_named_anew() {
    let mut wanted = Wanted::configured(at(&["a", "b"]));
    wanted.discover(at(&["c"]));
    for name in ["a", "c"] {
        wanted.dismiss(&id(name));
    }
    assert_eq!(names(&wanted), ["b"]);
    wanted.configure(at(&["a", "b", "d"]));
    wanted.discover(at(&["c", "e"]));
    assert_eq!(names(&wanted), ["b", "d", "e"], "they have been named all the time");
    wanted.configure(at(&["b"]));
    wanted.discover(at(&["e"]));
    wanted.configure(at(&["a", "b"]));
    wanted.discover(at(&["c", "e"]));
    assert_eq!(names(&wanted), ["a", "b", "c", "e"]);
}

#[test]
fn whoever_was_added_is_gone_once_it_was_sent_away() {
    let mut wanted = Wanted::default();
    wanted.add(at(&["a"]).remove(0));
    wanted.dismiss(&id("a"));
    assert_eq!((names(&wanted), wanted.source(&id("a"))), (Vec::new(), None));
    wanted.add(at(&["a"]).remove(0));
    assert_eq!(names(&wanted), ["a"]);
}

#[test]
fn whoever_is_asked_for_comes_back_at_once() {
    let mut wanted = Wanted::configured(at(&["a"]));
    wanted.dismiss(&id("a"));
    wanted.add(at(&["a"]).remove(0));
    assert_eq!(names(&wanted), ["a"]);
}
