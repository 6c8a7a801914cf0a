//! Child processes that never outlive their parent: a child holds the read end of a pipe whose only write end the parent
//! has, and ends when it closes, however the parent ended. A parent that ends in good order, or by a panic, kills and
//! collects its children before.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A copy of this program in a process of its own. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    // Never written to: the child ends when this closes.
    _stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    gone: bool,
}

impl ChildProcess {
    /// Starts this program again with other arguments. Its standard error is this process's.
    ///
    /// # Errors
    /// The system cannot start another process.
    pub fn start(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
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
        Ok(Self {
            _stdin: child.stdin.take(),
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

    /// Takes the child's standard output; `None` the second time. A child that nobody listens to must not write.
    pub const fn output(&mut self) -> Option<BufReader<ChildStdout>> {
        self.stdout.take()
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
