//! The port where other engines fetch KV.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::desk::{Taken, TransferDesk};

/// The longest name that is read, in bytes.
const LONGEST_KEY: u64 = 1024;
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The socket and what is handed out there.
#[derive(Debug)]
pub(crate) struct TransferServer {
    listener: TcpListener,
    address: SocketAddr,
    desk: Arc<TransferDesk>,
    /// Whether who asks for what nobody has heard of waits for it.
    waits_for_unknown: bool,
}

// === impl TransferServer ===

impl TransferServer {
    /// Binds a port; 0 is a free one.
    pub(crate) async fn bind(host: IpAddr, port: u16, waits_for_unknown: bool) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::new(host, port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, desk: Arc::default(), waits_for_unknown })
    }

    /// The real port.
    pub(crate) const fn port(&self) -> u16 {
        self.address.port()
    }

    /// What is handed out.
    pub(crate) fn desk(&self) -> Arc<TransferDesk> {
        Arc::clone(&self.desk)
    }

    /// Serves until it is told to stop.
    pub(crate) async fn run(self, tasks: TaskTracker, stop: CancellationToken) {
        while let Some(accepted) = stop.run_until_cancelled(self.listener.accept()).await {
            let Ok((stream, _)) = accepted else {
                stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await;
                continue;
            };
            let (desk, stop, waits) = (Arc::clone(&self.desk), stop.clone(), self.waits_for_unknown);
            // Whoever asked may have gone; then there is nobody to tell.
            tasks.spawn(async move { stop.run_until_cancelled(serve(stream, &desk, waits)).await });
        }
    }
}

async fn serve(stream: TcpStream, desk: &TransferDesk, waits_for_unknown: bool) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader).take(LONGEST_KEY);
    let mut key = String::new();
    reader.read_line(&mut key).await?;
    let mut rest = [0; 1];
    let taken = tokio::select! {
        taken = await_parcel(desk, key.trim_end(), waits_for_unknown) => taken,
        // The other side has gone, or says more than it should.
        _ = reader.read(&mut rest) => return Ok(()),
    };
    let Taken::Ready { kv, room } = taken else { return writer.write_all(b"gone\n").await };
    let told = format!("ok {} {} {}\n", kv.tokens, kv.digest, kv.reused);
    writer.write_all(told.as_bytes()).await?;
    room.give_back();
    Ok(())
}

async fn await_parcel(desk: &TransferDesk, key: &str, waits_for_unknown: bool) -> Taken {
    loop {
        let changed = desk.changed();
        tokio::pin!(changed);
        // From here on no change is missed.
        changed.as_mut().enable();
        match desk.take(key) {
            Taken::Pending => changed.await,
            Taken::Unknown if waits_for_unknown => changed.await,
            taken => return taken,
        }
    }
}
