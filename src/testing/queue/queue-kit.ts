// The contract of an external queue as tests: first its connection alone, then a job over it with faults at every boundary. It
// needs no particular test runner: pass it describe and it.

import assert from 'node:assert/strict'
import {
  type Delivery,
  type ExternalQueue,
  GiveUp,
  job,
  type QueueConnection,
  queueSource,
} from '../../layers/job/index.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import type { Runner } from '../conformance/suite.ts'
import { type DecideQueue, faultyQueue, type QueueCall, type QueueFate } from './faulty-queue.ts'
import { type JobProcess, JobProcesses } from './job-process.ts'

/** The world of one test: an empty queue at a broker. */
export interface QueueWorld<Message> {
  readonly queue: ExternalQueue<Message>
  /** The text that was sent. */
  textOf(message: Message): string
  send(texts: readonly string[]): Promise<void>
  /** The number of messages that were not acknowledged. */
  size(): Promise<number>
  /** For a broker that can be restarted: kills it and starts it again. */
  restart?(): Promise<void>
  destroy(): Promise<void>
}

export interface QueueHarness<Message> {
  readonly name: string
  create(): Promise<QueueWorld<Message>>
}

/** How long a test waits for an expected event. */
const patienceMs = 30_000
const pauseMs = 20
const prefetch = 64
const never = new AbortController().signal

/** @example queueConformance({ describe, it }, { name: 'my queue', create: async () => ({ … }) }) */
export function queueConformance<Message>(runner: Runner, harness: QueueHarness<Message>): void {
  const test = (title: string, body: (kit: QueueKit<Message>) => Promise<void>) =>
    runner.it(title, async () => {
      const world = await harness.create()
      const kit = new QueueKit(world)
      try {
        await body(kit)
      } finally {
        await kit.end()
        await world.destroy()
      }
    })
  runner.describe(`the queue ${harness.name}`, () => {
    test('delivers every message, and never again once it is acknowledged', (kit) => kit.delivers())
    test('delivers no more than requested, and nothing while it is empty or when the signal fires', (kit) =>
      kit.waits())
    test('delivers a released message again at once, under the same id', (kit) => kit.releases())
    test('delivers messages of a closed connection again', (kit) => kit.disconnects())
    test('keeps an extended message, and delivers an expired one again', (kit) => kit.expires())
    for (const [call, fate] of boundaries) {
      const when = fate === 'die-before' ? 'before' : 'after'
      test(`C3: a process that dies ${when} ${call} loses nothing and repeats only items in flight`, (kit) =>
        kit.dies(call, fate))
    }
    test('C3: a process that dies during an item repeats only that item', (kit) => kit.diesInFlight())
    test('C3: lost acknowledgements repeat no item', (kit) => kit.losesAcknowledgements())
    test('C3: a message that is delivered twice is one item', (kit) => kit.delivered2())
    test('C3: a broker that is away for a while costs no item', (kit) => kit.goesAway())
    test('C3: messages that cannot be read or processed become dead letters, and leave the queue', (kit) =>
      kit.poison())
    test('C3: a stop finishes items in flight and releases the other messages', (kit) => kit.stops())
    test('C3: a broker that is killed and starts again costs no item', (kit) => kit.restarts())
  })
}

const boundaries: readonly (readonly [QueueCall, QueueFate])[] = [
  ['connect', 'die-after'],
  ['receive', 'die-before'],
  ['receive', 'die-after'],
  ['acknowledge', 'die-before'],
  ['acknowledge', 'die-after'],
]

const ten = Array.from({ length: 10 }, (_, n) => `text-${n}`)

class QueueKit<Message> {
  readonly #world: QueueWorld<Message>
  readonly #processes = new JobProcesses()
  readonly #open = new Set<QueueConnection<Message>>()
  /** Every start of an item, in order. */
  readonly #begun: string[] = []

  constructor(world: QueueWorld<Message>) {
    this.#world = world
  }

