//! The log of a test program, kept in memory to be searched.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Everything that the process says, from the first call on.
    pub(crate) fn of_the_process() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        let take_over = || {
            let log = Self::default();
            tracing_subscriber::fmt()
                .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
                .with_ansi(false)
                .with_writer(log.clone())
                .init();
            log
        };
        LOG.get_or_init(take_over).clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The first line with all these parts; without one the test fails.
    pub(crate) fn line(&self, parts: &[&str]) -> String {
        let found = self.find(parts);
        found.unwrap_or_else(|| panic!("no line with {parts:?} in\n{}", self.text()))
    }

    /// Waits for such a line.
    pub(crate) async fn said(&self, parts: &[&str]) -> String {
        let line = async {
            loop {
                if let Some(line) = self.find(parts) {
                    return line;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let line = tokio::time::timeout(super::LIMIT, line).await;
        line.unwrap_or_else(|_| panic!("nothing was said with {parts:?} in\n{}", self.text()))
    }

    /// How many lines have all these parts.
    pub(crate) fn count(&self, parts: &[&str]) -> usize {
        let text = self.text();
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        text.lines().filter(has_all).count()
    }

    pub(crate) fn find(&self, parts: &[&str]) -> Option<String> {
        let text = self.text();
        let mut lines = text.lines();
        let line = lines.find(|line| parts.iter().all(|part| line.contains(part)))?;
        Some(line.to_owned())
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
