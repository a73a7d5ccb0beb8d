-- Audit records, as lines of the audit file, in the order in which they were written. What they say is in
-- `line`; the rest is there to be found by. Nothing here is ever changed.
CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us   INTEGER NOT NULL,
    event   TEXT    NOT NULL,
    call_id TEXT,
    outcome TEXT,
    line    TEXT    NOT NULL
);

CREATE INDEX audit_at ON audit (at_us);
CREATE INDEX audit_call ON audit (call_id) WHERE call_id IS NOT NULL;
