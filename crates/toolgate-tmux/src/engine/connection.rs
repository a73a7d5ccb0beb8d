//! One control-mode client (`tmux -C`): it writes commands and reads the blocks that answer them, in order.

use std::{
    collections::VecDeque,
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
    sync::{
        broadcast::{self, error::RecvError},
        mpsc, oneshot, watch,
    },
    task::AbortHandle,
    time::timeout,
};

use super::{
    command::{Batch, Command},
    error::TmuxError,
    nonce::nonce,
    open_clients::{Boxed, ControlClient},
    parse::{BlockParser, LineMeaning, Notification},
    program::Program,
};

/// How many batches may wait to be written.
const QUEUE_CAPACITY: usize = 256;
/// How many notifications are buffered for a slow watcher.
const NOTIFICATION_CAPACITY: usize = 4096;
/// The maximum size of one line, and of the answer to one command, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// What one command printed.
pub type PrintedBytes = Vec<u8>;
type Reply = Result<Vec<PrintedBytes>, TmuxError>;

/// A client that stays attached until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    batches: mpsc::Sender<QueuedBatch>,
    state: Arc<ConnectionState>,
    notifications: broadcast::Sender<Notification>,
    /// The client's process id.
    pid: Option<u32>,
    /// The task that holds the client's standard input. The client ends when that closes.
    writer: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

#[derive(Debug, Default)]
struct ConnectionState {
    pending: Mutex<VecDeque<PendingBatch>>,
    session: Mutex<Option<Arc<str>>>,
    closed: AtomicBool,
    /// Whether a batch timed out and tmux has answered nothing since.
    hangs: watch::Sender<bool>,
}

#[derive(Debug)]
struct QueuedBatch {
    line: String,
    pending: PendingBatch,
}

/// A batch that was sent. Its answer ends with the block that prints its mark: the blocks cannot be counted, since a
/// user's alias may expand to two commands. No program in a pane can guess the mark.
#[derive(Debug)]
struct PendingBatch {
    mark: String,
    commands: usize,
    blocks: Vec<PrintedBytes>,
    error: Option<TmuxError>,
    reply: oneshot::Sender<Reply>,
}

impl Connection {
    /// Attaches a client to a session, or to the session that was used last.
    ///
    /// `Refused` means that there is no session. It has no deadline: tmux 3.3a has crashed when clients connected and
    /// disconnected while it hung, so a caller whose deadline passes lets this continue in its task.
    pub(crate) async fn open(
        program: &Program,
        session: Option<&str>,
        flags: &str,
    ) -> Result<Self, TmuxError> {
        let mut command = program.staying_command();
        // `-N`: do not start a server. `-E`: do not copy this process's environment into the session.
        command.args(["-N", "-C", "attach-session", "-E", "-f", flags]);
        if let Some(session) = session {
            command.args(["-t", session]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|_| TmuxError::NoBinary)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(TmuxError::NoBinary);
        };
        let pid = child.id();
        // Never killed: the client ends when its input closes, also if this process is killed.
        tokio::spawn(async move { child.wait().await });
        let state = Arc::new(ConnectionState::default());
        let (batches, queue) = mpsc::channel(QUEUE_CAPACITY);
        let (notifications, mut attached) = broadcast::channel(NOTIFICATION_CAPACITY);
        let reader = Reader { state: Arc::clone(&state), notifications: notifications.clone() };
        tokio::spawn(reader.run(stdout));
        // Commands that are written before the client is attached would run without a current session.
        let ready = async {
            loop {
                match attached.recv().await {
                    Ok(Notification::Attached { .. }) => return Ok(()),
                    Ok(Notification::Exit) | Err(RecvError::Closed) => {
                        return Err(TmuxError::Refused("no sessions".to_owned()));
                    }
                    _ => {}
                }
            }
        };
        ready.await?;
        drop(attached);
        let writer = tokio::spawn(write(stdin, queue, Arc::clone(&state))).abort_handle();
        Ok(Self { batches, state, notifications, pid, writer })
    }

    /// Runs a list of commands and returns what each of them printed.
    pub(crate) async fn run(&self, batch: &Batch, time_limit: Duration) -> Reply {
        let mark = nonce();
        let sentinel = Batch::read([Command::new("display-message").flag("-p").argument(&*mark)]);
        // The mark is printed on a line of its own: tmux skips the rest of a line after a command fails.
        let line = format!("{}\n{}\n", batch.line()?, sentinel.line()?);
        let (reply, answer) = oneshot::channel();
        let (commands, blocks) = (batch.len(), Vec::with_capacity(batch.len()));
        let pending = PendingBatch { mark, commands, blocks, error: None, reply };
        let sent = AtomicBool::new(false);
        let run = async {
            self.state.until_answering().await;
            sent.store(true, Relaxed);
            self.batches.send(QueuedBatch { line, pending }).await.map_err(|_| TmuxError::Lost)?;
            answer.await.map_err(|_| TmuxError::Lost)?
        };
        let run = timeout(time_limit, run).await;
        run.unwrap_or_else(|_| {
            self.state.hangs.send_replace(true);
            let (command, sent) = (batch.name().to_owned(), sent.load(Relaxed));
            Err(TmuxError::TimedOut { command, after: time_limit, sent })
        })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.closed.load(Relaxed)
    }

