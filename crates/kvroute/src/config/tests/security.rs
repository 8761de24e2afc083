use kvroute_server::Limits;

use super::*;

const TOKEN: &str = "a-token-that-is-long-enough";

fn at_server(keys: &str) -> String {
    format!("[server]\n{keys}\n{WORKER}")
}

#[test]
fn without_a_word_about_it_nothing_is_open_to_others_and_nothing_is_limited_but_connections_and_time() {
    let security = config(WORKER).security;
    assert_eq!(security.admin_tokens, None);
    assert!(security.tls.is_none() && security.admin_tls.is_none());
    assert_eq!(security.limits, Limits::default(), "the table's defaults are those of the library");
    assert_eq!(security.files, []);
}

#[test]
fn every_limit_arrives() {
    let text = at_server(
        "[server.limits]\nconnections = 7\nstreams = 8\nrequests = 9\nrate = \"600/m,burst=50\"\nhead = \"1s\"\nbody = \"2s\"\n\
         keep_alive = \"3s\"\nstall = \"4s\"",
    );
    let expected = Limits {
        connections: 7,
        streams: 8,
        requests: Some(9),
        rate: Some("600/m,burst=50".parse().unwrap()),
        head: Duration::from_secs(1),
        body: Duration::from_secs(2),
        keep_alive: Duration::from_secs(3),
        stall: Duration::from_secs(4),
    };
    assert_eq!(config(&text).security.limits, expected);
    let environment = [("KVROUTE_SERVER_LIMITS_REQUESTS", "5"), ("KVROUTE_SERVER_LIMITS_RATE", "off")];
    let limits = load_all(&text, &environment, &[]).unwrap().config.security.limits;
    assert_eq!(limits, Limits { requests: Some(5), rate: None, ..expected });
    for (keys, expected) in [
        ("connections = 0", "a number from 1 to 10000000"),
        ("requests = \"any\"", "\"off\" or a number from 1 to 10000000"),
        ("rate = \"10\"", "\"off\" or a rate such as \"100/s\""),
        ("stall = \"0s\"", "a duration such as \"30s\""),
    ] {
        let problem = problems(&at_server(&format!("[server.limits]\n{keys}")));
        assert!(problem.contains(&format!("expected {expected}")), "{problem}");
    }
}

#[test]
fn an_admin_plane_for_others_needs_a_token_and_the_file_is_read_here() {
    let open = "admin_listen = \"0.0.0.0:9090\"";
    let problem = problems(&at_server(open));
    assert!(
        problem.starts_with("server.admin_listen is 0.0.0.0:9090, which other machines may reach"),
        "{problem}"
    );
    let tokens = file(TOKEN);
    let text = at_server(&format!("{open}\nadmin_token_file = {:?}", tokens.path()));
    let security = config(&text).security;
    assert!(security.admin_tokens.is_some());
    let [named] = &security.files[..] else { panic!("{:?}", security.files) };
    assert_eq!((&named.setting[..], named.path.as_path()), ("server.admin_token_file", tokens.path()));
    let short = file("short");
    let problem = problems(&at_server(&format!("admin_token_file = {:?}", short.path())));
    assert!(
        problem.starts_with("server.admin_token_file is ") && problem.contains("at least 16"),
        "{problem}"
    );
    let problem = problems(&at_server("admin_token_file = \"/nowhere/token\""));
    assert!(problem.contains("\"/nowhere/token\", which cannot be read"), "{problem}");
}

#[test]
fn files_of_tls_are_read_here_and_what_is_wrong_is_named_with_its_table() {
    let other = file("nothing");
    let name = format!("{:?}", other.path());
    for (text, table, problem) in [
        (at_server(&format!("tls = {{ cert = {name} }}")), "server.tls", "needs cert and key"),
        (at_server(&format!("tls = {{ client_ca = {name} }}")), "server.tls", "needs cert and key"),
        (at_server(&format!("admin_tls = {{ key = {name} }}")), "server.admin_tls", "needs cert and key"),
        (
            at_server(&format!("tls = {{ cert = {name}, key = {name} }}")),
            "server.tls: ",
            "holds no certificate",
        ),
        (format!("{WORKER}[pool.tls]\ncert = {name}\n"), "pool[0].tls", "needs cert and key"),
        (format!("{WORKER}[pool.tls]\nca = {name}\n"), "pool[0].tls: ", "holds no certificate"),
        (format!("{WORKER}[pool.tls]\nca = \"/nowhere\"\n"), "pool[0].tls: ", "cannot be read"),
    ] {
        let found = problems(&text);
        assert!(found.starts_with(table) && found.contains(problem), "{text}: {found}");
    }
}

#[test]
fn what_is_shown_is_the_files_shape_with_defaults_and_without_passwords() {
    let tokens = file(TOKEN);
    let text = format!(
        "[server]\nadmin_token_file = {:?}\ntrusted = [\"10.0.0.0/8\"]\n{WORKER}[[pool]]\nmodel = \"m\"\n[pool.kv]\ntemperature = 0.5\n\
         [[pool.worker]]\nurl = \"http://10.0.0.2:8000\"\n[cluster]\nnats = \"nats://user:secret@a:4222,nats://b:4222\"\n\
         [metrics]\nconst_labels = {{ a = \"b\" }}\n",
        tokens.path()
    );
    let shown = serde_json::Value::Object(config(&text).security.shown);
    assert_eq!(shown["server"]["admin_token_file"], tokens.path().to_str().unwrap());
    assert_eq!(shown["server"]["trusted"][0], "10.0.0.0/8");
    assert_eq!(shown["server"]["drain"], "30s");
    assert_eq!(shown["server"]["limits"]["rate"], "off");
    assert_eq!(shown["pool"][0]["worker"][0]["url"], "http://10.0.0.1:8000");
    assert_eq!(shown["pool"][1]["model"], "m");
    assert_eq!(shown["pool"][1]["kv"]["temperature"], 0.5);
    assert_eq!(shown["metrics"]["const_labels"]["a"], "b");
    assert_eq!(shown["cluster"]["nats"], "nats://***@a:4222,nats://b:4222");
    let all = shown.to_string();
    assert!(!all.contains(TOKEN) && !all.contains("secret"), "{all}");
    let set = ROWS.iter().filter(|row| row.default.is_some() && !row.is_pool() && !row.is_worker());
    for row in set {
        let pointer = format!("/{}", row.key.replace('.', "/"));
        assert!(shown.pointer(&pointer).is_some(), "{} is not shown", row.key);
    }
}
