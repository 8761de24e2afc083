//! One TCP connection past its handshake: whole messages in, whole messages out.
//!
//! Both directions live in one place so that a PING is answered while its owner only receives. `receive` is
//! cancel-safe: what was read or half-written stays in the buffers of the connection.

use std::time::Duration;

use bytes::BytesMut;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::command::{self, Command};
use crate::frame::{self, Frame, MAX_FRAME_BYTES};
use crate::greeting::{GREETING_BYTES, check_greeting, greeting};
use crate::socket_type::SocketType;
use crate::{Endpoint, Message, ZmtpError};

/// Time for a TCP connection, and again for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// A host that vanished is noticed after `KEEPALIVE_IDLE + KEEPALIVE_RETRIES × KEEPALIVE_INTERVAL` = 11 s.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;
/// Room made for each read; also how much is written before it is sent.
const CHUNK_BYTES: usize = 64 << 10;
/// Engines send three frames, a router's answer has five.
const MAX_PARTS: usize = 64;

/// A peer that has greeted and said a fitting socket type. The protocol itself is at home on any stream.
#[derive(Debug)]
pub(crate) struct Connection<S = TcpStream> {
    stream: S,
    input: BytesMut,
    output: BytesMut,
    parts: Message,
    part_bytes: usize,
}

/// What a peer sent.
#[derive(Debug)]
pub(crate) enum Received {
    Message(Message),
    /// SUBSCRIBE, CANCEL, or a command without a meaning here.
    Command(Command),
}

// === impl Connection ===

impl Connection {
    /// Connects and greets.
    pub(crate) async fn connect(endpoint: &Endpoint, own: SocketType) -> Result<Self, ZmtpError> {
        if endpoint.is_wildcard() {
            return Err(ZmtpError::ConnectToWildcard(endpoint.clone()));
        }
        let failed = |source| ZmtpError::Connect { endpoint: endpoint.clone(), source };
        let stream = match timeout(HANDSHAKE_TIMEOUT, TcpStream::connect(endpoint.lookup())).await {
            Ok(connected) => connected.map_err(failed)?,
            Err(_) => return Err(failed(std::io::ErrorKind::TimedOut.into())),
        };
        Self::greet(stream, own).await
    }

    /// Greets on a stream that was connected or accepted.
    pub(crate) async fn greet(stream: TcpStream, own: SocketType) -> Result<Self, ZmtpError> {
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_RETRIES);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        Self::greet_over(stream, own).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Greets on a stream that needs no settings.
    pub(crate) async fn greet_over(stream: S, own: SocketType) -> Result<Self, ZmtpError> {
        let mut connection = Self {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            parts: Message::new(),
            part_bytes: 0,
        };
        match timeout(HANDSHAKE_TIMEOUT, connection.handshake(own)).await {
            Ok(Ok(())) => Ok(connection),
            // libzmq closes without a word when it asks for another mechanism.
            Ok(Err(ZmtpError::Closed)) => {
                Err(ZmtpError::Handshake("it closed the connection at once; does it ask for encryption?"))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ZmtpError::HandshakeTimeout),
        }
    }

    /// The next message or command; cancel-safe.
    pub(crate) async fn receive(&mut self) -> Result<Received, ZmtpError> {
        loop {
            while let Some(frame) = Frame::decode(&mut self.input)? {
                if let Some(received) = self.accept(frame)? {
                    return Ok(received);
                }
            }
            self.flush().await?;
            self.fill().await?;
        }
    }

    /// Appends a message to what [`Connection::flush`] sends; true when enough is waiting to be flushed.
    pub(crate) fn enqueue(&mut self, message: &Message) -> bool {
        let last = message.len().saturating_sub(1);
        for (position, part) in message.iter().enumerate() {
            frame::encode_part(&mut self.output, part, position != last);
        }
        self.output.len() >= CHUNK_BYTES
    }

    /// Sends what is waiting; cancel-safe.
    pub(crate) async fn flush(&mut self) -> Result<(), ZmtpError> {
        while !self.output.is_empty() {
            self.stream.write_buf(&mut self.output).await?;
        }
        Ok(())
    }

    async fn handshake(&mut self, own: SocketType) -> Result<(), ZmtpError> {
        self.output.extend_from_slice(&greeting());
        self.flush().await?;
        while self.input.len() < GREETING_BYTES {
            self.fill().await?;
        }
        let mut peer_greeting = [0; GREETING_BYTES];
        peer_greeting.copy_from_slice(&self.input.split_to(GREETING_BYTES));
        check_greeting(&peer_greeting)?;
        frame::encode_command(&mut self.output, &command::ready(own));
        match self.receive().await? {
            Received::Command(Command::Ready { socket_type }) if own.accepts_peer(&socket_type) => Ok(()),
            Received::Command(Command::Ready { .. }) => {
                Err(ZmtpError::Handshake("its socket type does not fit; are the two ports swapped?"))
            }
            _ => Err(ZmtpError::Handshake("it did not get ready")),
        }
    }

    fn accept(&mut self, frame: Frame) -> Result<Option<Received>, ZmtpError> {
        if frame.is_command {
            return self.accept_command(Command::parse(frame.body)?);
        }
        self.part_bytes += frame.body.len();
        if self.parts.len() == MAX_PARTS || self.part_bytes > MAX_FRAME_BYTES {
            return Err(ZmtpError::Protocol("a message that is too long"));
        }
        self.parts.push(frame.body);
        if frame.more {
            return Ok(None);
        }
        self.part_bytes = 0;
        Ok(Some(Received::Message(std::mem::take(&mut self.parts))))
    }

    fn accept_command(&mut self, command: Command) -> Result<Option<Received>, ZmtpError> {
        match command {
            Command::Ping { context } => {
                frame::encode_command(&mut self.output, &command::pong(&context));
                Ok(None)
            }
            Command::Error { reason } => Err(ZmtpError::Refused(reason)),
            command => Ok(Some(Received::Command(command))),
        }
    }

    async fn fill(&mut self) -> Result<(), ZmtpError> {
        self.input.reserve(CHUNK_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(ZmtpError::Closed),
            _ => Ok(()),
        }
    }
}
