//! Child processes that never outlive their parent: a child holds the read end of a pipe whose only write end
//! the parent has, and ends when it closes, however the parent ended. A parent that ends in good order, or by
//! a panic, kills and collects its children before.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Longest introduction of a child: below what every pipe holds, so that a child that does not listen holds
/// nobody up.
const INTRODUCTION_BYTES_MAX: usize = 16 << 10;

/// A copy of this program in a process of its own. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    // The child ends when this closes.
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    gone: bool,
}

impl ChildProcess {
    /// Starts this program again with other arguments. Its standard error is this process's.
    ///
    /// # Errors
    /// The system cannot start another process.
    pub fn start(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
        Self::start_introduced(arguments, &[])
    }

    /// Like [`Self::start`], and tells the child something that nobody else may see: its [`introduction`].
    ///
    /// # Errors
    /// The system cannot start another process, or the introduction is longer than 16 KiB.
    pub fn start_introduced(
        arguments: impl IntoIterator<Item = OsString>,
        introduction: &[u8],
    ) -> io::Result<Self> {
        if introduction.len() > INTRODUCTION_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Ctrl-C in the terminal is the parent's to handle; it ends its children in order.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().map(BufReader::new);
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            let length = (introduction.len() as u64).to_le_bytes();
            // Fails only if the child has ended already: whoever waits for its output finds out.
            let _ = stdin.write_all(&[&length, introduction].concat());
        }
        Ok(Self {
            stdin,
            stdout,
            child,
            gone: false,
        })
    }

    /// The system's number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes the child's standard output; `None` the second time. A child that nobody listens to must not
    /// write.
    pub const fn output(&mut self) -> Option<BufReader<ChildStdout>> {
        self.stdout.take()
    }

    /// Says a line to a child that reads its standard input behind the introduction. Nothing happens if it
    /// has ended.
    pub fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            // Fails only if the child has ended: whoever waits for its output finds out.
            let _ = writeln!(stdin, "{line}");
        }
    }

    /// Has the child stand still, or go on, at once (SIGSTOP, SIGCONT).
    ///
    /// # Errors
    /// The system has no program `kill`.
    pub fn stand_still(&self, still: bool) -> io::Result<()> {
        let signal = if still { "-STOP" } else { "-CONT" };
        Command::new("kill")
            .arg(signal)
            .arg(self.id().to_string())
            .status()
            .map(drop)
    }

    /// Ends the child at once (SIGKILL) and collects it.
    pub fn kill(&mut self) {
        if !self.gone {
            // Fails only if it has already ended; waiting collects it either way.
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.gone = true;
        }
    }

    /// Whether the child has ended, by itself or otherwise. Does not wait.
    pub fn has_ended(&mut self) -> bool {
        self.gone = self.gone || matches!(self.child.try_wait(), Ok(Some(_)) | Err(_));
        self.gone
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The first line a child writes, without its end; empty if it ended before.
///
/// # Errors
/// The pipe is broken.
pub fn first_line(output: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    // A line of a child of ours is short.
    output.take(4096).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// In a child: what the parent said when it started it. To be read before [`end_with_parent`], and once.
///
/// # Errors
/// The standard input is no parent's, or it has ended.
pub fn introduction() -> io::Result<Vec<u8>> {
    let mut stdin = io::stdin().lock();
    let mut length = [0; 8];
    stdin.read_exact(&mut length)?;
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > INTRODUCTION_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut introduction = vec![0; length];
    stdin.read_exact(&mut introduction)?;
    Ok(introduction)
}

/// In a child: ends this process when the parent's end of the standard input closes.
///
/// # Errors
/// No thread can be started.
pub fn end_with_parent() -> io::Result<()> {
    let watch = || {
        let mut nothing = [0; 64];
        let mut stdin = io::stdin().lock();
        loop {
            match stdin.read(&mut nothing) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => std::process::exit(0),
                Ok(_) => {}
            }
        }
    };
    std::thread::Builder::new()
        .name("parent-watch".into())
        .spawn(watch)?;
    Ok(())
}
