// Pipelines beside a bare loop that does the same without storing anything: keyed counts with a checkpoint every second into a
// SQLite file, the longest time that a checkpoint delays records, and the speed of restoring state.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { kafkaSink, kafkaSource } from '../dist/adapters/kafka/index.js'
import { open } from '../dist/index.js'
import * as lib from '../dist/layers/pipeline/index.js'
import { bareLoop as bareKafka, fill, makeTopic, startBroker } from './support/kafka.mjs'
import { event, events, queries } from './support/nexmark.mjs'
import * as staged from './support/staged.mjs'

const { collectSink, count, generatedSource, pipeline, tumbling } = lib

const victimPath = fileURLToPath(new URL('./support/pipeline-victim.mjs', import.meta.url))
const batch = 512
/** Scattered keys, without a pattern that favours a hash map. */
const keyOf = (n, keys) => (Math.imul(n, 0x9e3779b1) >>> 0) % keys

function bareLoop(records, keys) {
  const counts = new Map()
  const started = process.cpuUsage()
  for (let first = 0; first < records; first += batch) {
    const values = new Array(batch)
    for (let i = 0; i < batch; i++) values[i] = keyOf(first + i, keys)
    for (let i = 0; i < batch; i++) counts.set(values[i], (counts.get(values[i]) ?? 0) + 1)
  }
  return perSecond(records, process.cpuUsage(started))
}

/** Processor time of the whole process: its threads and the writing of checkpoints count as well. */
function perSecond(records, { user, system }) {
  return records / ((user + system) / 1e6)
}

/** Only the last of very many records produces a result: the state is measured, not a sink. */
function counting(records, keys, out) {
  return pipeline('counting', (p) => {
    p.from(
      'numbers',
      generatedSource((n) => keyOf(n, keys), { count: records }),
    )
      .keyBy((key) => key)
      .aggregate('counts', count())
      .filter(({ value }) => value < 0)
      .to('out', out)
  })
}

