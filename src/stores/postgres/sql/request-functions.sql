-- Requests (core/store/requests.ts), which an application writes in its own transaction. The public functions have no
-- version (functions.ts: a space before the parenthesis), since applications, triggers and migrations call them. They run with
-- the rights of the store's owner, so that EXECUTE and USAGE are all that a caller needs.

-- Returns the number of the request; null: the database has another store than p_store, or none of that namespace.
CREATE OR REPLACE FUNCTION reprise.enlist (p_namespace text, p_verb text, p_target text, p_id text, p_topic text, p_json jsonb, p_data bytea, p_key text, p_options jsonb, p_store text)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_ns integer;
  v_number bigint;
  v_unknown text;
BEGIN
  SELECT n.id INTO v_ns FROM reprise.namespace n
  WHERE n.name = p_namespace AND (p_store IS NULL OR n.identity::json->>'id' = p_store);
  IF v_ns IS NULL THEN
    IF p_store IS NOT NULL THEN RETURN NULL; END IF;
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('there is no namespace %L in this store', p_namespace);
  END IF;
  IF p_target IS NULL OR p_id IS NULL OR length(p_target) NOT BETWEEN 1 AND 512 OR length(p_id) NOT BETWEEN 1 AND 512 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the name and the id must have 1 to 512 characters';
  END IF;
  IF p_target !~ '^(mail|[a-z]+/[A-Za-z0-9][A-Za-z0-9._-]{0,99})$' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('no definition can have the name %L', substr(p_target, strpos(p_target, '/') + 1)),
      HINT = 'a name has 1 to 100 letters, digits, dots, dashes and underscores, and starts with a letter or digit';
  END IF;
  IF concat(p_id, p_topic, p_key) ~ '[\u0001-\u001f\u007f-\u009f]' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'an id, a key and the name of a signal or kind must have no control characters';
  END IF;
  IF jsonb_typeof(p_options) <> 'object' THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('the options must be a JSON object (got %s)', p_options);
  END IF;
  SELECT string_agg(o, ', ' ORDER BY o) INTO v_unknown FROM jsonb_object_keys(p_options) o
  WHERE o NOT IN ('attributes', 'priority', 'timeout', 'queueKey', 'delay');
  IF v_unknown IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('start has no option %s', v_unknown),
      HINT = 'the options are attributes, priority, timeout, queueKey and delay';
  END IF;
  INSERT INTO reprise.request (ns, xact, verb, target, id, topic, json, data, key, options, sent_at)
  VALUES (v_ns, pg_current_xact_id()::text::bigint, p_verb, p_target, p_id, p_topic, p_json, p_data, p_key, p_options,
    floor(date_part('epoch', clock_timestamp()) * 1000))
  RETURNING number INTO v_number;
  -- One notification per transaction and namespace: the server drops equal ones.
  -- A notification serializes commits behind one lock of the server; a bulk load disables it, and the workers poll.
  IF current_setting('reprise.notify', true) IS DISTINCT FROM 'off' THEN
    PERFORM pg_notify('reprise_' || substr(encode(sha256(convert_to('@schema@' || E'\n' || p_namespace, 'UTF8')), 'hex'), 1, 24), 'request');
  END IF;
  RETURN v_number;
END $$;

-- Starts a run of a workflow. Returns the run's id.
CREATE OR REPLACE FUNCTION reprise.start (name text, input jsonb DEFAULT NULL, id text DEFAULT NULL, key text DEFAULT NULL, options jsonb DEFAULT NULL, namespace text DEFAULT 'default')
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_id text := coalesce(id, key, gen_random_uuid()::text);
BEGIN
  PERFORM reprise.enlist (namespace, 'start', 'workflow/' || name, v_id, NULL, input, NULL, key, options, NULL);
  RETURN v_id;
END $$;

