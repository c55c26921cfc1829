"""Estimates pi. Knows nothing of Reprise: it writes its state to a folder, by rename, and reads it when it starts.

    reprise exec --state ckpt --when rename -- python3 pi.py ckpt 200
"""

import json
import os
import random
import sys

folder, rounds = sys.argv[1], int(sys.argv[2])
path = os.path.join(folder, "state.json")
state = {"round": 0, "inside": 0, "total": 0}
if os.path.exists(path):
    with open(path) as file:
        state = json.load(file)
    print(f"goes on after round {state['round']}", flush=True)

while state["round"] < rounds:
    chance = random.Random(state["round"])
    for _ in range(20_000):
        state["inside"] += chance.random() ** 2 + chance.random() ** 2 < 1
    state["total"] += 20_000
    state["round"] += 1
    if state["round"] % 20 == 0 or state["round"] == rounds:
        with open(path + ".tmp", "w") as file:
            json.dump(state, file)
        os.replace(path + ".tmp", path)

print(f"pi is about {4 * state['inside'] / state['total']:.5f}")
