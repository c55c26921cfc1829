// The recovery line of processes that checkpoint on their own: the newest set of restore points, one a process, in which
// no message is received that was not sent (A3.5). Starting from what each process has, a message received before its
// restore point but sent after its sender's sends the receiver further back, and that may go on: the domino effect. The
// answer names every such step, so that people see what a failure would cost before it comes.

export interface ProcessHistory {
  readonly id: string
  /** Where it stands now. */
  readonly seq: number
  /** Sequences it can be restored to, in any order. */
  readonly checkpoints: readonly number[]
  /** History up to here is gone. 0 if left out: then the very beginning counts as a restore point. */
  readonly floor?: number
}

export interface Exchange {
  readonly id: string
  readonly from: string
  /** Sequence of the entry in which the sender recorded it. */
  readonly sentSeq: number
  readonly to: string
  /** Sequence of the entry in which the receiver took it in; null while it is under way. */
  readonly receivedSeq: number | null
}

export interface CascadeStep {
  readonly process: string
  readonly from: number
  readonly to: number
  /** The message that was received before and not sent any more. Null: it failed itself. */
  readonly because: Exchange | null
}

export interface RecoveryLine {
  /** Where each process goes on from: its present place, or one of its checkpoints. */
  readonly at: Readonly<Record<string, number>>
  /** Every step back, in the order in which they follow from each other. */
  readonly cascade: readonly CascadeStep[]
  /** Sent before the line and not received before it: to be delivered again. */
  readonly inFlight: readonly Exchange[]
  /** Entries lost by all of them together. */
  readonly entriesLost: number
  /** Processes that fell back to their very beginning. */
  readonly fellToOrigin: readonly string[]
  /** Steps that would lead below what a process can be restored to. While there is one, there is no recovery line. */
  readonly outOfReach: readonly CascadeStep[]
}

/** `failed` processes lose what they did since their last checkpoint; the others may go on from where they are. */
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
    // Followed to its end as if the beginning could be had, so that everything that stands in the way is named.
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

/** No message is received in it that was not sent in it. */
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
