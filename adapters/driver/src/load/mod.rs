//! The thread that reads how loaded the process and its machine are, so that the loop never waits for a file.
//! Reads once for each question, and decides nothing. Spec: sharding 5.5.

mod system;

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

pub(crate) use system::SystemLoad;
use system::SystemReader;

use crate::sync::{Notify, lock};

/// The loop's end: questions go in, answers come out, nothing waits.
#[derive(Debug, Default)]
pub(crate) struct LoadSampler {
    thread: Option<RunningLoadSampler>,
    /// A thread that was told to end.
    ending: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct RunningLoadSampler {
    questions: SyncSender<()>,
    /// The newest answer that was not taken yet.
    answer: Arc<Mutex<Option<SystemLoad>>>,
    handle: JoinHandle<()>,
}

impl LoadSampler {
    /// Starts the thread; `wake` is called for each answer. It ends when this is stopped or dropped.
    pub(crate) fn start(wake: Arc<Notify>) -> io::Result<Self> {
        // One waits while one is answered: more would be the same question.
        let (questions, asked) = sync_channel(1);
        let answer = Arc::<Mutex<Option<SystemLoad>>>::default();
        let answers = Arc::clone(&answer);
        let handle = thread::Builder::new()
            .name("quorate-load".to_owned())
            .spawn(move || {
                answer_all(&asked, &answers, &wake);
                wake.notify();
            })?;
        Ok(Self {
            thread: Some(RunningLoadSampler {
                questions,
                answer,
                handle,
            }),
            ending: None,
        })
    }

    /// Asks; a question that is not answered yet is enough. Never waits.
    pub(crate) fn ask(&self) {
        if let Some(running) = &self.thread {
            let _is_asked_already = running.questions.try_send(());
        }
    }

    /// The answer, if there is one.
    pub(crate) fn next_answer(&self) -> Option<SystemLoad> {
        lock(&self.thread.as_ref()?.answer).take()
    }

    /// Asks no more.
    pub(crate) fn stop(&mut self) {
        if let Some(running) = self.thread.take() {
            drop(running.questions);
            self.ending = Some(running.handle);
        }
    }

    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_none() && self.ending.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

fn answer_all(asked: &Receiver<()>, answers: &Mutex<Option<SystemLoad>>, wake: &Notify) {
    let mut reader = SystemReader::of_this_process();
    while asked.recv().is_ok() {
        let load = reader.read();
        *lock(answers) = Some(load);
        wake.notify();
    }
}
