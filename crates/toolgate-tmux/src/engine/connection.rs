//! One control-mode client (`tmux -C`): commands go in, blocks come out, in order.

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
    parse::{News, Parsed, Parser},
    parting::{Boxed, Leave},
    spawn::Program,
};

/// How many requests wait to be written.
const QUEUE: usize = 256;
/// How much news a slow watcher may fall behind.
const NEWS: usize = 4096;
/// The most bytes of one line, or of the answer to one command.
const LARGEST: usize = 64 * 1024 * 1024;

/// What one command printed.
pub type Printed = Vec<u8>;
type Reply = Result<Vec<Printed>, TmuxError>;

/// A client that is attached, and stays so until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
    news: broadcast::Sender<News>,
    /// The client's process.
    pid: Option<u32>,
    /// Holds the client's standard input: the client ends when that does.
    writer: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<VecDeque<Waiting>>,
    session: Mutex<Option<Arc<str>>>,
    closed: AtomicBool,
    /// Whether somebody waited in vain, and nothing was answered since.
    hangs: watch::Sender<bool>,
}

#[derive(Debug)]
struct Request {
    line: String,
    waiting: Waiting,
}

/// A request that was sent. Its blocks are those up to the one that prints its mark: a user's aliases may make
/// two commands of one, and a mark cannot be guessed by what a pane shows.
#[derive(Debug)]
struct Waiting {
    mark: String,
    commands: usize,
    blocks: Vec<Printed>,
    error: Option<TmuxError>,
    reply: oneshot::Sender<Reply>,
}

impl Connection {
    /// Attaches a client that shows nothing and has no size, to a session or to the one used last.
    ///
    /// `Refused` means that tmux lets nobody attach: there is no session. It has no deadline: tmux 3.3a has crashed
    /// when clients came and went while it hung, so whoever is tired of waiting leaves this to wait.
    pub(crate) async fn open(
        program: &Program,
        session: Option<&str>,
        flags: &str,
    ) -> Result<Self, TmuxError> {
        let mut command = program.staying_command();
        // `-N`: to look for a server must not start one. `-E`: our environment is not the session's.
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
        // Never killed: it ends by itself when its input does, as it also will if we are killed.
        tokio::spawn(async move { child.wait().await });
        let shared = Arc::new(Shared::default());
        let (requests, queue) = mpsc::channel(QUEUE);
        let (news, mut attached) = broadcast::channel(NEWS);
        let reader = Reader { shared: Arc::clone(&shared), news: news.clone() };
        tokio::spawn(reader.run(stdout));
        // What is written before the client is attached would run without a session.
        let ready = async {
            loop {
                match attached.recv().await {
                    Ok(News::Attached { .. }) => return Ok(()),
                    Ok(News::Exit) | Err(RecvError::Closed) => {
                        return Err(TmuxError::Refused("no sessions".to_owned()));
                    }
                    _ => {}
                }
            }
        };
        ready.await?;
        drop(attached);
        let writer = tokio::spawn(write(stdin, queue, Arc::clone(&shared))).abort_handle();
        Ok(Self { requests, shared, news, pid, writer })
    }

    /// Runs a list of commands and gives what each of them printed.
    pub(crate) async fn run(&self, batch: &Batch, patience: Duration) -> Reply {
        let mark = nonce();
        let sentinel = Batch::read([Command::new("display-message").flag("-p").argument(&*mark)]);
        // On a line of its own: a list ends where a command fails.
        let line = format!("{}\n{}\n", batch.line()?, sentinel.line()?);
        let (reply, answer) = oneshot::channel();
        let (commands, blocks) = (batch.len(), Vec::with_capacity(batch.len()));
        let waiting = Waiting { mark, commands, blocks, error: None, reply };
        let sent = AtomicBool::new(false);
        let run = async {
            self.shared.answering().await;
            sent.store(true, Relaxed);
            let request = Request { line, waiting };
            self.requests.send(request).await.map_err(|_| TmuxError::Lost)?;
            answer.await.map_err(|_| TmuxError::Lost)?
        };
        let run = timeout(patience, run).await;
        run.unwrap_or_else(|_| {
            self.shared.hangs.send_replace(true);
            let (command, sent) = (batch.name().to_owned(), sent.load(Relaxed));
            Err(TmuxError::TimedOut { command, after: patience, sent })
        })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.load(Relaxed)
    }

