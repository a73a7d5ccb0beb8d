-- The call log. `seq` is the order in which calls ended; cursors are made of it, so it is never used twice.
-- What is long stands last: reading the rest of a row does not touch it.
CREATE TABLE calls (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT    NOT NULL,
    parent          TEXT,
    kind            TEXT    NOT NULL,
    at_us           INTEGER NOT NULL,
    duration_us     INTEGER NOT NULL,
    session         TEXT    NOT NULL,
    principal       TEXT    NOT NULL,
    namespace       TEXT    NOT NULL,
    client          TEXT,
    server          TEXT,
    tool            TEXT,
    wire_name       TEXT,
    outcome         TEXT    NOT NULL,
    ran             TEXT    NOT NULL,
    code            TEXT,
    decided_by      TEXT,
    rule            TEXT,
    arguments_bytes INTEGER,
    result_bytes    INTEGER,
    error_bytes     INTEGER,
    error           TEXT,
    arguments       TEXT,
    result          TEXT
);

-- A batch that is written twice leaves each record once.
CREATE UNIQUE INDEX calls_id ON calls (id);
CREATE INDEX calls_parent ON calls (parent) WHERE parent IS NOT NULL;
CREATE INDEX calls_at ON calls (at_us);

-- The tools that a namespace has seen, for whoever trusts on first use.
CREATE TABLE known_tools (
    namespace TEXT    NOT NULL,
    server    TEXT    NOT NULL,
    tool      TEXT    NOT NULL,
    since_us  INTEGER NOT NULL,
    PRIMARY KEY (namespace, server, tool)
) WITHOUT ROWID;
