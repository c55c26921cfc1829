"""A training loop of PyTorch whose state is captured: model, optimizer, random generators and position in one file.

    npx reprise exec --state ckpt --when rename --lose-at-most 5m -- python3 examples/recipes/train_torch.py 1000
"""

import os
import signal
import sys

import torch

state = os.environ.get("REPRISE_EXEC_STATE", "ckpt")
path = os.path.join(state, "last.pt")
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000

torch.manual_seed(7)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
first = 0
if os.path.exists(path):
    # weights_only: the file holds tensors and numbers, and no code is read from it.
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["random"])
    first = saved["step"]
    print(f"resumed at step {first}", flush=True)


def save(step: int) -> None:
    os.makedirs(state, exist_ok=True)
    # Renamed to its name when it is complete: with --when rename, that is the moment of the capture.
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state(), "step": step},
        path + ".tmp",
    )
    os.replace(path + ".tmp", path)


stopping = False


def stop(*_: object) -> None:
    global stopping
    stopping = True


signal.signal(signal.SIGTERM, stop)
for step in range(first, steps):
    x = torch.randn(32, 8)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % 100 == 0 or stopping:
        save(step + 1)
    if stopping:
        sys.exit(143)
print(f"loss {loss.item():.6f} after {steps} steps")
