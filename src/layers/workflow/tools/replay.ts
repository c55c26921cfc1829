// Dry replay: the current code against a recorded history, with nothing started and nothing written. Used for queries of
// runs that are not in memory, the check before a deploy, and tests of recorded histories.

import { equalBytes, type TimelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { RecoveryReport } from '../../../engine/base/recovery-report.ts'
import type { Queries } from '../commands/queries.ts'
import type { AnyWorkflow } from '../context.ts'
import type { RunState } from '../history/state.ts'
import type { Command } from '../run/command.ts'
import { Instance, type InstanceHost } from '../run/instance.ts'
import type { RunTimeline } from '../run/run-timeline.ts'

export interface Replayed {
  /** The query handlers of the run's code. */
  readonly queries: Queries
  /** The difference between code and history. */
  readonly divergence: RepriseError | null
  /** The open commands of the code at the end of history. */
  readonly open: readonly Command[]
}

export async function replayAside(
  host: InstanceHost,
  definition: AnyWorkflow,
  timeline: TimelineId,
  state: RunState,
): Promise<Replayed> {
  const instance = new Instance(host, definition, frozen(timeline, state), true)
  instance.code.begin()
  const divergence = await Promise.race([
    instance.code.replayed.then(() => instance.code.execution.blamed ?? endDiffers(instance)),
    instance.tenure.left.then((left) => ('error' in left ? (left.error as RepriseError) : null)),
  ])
  const open = [...instance.code.execution.open]
  instance.tenure.leave({ because: 'closed' })
  return { queries: instance.code.queries, divergence, open }
}

/** The replay of an ended run must end in the same way. */
function endDiffers(instance: Instance): RepriseError | null {
  const { end, rolling } = instance.state
  if (!end || end.kind === 'terminated' || rolling || ('undone' in end && end.undone)) return null
  const { execution, ending } = instance.code
  const { outcome } = ending
  const differ = (code: string) =>
    new RepriseError('DIVERGED', `${instance.open.id}: in history the run ${end.kind}, ${code}`, {
      timeline: instance.open.id,
      step: null,
      history: end.kind,
      code,
    })
  if (!execution.isOver || !outcome) {
    const asks = [...execution.open].map(({ id }) => id).join(', ')
    return differ(`the code requests ${asks || 'nothing'}`)
  }
  if (end.kind !== 'completed') return 'error' in outcome ? null : differ('the code returns a result')
  if ('error' in outcome) return differ(`the code throws ${String(outcome.error)}`)
  const { codec } = instance.kernel
  return equalBytes(codec.encode(end.result), codec.encode(outcome.value))
    ? null
    : differ('the code returns another result')
}

function frozen(id: TimelineId, state: RunState): RunTimeline {
  const report = { timeline: id, seq: 0, epoch: 0, checkpoint: null } as unknown as RecoveryReport
  const refusal = () => new RepriseError('BUG', `${id} is only read here`)
  const refuse = () => Promise.reject(refusal())
  return {
    id,
    life: 1,
    coordinate: { timeline: id, seq: 0, epoch: 0, digest: '' },
    inherited: [],
    isFork: false,
    state,
    seq: 0,
    broken: null,
    recovery: report,
    watch: () => () => undefined,
    ask: (_, asker) => asker.reject(refusal()),
    write: refuse,
    mail: async () => ({ messages: [], now: 0 }),
    checkpoint: refuse,
    shut: async () => undefined,
    break: () => undefined,
  }
}
