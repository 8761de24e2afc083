//! What the program says of a server that does not let it in.

use kvroute_testkit::RunningProcess;

use super::server::{self, Server};

#[tokio::test]
async fn the_log_tells_of_each_try_once_and_never_a_password() {
    if !server::is_there() {
        return;
    }
    let nats = Server::with("authorization { user: router, password: right }").await;
    let address = nats.url().replace("nats://", "cluster.nats=nats://router:s3cr3t@");
    let arguments = ["serve", "--worker", "http://127.0.0.1:9", "--log", "info", "--set", &address]
        .into_iter()
        .chain(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .chain(["--set", "cluster.replica_sync=true", "--set", "pool.history.enabled=true"]);
    let router = RunningProcess::start(env!("CARGO_BIN_EXE_kvroute"), &arguments.collect::<Vec<_>>());
    let tries = |log: &str| log.lines().filter(|line| line.contains("authorization violation")).count();
    for _ in 0..server::LOOKS {
        let log = router.log();
        if tries(&log) >= 3 {
            assert!(
                log.lines().all(|line| !line.contains("violation") || line.contains("kvroute_cluster")),
                "{log}"
            );
            assert!(!log.contains("async_nats") && !log.contains("s3cr3t"), "{log}");
            return;
        }
        tokio::time::sleep(server::BETWEEN_LOOKS).await;
    }
    panic!("{}", router.log());
}
