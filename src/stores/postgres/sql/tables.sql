-- The tables of a new store; tables.ts has the changes of each version, and describes keys and positions.

CREATE TABLE reprise.meta (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  version integer NOT NULL
);

CREATE TABLE reprise.namespace (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  pos_base bigint NOT NULL DEFAULT 0,
  sweep_mark double precision NOT NULL DEFAULT 0,
  identity text
);

-- The head of each timeline, as of its last commit that was more than an append. An append only locks this row and adds
-- a run: if there are runs above seq, the last one determines seq, digest, operation and last_pos (append-functions.sql, sync).
-- Columns that change often are in no index, and pages keep room: updates then stay on their page (HOT).
-- A stub holds mail for a timeline that does not exist yet, and is invisible otherwise. pos_base is a copy of the namespace's, so
-- that a transaction that has locked this row need not read the namespace.
CREATE TABLE reprise.timeline (
  tid bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  seq bigint NOT NULL DEFAULT 0,
  epoch bigint NOT NULL DEFAULT 0,
  last_pos bigint NOT NULL DEFAULT 0,
  pos_base bigint NOT NULL,
  floor bigint NOT NULL DEFAULT 0,
  base_tid bigint,
  base_seq bigint,
  priority double precision NOT NULL DEFAULT 0,
  wakeup double precision,
  created_at double precision NOT NULL,
  updated_at double precision NOT NULL,
  ns integer NOT NULL,
  mail integer NOT NULL DEFAULT 0 CHECK (mail >= 0),
  is_stub boolean NOT NULL DEFAULT false,
  digest bytea NOT NULL DEFAULT '',
  floor_digest bytea NOT NULL DEFAULT '',
  base_digest bytea,
  id text COLLATE "C" NOT NULL,
  base_id text COLLATE "C",
  owner text COLLATE "C",
  operation text COLLATE "C",
  queue text COLLATE "C",
  status text COLLATE "C" NOT NULL DEFAULT '',
  attributes jsonb NOT NULL DEFAULT '{}',
  life bigint NOT NULL DEFAULT 1,
  UNIQUE (ns, id)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX timeline_base ON reprise.timeline (base_tid) WHERE base_tid IS NOT NULL;
CREATE INDEX timeline_orphan ON reprise.timeline (ns, base_id) WHERE base_tid IS NULL AND base_id IS NOT NULL;
CREATE INDEX timeline_owner ON reprise.timeline (ns, owner) WHERE owner IS NOT NULL;
CREATE INDEX timeline_due ON reprise.timeline (ns, queue, priority DESC, (CASE WHEN timeline.mail > 0 THEN 0 ELSE timeline.wakeup END), id) WHERE (timeline.owner IS NULL AND NOT timeline.is_stub AND timeline.queue IS NOT NULL AND (timeline.mail > 0 OR timeline.wakeup IS NOT NULL));
CREATE INDEX timeline_status ON reprise.timeline (ns, status, id) WHERE timeline.status >= '';
CREATE INDEX timeline_attributes ON reprise.timeline USING gin (attributes jsonb_path_ops);

-- The primary key prevents a divergence of history: after one sequence only one run can begin.
-- operation: null if the digest determines it (appendOperation).
CREATE TABLE reprise.run (
  tid bigint NOT NULL,
  last bigint NOT NULL,
  first bigint NOT NULL,
  pos bigint NOT NULL,
  id bigint GENERATED ALWAYS AS IDENTITY,
  written_at double precision NOT NULL,
  ns integer NOT NULL,
  digest bytea NOT NULL,
  operation text COLLATE "C",
  bytes bytea NOT NULL,
  PRIMARY KEY (tid, first)
);
ALTER TABLE reprise.run ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE INDEX run_feed ON reprise.run (ns, pos, id);

-- A consumed message stays without its data, so that its id is known when it is sent again.
CREATE TABLE reprise.message (
  tid bigint NOT NULL,
  ord bigint GENERATED ALWAYS AS IDENTITY,
  sent_at double precision NOT NULL,
  consumed_at double precision,
  id text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (tid, id)
);
ALTER TABLE reprise.message ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX message_unread ON reprise.message (tid, ord) WHERE consumed_at IS NULL;

CREATE TABLE reprise.manifest (
  tid bigint NOT NULL,
  ord bigint GENERATED ALWAYS AS IDENTITY,
  seq bigint NOT NULL,
  epoch bigint NOT NULL,
  created_at double precision NOT NULL,
  total_bytes double precision NOT NULL,
  added_bytes double precision NOT NULL,
  verified_at double precision,
  drilled_at double precision,
  ns integer NOT NULL,
  is_pinned boolean NOT NULL,
  digest bytea NOT NULL,
  body_digest bytea NOT NULL,
  id text COLLATE "C" NOT NULL,
  base_id text COLLATE "C",
  trigger text COLLATE "C" NOT NULL,
  label text COLLATE "C",
  fold_version text COLLATE "C" NOT NULL,
  invalid text COLLATE "C",
  drill text COLLATE "C",
  body bytea NOT NULL,
  PRIMARY KEY (tid, id),
  UNIQUE (ns, id)
);
ALTER TABLE reprise.manifest ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE reprise.cursor (
  ns integer NOT NULL,
  name text COLLATE "C" NOT NULL,
  tid bigint NOT NULL,
  moved_at double precision NOT NULL,
  position text COLLATE "C" NOT NULL,
  PRIMARY KEY (ns, name)
);
CREATE INDEX cursor_owner ON reprise.cursor (tid);

-- presence: the start of the server on which a session of this worker holds its lock (presence.ts); null: it has none.
CREATE TABLE reprise.worker (
  ns integer NOT NULL,
  id text COLLATE "C" NOT NULL,
  lease_ms double precision NOT NULL,
  progress double precision NOT NULL,
  started_at double precision NOT NULL,
  beat_at double precision NOT NULL,
  progress_at double precision NOT NULL,
  retired_at double precision,
  presence double precision,
  name text COLLATE "C" NOT NULL,
  host text COLLATE "C" NOT NULL,
  process text COLLATE "C" NOT NULL,
  info jsonb NOT NULL,
  PRIMARY KEY (ns, id)
);
CREATE INDEX worker_retired ON reprise.worker (ns, retired_at) WHERE retired_at IS NOT NULL;

CREATE TABLE reprise.chunk (
  ns integer NOT NULL,
  digest bytea NOT NULL,
  touched_at double precision NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (ns, digest)
);
ALTER TABLE reprise.chunk ALTER COLUMN bytes SET STORAGE EXTERNAL;

ALTER TABLE reprise.past ADD COLUMN checksum text GENERATED ALWAYS AS (md5(ns::text || ' ' || name || ' ' || life::text || ' ' || epoch::text || ' ' || encode(float8send(forgotten_at), 'hex'))) STORED;
ALTER TABLE reprise.run SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1);
ALTER TABLE reprise.message SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1);
ALTER TABLE reprise.manifest SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1);
ALTER TABLE reprise.chunk SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1);
ALTER TABLE reprise.cursor SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_threshold = 50);
ALTER TABLE reprise.worker SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_threshold = 50);
