//! What a word is, and the words of one file: counted without holding the whole file, or each of them. Both
//! sides of a comparison use exactly this.

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
            let inside = is_in_word(byte);
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

const fn is_in_word(byte: &u8) -> bool {
    !byte.is_ascii_whitespace()
}

/// The words that [`WordCounter`] counts, in their order.
pub fn words_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let runs = bytes.split(|byte| !is_in_word(byte));
    runs.filter(|word| !word.is_empty())
}

/// All of a regular file. Blocks: call it on a thread that may.
///
/// # Errors
/// Those of [`count_file`].
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<File> {
    // Opening a FIFO that took the file's place would wait for a writer.
    if !path.symlink_metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}

/// Reads a regular file once from start to end, in chunks, and counts its words. Blocks: call it on a thread
/// that may.
///
/// # Errors
/// The file is gone, unreadable or no regular file any more (a symbolic link is not followed).
pub fn count_file(path: &Path) -> io::Result<u64> {
    let mut file = open(path)?;
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
    fn as_many_words_are_found_as_are_counted() {
        let text = b" one  two\nthree\x0bfour c\xc2\xa0d \xff\r\n";
        let found: Vec<&[u8]> = words_of(text).collect();
        let expected: [&[u8]; 5] = [b"one", b"two", b"three\x0bfour", b"c\xc2\xa0d", b"\xff"];
        assert_eq!(found, expected);
        assert_eq!(words(&[text]), 5);
        assert_eq!((words_of(b"").count(), words_of(b" \t").count()), (0, 0));
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
