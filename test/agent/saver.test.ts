// RepriseSaver beyond the official suite: branches, values that JSON loses, writes before their checkpoint, several
// processes, prune, expiry, lists that read no more than they need, and the bytes that a growing thread costs.

import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { Annotation, Command, interrupt, messagesStateReducer, Send, StateGraph } from '@langchain/langgraph'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import langgraphExamples from '../../examples/api/langgraph.ts'
import { RepriseSaver } from '../../src/adapters/langgraph/index.ts'
import type { Reprise } from '../../src/index.ts'
import { runExamples } from '../support/examples.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import {
  type BaseCheckpointSaver,
  type Checkpoint,
  emptyCheckpoint,
  JsonPlusSerializer,
  MemorySaver,
  uuid6,
} from './langgraph-names.ts'

const metadata = { source: 'loop' as const, step: 0, parents: {} }
const at = (thread_id: string, checkpoint_id?: string) => ({
  configurable: { thread_id, checkpoint_ns: '', ...(checkpoint_id !== undefined && { checkpoint_id }) },
})

function checkpointOf(values: Record<string, unknown>, version: number): Checkpoint {
  const channel_versions = Object.fromEntries(Object.keys(values).map((key) => [key, version]))
  return { ...emptyCheckpoint(), id: uuid6(version), channel_values: values, channel_versions }
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

function chat(checkpointer: RepriseSaver) {
  const State = Annotation.Root({
    messages: Annotation<(AIMessage | HumanMessage)[]>({ reducer: messagesStateReducer as never, default: () => [] }),
  })
  return new StateGraph(State)
    .addNode('answer', (state) => ({ messages: [new AIMessage(`answer ${state.messages.length}`)] as never }))
    .addEdge('__start__', 'answer')
    .compile({ checkpointer })
}

describe('RepriseSaver', () => {
  onEveryStore('C11 a thread', (world) => {
    it('keeps binary, Date, BigInt, NaN, Map, Set, undefined, cycles and LangChain messages as they are', async () => {
      const w = await world()
      const saver = new RepriseSaver(await w.engine())
      const cycle: Record<string, unknown> = { name: 'cycle' }
      cycle.self = cycle
      const values = {
        binary: new Uint8Array([0, 255, 7]),
        large: new Uint8Array(1000).fill(3),
        date: new Date(12345),
        big: 2n ** 80n,
        nan: Number.NaN,
        zero: -0,
        map: new Map<unknown, unknown>([['a', new Set([1])]]),
        nothing: undefined,
        surrogate: `${'x'.repeat(200)}\ud800`,
        nested: [{ when: new Date(1) }, [Number.POSITIVE_INFINITY]],
        messages: [
          new HumanMessage({ id: 'h', content: 'long '.repeat(100) }),
          new AIMessage({ id: 'a', content: '', tool_calls: [{ id: 't', name: 'f', args: { n: 1 } }] }),
          new ToolMessage({ id: 't', content: 'ok', tool_call_id: 't', artifact: { at: new Date(5) } }),
        ],
        cycle,
      }
      const config = await saver.put(at('values'), checkpointOf(values, 1), metadata, {
        ...Object.fromEntries(Object.keys(values).map((key) => [key, 1])),
      })
      await saver.putWrites(
        config,
        [
          ['date', values.date],
          ['messages', values.messages],
        ],
        'task',
      )
      const tuple = await new RepriseSaver(await w.engine()).getTuple(at('values'))
      const { cycle: circle, ...rest } = tuple!.checkpoint.channel_values as typeof values
      const { cycle: _cycle, ...expected } = values
      expect(rest).toEqual(expected)
      expect(Object.is(rest.zero, -0)).toBe(true)
      expect(circle.self).toBe(circle)
      expect(rest.messages[2]).toBeInstanceOf(ToolMessage)
      expect(tuple!.pendingWrites).toEqual([
        ['task', 'date', values.date],
        ['task', 'messages', values.messages],
      ])
    })

    it('keeps two branches from one checkpoint apart', async () => {
      const w = await world()
      const saver = new RepriseSaver(await w.engine())
      const root = await saver.put(at('branches'), checkpointOf({ list: ['root'] }, 1), metadata, { list: 1 })
      const a = await saver.put(root, checkpointOf({ list: ['root', 'a1'] }, 2), metadata, { list: 2 })
      const b = await saver.put(root, checkpointOf({ list: ['root', 'b1'] }, 2), metadata, { list: 2 })
      const a2 = await saver.put(a, checkpointOf({ list: ['root', 'a1', 'a2'] }, 3), metadata, { list: 3 })
      const b2 = await saver.put(b, { ...checkpointOf({ list: ['root', 'b1'] }, 2) }, metadata, {})
      for (const reader of [saver, new RepriseSaver(await w.engine())]) {
        expect((await reader.get(a2))!.channel_values).toEqual({ list: ['root', 'a1', 'a2'] })
        expect((await reader.get(b2))!.channel_values).toEqual({ list: ['root', 'b1'] })
        expect((await reader.get(root))!.channel_values).toEqual({ list: ['root'] })
      }
    })

    it('keeps writes that arrive before their checkpoint, and the first write of a task', async () => {
      const w = await world()
      const saver = new RepriseSaver(await w.engine())
      const checkpoint = checkpointOf({}, 1)
      await saver.putWrites(
        at('early', checkpoint.id),
        [
          ['a', 1],
          ['__error__', 'first'],
        ],
        'task',
      )
      await saver.putWrites(
        at('early', checkpoint.id),
        [
          ['a', 2],
          ['__error__', 'second'],
        ],
        'task',
      )
      await saver.put(at('early'), checkpoint, metadata, {})
      const tuple = await saver.getTuple(at('early'))
      expect(tuple!.pendingWrites).toEqual([
        ['task', '__error__', 'second'],
        ['task', 'a', 1],
      ])
    })

    it('finds a change that was made in place inside a list it had stored', async () => {
      const w = await world()
      const saver = new RepriseSaver(await w.engine())
      const list = Array.from({ length: 50 }, (_, n) => ({ n }))
      const first = await saver.put(at('mutated'), checkpointOf({ list }, 1), metadata, { list: 1 })
      list[10]!.n = 999
      list.push({ n: 50 })
      await saver.put(first, checkpointOf({ list }, 2), metadata, { list: 2 })
      expect((await saver.get(at('mutated')))!.channel_values).toEqual({ list })
      expect(((await saver.get(first))!.channel_values.list as { n: number }[])[10]).toEqual({ n: 10 })
    })

    it('runs a real graph over a restart: history, interrupts, sends, time travel', async () => {
      const w = await world()
      const State = Annotation.Root({
        log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
      })
      const make = (checkpointer: BaseCheckpointSaver) =>
        new StateGraph(State)
          .addNode('ask', () => ({ log: [`answer ${String(interrupt('question'))}`] }))
          .addNode('fan', (state: { log: string[] }) => ({ log: [`fan of ${state.log.length}`] }))
          .addEdge('__start__', 'ask')
          .addConditionalEdges('ask', (state) => [new Send('fan', state), new Send('fan', state)])
          .compile({ checkpointer })
      const config = { configurable: { thread_id: 'graph' } }
      /** Interrupted, resumed, rewound, edited and continued; `restart` is called in between. */
      const play = async (first: BaseCheckpointSaver, restart: () => Promise<BaseCheckpointSaver>) => {
        await make(first).invoke({ log: ['start'] }, config)
        const graph = make(await restart())
        const { next } = await graph.getState(config)
        const done = await graph.invoke(new Command({ resume: 'yes' }), config)
        const history = await all(graph.getStateHistory(config))
        const asked = history.find((each) => each.next.includes('ask'))!
        const again = await graph.invoke(new Command({ resume: 'no' }), asked.config)
        const edited = await graph.updateState(asked.config, { log: ['edited'] })
        const after = await make(await restart()).getState(edited)
        const shape = history.map((each) => ({ values: each.values, next: each.next, metadata: each.metadata }))
        return {
          next,
          done,
          shape,
          again,
          edited: after.values,
          count: (await all(graph.getStateHistory(config))).length,
        }
      }
      const memory = new MemorySaver()
      const expected = await play(memory, async () => memory)
      const mine = await play(new RepriseSaver(await w.engine()), async () => new RepriseSaver(await w.engine()))
      expect(mine).toEqual(expected)
      expect(mine.done.log).toEqual(['start', 'answer yes', 'fan of 2', 'fan of 2'])
    })

    it("is used by two processes in turns, each seeing the other's writes", async () => {
      const w = await world()
      const [a, b] = [chat(new RepriseSaver(await w.engine())), chat(new RepriseSaver(await w.engine()))]
      const config = { configurable: { thread_id: 'shared' } }
      for (let turn = 0; turn < 3; turn++) {
        await a.invoke({ messages: [new HumanMessage('from a')] }, config)
        await b.invoke({ messages: [new HumanMessage('from b')] }, config)
      }
      const [one, two] = [await a.getState(config), await b.getState(config)]
      expect(one.values.messages).toHaveLength(12)
      expect(two.values).toEqual(one.values)
      expect(two.config).toEqual(one.config)
    })

    it('lists with filter, before and limit, newest first, and decodes only the returned checkpoints', async () => {
      const w = await world()
      const saver = new RepriseSaver(await w.engine())
      const configs = []
      let config: object = at('list')
      for (let step = 0; step < 30; step++) {
        const checkpoint = checkpointOf({ list: [step] }, step + 1)
        config = await saver.put(
          config,
          checkpoint,
          { ...metadata, step, source: step % 2 ? 'loop' : 'input' },
          { list: step + 1 },
        )
        configs.push(checkpoint.id)
      }
      const steps = async (options: object) =>
        (await all(saver.list(at('list'), options))).map((tuple) => tuple.metadata!.step)
      expect(await steps({ limit: 3 })).toEqual([29, 28, 27])
      expect(await steps({ limit: 2, filter: { source: 'input' } })).toEqual([28, 26])
      expect(await steps({ limit: 2, before: at('list', configs[10]) })).toEqual([9, 8])
      expect(await steps({ filter: { step: 7 } })).toEqual([7])
      expect(await steps({ filter: { parents: {} }, limit: 1 })).toEqual([29])
      expect(await steps({ filter: { unknown: 1 } })).toEqual([])
    })

    it('returns separate objects to each reader: changes to them stay invisible to others', async () => {
      const w = await world()
      const saver = new RepriseSaver(await w.engine())
      const values = () => ({
        list: [{ when: new Date(5), bytes: new Uint8Array([1, 2]), deep: { n: [1] } }],
        messages: [new AIMessage({ id: 'a', content: 'x'.repeat(100), response_metadata: { at: new Date(7) } })],
      })
      await saver.put(at('own'), checkpointOf(values(), 1), metadata, { list: 1, messages: 1 })
      for (const read of [() => saver.get(at('own')), async () => (await all(saver.list(at('own'))))[0]!.checkpoint]) {
        const { list, messages } = (await read())!.channel_values as ReturnType<typeof values>
        expect({ list, messages }).toEqual(values())
        list[0]!.when.setTime(0)
        list[0]!.bytes[0] = 9
        list[0]!.deep.n.push(2)
        ;(messages[0]!.response_metadata.at as Date).setTime(0)
        messages[0]!.content = 'changed'
      }
      expect((await saver.get(at('own')))!.channel_values).toEqual(values())
    })

    it('deletes a thread, prunes one to the kept checkpoints, and frees its space', async () => {
      const w = await world()
      const rp = await w.engine()
      const saver = new RepriseSaver(rp)
      const graph = chat(saver)
      const config = { configurable: { thread_id: 'pruned' } }
      for (let turn = 0; turn < 20; turn++)
        await graph.invoke({ messages: [new HumanMessage('x'.repeat(500))] }, config)
      const before = await graph.getState(config)
      const { checkpoints } = await saver.prune('pruned')
      expect(checkpoints).toBeGreaterThan(50)
      expect(await graph.getState(config)).toEqual(before)
      expect(await all(saver.list(config))).toHaveLength(1)
      const head = await rp.head('langgraph/pruned')
      expect(head!.floor).toBeGreaterThan(50)
      // The thread continues, and a new process reads all of it.
      await graph.invoke({ messages: [new HumanMessage('more')] }, config)
      const other = chat(new RepriseSaver(await w.engine()))
      expect((await other.getState(config)).values.messages).toHaveLength(42)
      await saver.deleteThread('pruned')
      expect(await saver.getTuple(config)).toBeUndefined()
      expect(await rp.head('langgraph/pruned')).toBeNull()
      expect((await rp.verify()).faults).toEqual([])
    })

    it('hides and removes threads that outlived their time', async () => {
      const w = await world()
      const rp = await w.engine()
      await new RepriseSaver(rp).put(at('old'), checkpointOf({ a: 1 }, 1), metadata, { a: 1 })
      const saver = new RepriseSaver(rp, { ttl: 1 })
      await pause(20)
      expect(await saver.getTuple(at('old'))).toBeUndefined()
      expect(await all(saver.list({}))).toEqual([])
      expect(await saver.expire()).toBe(1)
      expect(await rp.head('langgraph/old')).toBeNull()
    })

    it('takes a serializer of the user, and thread ids of any kind', async () => {
      const w = await world()
      const rp = await w.engine()
      const serde = new JsonPlusSerializer()
      const saver = new RepriseSaver(rp, { serde })
      for (const id of ['a/b', 'ü~1', '..', 'x y', '%2F', 'naïve?#']) {
        await saver.put(at(id), checkpointOf({ set: new Set([id]) }, 1), metadata, { set: 1 })
        expect((await saver.get(at(id)))!.channel_values).toEqual({ set: new Set([id]) })
      }
      expect(new Set((await all(saver.list({}))).map((tuple) => tuple.config.configurable!.thread_id)).size).toBe(6)
      await expect(saver.getTuple(at('x'.repeat(2000)))).rejects.toThrow(/thread_id/)
    })
  })

  it('C11 stores any sequence of lists and gives each of them back, from this process and from another', async () => {
    const { open } = await import('../../src/index.ts')
    const item = fc.oneof(
      fc.string({ maxLength: 300 }),
      fc.integer(),
      fc.record({ text: fc.string({ minLength: 100, maxLength: 200 }) }),
    )
    const edit = fc.oneof(
      fc.record({ kind: fc.constant('push' as const), items: fc.array(item, { maxLength: 4 }) }),
      fc.record({ kind: fc.constant('cut' as const), at: fc.nat(10) }),
      fc.record({ kind: fc.constant('set' as const), at: fc.nat(10), item }),
      fc.constant({ kind: 'same' as const }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(edit, fc.nat(5)), { maxLength: 15 }), async (edits) => {
        await using rp = await open('memory:')
        const saver = new RepriseSaver(rp)
        const made: { config: object; list: unknown[] }[] = [{ config: at('any'), list: [] }]
        let version = 0
        for (const [each, back] of edits) {
          // From any of the last few checkpoints: branches.
          const from = made[Math.max(0, made.length - 1 - (back > 3 ? back - 3 : 0))]!
          const list = [...from.list]
          if (each.kind === 'push') list.push(...each.items)
          else if (each.kind === 'cut') list.splice(each.at)
          else if (each.kind === 'set' && each.at < list.length) list[each.at] = each.item
          version += 1
          const config = await saver.put(from.config, checkpointOf({ list }, version), metadata, { list: version })
          made.push({ config, list })
        }
        // Newest first, as a list of checkpoints goes: each is the beginning of the one before, or was cut.
        const listed = new Map<unknown, unknown>()
        for await (const { config, checkpoint } of new RepriseSaver(rp).list(at('any'))) {
          listed.set(config.configurable!.checkpoint_id, checkpoint.channel_values.list)
        }
        for (const { config, list } of made.slice(1)) {
          expect(listed.get((config as ReturnType<typeof at>).configurable.checkpoint_id)).toEqual(list)
        }
        for (const reader of [saver, new RepriseSaver(rp, {})]) {
          for (const { config, list } of made.slice(1)) {
            expect((await reader.get(config))!.channel_values).toEqual({ list })
          }
        }
        await saver.prune('any', { keepLast: 2 })
        const kept = await all(saver.list(at('any')))
        for (const tuple of kept) {
          const { checkpoint_id } = tuple.config.configurable!
          const origin = made.find(
            (one) =>
              (one.config as Reprise & { configurable: { checkpoint_id: string } }).configurable.checkpoint_id ===
              checkpoint_id,
          )!
          expect(tuple.checkpoint.channel_values).toEqual({ list: origin.list })
        }
      }),
      { numRuns: 60 },
    )
  })

  it('C11 a list with a filter and a limit decodes only its results, however long the thread is', async () => {
    const { open } = await import('../../src/index.ts')
    const { Codec } = await import('../../src/core/codec/codec.ts')
    await using rp = await open('memory:')
    const saver = new RepriseSaver(rp)
    const decodes = async (steps: number) => {
      let config: object = at(`thread-${steps}`)
      for (let step = 0; step < steps; step++) {
        const source = step % 5 === 0 ? ('input' as const) : ('loop' as const)
        const checkpoint = checkpointOf({ document: { text: `${step} ${'z'.repeat(500)}` } }, step + 1)
        config = await saver.put(config, checkpoint, { ...metadata, step, source }, { document: step + 1 })
      }
      const decode = vi.spyOn(Codec.prototype, 'decode')
      try {
        const options = { filter: { source: 'input' }, limit: 2 }
        expect(await all(saver.list(at(`thread-${steps}`), options))).toHaveLength(2)
        return decode.mock.calls.length
      } finally {
        decode.mockRestore()
      }
    }
    const few = await decodes(20)
    expect(few).toBeGreaterThan(2)
    expect(few).toBeLessThan(20)
    expect(await decodes(200)).toBe(few)
  })

  it('C11 pages of a list fit together: with branches, namespaces, before, filter and a limit anywhere', async () => {
    const { open } = await import('../../src/index.ts')
    await using rp = await open('memory:')
    const saver = new RepriseSaver(rp)
    const memory = new MemorySaver()
    const made: { ns: string; id: string }[] = []
    for (let step = 0; step < 100; step++) {
      const ns = step % 3 === 0 ? 'inner' : ''
      const parent = made.filter((each) => each.ns === ns).at(step % 7 === 0 ? -2 : -1)
      const checkpoint = { ...checkpointOf({ list: [step] }, step + 1), id: uuid6(step) }
      const config = {
        configurable: { thread_id: 'pages', checkpoint_ns: ns, ...(parent && { checkpoint_id: parent.id }) },
      }
      for (const each of [saver, memory]) {
        await each.put(
          config,
          checkpoint,
          { ...metadata, step, source: step % 2 ? 'loop' : 'input' },
          { list: step + 1 },
        )
      }
      made.push({ ns, id: checkpoint.id })
    }
    const shown = async (from: BaseCheckpointSaver, configurable: object, options: object) =>
      (await all(from.list({ configurable: { thread_id: 'pages', ...configurable } }, options)))
        .map(({ config, metadata: told }) => [config.configurable!.checkpoint_ns, told!.step])
        .sort()
    for (const configurable of [{}, { checkpoint_ns: '' }, { checkpoint_ns: 'inner' }]) {
      for (const options of [{}, { filter: { source: 'input' } }, { before: at('pages', made[50]!.id) }]) {
        expect(await shown(saver, configurable, options)).toEqual(await shown(memory, configurable, options))
      }
    }
    const limited = await all(saver.list(at('pages'), { limit: 40 }))
    const whole = await all(saver.list(at('pages')))
    expect(limited).toEqual(whole.slice(0, 40))
    const ids = whole.map(({ config }) => String(config.configurable!.checkpoint_id))
    expect(ids).toEqual([...ids].sort().reverse())
  })

  it('C11 costs only what changed: bytes of a turn do not grow with the thread', async () => {
    const { open } = await import('../../src/index.ts')
    await using rp = await open('memory:')
    const graph = chat(new RepriseSaver(rp))
    const sizes: number[] = []
    rp.events.on('appended', () => undefined)
    const bytesOf = async () => {
      let bytes = 0
      for (const run of await hostOf(rp).kernel.store.read('langgraph/bytes' as never, 0, 1e9))
        bytes += run.bytes.length
      return bytes
    }
    let before = 0
    for (let turn = 0; turn < 60; turn++) {
      await graph.invoke(
        { messages: [new HumanMessage(`${turn} ${'y'.repeat(300)}`)] },
        { configurable: { thread_id: 'bytes' } },
      )
      const now = await bytesOf()
      sizes.push(now - before)
      before = now
    }
    const mean = (list: number[]) => list.reduce((a, b) => a + b, 0) / list.length
    expect(mean(sizes.slice(-10)) / mean(sizes.slice(5, 15))).toBeLessThan(1.1)
  })
})

runExamples('reprise/langgraph', langgraphExamples)
