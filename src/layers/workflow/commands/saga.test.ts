// A saga on its own, with a run that keeps its entries in memory: the recorded entries decide which compensation is
// next.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sha256 } from '../../../engine/base/platform.ts'
import type { Entry } from '../../../engine/history/history.ts'
import { workflowFold } from '../history/fold.ts'
import type { RunState } from '../history/state.ts'
import type { Command } from '../run/command.ts'
import { Saga, type SagaRun } from './saga.ts'

class FakeRun {
  state: RunState = workflowFold.initial()
  readonly types: string[] = []
  readonly alarms = { setPassing: (_: string, at: number) => void this.waits.push(at) }
  readonly code = {
    execution: { wake: () => undefined, isUndoableBelow: () => false },
    keyOf: ({ id }: { readonly id: string }) => `key:${id}`,
  }
  readonly tenure = {
    leaving: new Promise<never>(() => undefined),
    stopSignal: new AbortController().signal,
    isLeaving: false,
  }
  readonly kernel = { hash: sha256, random: { number: () => 0.5 } }
  readonly open = { id: 'workflow/w/r', inherited: [] }
  readonly host = { engine: null }
  readonly waits: number[] = []
  time = 0
  work: Promise<unknown> = Promise.resolve()
  readonly definition: { readonly options: object }

  constructor(options: object = {}) {
    this.definition = { options }
  }

  now = () => this.time
  spawn = (work: () => unknown) => {
    this.work = Promise.resolve(work())
  }
  readonly recorder = {
    record: async (type: string, data: unknown) => {
      const entry = { timeline: 'workflow/w/r', seq: this.types.push(type), time: 0, type, data }
      this.state = workflowFold.apply(this.state, entry as unknown as Entry) as RunState
    },
  }

  /** A saga of this run, as a replay of its code builds it. */
  saga(ids: readonly string[], undo: (id: string) => unknown): Saga {
    const saga = new Saga(this as unknown as SagaRun)
    for (const id of ids)
      saga.add({
        command: { id, key: `key:${id}` } as Command,
        item: { seq: 1 },
        result: `of ${id}`,
        call: () => undo(id),
        retry: { attempts: 2, backoff: '1s' },
      })
    return saga
  }
}

describe('a saga', () => {
  it('undoes each once, in reverse, however often the process dies in between', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 6 }), fc.array(fc.boolean()), async (count, deaths) => {
        const run = new FakeRun()
        const ids = Array.from({ length: count }, (_, i) => `s${i}`)
        const undone: string[] = []
        const undo = (id: string) => undone.push(id)
        let saga = run.saga(ids, undo)
        for (const dies of [...deaths, ...ids.map(() => false), false]) {
          if (dies) saga = run.saga(ids, undo)
          saga.advance()
          await run.work
        }
        expect(saga.advance()).toBe(true)
        expect(undone).toEqual(ids.toReversed())
      }),
    )
  })

  it('tries again after a pause, counted in history, and then waits for a person', async () => {
    const run = new FakeRun()
    const saga = run.saga(['a'], () => {
      throw new Error('no')
    })
    expect(saga.advance()).toBe(false)
    await run.work
    expect(saga.advance()).toBe(false)
    expect(run.waits).toEqual([1000])
    run.time = 1000
    saga.advance()
    await run.work
    expect(run.types).toEqual(['undo.retry', 'stuck'])
    saga.advance()
    await run.work
    expect(run.types).toHaveLength(2)
    await run.recorder.record('resumed', { by: 'a person' })
    saga.advance()
    await run.work
    expect(run.types).toEqual(['undo.retry', 'stuck', 'resumed', 'undo.retry'])
  })

  it('that cannot be undone rolls back to before itself if the workflow declares so, and reports the remaining steps', async () => {
    const run = new FakeRun({ whenUndoFails: 'restore' })
    for (const id of ['a', 'b', 'c']) await run.recorder.record('done', { id, result: 1 })
    const saga = run.saga(['b', 'c'], (id) => {
      if (id === 'b') throw Object.assign(new Error('gone'), { name: 'NonRetryable' })
    })
    for (run.time = 0; !run.state.restored && run.time < 10_000; run.time += 1000) {
      saga.advance()
      await run.work
    }
    expect(run.state.restored).toMatchObject({
      to: 'b',
      undone: ['c'],
      isHeld: true,
      stands: [{ step: 'b', why: 'gone' }],
    })
  })

  it('undoes only the requested steps, below the given paths', async () => {
    const run = new FakeRun()
    const undone: string[] = []
    const saga = run.saga(['a', '~race.0/b', '~race.1/c'], (id) => undone.push(id))
    saga.undoBelow('~race~undo', ['~race.0'])
    for (let i = 0; i < 3; i++) {
      saga.serve()
      await run.work
    }
    expect(undone).toEqual(['~race.0/b'])
    expect(run.types).toEqual(['undone', 'done'])
    saga.settle('~race.1')
    saga.advance()
    await run.work
    expect(undone).toEqual(['~race.0/b', 'a'])
  })
})
