// The recovery line of processes that checkpoint independently: the newest set of restore points, one per process, in which
// every received message was also sent (A3.5). A message that was received before the receiver's restore point but sent
// after the sender's moves the receiver further back, which may move others: the domino effect. The result names every such
// step, so that people see the cost of a failure before it happens.

export interface ProcessHistory {
  readonly id: string
  /** Current sequence. */
  readonly seq: number
  /** Sequences to which it can be restored, in any order. */
  readonly checkpoints: readonly number[]
  /** History up to this sequence was removed. Default: 0, and the origin then counts as a restore point. */
  readonly floor?: number
}

export interface Exchange {
  readonly id: string
  readonly from: string
  /** Sequence of the entry in which the sender recorded the message. */
  readonly sentSeq: number
  readonly to: string
  /** Sequence of the entry in which the receiver recorded it; null while it is in flight. */
  readonly receivedSeq: number | null
}

export interface CascadeStep {
  readonly process: string
  readonly from: number
  readonly to: number
  /** The received message whose sending is undone. Null: the process itself failed. */
  readonly because: Exchange | null
}

export interface RecoveryLine {
  /** The sequence from which each process continues: its current one, or one of its checkpoints. */
  readonly at: Readonly<Record<string, number>>
  /** Every step back, in causal order. */
  readonly cascade: readonly CascadeStep[]
  /** Sent before the line and not received before it: must be delivered again. */
  readonly inFlight: readonly Exchange[]
  /** Total number of entries lost. */
  readonly entriesLost: number
  /** Processes that fell back to their origin. */
  readonly fellToOrigin: readonly string[]
  /** Steps below the earliest restore point of a process. If there is any, there is no recovery line. */
  readonly outOfReach: readonly CascadeStep[]
}

/** `failed` processes lose their entries since their last checkpoint; the others may continue from their current sequence. */
export function recoveryLine(
  processes: readonly ProcessHistory[],
  exchanges: readonly Exchange[],
  failed: readonly string[] = processes.map((member) => member.id),
): RecoveryLine {
  const at = new Map(processes.map((member) => [member.id, member.seq]))
  const points = new Map(processes.map((member) => [member.id, pointsOf(member)]))
  const cascade: CascadeStep[] = []
  const outOfReach: CascadeStep[] = []
  const fallBack = (id: string, below: number, because: Exchange | null) => {
    const from = at.get(id)!
    const point = points.get(id)!.find((seq) => seq < below)
    // Continued to the end as if the origin were reachable, so that every obstacle is named.
    const step = { process: id, from, to: point ?? 0, because }
    at.set(id, step.to)
    cascade.push(step)
    if (point === undefined) outOfReach.push(step)
  }
  for (const id of failed) if (at.has(id)) fallBack(id, at.get(id)! + 1, null)
  const known = exchanges.filter((exchange) => at.has(exchange.from) && at.has(exchange.to))
  for (let orphan = findOrphan(known, at); orphan; orphan = findOrphan(known, at)) {
    fallBack(orphan.to, orphan.receivedSeq!, orphan)
  }
  return {
    at: Object.fromEntries(at),
    cascade,
    inFlight: known.filter((exchange) => isSent(exchange, at) && !isReceived(exchange, at)),
    entriesLost: processes.reduce((sum, member) => sum + member.seq - at.get(member.id)!, 0),
    fellToOrigin: processes.filter((member) => member.seq > 0 && at.get(member.id) === 0).map((member) => member.id),
    outOfReach,
  }
}

/** Newest first. */
function pointsOf({ seq, checkpoints, floor = 0 }: ProcessHistory): number[] {
  const known = checkpoints.filter((point) => point >= floor && point <= seq)
  return [...new Set(floor === 0 ? [0, ...known] : known)].sort((a, b) => b - a)
}

/** Every message that is received in it is also sent in it. */
export function isConsistent(at: Readonly<Record<string, number>>, exchanges: readonly Exchange[]): boolean {
  return findOrphan(exchanges, new Map(Object.entries(at))) === undefined
}

function findOrphan(exchanges: readonly Exchange[], at: ReadonlyMap<string, number>): Exchange | undefined {
  return exchanges.find((exchange) => isReceived(exchange, at) && !isSent(exchange, at))
}

function isSent(exchange: Exchange, at: ReadonlyMap<string, number>): boolean {
  return exchange.sentSeq <= (at.get(exchange.from) ?? Number.POSITIVE_INFINITY)
}

function isReceived(exchange: Exchange, at: ReadonlyMap<string, number>): boolean {
  return exchange.receivedSeq !== null && exchange.receivedSeq <= (at.get(exchange.to) ?? Number.NEGATIVE_INFINITY)
}
