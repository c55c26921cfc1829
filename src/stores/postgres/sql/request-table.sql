-- Requests that applications wrote in their own transactions (request-functions.sql). xact: the transaction; its requests are
-- carried out in order. json: written by SQL; data: sealed by a process. problem: why it cannot be carried out.
-- The upgrade to version 11 runs this file, so it must not change: later changes belong in tables.sql.
CREATE TABLE reprise.request (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xact bigint NOT NULL,
  sent_at double precision NOT NULL,
  ns integer NOT NULL,
  verb text COLLATE "C" NOT NULL,
  target text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  topic text COLLATE "C",
  key text COLLATE "C",
  taken_by text COLLATE "C",
  problem text,
  options jsonb,
  json jsonb,
  data bytea
);
ALTER TABLE reprise.request SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1);
