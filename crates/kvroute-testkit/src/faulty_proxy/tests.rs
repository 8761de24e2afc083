use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// A server that gives the same answer to whatever comes.
async fn server() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let mut request = [0; 1024];
                while let Ok(1..) = stream.read(&mut request).await {
                    if stream.write_all(ANSWER.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, serving)
}

/// Everything that comes for one request, and how it ends.
async fn told(proxy: &FaultyProxy, method: &str) -> (String, bool) {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(format!("{method} /v1/x HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let ends_in_order = stream.read_to_end(&mut bytes).await.is_ok();
    (String::from_utf8_lossy(&bytes).into_owned(), ends_in_order)
}

#[tokio::test]
async fn an_answer_is_cut_at_its_byte_in_order_or_without() {
    let (address, _serving) = server().await;
    let proxy = FaultyProxy::start(&format!("http://{address}"), Fault::None).await;
    for position in 0..ANSWER.len() {
        proxy.set(Fault::EarlyEof(position as u64));
        assert_eq!(told(&proxy, "POST").await, (ANSWER[..position].to_owned(), true));
        proxy.set(Fault::ResetAt(position as u64));
        assert_eq!(told(&proxy, "POST").await, (ANSWER[..position].to_owned(), false));
    }
    assert_eq!(proxy.suffered(), 2 * ANSWER.len());
}

#[tokio::test]
async fn probes_have_a_fault_of_their_own_on_the_same_connection() {
    let (address, _serving) = server().await;
    let proxy = FaultyProxy::start(&address.to_string(), Fault::EarlyEof(3)).await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let mut answer = vec![0; ANSWER.len()];
    for _ in 0..2 {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, ANSWER.as_bytes());
    }
    stream.write_all(b"POST /v1/x HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, &ANSWER.as_bytes()[..3]);
    proxy.set_for_probes(Fault::EarlyEof(1));
    assert_eq!(told(&proxy, "GET").await.0, "H");
    assert!(
        is_probe(b"POST /tokenize HTTP/1.1\r\n")
            && is_probe(b"POST /v1/chat/completions/render HTTP/1.1\r\n")
    );
}

#[tokio::test]
async fn what_is_announced_is_not_what_comes() {
    let (address, _serving) = server().await;
    let proxy = FaultyProxy::start(&address.to_string(), Fault::WrongLength(2)).await;
    assert_eq!(told(&proxy, "POST").await, (ANSWER.replace(": 5", ": 7"), true));
    proxy.set(Fault::WrongLength(-4));
    assert_eq!(told(&proxy, "POST").await, (ANSWER.replace(": 5", ": 1"), true));
    proxy.set(Fault::Garbage);
    assert!(told(&proxy, "POST").await.0.contains("not a status line"));
    proxy.set(Fault::HalfClose);
    assert_eq!(told(&proxy, "POST").await, (String::new(), true));
}

/// Reads until the whole answer is there, however it is preceded.
async fn preceded(proxy: &FaultyProxy) -> String {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(b"POST /v1/x HTTP/1.1\r\n\r\n").await.unwrap();
    let mut told = String::new();
    let mut buffer = [0; 1024];
    while !told.ends_with("hello") {
        let length = stream.read(&mut buffer).await.unwrap();
        assert!(length > 0, "the answer ends before it is whole: {told}");
        told.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    told
}

#[tokio::test]
async fn an_answer_is_preceded_padded_or_dripped_and_whole() {
    let (address, _serving) = server().await;
    let proxy = FaultyProxy::start(&address.to_string(), Fault::Informational(103)).await;
    assert_eq!(preceded(&proxy).await, format!("HTTP/1.1 103 Early\r\nx-early: yes\r\n\r\n{ANSWER}"));
    proxy.set(Fault::OversizedHeader(100));
    assert!(preceded(&proxy).await.contains(&"a".repeat(100)));
    proxy.set(Fault::Drip { bytes: 3, every: std::time::Duration::from_millis(1) });
    assert_eq!(preceded(&proxy).await, ANSWER);
    assert_eq!(proxy.suffered(), 3);
}

#[tokio::test]
async fn an_answer_is_held_back_until_something_else_is_wanted() {
    let (address, _serving) = server().await;
    let proxy = FaultyProxy::start(&address.to_string(), Fault::Hold).await;
    let release = async {
        while proxy.suffered() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.set(Fault::None);
    };
    assert_eq!(tokio::join!(preceded(&proxy), release).0, ANSWER);
}

#[tokio::test]
async fn refused_connections_are_accepted_again() {
    let (address, _serving) = server().await;
    let proxy = FaultyProxy::start(&address.to_string(), Fault::Refuse).await;
    assert!(TcpStream::connect(proxy.address()).await.is_err());
    proxy.set(Fault::None);
    let mut open = TcpStream::connect(proxy.address()).await.unwrap();
    open.write_all(b"POST /v1/x HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = vec![0; ANSWER.len()];
    open.read_exact(&mut answer).await.unwrap();
    assert_eq!(proxy.open(), 1);
    proxy.set(Fault::Refuse);
    assert_eq!(open.read(&mut answer).await.unwrap_or_default(), 0, "whoever is there is sent away");
    while TcpStream::connect(proxy.address()).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