  async delivers(): Promise<void> {
    await this.#world.send(ten)
    const first = await this.#connect()
    const all = await this.#receiveAll(first, ten.length)
    assert.deepEqual(this.#textsOf(all), [...ten].sort())
    for (const { isRedelivered } of all) assert.equal(isRedelivered, false, 'a first delivery is not marked')
    await first.acknowledge(all.slice(0, 1))
    await first.acknowledge(all.slice(1))
    // An answer that was lost is repeated.
    await first
      .acknowledge(all)
      .catch((error) => assert.fail(`a second acknowledgement must not fail: ${String(error)}`))
    await this.#until(async () => (await this.#world.size()) === 0, 'acknowledged messages leave the queue')
    await this.#close(first)
    const second = await this.#connect()
    assert.deepEqual(await second.receive(10, 200, never), [], 'acknowledged messages are never delivered again')
  }

  async waits(): Promise<void> {
    const connection = await this.#connect()
    assert.deepEqual(await connection.receive(3, 50, never), [])
    const abort = new AbortController()
    const waiting = connection.receive(3, patienceMs, abort.signal)
    abort.abort()
    assert.deepEqual(await waiting, [], 'receive ends when the signal fires')
    await this.#world.send(ten)
    for (let left = ten.length; left > 0; ) {
      const some = await connection.receive(3, patienceMs, never)
      assert.ok(some.length >= 1 && some.length <= 3, `receive(3) returned ${some.length}`)
      await connection.acknowledge(some)
      left -= some.length
    }
  }

  async releases(): Promise<void> {
    await this.#world.send(ten.slice(0, 3))
    const connection = await this.#connect()
    const all = await this.#receiveAll(connection, 3)
    await connection.release(all)
    const again = await this.#receiveAll(connection, 3)
    assert.deepEqual(this.#textsOf(again), this.#textsOf(all))
    assert.deepEqual(again.map(({ id }) => id).sort(), all.map(({ id }) => id).sort(), 'the id stays')
    for (const { isRedelivered } of again) assert.equal(isRedelivered, true, 'a second delivery is marked')
    await connection.acknowledge(again)
  }

  async disconnects(): Promise<void> {
    await this.#world.send(ten.slice(0, 3))
    const first = await this.#connect()
    const all = await this.#receiveAll(first, 3)
    await this.#close(first)
    const second = await this.#connect()
    const again = await this.#receiveAll(second, 3)
    assert.deepEqual(again.map(({ id }) => id).sort(), all.map(({ id }) => id).sort())
    for (const { isRedelivered } of again) assert.equal(isRedelivered, true, 'a second delivery is marked')
    await second.acknowledge(again)
    await this.#until(async () => (await this.#world.size()) === 0, 'acknowledged messages leave the queue')
  }

  async expires(): Promise<void> {
    await this.#world.send(['kept', 'expired'])
    const connection = await this.#connect()
    const all = await this.#receiveAll(connection, 2)
    const { holdMs } = connection
    // The broker holds deliveries until the connection ends: there is nothing to extend.
    if (holdMs === null) return await connection.extend(all)
    const kept = all.filter(({ message }) => this.#world.textOf(message) === 'kept')
    const other = await this.#connect()
    const again: Delivery<Message>[] = []
    for (const endAt = performance.now() + holdMs * 2.5; performance.now() < endAt; ) {
      await connection.extend(kept)
      again.push(...(await other.receive(10, holdMs / 4, never)))
    }
    assert.deepEqual([...new Set(this.#textsOf(again))], ['expired'], 'only the delivery that expired arrives again')
    const late = all.filter((each) => !kept.includes(each))
    await connection
      .acknowledge(late)
      .catch((error) => assert.fail(`a late acknowledgement must not fail: ${String(error)}`))
    await connection.acknowledge(kept)
    await other.acknowledge(again)
    await this.#until(async () => (await this.#world.size()) === 0, 'both messages are acknowledged')
  }

  async dies(call: QueueCall, fate: QueueFate): Promise<void> {
    await this.#world.send(ten)
    const first = this.#processes.start()
    // Not the first call, where there is a choice: some items are done, and others are in flight.
    const at = call === 'connect' ? 1 : 2
    const decide: DecideQueue = (each, n) => (each === call && n === at ? fate : 'ok')
    assert.equal(await this.#run(first, decide, { prefetch: 4 }), 'died', `the process dies at ${call}`)
    await this.#finish({ repeatsMax: 3 })
  }

  async diesInFlight(): Promise<void> {
    await this.#world.send(ten)
    const first = this.#processes.start()
    let begun = 0
    const onItem = () => {
      begun += 1
      if (begun === 4) first.die()
    }
    assert.equal(await this.#run(first, () => 'ok', { onItem }), 'died')
    await this.#finish({ repeatsMax: 3 })
  }

  async losesAcknowledgements(): Promise<void> {
    await this.#world.send(ten)
    const lost = new Set<QueueFate>(['drop', 'fail-before', 'fail-after'])
    const fates = [...lost]
    const decide: DecideQueue = (call, n) => (call === 'acknowledge' && n <= fates.length ? fates[n - 1]! : 'ok')
    const first = this.#processes.start()
    // One item at a time, so that each acknowledgement is a request of its own.
    await this.#run(first, decide, { concurrency: 1 })
    await first.close()
    await this.#finish({ repeatsMax: 0 })
  }

  async delivered2(): Promise<void> {
    await this.#world.send(ten)
    const first = this.#processes.start()
    await this.#run(first, (call) => (call === 'receive' ? 'twice' : 'ok'), {})
    await first.close()
    await this.#finish({ repeatsMax: 0 })
  }

  async goesAway(): Promise<void> {
    await this.#world.send(ten)
    const first = this.#processes.start()
    const decide: DecideQueue = (call, n) =>
      (call === 'connect' && n > 1 && n < 4) || (call === 'receive' && n === 2) ? 'fail-before' : 'ok'
    await this.#run(first, decide, { prefetch: 4 })
    await first.close()
    await this.#finish({ repeatsMax: 0 })
  }

  async poison(): Promise<void> {
    await this.#world.send([...ten, 'unreadable', 'unprocessable'])
    const first = this.#processes.start()
    await this.#run(first, () => 'ok', {})
    const { rp } = first
    const run = await rp.run(this.#jobOf(first, () => 'ok', {}))
    const letters = await run.deadLetters()
    assert.equal(letters.length, 2, 'one letter per message that could not be handled')
    assert.deepEqual(letters.map(({ unread }) => unread ?? false).sort(), [false, true])
    await run.stop()
    await first.close()
    await this.#finish({ repeatsMax: 0, more: ['unprocessable'] })
  }

  async stops(): Promise<void> {
    await this.#world.send(ten)
    const first = this.#processes.start()
    const run = await first.rp.run(
      this.#jobOf(first, () => 'ok', {
        onItem: () => {
          void run.stop()
        },
      }),
    )
    const report = await run.result()
    assert.equal(report.status, 'stopped')
    assert.ok(report.done >= 1 && report.done <= 3, 'the items in flight are finished, and no other is started')
    await first.close()
    await this.#until(
      async () => (await this.#world.size()) === ten.length - report.done,
      'finished items are acknowledged',
    )
    // Released messages are available at once: no hold time passes before they are delivered.
    await this.#finish({ repeatsMax: 0 })
  }

  async restarts(): Promise<void> {
    const { restart } = this.#world
    if (!restart) return
    await this.#world.send(ten)
    const first = this.#processes.start()
    let isRestarted: Promise<void> | null = null
    const onItem = async () => {
      isRestarted ??= restart.call(this.#world)
      await isRestarted
    }
    await this.#run(first, () => 'ok', { onItem, prefetch: 4 })
    await first.close()
    await this.#finish({ repeatsMax: 0 })
  }

  async end(): Promise<void> {
    await this.#processes.close()
    for (const connection of [...this.#open]) await this.#close(connection).catch(() => undefined)
  }

  /** Another process finishes the work; then everything was done, and nothing is left. */
  async #finish({
    repeatsMax,
    more = [],
  }: {
    readonly repeatsMax: number
    readonly more?: readonly string[]
  }): Promise<void> {
    for (let attempt = 0; (await this.#world.size()) > 0 || attempt === 0; attempt++) {
      const process = this.#processes.start()
      await this.#run(process, () => 'ok', {})
      await process.close()
      assert.ok(attempt < 10, `${await this.#world.size()} messages are left in the queue`)
    }
    const distinct = new Set(this.#begun)
    assert.deepEqual([...distinct].sort(), [...ten, ...more].sort(), 'every message is an item')
    const repeated = this.#begun.length - distinct.size
    assert.ok(repeated <= repeatsMax, `${repeated} items were repeated, at most ${repeatsMax} were in flight`)
  }

  async #run(process: JobProcess, decide: DecideQueue, options: RunChoices): Promise<'died' | 'ended'> {
    const run = await process.outlive(process.rp.run(this.#jobOf(process, decide, options)))
    if (run === 'died') return 'died'
    return (await process.outlive(run.result())) === 'died' ? 'died' : 'ended'
  }

  #jobOf(process: JobProcess, decide: DecideQueue, { onItem, concurrency = 3, prefetch: most = prefetch }: RunChoices) {
    const { textOf } = this.#world
    const read = (message: Message) => {
      const text = textOf(message)
      if (text === 'unreadable') throw new TypeError('unreadable on purpose')
      return text
    }
    const source = queueSource(faultyQueue(this.#world.queue, decide, process), {
      ...{ decode: read, untilEmptyFor: 150, prefetch: most, awayFor: patienceMs },
    })
    return job('kit', {
      source,
      concurrency,
      key: (text: string) => text,
      each: async (text: string) => {
        this.#begun.push(text)
        await onItem?.()
        if (!process.isAlive()) await new Promise<never>(() => undefined)
        if (text === 'unprocessable') throw new GiveUp('unprocessable on purpose')
        // Items take a moment, so that several are in flight together.
        await sleep(realTime, 1)
      },
    })
  }

  async #connect(): Promise<QueueConnection<Message>> {
    const connection = await this.#world.queue.connect({ job: 'kit', prefetch })
    this.#open.add(connection)
    return connection
  }

  async #close(connection: QueueConnection<Message>): Promise<void> {
    this.#open.delete(connection)
    await connection.close()
  }

  async #receiveAll(connection: QueueConnection<Message>, count: number): Promise<Delivery<Message>[]> {
    const all: Delivery<Message>[] = []
    for (const endAt = performance.now() + patienceMs; all.length < count; ) {
      assert.ok(performance.now() < endAt, `${all.length} of ${count} messages were delivered`)
      all.push(...(await connection.receive(count - all.length, 1000, never)))
    }
    return all
  }

  #textsOf(deliveries: readonly Delivery<Message>[]): string[] {
    return deliveries.map(({ message }) => this.#world.textOf(message)).sort()
  }

  async #until(isMet: () => Promise<boolean>, what: string): Promise<void> {
    for (const endAt = performance.now() + patienceMs; !(await isMet()); ) {
      assert.ok(performance.now() < endAt, what)
      await sleep(realTime, pauseMs)
    }
  }
}

interface RunChoices {
  readonly onItem?: () => unknown
  readonly concurrency?: number
  readonly prefetch?: number
}
