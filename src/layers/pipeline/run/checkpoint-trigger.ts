// When a running pipeline makes a checkpoint: after each batch of records, by its policy, by the records that wait in its sinks,
// or because no record arrives. Sources that outrun the checkpoints wait, so that memory stays bounded.

import { isReprise } from '../../../core/errors.ts'
import { growingPause } from '../../../core/retry/pause.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { CheckpointTiming } from '../../../engine/checkpoint/timing.ts'
import { sleep } from '../../../lib/waiting.ts'
import type { Checkpoints, MadeCheckpoint } from './checkpoints.ts'
import type { Flow } from './flow.ts'
import type { ResolvedPipelineOptions } from './options.ts'

/** With more records than this in one sink, sources wait for the next checkpoint. */
const pendingMax = 50_000
/** This many records in one sink make a checkpoint due. */
const pendingDue = 10_000

/** With a policy that counts records, a checkpoint is also made when no record arrived for this long. */
const quietMs = 1000

/** The last checkpoint of a run is attempted at most this often. */
const attemptsMax = 10

export class CheckpointTrigger {
  readonly #clock: Clock
  readonly #policy: ResolvedPipelineOptions['policy']
  readonly #timing: CheckpointTiming
  #quietSince = 0

  constructor(clock: Clock, policy: ResolvedPipelineOptions['policy'], timing: CheckpointTiming) {
    this.#clock = clock
    this.#policy = policy
    this.#timing = timing
  }

  /** `count`: the records since the last call; 0: only time has passed. */
  onRecords(flow: Flow, checkpoints: Checkpoints, count: number): void {
    checkpoints.tick()
    if (count > 0) this.#quietSince = this.#clock.elapsed()
    const timing = this.#timing
    // Windows that end by the clock emit results without a record: they count as one record, so that the policy notices them.
    timing.wrote(count === 0 && flow.pending > 0 && timing.entries === 0 ? 1 : count, 0)
    if (checkpoints.isUnderWay) {
      if (flow.pending > pendingMax) flow.wait(checkpoints.settled())
      return
    }
    if (this.#isDue(flow)) checkpoints.periodic()
    if (flow.pending > pendingMax && !checkpoints.isUnderWay) flow.wait(sleep(this.#clock, 100))
  }

  #isDue(flow: Flow): boolean {
    if (flow.isDue || flow.pending > pendingDue) return true
    return (this.#timing.entries > 0 && this.#timing.decide().isDue) || this.#isQuiet(flow)
  }

  /** A policy that counts records never triggers while none arrives, so results in sinks are published during quiet periods. */
  #isQuiet(flow: Flow): boolean {
    const { each, recoverWithin, loseAtMost } = this.#policy
    const isByTime = each !== undefined || recoverWithin !== undefined || loseAtMost !== undefined
    if (isByTime || flow.pending === 0) return false
    return this.#clock.elapsed() - this.#quietSince >= quietMs
  }
}

/** Retries the last checkpoint of a run while it can still succeed. */
export async function untilMade(
  clock: Clock,
  made: Promise<MadeCheckpoint>,
  again: () => Promise<MadeCheckpoint>,
): Promise<MadeCheckpoint> {
  for (let attempt = 1, next = made; ; attempt++) {
    try {
      return await next
    } catch (error) {
      if (attempt >= attemptsMax || !isReprise(error, 'RUN_FAILED')) throw error
      await sleep(clock, growingPause(attempt, 100, 5000))
      next = again()
    }
  }
}
