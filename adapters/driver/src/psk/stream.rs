//! A link with a pre-shared key: the Noise handshake, then records, each a length and so many encrypted
//! bytes. Decides nothing about keys. As over TLS the accepting side shakes hands within its first read, and
//! a stream that ends without its good-bye, an empty record, is broken and not at its end. Spec:
//! `docs/WIRE.md` 3.4.

use std::io;
use std::sync::Arc;

use super::Psk;
use super::noise::{self, HANDSHAKE_BYTES, NoiseDialer, NoiseSession, TAG_BYTES};
use crate::opening::{Opening, Pending, linger, opened, opening};
use crate::proved::Proved;
use crate::transport::{LinkReader, LinkWriter, Unproved};
use quorate_links::first_bytes::{NOISE, NOISE_REFUSAL, is_plaintext, is_tls, is_tls_alert, may_be_node};

/// Most plain bytes of a record: bounds what a reader holds until it may believe the first of them.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// Before every record: how long it is.
const LENGTH_BYTES: usize = 2;

/// A record at its longest, on the wire.
const WIRE_BYTES_MAX: usize = LENGTH_BYTES + RECORD_BYTES_MAX + TAG_BYTES;

/// Bytes encrypted before they are written: bounds the writer's second buffer to this and one record.
const OUT_BYTES: usize = 64 * 1024;

/// The receiving half.
pub(crate) struct NoiseReader<R>(Opening<NoiseReceiver<R>>);

/// The sending half.
pub(crate) struct NoiseWriter<W>(Pending<NoiseSender<W>>);

struct NoiseReceiver<R> {
    session: Arc<NoiseSession>,
    reader: R,
    /// Number of the next record.
    number: u64,
    /// Read and not decrypted: from `taken` to `filled`.
    cipher: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Decrypted and not handed out: from `given` to `plain_len`.
    plain: Vec<u8>,
    given: usize,
    plain_len: usize,
    ended: bool,
    /// The peer has shown that it is there now: a dialer's first words may be a recording.
    confirmed: bool,
}

struct NoiseSender<W> {
    session: Arc<NoiseSession>,
    writer: W,
    number: u64,
    out: Vec<u8>,
}

fn halves<R, W>(
    session: NoiseSession,
    reader: R,
    writer: W,
    confirmed: bool,
) -> (NoiseReceiver<R>, NoiseSender<W>) {
    let session = Arc::new(session);
    let receiving = NoiseReceiver {
        session: Arc::clone(&session),
        reader,
        number: 0,
        cipher: vec![0; WIRE_BYTES_MAX],
        taken: 0,
        filled: 0,
        plain: vec![0; RECORD_BYTES_MAX + TAG_BYTES],
        given: 0,
        plain_len: 0,
        ended: false,
        confirmed,
    };
    let sending = NoiseSender {
        session,
        writer,
        number: 0,
        out: Vec::new(),
    };
    (receiving, sending)
}

/// Fills the buffer, and not a byte more.
async fn read_exact(reader: &mut impl LinkReader, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}

/// Shakes hands as the side that dialed.
pub(crate) async fn connect<R: LinkReader, W: LinkWriter>(
    psk: &Psk,
    mut reader: R,
    mut writer: W,
) -> io::Result<(NoiseReader<R>, NoiseWriter<W>)> {
    let (dialer, hello) = NoiseDialer::new(psk)?;
    writer.write_all(&hello).await?;
    let mut begin = [0; NOISE.len()];
    read_exact(&mut reader, &mut begin).await?;
    if begin != NOISE {
        return Err(Unproved::error(match begin {
            NOISE_REFUSAL => "it does not have this node's key",
            _ if is_plaintext(&begin) => "it speaks plaintext, and this node has a pre-shared key",
            _ if is_tls_alert(&begin) => "it asks for TLS, and this node has a pre-shared key",
            _ => "what answers there is no node",
        }));
    }
    let mut answer = [0; HANDSHAKE_BYTES];
    read_exact(&mut reader, &mut answer).await?;
    let (receiving, sending) = halves(dialer.hear(&answer)?, reader, writer, true);
    let (reader, writer) = opened(receiving, sending);
    Ok((NoiseReader(reader), NoiseWriter(writer)))
}

/// Prepares the side that was dialed; the first read shakes hands.
pub(crate) fn accept<R: LinkReader, W: LinkWriter>(
    psk: &Psk,
    mut reader: R,
    mut writer: W,
) -> (NoiseReader<R>, NoiseWriter<W>) {
    let psk = psk.clone();
    let (reader, writer) = opening(|hand_over| async move {
        match greet(&psk, &mut reader).await {
            Ok((session, answer)) => {
                writer.write_all(&answer).await?;
                let (receiving, sending) = halves(session, reader, writer, false);
                hand_over.send(sending);
                Ok(receiving)
            }
            Err(NoiseRefusal::Told(why)) => {
                if writer.write_all(&NOISE_REFUSAL).await.is_ok() && writer.close().await.is_ok() {
                    linger(&mut reader).await;
                }
                Err(why)
            }
            Err(NoiseRefusal::Silently(why)) => Err(why),
        }
    });
    (NoiseReader(reader), NoiseWriter(writer))
}

/// Why a dialer gets no session, and whether it hears so: scanners learn nothing of what listens here.
enum NoiseRefusal {
    Told(io::Error),
    Silently(io::Error),
}

