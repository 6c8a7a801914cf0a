//! TLS over the two halves of a link, with rustls as a machine of bytes: one implementation for every runtime. Decides
//! nothing about certificates. The accepting side shakes hands within its first read, so that a slow or hostile dialer holds
//! up neither the port nor other links, and the driver's limit on the time for a link's first message covers both.

use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use quorate_core::wire::handshake::HANDSHAKE_MAGIC;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::mtls::Mtls;
use crate::sync::{self, lock};
use crate::transport::{LinkReader, LinkWriter, PeerCertificate, Unproved};
use crate::wrong_port::{PLAINTEXT_HERE, TLS_TO_PLAINTEXT};

/// Encrypted bytes read at once: a TLS record at its longest is 16 KiB and a little.
const CIPHER_BYTES: usize = 20 * 1024;

/// Plain bytes encrypted before they are written: bounds the writer's second buffer to this and one record.
const PLAIN_BYTES: usize = 64 * 1024;

/// Bytes of a refused dialer that are read and thrown away, so that it receives the alert that says why: data left unread
/// would make the system answer with a reset. More than a dialer can say before it has heard of the refusal.
const LINGER_BYTES: usize = 64 * 1024;

/// What both halves share. Never locked while bytes travel.
type Session = Arc<Mutex<Connection>>;

type Handshake<R> = Pin<Box<dyn Future<Output = io::Result<Open<R>>> + Send>>;

/// The receiving half.
pub(crate) struct TlsReader<R>(ReaderState<R>);

enum ReaderState<R> {
    Handshake(Handshake<R>),
    Open(Open<R>),
    Failed,
}

struct Open<R> {
    session: Session,
    cipher: Cipher<R>,
}

/// The encrypted stream: the link and what was read from it but not yet taken by the session.
struct Cipher<R> {
    reader: R,
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
}

/// The sending half.
pub(crate) struct TlsWriter<W>(WriterState<W>);

enum WriterState<W> {
    /// The reader has the link until the handshake is done.
    Waiting(sync::Receiver<(Session, W)>),
    Open {
        session: Session,
        writer: W,
        out: Vec<u8>,
    },
    Failed,
}

/// Shakes hands as the side that dialed.
pub(crate) async fn connect<R: LinkReader, W: LinkWriter>(
    mtls: &Mtls,
    reader: R,
    mut writer: W,
) -> io::Result<(TlsReader<R>, TlsWriter<W>)> {
    let session = ClientConnection::new(mtls.client_config(), mtls.peer_name().clone()).map_err(invalid)?;
    let mut session = Connection::from(session);
    let mut cipher = Cipher::new(reader);
    shake_hands(&mut session, &mut cipher, &mut writer).await?;
    let session = Arc::new(Mutex::new(session));
    let open = Open {
        session: Arc::clone(&session),
        cipher,
    };
    let writer = WriterState::Open {
        session,
        writer,
        out: Vec::new(),
    };
    Ok((TlsReader(ReaderState::Open(open)), TlsWriter(writer)))
}

/// Prepares the side that was dialed; the first read shakes hands.
pub(crate) fn accept<R: LinkReader, W: LinkWriter>(
    mtls: &Mtls,
    reader: R,
    mut writer: W,
) -> io::Result<(TlsReader<R>, TlsWriter<W>)> {
    let mut session = Connection::from(ServerConnection::new(mtls.server_config()).map_err(invalid)?);
    let (hand_over, handed_over) = sync::oneshot();
    let handshake = async move {
        let mut cipher = Cipher::new(reader);
        shake_hands(&mut session, &mut cipher, &mut writer).await?;
        let session = Arc::new(Mutex::new(session));
        hand_over.send((Arc::clone(&session), writer));
        Ok(Open { session, cipher })
    };
    let reader = TlsReader(ReaderState::Handshake(Box::pin(handshake)));
    Ok((reader, TlsWriter(WriterState::Waiting(handed_over))))
}

async fn shake_hands<R: LinkReader, W: LinkWriter>(
    session: &mut Connection,
    cipher: &mut Cipher<R>,
    writer: &mut W,
) -> io::Result<()> {
    loop {
        flush(session, writer).await?;
        if !session.is_handshaking() {
            return Ok(());
        }
        if cipher.is_empty() && cipher.fill().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let is_plain = cipher.begins_with(&HANDSHAKE_MAGIC) || cipher.begins_with(&PLAINTEXT_HERE);
        if let Err(refusal) = cipher.feed(session) {
            refuse(session, cipher, writer).await;
            return Err(if is_plain {
                Unproved::error(TLS_TO_PLAINTEXT)
            } else {
                refusal
            });
        }
    }
}

/// Tells the peer why, as well as that can be done.
async fn refuse<R: LinkReader, W: LinkWriter>(
    session: &mut Connection,
    cipher: &mut Cipher<R>,
    writer: &mut W,
) {
    if flush(session, writer).await.is_err() || writer.close().await.is_err() {
        return;
    }
    let mut thrown_away = 0;
    while thrown_away < LINGER_BYTES {
        match cipher.fill().await {
            Ok(0) | Err(_) => return,
            Ok(count) => thrown_away += count,
        }
    }
}

