"""Durable progress for a Python program, with the standard library alone.

It adds up numbers. It owns its timeline by a lease, whose epoch is the fencing token: a copy of it that was paused and
comes back late is refused. Every 10 numbers it puts a checkpoint with the sequence that it reflects. Killed and started
again, it goes on from the newest checkpoint and the entries after it.

    reprise serve &
    REPRISE_TOKEN=… python3 sidecar.py 100
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("REPRISE_SERVER", "http://127.0.0.1:4400")
TOKEN = os.environ["REPRISE_TOKEN"]
TIMELINE = "/v1/timelines/" + urllib.parse.quote(os.environ.get("REPRISE_TIMELINE", "python/sum"), safe="")


def ask(method, path, body=None, key=None):
    """The answer as JSON. Tried again while the server is away: the key makes that harmless."""
    headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}
    if key is not None:
        headers["Idempotency-Key"] = key
    data = None if body is None else json.dumps(body).encode()
    for attempt in range(60):
        try:
            request = urllib.request.Request(URL + path, data, headers, method=method)
            with urllib.request.urlopen(request, timeout=40) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            problem = json.load(error)
            if problem["remedy"] != "retry":
                raise RuntimeError(problem["code"], problem["detail"]) from None
        except OSError:
            pass
        time.sleep(min(1.0, 0.1 * (attempt + 1)))
    raise RuntimeError("STORE_UNREACHABLE", "the server did not come back")


def lease():
    return ask("POST", TIMELINE + "/lease", {"holder": "sum-%d" % os.getpid(), "takeover": True})["epoch"]


def restore():
    """What was captured, and the entries after it."""
    try:
        found = ask("GET", TIMELINE + "/checkpoint")
        total, seq = found["value"]["total"], found["coordinate"]["seq"]
    except RuntimeError as error:
        if error.args[0] != "NOT_FOUND":
            raise
        total, seq = 0, 0
    while True:
        page = ask("GET", "%s/history?after=%d&limit=1000" % (TIMELINE, seq))
        for entry in page["entries"]:
            total, seq = total + entry["data"]["n"], entry["seq"]
        if page["next"] is None:
            return total, seq


def main(count):
    epoch = lease()
    total, seq = restore()
    while seq < count:
        n = seq + 1
        body = {"epoch": epoch, "expect": seq, "entries": [{"type": "added", "data": {"n": n}}]}
        try:
            ask("POST", TIMELINE + "/entries", body, key="n-%d" % n)
        except RuntimeError as error:
            if error.args[0] != "FENCED":
                raise
            epoch = lease()  # Another program took the timeline; what we wrote is there.
            continue
        total, seq = total + n, n
        if seq % 10 == 0:
            try:
                ask("PUT", "%s/checkpoint?seq=%d&epoch=%d" % (TIMELINE, seq, epoch), {"total": total})
            except RuntimeError as error:
                if error.args[0] != "FENCED":
                    raise
                epoch = lease()
    print(json.dumps({"total": total, "seq": seq}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