async fn greet(psk: &Psk, reader: &mut impl LinkReader) -> Result<(NoiseSession, Vec<u8>), NoiseRefusal> {
    let mut begin = [0; NOISE.len()];
    let mut filled = 0;
    // Byte by byte as they come: who speaks something else need not say more to be told.
    while let Some(rest) = begin.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += match reader.read(rest).await.map_err(NoiseRefusal::Silently)? {
            0 => return Err(NoiseRefusal::Silently(io::ErrorKind::UnexpectedEof.into())),
            count => count,
        };
        if !may_be_node(begin.get(..filled).unwrap_or_default()) {
            return Err(NoiseRefusal::Silently(Unproved::error(
                "what it says is no greeting of a node",
            )));
        }
    }
    if begin != NOISE {
        let why = match is_tls(&begin) {
            true => "it speaks TLS, and this node asks for a pre-shared key",
            false => "it speaks plaintext, and this node asks for a pre-shared key",
        };
        return Err(NoiseRefusal::Told(Unproved::error(why)));
    }
    let mut said = [0; HANDSHAKE_BYTES];
    let heard = read_exact(reader, &mut said).await;
    heard.map_err(NoiseRefusal::Silently)?;
    noise::accept(psk, &said).map_err(NoiseRefusal::Told)
}

impl<R: LinkReader> NoiseReceiver<R> {
    /// The next whole record's place in the buffer, once it is there; `None` if more has to be read.
    fn record(&self) -> io::Result<Option<(usize, usize)>> {
        let read = self.cipher.get(self.taken..self.filled).unwrap_or_default();
        let Some(length) = read.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        if !(TAG_BYTES..=RECORD_BYTES_MAX + TAG_BYTES).contains(&length) {
            return Err(self.not_of_the_session());
        }
        let start = self.taken + LENGTH_BYTES;
        Ok((start + length <= self.filled).then_some((start, start + length)))
    }

    /// Reads more behind what is there.
    async fn fill(&mut self) -> io::Result<()> {
        self.cipher.copy_within(self.taken..self.filled, 0);
        (self.taken, self.filled) = (0, self.filled - self.taken);
        let room = self.cipher.get_mut(self.filled..).unwrap_or_default();
        match self.reader.read(room).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.filled += count;
                Ok(())
            }
        }
    }

    /// Who has not shown that it is there has proved nothing; later it is not the peer who says such things,
    /// and not its fault.
    fn not_of_the_session(&self) -> io::Error {
        if self.confirmed {
            io::Error::new(io::ErrorKind::InvalidData, "a record was changed on the way")
        } else {
            Unproved::error("what it says is not of this session: a recording, or changed on the way")
        }
    }

    fn decrypt(&mut self, (start, end): (usize, usize)) -> io::Result<()> {
        let record = self.cipher.get(start..end).unwrap_or_default();
        let session = &self.session.noise;
        let opened = session.read_message(self.number, record, &mut self.plain);
        (self.given, self.plain_len) = (0, opened.map_err(|_| self.not_of_the_session())?);
        self.confirmed = true;
        (self.number, self.taken) = (self.number + 1, end);
        self.ended = self.plain_len == 0;
        Ok(())
    }

    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.plain_len && !self.ended {
            match self.record()? {
                Some(place) => self.decrypt(place)?,
                None => self.fill().await?,
            }
        }
        let plain = self.plain.get(self.given..self.plain_len).unwrap_or_default();
        let count = plain.len().min(buffer.len());
        if let (Some(into), Some(from)) = (buffer.get_mut(..count), plain.get(..count)) {
            into.copy_from_slice(from);
        }
        self.given += count;
        Ok(count)
    }
}

impl<R: LinkReader> LinkReader for NoiseReader<R> {
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
        match self.0.get() {
            Some(receiving) => Proved::Key(receiving.session.key.clone()),
            None => Proved::Nothing,
        }
    }
}

impl<W: LinkWriter> NoiseSender<W> {
    /// One record behind what is to be written.
    fn encrypt(&mut self, plain: &[u8]) -> io::Result<()> {
        let length = plain.len() + TAG_BYTES;
        let prefix = u16::try_from(length).map_err(io::Error::other)?;
        self.out.extend_from_slice(&prefix.to_be_bytes());
        let start = self.out.len();
        self.out.resize(start + length, 0);
        let room = self.out.get_mut(start..).unwrap_or_default();
        let session = &self.session.noise;
        let encrypted = session.write_message(self.number, plain, room);
        encrypted.map_err(io::Error::other)?;
        self.number += 1;
        Ok(())
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut records = bytes.chunks(RECORD_BYTES_MAX).peekable();
        while records.peek().is_some() {
            self.out.clear();
            while self.out.len() < OUT_BYTES
                && let Some(record) = records.next()
            {
                self.encrypt(record)?;
            }
            self.writer.write_all(&self.out).await?;
        }
        Ok(())
    }

    async fn close(&mut self) -> io::Result<()> {
        self.out.clear();
        self.encrypt(&[])?;
        self.writer.write_all(&self.out).await?;
        self.writer.close().await
    }
}

impl<W: LinkWriter> LinkWriter for NoiseWriter<W> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.open().await?.write_all(bytes).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.open().await?.close().await
    }
}
