// The faults of one simulation. Each seed draws its own mix, so that some seeds have only power losses and others only a slow
// network: bugs hide where everything happens at once.

export class Faults {
  #random
  /** While calm nothing is lost and nothing is late: for setting up and for healing. */
  isCalm = true

  constructor(random) {
    this.#random = random
    const often = (share, most) => (random.chance(share) ? random.between(0.1, 1) * most : 0)
    this.lostRequest = often(0.5, 0.06)
    this.lostAnswer = often(0.5, 0.06)
    this.slow = often(0.6, 0.1)
    this.slowMs = random.pick([20, 200, 1500])
    /** Chances at each tick. */
    this.crash = often(0.5, 0.06)
    this.pause = often(0.5, 0.08)
    this.pauseMs = random.pick([300, 1500, 6000])
    this.powerLoss = often(0.4, 0.04)
    this.serverRestart = often(0.4, 0.05)
    this.clockJump = often(0.3, 0.05)
    this.rot = often(0.3, 0.06)
    this.rotKinds = random.pick([
      { chunk: 1, manifest: 0, run: 0 },
      { chunk: 3, manifest: 2, run: 0 },
      { chunk: 2, manifest: 2, run: 1 },
      { chunk: 1, manifest: 1, run: 6 },
    ])
  }

  fate() {
    if (this.isCalm) return 'ok'
    const drawn = this.#random.number()
    if (drawn < this.lostRequest) return 'lost request'
    return drawn < this.lostRequest + this.lostAnswer ? 'lost answer' : 'ok'
  }

  delayMs() {
    if (!this.isCalm && this.#random.chance(this.slow)) return this.#random.number() * this.slowMs
    return this.#random.number() * 1.5
  }

  syncMs() {
    return this.#random.number() * (this.isCalm ? 1 : 4)
  }
}
