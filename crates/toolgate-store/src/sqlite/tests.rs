//! Tests of the SQLite store: the suite, and cases that only a file has.

use std::{fs, sync::Arc};

use tempfile::TempDir;

use super::*;
use crate::suite::{CASES, sample};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}

async fn refused(path: &Path) -> String {
    match SqliteStore::open(path).await {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error.to_string().replace(&path.display().to_string(), "FILE"),
    }
}

#[test]
fn it_passes_the_suite() {
    for (name, case) in CASES {
        println!("{name}");
        let folder = folder();
        block_on(async {
            let store = SqliteStore::open(folder.path().join("toolgate.db")).await.unwrap();
            case(Arc::new(store)).await;
        });
    }
}

#[tokio::test]
async fn a_folder_that_does_not_exist_is_refused_and_not_created() {
    let folder = folder();
    let path = folder.path().join("new/folder/toolgate.db");
    let refused = SqliteStore::open(&path).await.unwrap_err().to_string();
    assert!(refused.contains("new/folder` does not exist: create it"), "{refused}");
    assert!(!folder.path().join("new").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn its_files_are_for_nobody_but_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    let path = folder.path().join("toolgate.db");
    let store = SqliteStore::open(&path).await.unwrap();
    store.append(&[sample(1)]).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let files = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files.collect();
    assert!(files.len() > 1, "there is a journal: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart_in_one_file() {
    let folder = folder();
    let path = folder.path().join("toolgate.db");
    for run in 0..3 {
        let store = SqliteStore::open(&path).await.unwrap();
        store.append(&[sample(run)]).await.unwrap();
        assert_eq!(store.size().await.unwrap().records, u64::from(run) + 1);
        store.close().await;
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the journal is folded in");
    }
}

#[tokio::test]
async fn a_store_that_nobody_closed_has_lost_nothing() {
    let folder = folder();
    let (path, copy) = (folder.path().join("toolgate.db"), folder.path().join("copy.db"));
    let store = SqliteStore::open(&path).await.unwrap();
    store.append(&[sample(1)]).await.unwrap();
    // The state after a crash: the file and its journal.
    fs::copy(&path, &copy).unwrap();
    fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
    let store = SqliteStore::open(&copy).await.unwrap();
    assert_eq!(store.get(&sample(1).id).await.unwrap(), Some(sample(1)));
}

#[tokio::test]
async fn files_of_others_are_refused_and_left_as_they_are() {
    let folder = folder();
    let path = folder.path().join("other.db");
    let other = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let pool = SqlitePool::connect_with(other).await.unwrap();
    sqlx::query("CREATE TABLE theirs (a)").execute(&pool).await.unwrap();
    pool.close().await;
    let before = fs::read(&path).unwrap();
    assert_eq!(
        refused(&path).await,
        "`FILE` is a SQLite database, but not one of toolgate's; name another file with `store = \"sqlite:PATH\"`"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = folder();
    let path = folder.path().join("toolgate.db");
    let store = SqliteStore::open(&path).await.unwrap();
    sqlx::query("PRAGMA user_version = 99")
        .execute(&mut *store.writer.get().await.unwrap())
        .await
        .unwrap();
    store.close().await;
    assert_eq!(
        refused(&path).await,
        "the store `FILE` was written by a newer toolgate (its schema is 99, this toolgate knows 3); update \
         toolgate, or name another store"
    );
}

#[tokio::test]
async fn what_is_damaged_or_cannot_be_opened_says_so() {
    let folder = folder();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "these are notes, and no database at all".repeat(100)).unwrap();
    let told = refused(&path).await;
    assert!(told.starts_with("the store `FILE` is damaged, or is no SQLite database"), "{told}");
    assert!(told.contains("move it away and toolgate starts a new one"), "{told}");

    let path = folder.path().join("toolgate.db");
    let store = SqliteStore::open(&path).await.unwrap();
    store.append(&(0..500).map(sample).collect::<Vec<_>>()).await.unwrap();
    store.close().await;
    let mut bytes = fs::read(&path).unwrap();
    let from = bytes.len() / 4;
    bytes[from..].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    let told = match SqliteStore::open(&path).await {
        Err(error) => error.to_string(),
        Ok(store) => store.query(&Filter::default(), 1000, None).await.unwrap_err().to_string(),
    };
    assert!(told.contains("is damaged"), "{told}");

    let told = refused(folder.path()).await;
    assert!(told.starts_with("cannot open the store `FILE`"), "{told}");
    let told = refused(&folder.path().join("notes.txt/toolgate.db")).await;
    assert!(told.contains("notes.txt` does not exist: create it"), "{told}");
}

/// Each opens the file separately, as processes do, all at the same time.
#[test]
fn several_may_open_a_new_file_and_write_to_it_at_once() {
    let folder = folder();
    let path = folder.path().join("toolgate.db");
    let writers: Vec<_> = (0..6_u32)
        .map(|writer| {
            let path = path.clone();
            std::thread::spawn(move || {
                block_on(async {
                    let store = SqliteStore::open(&path).await.unwrap();
                    for batch in 0..20 {
                        let from = writer * 10_000 + batch * 10;
                        let records: Vec<CallRecord> = (from..from + 10).map(sample).collect();
                        store.append(&records).await.unwrap();
                    }
                    store
                        .remember_tools("n", &[ToolId::new("s", writer.to_string())])
                        .await
                        .unwrap();
                    store.close().await;
                });
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        assert_eq!(store.size().await.unwrap().records, 1200);
        assert_eq!(store.known_tools("n").await.unwrap().len(), 6);
    });
}

#[tokio::test]
async fn removed_records_give_their_room_back_to_the_disk() {
    let folder = folder();
    let path = folder.path().join("toolgate.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let large = |number| CallRecord { result: Some("x".repeat(10_000)), ..sample(number) };
    store.append(&(0..1000).map(large).collect::<Vec<_>>()).await.unwrap();
    store.prune(&Retention { records: Some(10), ..Retention::default() }).await.unwrap();
    store.close().await;
    let size = fs::metadata(&path).unwrap().len();
    assert!(size < 500_000, "{size}");
}

#[test]
fn a_store_is_named_by_its_scheme() {
    let path = |url: &str| crate::sqlite_path(url).map(Path::to_owned).map_err(|e| e.to_string());
    assert_eq!(path("sqlite:toolgate.db"), Ok("toolgate.db".into()));
    assert_eq!(path("sqlite:///var/lib/toolgate.db"), Ok("/var/lib/toolgate.db".into()));
    assert_eq!(path("sqlite:/a b/c.db"), Ok("/a b/c.db".into()));
    let told = path("postgres://me:hunter2@db/x").unwrap_err();
    assert!(told.contains("Postgres is coming") && !told.contains("hunter2"), "{told}");
    let told = path("mysql://me:hunter2@db/x").unwrap_err();
    assert!(told.contains("`mysql:` is no store") && !told.contains("hunter2"), "{told}");
    for wrong in ["toolgate.db", "sqlite:", "sqlite::memory:", "sqlite:a.db?mode=ro"] {
        assert!(path(wrong).unwrap_err().contains("write `sqlite:` and a path"), "{wrong}");
    }
}
