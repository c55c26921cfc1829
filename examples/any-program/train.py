"""Trains a small model with numpy. It saves each epoch, and once more when it is told to stop (SIGTERM).

    reprise exec --state ckpt --when rename --retries 5 -- python3 train.py 200
"""

import os
import signal
import sys

import numpy as np

epochs = int(sys.argv[1])
folder = os.environ.get("REPRISE_EXEC_STATE", "ckpt")
path = os.path.join(folder, "model.npz")

# The same data in every run: what differs is where it goes on.
data = np.random.default_rng(1)
x = data.normal(size=(2_000, 20))
y = (x @ data.normal(size=20) > 0).astype(float)

weights, velocity, epoch = np.zeros(20), np.zeros(20), 0
if os.path.exists(path):
    saved = np.load(path)
    weights, velocity, epoch = saved["weights"], saved["velocity"], int(saved["epoch"])
    print(f"goes on after epoch {epoch}", flush=True)

stop = False


def asked_to_stop(_signal, _frame):
    global stop
    stop = True


def save():
    with open(path + ".tmp", "wb") as file:
        np.savez(file, weights=weights, velocity=velocity, epoch=epoch)
    os.replace(path + ".tmp", path)


signal.signal(signal.SIGTERM, asked_to_stop)
while epoch < epochs and not stop:
    guess = 1 / (1 + np.exp(-(x @ weights)))
    velocity = 0.9 * velocity - 0.1 * x.T @ (guess - y) / len(y)
    weights = weights + velocity
    epoch += 1
    save()

loss = float(np.mean((1 / (1 + np.exp(-(x @ weights))) > 0.5) == y))
print(f"epoch {epoch}: {loss:.4f} right, weights {float(np.sum(weights)):.12f}")
sys.exit(0 if epoch >= epochs else 143)