async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-bench-'))
  try {
    return await work(`sqlite:${join(folder, 'bench.db')}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function keyedCount(records, keys) {
  const bare = bareLoop(records, keys)
  return await inFolder(async (url) => {
    const rp = await open(url)
    const run = await rp.run(counting(records, keys, collectSink()), { checkpoint: { every: '1s' } })
    const started = process.cpuUsage()
    await run.result()
    const value = perSecond(records, process.cpuUsage(started))
    const { recent } = run.status().checkpoints
    await rp.close()
    const longest = Math.max(0, ...recent.map(({ longestStallMs }) => longestStallMs))
    return { value, baseline: bare, details: { checkpoints: recent.length, 'longest slice of one, ms': longest } }
  })
}

async function windows(records, keys) {
  const started = process.cpuUsage()
  bareWindows(records, keys)
  const baseline = perSecond(records, process.cpuUsage(started))
  return await inFolder(async (url) => {
    const rp = await open(url)
    const drawn = pipeline('windows', (p) => {
      p.from(
        'numbers',
        generatedSource((n) => n, { count: records }),
        { time: (n) => n, outOfOrder: 10 },
      )
        .keyBy((n) => keyOf(n, keys))
        .window('per-minute', tumbling('1m'))
        .aggregate(count())
        .filter(({ value }) => value < 0)
        .to('out', collectSink())
    })
    const cpu = process.cpuUsage()
    await rp.run(drawn, { checkpoint: { every: '1s' } }).result()
    const value = perSecond(records, process.cpuUsage(cpu))
    await rp.close()
    return { value, baseline }
  })
}

/** Two branches of one source that join again: their records keep their order of arrival. */
async function branches(records, isJoin) {
  const started = process.cpuUsage()
  bareBranches(records, isJoin)
  const baseline = perSecond(records, process.cpuUsage(started))
  return await inFolder(async (url) => {
    const rp = await open(url)
    const drawn = pipeline('branches', (p) => {
      const all = p.from(
        'numbers',
        generatedSource((n) => keyOf(n, 1_000_000), { count: records }),
      )
      const of = (rest) => all.filter((n) => n % 2 === rest).keyBy((n) => n % 1000)
      const met = isJoin ? of(0).joinLatest('latest', of(1), (a, b) => a - (b ?? 0)) : of(0).union(of(1))
      met.filter((n) => n < -1_000_000).to('out', collectSink())
    })
    const cpu = process.cpuUsage()
    await rp.run(drawn, { checkpoint: { every: '1s' } }).result()
    const value = perSecond(records, process.cpuUsage(cpu))
    await rp.close()
    return { value, baseline }
  })
}

function bareBranches(records, isJoin) {
  const newest = new Map()
  let given = 0
  for (let i = 0; i < records; i++) {
    const n = keyOf(i, 1_000_000)
    if (isJoin && n % 2 === 1) newest.set(n % 1000, n)
    else if (n - (isJoin ? (newest.get((n % 1000) + 1) ?? 0) : 0) < -1_000_000) given += 1
  }
  return given
}

/** With a watermark: a window is emitted and forgotten when it is over. */
function bareWindows(records, keys) {
  const open = new Map()
  let given = 0
  let highest = 0
  for (let n = 0; n < records; n++) {
    const start = Math.floor(n / 60_000) * 60_000
    const window = open.get(start) ?? new Map()
    open.set(start, window)
    const key = keyOf(n, keys)
    window.set(key, (window.get(key) ?? 0) + 1)
    if (n > highest) highest = n
    if (n % batch === 0) {
      for (const [first, over] of open) {
        if (first + 60_000 > highest - 10) continue
        given += over.size
        open.delete(first)
      }
    }
  }
  return given
}

/** The delay of records beyond a batch while a checkpoint of all keys was written, measured at the records. */
async function checkpointStall(keys) {
  return await inFolder(async (url) => {
    const rp = await open(url)
    // Processor time, not the clock: on a busy machine the clock measures other processes.
    const cpuMs = () => {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1000
    }
    let last = cpuMs()
    let longest = 0
    let isWatching = false
    const drawn = pipeline('stall', (p) => {
      p.from(
        'numbers',
        generatedSource((n) => {
          if (n % batch === 0) {
            const now = cpuMs()
            if (isWatching) longest = Math.max(longest, now - last)
            last = now
          }
          return n < keys ? n : keyOf(n, keys)
        }),
      )
        .keyBy((key) => key)
        .aggregate('counts', count())
        .filter(({ value }) => value < 0)
        .to('out', collectSink())
    })
    const run = await rp.run(drawn, { checkpoint: { every: '1h' } }).started()
    while (run.status().records < keys) await new Promise((resolve) => setTimeout(resolve, 10))
    longest = 0
    isWatching = true
    await new Promise((resolve) => setTimeout(resolve, 300))
    const without = longest
    longest = 0
    const { facts } = await run.checkpoint()
    isWatching = false
    const stall = longest
    await run.cancel()
    const before = performance.now()
    const again = await rp.run(drawn, { checkpoint: { every: '1h' } }).started()
    const restoreMs = performance.now() - before
    await again.cancel()
    await rp.close()
    return {
      value: stall,
      baseline: without,
      details: {
        'checkpoint, ms': facts.ms,
        'its longest slice, ms': facts.longestStallMs,
        'checkpoint, bytes': facts.bytes,
        'restore, ms': restoreMs,
        'restore, keys/s': Math.round((keys * 1000) / restoreMs),
      },
    }
  })
}

/** From kill -9 to the first visible new result in a new process; the baseline is a process without state. */
async function killToFirst(keys) {
  return await inFolder(async (url) => {
    const first = await victim({ url, keys }, 'FIRST')
    await first.said('FULL')
    await first.kill()
    const again = await victim({ url, keys }, 'FIRST')
    await again.kill()
    return {
      value: again.ms.FIRST,
      baseline: first.ms.FIRST,
      details: { 'records flow after, ms': again.ms.STARTED, 'without state, ms': first.ms.STARTED },
    }
  })
}

/** A new process, timed from before it is spawned until it prints this line. */
async function victim(options, word) {
  const spawnedAt = performance.now()
  const child = spawn(process.execPath, [victimPath, JSON.stringify(options)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ms = {}
  const listeners = new Set()
  createInterface({ input: child.stdout }).on('line', (line) => {
    ms[line] = performance.now() - spawnedAt
    for (const look of listeners) look()
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const said = async (wanted) => {
    const heard = new Promise((resolve) => {
      const look = () => wanted in ms && resolve()
      listeners.add(look)
      look()
    })
    await Promise.race([heard, ended.then(() => Promise.reject(new Error(`it ended before it said ${wanted}`)))])
  }
  await said(word)
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  return { ms, said, kill }
}

/** Two worker threads beside one thread, by the clock: what a user waits for. */
async function twoThreads(drawn, records) {
  const one = await stagedRun(drawn, records, {})
  const two = await stagedRun(drawn, records, { threads: 2 })
  const details = { 'processor time, one thread, us per record': one.cpuUs, 'with two': two.cpuUs }
  return { value: two.perSecond, baseline: one.perSecond, details }
}

/** The processor time of a record that crosses to another thread, without that of the same pipeline in one thread. */
async function crossingCost() {
  const here = await stagedRun(staged.crossing, staged.counts.crossing, { parallelism: 2 })
  const there = await stagedRun(staged.crossing, staged.counts.crossing, { parallelism: 2, threads: 1 })
  return { value: 1000 * (there.cpuUs - here.cpuUs), details: { 'in one thread, ns': 1000 * here.cpuUs } }
}

/** Timed without the start of the threads. */
async function stagedRun(drawn, records, options) {
  const rp = await open('memory:')
  const run = await rp.run(drawn, options).started()
  const [startedMs, cpu] = [performance.now(), process.cpuUsage()]
  await run.result()
  const [ms, { user, system }] = [performance.now() - startedMs, process.cpuUsage(cpu)]
  await rp.close()
  return { perSecond: (records * 1000) / ms, cpuUs: (user + system) / records }
}

/**
 * A query of Nexmark with checkpoints every second, beside its plain evaluation; both generate their events themselves.
 */
async function nexmark(name, count) {
  const { draw, plain, time = ({ at }) => at } = queries[name]
  const started = process.cpuUsage()
  plain(events(count))
  const baseline = perSecond(count, process.cpuUsage(started))
  return await inFolder(async (url) => {
    const rp = await open(url)
    const drawn = lib.pipeline(name, (p) => {
      const all = p.from('events', generatedSource(event, { count }), { time })
      draw(lib, all)
        .filter(() => false)
        .to('out', collectSink())
    })
    const cpu = process.cpuUsage()
    await rp.run(drawn, { checkpoint: { every: '1s' } }).result()
    const value = perSecond(count, process.cpuUsage(cpu))
    await rp.close()
    return { value, baseline }
  })
}

const kafkaPartitions = 4
let broker = null
let topics = 0

/** Exactly once by transactions and checkpoints every second, beside the client's own loop that promises nothing. */
async function kafkaToKafka(records, keys) {
  if (!broker)
    return { skip: 'there is no Kafka: run test/pipeline/kafka.test.ts once, which fetches it, with Java 17 and Maven' }
  const { brokers, client } = broker
  const name = `numbers-${++topics}`
  for (const topic of [name, `${name}-bare`, `${name}-ours`]) await makeTopic(client, topic, kafkaPartitions)
  await fill(brokers, name, kafkaPartitions, records, keys)
  const bare = () => bareKafka(client, { from: name, to: `${name}-bare`, partitions: kafkaPartitions, records })
  const ours = () => countInKafka(brokers, name, records)
  // In turns, so that neither side always finds the client's code compiled.
  const isFirst = topics % 2 === 0
  const before = isFirst ? await ours() : null
  const baseline = await bare()
  const value = before ?? (await ours())
  return { value: perSecond(records, value), baseline: perSecond(records, baseline) }
}

async function countInKafka(brokers, name, records) {
  return await inFolder(async (url) => {
    const rp = await open(url)
    const drawn = pipeline('kafka-count', (p) => {
      p.from('in', kafkaSource({ brokers, topic: name }), {
        decode: (record) => ({ record, value: JSON.parse(utf8.decode(record.value)) }),
      })
        .keyBy(({ record }) => utf8.decode(record.key))
        .aggregate('counts', count())
        .to(
          'out',
          kafkaSink({
            ...{ brokers, topic: `${name}-ours`, transactionalId: `ours-${name}` },
            message: ({ key, value }) => ({ key, value: String(value) }),
          }),
        )
    })
    const run = await rp.run(drawn, { checkpoint: { every: '1s' } }).started()
    const cpu = process.cpuUsage()
    while (run.status().records < records) await new Promise((resolve) => setTimeout(resolve, 5))
    await run.stop()
    const used = process.cpuUsage(cpu)
    await rp.close()
    return used
  })
}

const utf8 = new TextDecoder()

export default [
  {
    name: 'keyed-count-10k',
    unit: 'records per CPU-second',
    target: { ratioMin: 0.65 },
    note: 'baseline: a bare batch loop over 10,000 keys in the same run',
    run: () => keyedCount(20_000_000, 10_000),
  },
  {
    name: 'keyed-count-1m',
    unit: 'records per CPU-second',
    target: { ratioMin: 0.8 },
    note: 'baseline: a bare batch loop over 1,000,000 keys in the same run',
    run: () => keyedCount(10_000_000, 1_000_000),
  },
  {
    name: 'windows-10k',
    unit: 'records per CPU-second',
    target: { ratioMin: 0.5 },
    note: 'one-minute windows over 10,000 keys; baseline: a bare loop with a watermark',
    run: () => windows(10_000_000, 10_000),
  },
  ...['union', 'join'].map((name) => ({
    name: `branches-${name}`,
    unit: 'records per CPU-second',
    note: 'two branches of one source that meet again, in the order of the source; baseline: a bare loop',
    run: () => branches(5_000_000, name === 'join'),
  })),
  {
    name: 'checkpoint-stall-1m',
    unit: 'ms of processor time',
    note: 'longest time between two batches while all 1,000,000 keys are written; baseline: without a checkpoint',
    run: () => checkpointStall(1_000_000),
  },
  {
    name: 'kill-to-first-output-1m',
    unit: 'ms',
    target: { valueMax: 2000 },
    note: 'from the start of a process after kill -9 to the first visible result, with 1,000,000 keys; baseline: without state',
    run: () => killToFirst(1_000_000),
  },
  {
    name: 'kafka-count-to-kafka',
    unit: 'records per CPU-second',
    target: { ratioMin: 0.9 },
    note: "Kafka to count to Kafka, exactly once, 10,000 keys; baseline: the client's own consume-produce loop, not exactly once",
    setup: async () => {
      broker = await startBroker()
    },
    teardown: async () => await broker?.stop(),
    run: () => kafkaToKafka(200_000, 10_000),
  },
  {
    name: 'two-threads-map',
    unit: 'records/s',
    target: { ratioMin: 1.7 },
    note: 'a map of about 5 us per record behind rebalance() on two threads; baseline: one thread',
    run: () => twoThreads(staged.mapping, staged.counts.mapping),
  },
  {
    name: 'two-threads-count',
    unit: 'records/s',
    target: { ratioMin: 1 },
    note: 'keyed count over 10,000 keys on two threads; baseline: one thread',
    run: () => twoThreads(staged.counting, staged.counts.counting),
  },
  {
    name: 'channel-crossing',
    unit: 'ns of processor time',
    target: { valueMax: 120 },
    note: 'a record of a short key and a number, sent to a thread and read there, both sides together',
    run: crossingCost,
  },
  {
    name: 'growth-10m',
    unit: 'records per CPU-second',
    note: 'keyed count over 10,000,000 keys; baseline: a bare batch loop over as many',
    run: () => keyedCount(20_000_000, 10_000_000),
  },
  ...Object.keys(queries).map((name) => ({
    name: `nexmark-${name}`,
    unit: 'events per CPU-second',
    note: 'baseline: a plain evaluation of all events in memory',
    // q13 calls for each bid.
    run: () => nexmark(name, name === 'q13' ? 100_000 : 500_000),
  })),
]
