//! Counts the words of one file. Both sides of the demo's comparison use exactly this; it never holds a whole
//! file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes read at once: large enough that the system call does not count, small enough for many readers at a
/// time.
const CHUNK_BYTES: usize = 64 << 10;

/// Words in a stream of chunks: runs of bytes that are not `u8::is_ascii_whitespace`, across chunk borders.
#[derive(Clone, Copy, Debug, Default)]
pub struct WordCounter {
    words: u64,
    inside: bool,
}

impl WordCounter {
    /// The next bytes.
    pub fn feed(&mut self, chunk: &[u8]) {
        for byte in chunk {
            let inside = !byte.is_ascii_whitespace();
            self.words += u64::from(inside && !self.inside);
            self.inside = inside;
        }
    }

    /// Words so far; the last one counts even if it may go on.
    #[must_use]
    pub const fn words(self) -> u64 {
        self.words
    }
}

/// Reads a regular file once from start to end, in chunks, and counts its words. Blocks: call it on a thread
/// that may.
///
/// # Errors
/// The file is gone, unreadable or no regular file any more (a symbolic link is not followed).
pub fn count_file(path: &Path) -> io::Result<u64> {
    // Opening a FIFO that took the file's place would wait for a writer.
    if !path.symlink_metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut file = File::open(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut counter = WordCounter::default();
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(counter.words()),
            Ok(len) => counter.feed(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(chunks: &[&[u8]]) -> u64 {
        let mut counter = WordCounter::default();
        chunks.iter().for_each(|chunk| counter.feed(chunk));
        counter.words()
    }

    #[test]
    fn words_are_runs_between_ascii_whitespace() {
        assert_eq!(words(&[b""]), 0);
        assert_eq!(words(&[b" \t\r\n\x0c"]), 0);
        assert_eq!(words(&[b"one"]), 1);
        assert_eq!(words(&[b" one  two\nthree "]), 3);
        // A vertical tab, a no-break space and a zero byte are no ASCII whitespace.
        assert_eq!(words(&[b"a\x0bb c\xc2\xa0d e\x00f"]), 3);
    }

    #[test]
    fn a_word_across_chunks_counts_once() {
        assert_eq!(words(&[b"on", b"e tw", b"", b"o", b" ", b"three"]), 3);
    }
}
