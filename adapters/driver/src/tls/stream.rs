//! TLS over the two halves of a link, with rustls as a machine of bytes: one implementation for every
//! runtime. Decides nothing about certificates. The accepting side shakes hands within its first read.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use rustls::{ClientConnection, Connection, ServerConnection};

use super::mtls::Mtls;
use crate::opening::{Opening, Pending, linger, opened, opening};
use crate::proved::{PeerCertificate, Proved};
use crate::sync::lock;
use crate::transport::{LinkReader, LinkWriter, Unproved};
use quorate_links::first_bytes::{PLAINTEXT_TO_TLS, is_noise, is_plaintext};

/// Encrypted bytes read at once: a TLS record at its longest is 16 KiB and a little.
const CIPHER_BYTES: usize = 20 * 1024;

/// The same during the handshake, whose messages are shorter: a stranger who never finishes it holds no more.
const HANDSHAKE_CIPHER_BYTES: usize = 4 * 1024;

/// Plain bytes encrypted before they are written: bounds the writer's second buffer to this and one record.
const PLAIN_BYTES: usize = 64 * 1024;

/// What both halves share. Never locked while bytes travel.
type Session = Arc<Mutex<Connection>>;

/// The receiving half.
pub(crate) struct TlsReader<R>(Opening<OpenTls<R>>);

struct OpenTls<R> {
    session: Session,
    cipher: CipherStream<R>,
}

/// The encrypted stream: the link and what was read from it but not yet taken by the session.
struct CipherStream<R> {
    reader: R,
    /// As long as what is read at once.
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
}

/// The sending half.
pub(crate) struct TlsWriter<W>(Pending<TlsSender<W>>);

struct TlsSender<W> {
    session: Session,
    writer: W,
    out: Vec<u8>,
}

/// Shakes hands as the side that dialed.
pub(crate) async fn connect<R: LinkReader, W: LinkWriter>(
    mtls: &Mtls,
    reader: R,
    mut writer: W,
) -> io::Result<(TlsReader<R>, TlsWriter<W>)> {
    let session = ClientConnection::new(mtls.client_config(), mtls.peer_name().clone()).map_err(invalid)?;
    let mut session = Connection::from(session);
    let mut cipher = CipherStream::new(reader);
    shake_hands(&mut session, &mut cipher, &mut writer).await?;
    let session = Arc::new(Mutex::new(session));
    let open = OpenTls {
        session: Arc::clone(&session),
        cipher: cipher.reads_records(),
    };
    let (reader, writer) = opened(open, TlsSender::new(session, writer));
    Ok((TlsReader(reader), TlsWriter(writer)))
}

/// Prepares the side that was dialed; the first read shakes hands.
pub(crate) fn accept<R: LinkReader, W: LinkWriter>(
    mtls: &Mtls,
    reader: R,
    mut writer: W,
) -> io::Result<(TlsReader<R>, TlsWriter<W>)> {
    let mut session = Connection::from(ServerConnection::new(mtls.server_config()).map_err(invalid)?);
    let (reader, writer) = opening(|hand_over| async move {
        let mut cipher = CipherStream::new(reader);
        shake_hands(&mut session, &mut cipher, &mut writer).await?;
        let session = Arc::new(Mutex::new(session));
        hand_over.send(TlsSender::new(Arc::clone(&session), writer));
        let cipher = cipher.reads_records();
        Ok(OpenTls { session, cipher })
    });
    Ok((TlsReader(reader), TlsWriter(writer)))
}

async fn shake_hands<R: LinkReader, W: LinkWriter>(
    session: &mut Connection,
    cipher: &mut CipherStream<R>,
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
        let other = other_method(cipher.read_last());
        if let Err(refusal) = cipher.feed(session) {
            refuse(session, cipher, writer).await;
            return Err(other.map_or(refusal, Unproved::error));
        }
    }
}

/// What a peer speaks that begins so, if that is not TLS.
fn other_method(bytes: &[u8]) -> Option<&'static str> {
    if is_plaintext(bytes) || bytes.starts_with(&PLAINTEXT_TO_TLS) {
        Some("it speaks plaintext, and this node asks for TLS")
    } else if is_noise(bytes) {
        Some("it has a pre-shared key, and this node asks for TLS")
    } else {
        None
    }
}

/// Tells the peer why, as well as that can be done.
async fn refuse<R: LinkReader, W: LinkWriter>(
    session: &mut Connection,
    cipher: &mut CipherStream<R>,
    writer: &mut W,
) {
    if flush(session, writer).await.is_err() || writer.close().await.is_err() {
        return;
    }
    linger(&mut cipher.reader).await;
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

impl<R: LinkReader> CipherStream<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; HANDSHAKE_CIPHER_BYTES],
            taken: 0,
            filled: 0,
        }
    }

    const fn is_empty(&self) -> bool {
        self.taken == self.filled
    }

    /// The handshake is done: whole records are read from the next time on.
    fn reads_records(mut self) -> Self {
        if self.is_empty() {
            self.buffer = vec![0; CIPHER_BYTES];
            (self.taken, self.filled) = (0, 0);
        } else {
            self.buffer.resize(CIPHER_BYTES, 0);
        }
        self
    }

    /// Reads more in place of what was taken. Only when everything was.
    async fn fill(&mut self) -> io::Result<usize> {
        (self.taken, self.filled) = (0, 0);
        self.filled = self.reader.read(&mut self.buffer).await?;
        Ok(self.filled)
    }

    /// What was read last and not taken.
    fn read_last(&self) -> &[u8] {
        self.buffer.get(self.taken..self.filled).unwrap_or_default()
    }

    /// Hands what was read to the session, as far as that takes it at once. Nothing left to hand over says
    /// that the stream has ended.
    fn feed(&mut self, session: &mut Connection) -> io::Result<()> {
        let mut rest = self.buffer.get(self.taken..self.filled).unwrap_or_default();
        self.taken += session.read_tls(&mut rest)?;
        let shaking = session.is_handshaking();
        session.process_new_packets().map(drop).map_err(|error| {
            // An alert is encrypted by now: the peer says so itself.
            if shaking || matches!(error, rustls::Error::AlertReceived(_)) {
                return invalid(error);
            }
            // Whoever is on the way can change a record, and that is no word of the peer.
            io::Error::new(io::ErrorKind::InvalidData, error)
        })
    }
}

impl<R: LinkReader> OpenTls<R> {
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
        self.0.open().await?.read(buffer).await
    }

    fn is_established(&self) -> bool {
        self.0.get().is_some()
    }

    async fn establish(&mut self) -> io::Result<()> {
        self.0.open().await.map(drop)
    }

    fn proved(&self) -> Proved {
        let open = self.0.get();
        let certificate = open.and_then(|open| certificate_of(&lock(&open.session)));
        certificate.map_or(Proved::Nothing, Proved::Certificate)
    }
}

impl<W> TlsSender<W> {
    const fn new(session: Session, writer: W) -> Self {
        let out = Vec::new();
        Self { session, writer, out }
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
        let TlsSender { session, writer, out } = self.0.open().await?;
        let mut rest = bytes;
        while !rest.is_empty() {
            encrypt(&mut lock(session), &mut rest, out)?;
            writer.write_all(out).await?;
        }
        Ok(())
    }

    async fn close(&mut self) -> io::Result<()> {
        let TlsSender { session, writer, out } = self.0.open().await?;
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