    /// The session that the client is attached to.
    pub(crate) fn session(&self) -> Option<Arc<str>> {
        lock(&self.shared.session).clone()
    }

    /// Closes the client's input and waits until tmux has let it go. What it still writes is read: tmux 3.3a keeps
    /// a client for ever that it could not tell everything.
    pub(crate) async fn leave(&self) {
        let mut news = self.news();
        self.writer.abort();
        while !self.is_closed()
            && !matches!(news.recv().await, Ok(News::Exit) | Err(RecvError::Closed))
        {}
    }

    pub(crate) fn news(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }
}

impl Leave for Connection {
    fn leave(&self) -> Boxed<'_> {
        Box::pin(self.leave())
    }
}

async fn write(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Request>, shared: Arc<Shared>) {
    while let Some(Request { line, waiting }) = queue.recv().await {
        if shared.closed.load(Relaxed) {
            break;
        }
        lock(&shared.waiting).push_back(waiting);
        if stdin.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    shared.close();
}

impl Shared {
    /// Waits while tmux hangs. Nothing more is sent to it then: it would happen long after its caller was told that
    /// it failed. The connection stays; tmux 3.3a has crashed when clients came and went while it hung.
    async fn answering(&self) {
        // It fails if this is gone, which it is not.
        let _ = self.hangs.subscribe().wait_for(|hangs| !hangs).await;
    }

    /// Nobody waits for what cannot come.
    fn close(&self) {
        self.closed.store(true, Relaxed);
        self.hangs.send_replace(false);
        lock(&self.waiting).clear();
    }
}

struct Reader {
    shared: Arc<Shared>,
    news: broadcast::Sender<News>,
}

impl Reader {
    async fn run(self, stdout: ChildStdout) {
        let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
        let (mut parser, mut line) = (Parser::default(), Vec::new());
        loop {
            line.clear();
            let limit = u64::try_from(LARGEST).unwrap_or(u64::MAX);
            let read = (&mut stdout).take(limit).read_until(b'\n', &mut line).await;
            if !matches!(read, Ok(1..)) {
                break;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if parser.held() + line.len() >= LARGEST {
                self.fail(TmuxError::TooLarge(LARGEST));
                break;
            }
            match parser.line(&line) {
                Parsed::Nothing => {}
                Parsed::Stray => self.fail(TmuxError::Garbled("a block ends that never began")),
                Parsed::Block(block) if !block.ours => {}
                Parsed::Block(block) => self.block(block.failed, block.text),
                Parsed::News(news) => {
                    // The pipe is read to its end all the same, so that tmux can write what it has.
                    if news == News::Exit {
                        self.shared.close();
                    }
                    self.tell(news);
                    // A full buffer holds more lines than a watcher may fall behind: it gets its turn first.
                    if self.news.len() > NEWS / 2 {
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
        self.shared.close();
        self.tell(News::Exit);
    }

    fn tell(&self, news: News) {
        if let News::Attached { session } = &news {
            *lock(&self.shared.session) = Some(Arc::clone(session));
        }
        // Nobody may be listening.
        let _ = self.news.send(news);
    }

    fn block(&self, failed: bool, text: Printed) {
        self.shared.hangs.send_if_modified(std::mem::take);
        let mut queue = lock(&self.shared.waiting);
        let Some(first) = queue.front_mut() else {
            return;
        };
        if text != first.mark.as_bytes() {
            if failed && first.error.is_none() {
                let said = String::from_utf8_lossy(&text).into_owned();
                first.error = Some(TmuxError::Refused(said));
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
        // Whoever asked may have given up.
        let _ = done.reply.send(reply);
    }

    fn fail(&self, error: TmuxError) {
        if let Some(first) = lock(&self.shared.waiting).front_mut() {
            first.error = Some(error);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
