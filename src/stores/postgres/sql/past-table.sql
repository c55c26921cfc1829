-- The lives of forgotten ids (ports.ts, past). name '': the life above which ids without a past start.
-- The upgrade to version 9 runs this file, so it must not change: later changes belong in tables.sql.
CREATE TABLE reprise.past (
  ns integer NOT NULL,
  name text COLLATE "C" NOT NULL,
  life bigint NOT NULL,
  epoch bigint NOT NULL,
  forgotten_at double precision NOT NULL,
  PRIMARY KEY (ns, name)
);