-- Sends a signal to a run. The same key is delivered once.
CREATE OR REPLACE FUNCTION reprise.signal (name text, id text, signal text, value jsonb DEFAULT NULL, key text DEFAULT NULL, namespace text DEFAULT 'default')
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(signal, '') = '' THEN RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a signal must have a name'; END IF;
  PERFORM reprise.enlist (namespace, 'signal', 'workflow/' || name, id, signal, value, NULL, key, NULL, NULL);
END $$;

-- Requests the cancellation of a run.
CREATE OR REPLACE FUNCTION reprise.cancel (name text, id text, reason text DEFAULT 'cancelled', key text DEFAULT NULL, namespace text DEFAULT 'default')
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM reprise.enlist (namespace, 'cancel', 'workflow/' || name, id, NULL, to_jsonb(reason), NULL, key, NULL, NULL);
END $$;

-- Sends a message to a timeline's inbox. The same key is delivered once. Commands to aggregates and entries for timelines are
-- taken by workers of their definition; any worker delivers other messages.
CREATE OR REPLACE FUNCTION reprise.send (timeline text, kind text, data jsonb DEFAULT NULL, key text DEFAULT NULL, namespace text DEFAULT 'default')
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(kind, '') = '' THEN RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a message must have a kind'; END IF;
  PERFORM reprise.enlist (namespace, 'send', CASE
    WHEN kind = 'command' AND timeline LIKE 'events/_%/_%' THEN 'events/' || split_part(timeline, '/', 2)
    WHEN kind = 'append' AND timeline LIKE '_%/_%' THEN 'timeline/' || split_part(timeline, '/', 1)
    ELSE 'mail' END, timeline, kind, data, NULL, key, NULL, NULL);
END $$;

-- EXECUTE is granted by an administrator, function by function.
REVOKE ALL ON FUNCTION reprise.enlist (text, text, text, text, text, jsonb, bytea, text, jsonb, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION reprise.start (text, jsonb, text, text, jsonb, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION reprise.signal (text, text, text, jsonb, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION reprise.cancel (text, text, text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION reprise.send (text, text, jsonb, text, text) FROM PUBLIC;

-- Takes whole transactions. One worker at a time, for the duration of this statement: two workers that take single rows would
-- share a transaction and lose its order.
CREATE FUNCTION reprise.take_requests(p_ns integer, p_worker text, p_targets text[], p_except bigint[], p_limit bigint)
RETURNS SETOF reprise.request LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('reprise requests @schema@', p_ns));
  RETURN QUERY
  WITH free AS MATERIALIZED (
    SELECT r.number, r.xact FROM reprise.request r
    LEFT JOIN LATERAL (SELECT w.retired_at, w.beat_at, w.lease_ms FROM reprise.worker w WHERE w.ns = r.ns AND w.id = r.taken_by LIMIT 1) w ON true
    WHERE r.ns = p_ns AND r.problem IS NULL AND r.target = ANY (p_targets) AND r.number <> ALL (p_except)
      AND (r.taken_by IS NULL OR r.taken_by = p_worker OR NOT coalesce((w.retired_at IS NULL AND v_now < w.beat_at + w.lease_ms), false))
  ), first AS (SELECT DISTINCT x.xact FROM (SELECT f.xact FROM free f ORDER BY f.number LIMIT p_limit) x)
  UPDATE reprise.request q SET taken_by = p_worker FROM free f
  WHERE q.number = f.number AND f.xact IN (SELECT first.xact FROM first)
  RETURNING q.*;
END $$;

-- The request was carried out by this commit.
CREATE FUNCTION reprise.settle(p_ns integer, p_numbers jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  n bigint;
BEGIN
  FOR n IN SELECT e::bigint FROM jsonb_array_elements_text(p_numbers) e LOOP
    DELETE FROM reprise.request WHERE ns = p_ns AND number = n;
    IF NOT FOUND THEN
      PERFORM reprise.refuse('CONFLICT', format('request %s was carried out or removed', n));
    END IF;
  END LOOP;
END $$;