    /// The session that the client is attached to.
    pub(crate) fn session(&self) -> Option<Arc<str>> {
        lock(&self.state.session).clone()
    }

    /// Closes the client's input and waits until tmux has ended the client. The output until then is read: tmux 3.3a never
    /// removes a client that it could not write all output to.
    pub(crate) async fn close(&self) {
        let mut notifications = self.notifications();
        self.writer.abort();
        while !self.is_closed()
            && !matches!(
                notifications.recv().await,
                Ok(Notification::Exit) | Err(RecvError::Closed)
            )
        {}
    }

    pub(crate) fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.notifications.subscribe()
    }
}

impl ControlClient for Connection {
    fn close(&self) -> Boxed<'_> {
        Box::pin(self.close())
    }
}

async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<QueuedBatch>,
    state: Arc<ConnectionState>,
) {
    while let Some(QueuedBatch { line, pending }) = queue.recv().await {
        if state.closed.load(Relaxed) {
            break;
        }
        lock(&state.pending).push_back(pending);
        if stdin.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    state.close();
}

impl ConnectionState {
    /// Waits while tmux hangs. Nothing more is sent to it then: tmux would run the commands long after their callers were
    /// told that they failed. The connection stays open, since tmux 3.3a has crashed when clients connected and
    /// disconnected while it hung.
    async fn until_answering(&self) {
        // It fails only if the sender is dropped, and `self` holds it.
        let _ = self.hangs.subscribe().wait_for(|hangs| !hangs).await;
    }

    /// Fails the pending batches: no more answers will come.
    fn close(&self) {
        self.closed.store(true, Relaxed);
        self.hangs.send_replace(false);
        lock(&self.pending).clear();
    }
}

struct Reader {
    state: Arc<ConnectionState>,
    notifications: broadcast::Sender<Notification>,
}

impl Reader {
    async fn run(self, stdout: ChildStdout) {
        let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
        let (mut parser, mut line) = (BlockParser::default(), Vec::new());
        loop {
            line.clear();
            let limit = u64::try_from(MAX_ANSWER_BYTES).unwrap_or(u64::MAX);
            let read = (&mut stdout).take(limit).read_until(b'\n', &mut line).await;
            if !matches!(read, Ok(1..)) {
                break;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if parser.held() + line.len() >= MAX_ANSWER_BYTES {
                self.fail(TmuxError::TooLarge(MAX_ANSWER_BYTES));
                break;
            }
            match parser.line(&line) {
                LineMeaning::Nothing => {}
                LineMeaning::Stray => {
                    self.fail(TmuxError::Garbled("a block ends that never began"));
                }
                LineMeaning::Block(block) if !block.ours => {}
                LineMeaning::Block(block) => self.block(block.failed, block.text),
                LineMeaning::Notification(notification) => {
                    // The pipe is still read to its end, so that tmux can write its remaining output.
                    if notification == Notification::Exit {
                        self.state.close();
                    }
                    self.send(notification);
                    // One read may contain more notifications than the buffer holds: let the watchers run first.
                    if self.notifications.len() > NOTIFICATION_CAPACITY / 2 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
        self.state.close();
        self.send(Notification::Exit);
    }

    fn send(&self, notification: Notification) {
        if let Notification::Attached { session } = &notification {
            *lock(&self.state.session) = Some(Arc::clone(session));
        }
        // It fails if there is no watcher.
        let _ = self.notifications.send(notification);
    }

    fn block(&self, failed: bool, text: PrintedBytes) {
        self.state.hangs.send_if_modified(std::mem::take);
        let mut queue = lock(&self.state.pending);
        let Some(first) = queue.front_mut() else {
            return;
        };
        if text != first.mark.as_bytes() {
            if failed && first.error.is_none() {
                let message = String::from_utf8_lossy(&text).into_owned();
                first.error = Some(TmuxError::Refused(message));
            }
            first.blocks.push(text);
            return;
        }
        let Some(done) = queue.pop_front() else {
            return;
        };
        let reply = match done.error {
            Some(error) => Err(error),
            None if done.blocks.len() != done.commands => {
                Err(TmuxError::Garbled("there are more or fewer answers than commands"))
            }
            None => Ok(done.blocks),
        };
        // It fails if the caller was cancelled.
        let _ = done.reply.send(reply);
    }

    fn fail(&self, error: TmuxError) {
        if let Some(first) = lock(&self.state.pending).front_mut() {
            first.error = Some(error);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
