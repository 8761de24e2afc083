//! A name server of the test's own, with what it is told to say.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

const A: u16 = 1;
const SRV: u16 = 33;

/// What it says.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// These services, for so many seconds.
    Services(Vec<(String, u16)>, u32),
    /// These addresses, for so many seconds.
    Addresses(Vec<Ipv4Addr>, u32),
    /// There is no such name.
    Nobody,
    /// It cannot say.
    Fault,
    /// Nothing at all.
    Silence,
}

pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    says: Arc<Mutex<Says>>,
    asked: Arc<AtomicU64>,
    _serving: JoinSet<()>,
}

// === impl NameServer ===

impl NameServer {
    pub(crate) async fn start(says: Says) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (says, asked) = (Arc::new(Mutex::new(says)), Arc::new(AtomicU64::new(0)));
        let mut serving = JoinSet::new();
        serving.spawn(serve(socket, Arc::clone(&says), Arc::clone(&asked)));
        Self { address, says, asked, _serving: serving }
    }

    pub(crate) fn says(&self, says: Says) {
        *self.says.lock() = says;
    }

    /// Questions until now.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn serve(socket: UdpSocket, says: Arc<Mutex<Says>>, asked: Arc<AtomicU64>) {
    let mut buffer = [0; 1500];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        asked.fetch_add(1, Ordering::Relaxed);
        let says = says.lock().clone();
        if let Some(answer) = answer(&buffer[..length], &says) {
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

/// The question comes back as it came, with the records behind it.
fn answer(question: &[u8], says: &Says) -> Option<Vec<u8>> {
    let name_end = 12 + question[12..].iter().position(|byte| *byte == 0)? + 1;
    let kind = u16::from_be_bytes([question[name_end], question[name_end + 1]]);
    let (code, records) = match says {
        Says::Services(services, ttl) if kind == SRV => {
            (0, services.iter().map(|service| srv(service, *ttl)).collect())
        }
        Says::Addresses(addresses, ttl) if kind == A => {
            (0, addresses.iter().map(|address| record(A, *ttl, &address.octets())).collect())
        }
        Says::Services(..) | Says::Addresses(..) => (0, Vec::new()),
        Says::Nobody => (3, Vec::new()),
        Says::Fault => (2, Vec::new()),
        Says::Silence => return None,
    };
    let records: Vec<Vec<u8>> = records;
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1]);
    answer.extend(u16::try_from(records.len()).unwrap().to_be_bytes());
    answer.extend([0, 0, 0, 0]);
    answer.extend(&question[12..name_end + 4]);
    records.iter().for_each(|record| answer.extend(record));
    Some(answer)
}

fn srv((target, port): &(String, u16), ttl: u32) -> Vec<u8> {
    let mut data = vec![0, 1, 0, 1];
    data.extend(port.to_be_bytes());
    for label in target.split('.') {
        data.push(u8::try_from(label.len()).unwrap());
        data.extend(label.as_bytes());
    }
    data.push(0);
    record(SRV, ttl, &data)
}

/// Of the name that was asked for.
fn record(kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut record = vec![0xC0, 12];
    record.extend(kind.to_be_bytes());
    record.extend([0, 1]);
    record.extend(ttl.to_be_bytes());
    record.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    record.extend(data);
    record
}
