"""A worker for jobs and workflow steps of Reprise, with the Python standard library alone.

It takes work in batches from a queue of `reprise serve`, does it, and sends what came of it. Killed at any moment, at most
the batch in its hands is done again, under the same keys. Killed itself, the server loses nothing that it acknowledged.

    reprise serve --module flows.mjs --work &
    REPRISE_TOKEN=… python3 worker.py squares
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request

URL = os.environ.get("REPRISE_SERVER", "http://127.0.0.1:4400")
HEADERS = {"Authorization": "Bearer " + os.environ["REPRISE_TOKEN"], "Content-Type": "application/json"}
TTL_MS = int(os.environ.get("REPRISE_TTL_MS", "30000"))


def ask(queue, verb, body):
    """The answer as JSON. Tried again while the server is away: nothing here does harm twice."""
    data = json.dumps(body).encode()
    while True:
        try:
            request = urllib.request.Request("%s/v1/remote/%s/%s" % (URL, queue, verb), data, HEADERS, method="POST")
            with urllib.request.urlopen(request, timeout=40) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            problem = json.load(error)
            if problem["remedy"] != "retry":
                raise RuntimeError(problem["code"], problem["detail"]) from None
        except OSError:
            pass
        time.sleep(0.1)


def work(task):
    """What the worker is for. `task["key"]` is the same each time: hand it to whatever you call."""
    return task["input"]["n"] ** 2


def heartbeats(queue, tasks, stop):
    while not stop.wait(TTL_MS / 3000):
        ask(queue, "heartbeat", {"tasks": [task["task"] for task in tasks], "ttlMs": TTL_MS})


def main(queue):
    while True:
        tasks = ask(queue, "claim", {"max": 8, "waitMs": 5000, "ttlMs": TTL_MS})["tasks"]
        if not tasks:
            continue
        stop = threading.Event()
        threading.Thread(target=heartbeats, args=(queue, tasks, stop), daemon=True).start()
        results = []
        for task in tasks:
            try:
                results.append({"task": task["task"], "result": work(task)})
            except Exception as error:
                results.append({"task": task["task"], "error": repr(error)})
        stop.set()
        settled = set(ask(queue, "results", {"results": results})["settled"])
        for task in tasks:
            if task["task"] in settled:  # The others were taken back meanwhile, or the server died before it had them.
                print(task["key"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
