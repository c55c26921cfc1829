// The adviser's five axes for a set of answers, and the checkpoint and retention policy that they lead to.

import { type CheckpointPolicy, checkPolicy } from '../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../core/checkpoint/retention.ts'
import { type Duration, toMs } from '../core/duration.ts'
import type { Answers } from './advice-shape.ts'

interface AdvisedAxis {
  readonly is: string
  readonly because: string
}

/** The axes have the names of those of the recovery card. */
export interface AdvisedVector {
  readonly authority: AdvisedAxis
  readonly captured: AdvisedAxis
  readonly scope: AdvisedAxis
  readonly economics: AdvisedAxis
  readonly replay: AdvisedAxis
}

export interface AdvisedPolicy {
  readonly checkpoint: CheckpointPolicy
  readonly retain: RetentionPolicy
}

export function policyFor({ budget, loss, cost, retention }: Answers): AdvisedPolicy {
  const checkpoint: CheckpointPolicy = {
    recoverWithin: budget as Duration,
    ...(loss !== 'any' && { loseAtMost: loss as Duration }),
    ...(cost === 'fast' && { every: 100 }),
  }
  checkPolicy(checkpoint)
  if (retention !== 'all' && retention !== 'needed') toMs(retention, '--retention')
  const history = retention === 'all' || retention === 'needed' ? retention : { for: retention as Duration }
  return { checkpoint, retain: { checkpoints: 3, history } }
}

const authorities = {
  history: 'the entries decide, and state is derived from them',
  state: 'the newest checkpoint decides, and no entry is replayed after it',
  external: 'another system holds the state, and the entries record the progress',
}

const contents = {
  progress: ['progress', 'which items are done; a recovery skips them'],
  state: ['state', 'a checkpoint, and the entries after it'],
  both: ['state and position', 'one commit binds the state to the input that it reflects'],
  execution: ['execution', 'the outcome of each step; a recovery runs the code again with them'],
} as const

const scopes = {
  one: ['timeline', 'each timeline is captured by itself'],
  machine: ['timeline', 'one sequence binds all state of the timeline'],
  many: ['group', 'a cut captures all members at one moment'],
} as const

export function vectorFor(answers: Answers): AdvisedVector {
  const { truth, captures, scope, budget, loss, cost, retention, effects } = answers
  const [content, how] = contents[captures]
  const [reach, binding] = scopes[scope]
  const lost = loss === 'any' ? 'any loss of uncaptured work is accepted' : `at most ${loss} of work is lost`
  const kept = retention === 'all' ? 'all history is kept' : `history is kept: ${retention}`
  const often = cost === 'fast' ? 'a checkpoint also after every 100 entries' : 'as few checkpoints as that allows'
  return {
    authority: { is: truth, because: authorities[truth] },
    captured: { is: content, because: how },
    scope: { is: reach, because: binding },
    economics: { is: `recovery within ${budget}`, because: `${lost}; ${often}; ${kept}` },
    replay: effects
      ? { is: 'repeats with a key', because: 'a call whose outcome is unknown after a crash is settled by its policy' }
      : { is: 'safe', because: 'nothing outside is called' },
  }
}