/// Writes what the session has to say of itself.
async fn flush<W: LinkWriter>(session: &mut Connection, writer: &mut W) -> io::Result<()> {
    let mut out = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut out)?;
    }
    if out.is_empty() {
        return Ok(());
    }
    writer.write_all(&out).await
}

fn invalid(error: rustls::Error) -> io::Error {
    Unproved::error(error)
}

/// What the peer has proved with.
fn certificate_of(session: &Connection) -> Option<PeerCertificate> {
    let (first, others) = session.peer_certificates()?.split_first()?;
    let others = others.iter().map(AsRef::as_ref);
    Some(PeerCertificate::with_intermediates(first, others))
}

impl<R: LinkReader> Cipher<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; CIPHER_BYTES],
            taken: 0,
            filled: 0,
        }
    }

    const fn is_empty(&self) -> bool {
        self.taken == self.filled
    }

    /// Reads more in place of what was taken. Only when everything was.
    async fn fill(&mut self) -> io::Result<usize> {
        (self.taken, self.filled) = (0, 0);
        self.filled = self.reader.read(&mut self.buffer).await?;
        Ok(self.filled)
    }

    /// Whether what was read last begins so.
    fn begins_with(&self, bytes: &[u8]) -> bool {
        self.buffer
            .get(self.taken..self.filled)
            .is_some_and(|read| read.starts_with(bytes))
    }

    /// Hands what was read to the session, as far as that takes it at once. Nothing left to hand over says that the stream
    /// has ended.
    fn feed(&mut self, session: &mut Connection) -> io::Result<()> {
        let mut rest = self.buffer.get(self.taken..self.filled).unwrap_or_default();
        self.taken += session.read_tls(&mut rest)?;
        session.process_new_packets().map(drop).map_err(invalid)
    }
}

impl<R: LinkReader> Open<R> {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            {
                let mut session = lock(&self.session);
                match session.reader().read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    done => return done,
                }
                if !self.cipher.is_empty() {
                    self.cipher.feed(&mut session)?;
                    continue;
                }
            }
            if self.cipher.fill().await? == 0 {
                self.cipher.feed(&mut lock(&self.session))?;
            }
        }
    }
}

impl<R: LinkReader> LinkReader for TlsReader<R> {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.establish().await?;
        match &mut self.0 {
            ReaderState::Open(open) => open.read(buffer).await,
            ReaderState::Handshake(_) | ReaderState::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn is_established(&self) -> bool {
        matches!(self.0, ReaderState::Open(_))
    }

    async fn establish(&mut self) -> io::Result<()> {
        if let ReaderState::Handshake(handshake) = &mut self.0 {
            let outcome = handshake.as_mut().await;
            self.0 = ReaderState::Failed;
            self.0 = ReaderState::Open(outcome?);
        }
        Ok(())
    }

    fn peer_certificate(&self) -> Option<PeerCertificate> {
        match &self.0 {
            ReaderState::Open(open) => certificate_of(&lock(&open.session)),
            ReaderState::Handshake(_) | ReaderState::Failed => None,
        }
    }
}

impl<W: LinkWriter> TlsWriter<W> {
    async fn open(&mut self) -> io::Result<(&Session, &mut W, &mut Vec<u8>)> {
        if let WriterState::Waiting(handed_over) = &mut self.0 {
            let received = Pin::new(handed_over).await;
            self.0 = received.map_or(WriterState::Failed, |(session, writer)| WriterState::Open {
                session,
                writer,
                out: Vec::new(),
            });
        }
        match &mut self.0 {
            WriterState::Open { session, writer, out } => Ok((session, writer, out)),
            WriterState::Waiting(_) | WriterState::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// Encrypts from the front of `plain` until `out` is long enough to be written.
fn encrypt(session: &mut Connection, plain: &mut &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    out.clear();
    while !plain.is_empty() && out.len() < PLAIN_BYTES {
        let taken = session.writer().write(plain)?;
        *plain = plain.get(taken..).unwrap_or_default();
        while session.wants_write() {
            session.write_tls(out)?;
        }
    }
    Ok(())
}

impl<W: LinkWriter> LinkWriter for TlsWriter<W> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (session, writer, out) = self.open().await?;
        let mut rest = bytes;
        while !rest.is_empty() {
            encrypt(&mut lock(session), &mut rest, out)?;
            writer.write_all(out).await?;
        }
        Ok(())
    }

    async fn close(&mut self) -> io::Result<()> {
        let (session, writer, out) = self.open().await?;
        out.clear();
        {
            let mut session = lock(session);
            session.send_close_notify();
            while session.wants_write() {
                session.write_tls(out)?;
            }
        }
        writer.write_all(out).await?;
        writer.close().await
    }
}
