// When files are complete: a writer and a concurrent capture, from a seed. However the writer writes (to a temporary file, in
// place, with a marker) and wherever it pauses, every capture is whole. More writers: REPRISE_EXEC_WRITERS=200.

import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync } from 'node:fs'
import { appendFile, open as openFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Stamp, Survey } from '../../src/engine/base/file-tree/survey.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { StateTimeline } from '../../src/engine/writing/state-timeline.ts'
import { readValue } from '../../src/engine/writing/stored-value.ts'
import { open, type Reprise } from '../../src/index.ts'
import { Captures } from '../../src/layers/exec/captures.ts'
import { type CompleteRule, Completion } from '../../src/layers/exec/completion.ts'
import type { CaptureWhen } from '../../src/layers/exec/entries.ts'
import { type CapturedTree, wantedFiles } from '../../src/layers/exec/file-set.ts'
import { execKind } from '../../src/layers/exec/model.ts'
import { writtenNow } from '../../src/layers/exec/processes.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { seeded } from '../support/seeded.ts'

const writers = Number(process.env.REPRISE_EXEC_WRITERS ?? 3)
const seed = Number(process.env.REPRISE_SEED ?? 1)
const folder = temporaryFolder('exec-rule')
let rp: Reprise
beforeAll(async () => {
  rp = await open('memory:', { housekeeping: false })
  rp.declare(execKind)
})
afterAll(async () => {
  await rp.close()
})

const isLinux = process.platform === 'linux'
if (!isLinux) console.log('skipped: which files are open for writing is known on Linux only')

const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

function bytesOf(step: number, chance: () => number): Buffer {
  const body = Buffer.alloc(1 + Math.floor(chance() ** 3 * 600_000), `${step};`)
  return Buffer.concat([Buffer.from(`${step} ${digest(body)}\n`), body])
}

/** The step that wrote it; null if it is not whole. */
function stepOf(bytes: Buffer): number | null {
  const end = bytes.indexOf(10)
  const [step, sum] = bytes.subarray(0, end).toString().split(' ')
  return end > 0 && digest(bytes.subarray(end + 1)) === sum ? Number(step) : null
}

async function write(path: string, bytes: Buffer, chance: () => number): Promise<void> {
  const file = await openFile(path, 'w')
  for (let at = 0; at < bytes.length; at += 150_000) {
    await file.write(bytes.subarray(at, at + 150_000))
    // Sometimes for longer than any rule waits.
    await pause(chance() < 0.15 ? 120 : chance() * 8)
  }
  await file.close()
}

/** One set of files after another. Without a marker, files of a set are not complete together. */
async function writeSets(where: string, how: CaptureWhen, sets: number, chance: () => number): Promise<void> {
  const names = how === 'marker' ? ['a', 'b', 'c'] : ['a']
  for (let step = 1; step <= sets; step++) {
    if (how === 'marker') await rm(join(where, 'DONE'), { force: true })
    for (const name of names) {
      const path = join(where, name)
      if (how === 'rename') {
        await write(`${path}.tmp`, bytesOf(step, chance), chance)
        await rename(`${path}.tmp`, path)
      } else await write(path, bytesOf(step, chance), chance)
    }
    if (how === 'marker') await writeFile(join(where, 'DONE'), String(step))
    await pause(chance() * 150)
  }
}

/** Captures every set that the rule finds complete, while the writer runs. */
async function captureBeside(captures: Captures, rule: CompleteRule, where: string, writing: Promise<void>) {
  const { kernel } = hostOf(rp)
  const session = Number(readFileSync('/proc/self/stat', 'utf8').split(') ')[1]!.split(' ')[3])
  const completion = new Completion(rule, kernel.clock.elapsed())
  const taken: (readonly Buffer[])[] = []
  let isOver = false
  void writing.finally(() => {
    isOver = true
  })
  for (let rest = 10; rest > 0; rest -= isOver ? 1 : 0) {
    const survey = await captures.survey()
    if (survey) completion.see(kernel.clock.elapsed(), survey)
    const decision = completion.decide(kernel.clock.elapsed())
    const isOpen =
      rule.when === 'quiet' && ((await writtenNow(session, where)) ?? []).some((path) => completion.has(path))
    if (decision.take && !isOpen) {
      const capture = await captures.take({ run: 1, trigger: decision.trigger, expected: decision.survey })
      if (capture) {
        completion.captured(kernel.clock.elapsed(), capture.survey)
        taken.push(await filesOf(capture.capture.id))
      }
    }
    await pause(completion.lookWithin(kernel.clock.elapsed(), 15))
  }
  return taken
}

async function filesOf(id: string): Promise<Buffer[]> {
  const { kernel } = hostOf(rp)
  for (const head of await rp.list({ prefix: 'exec/' })) {
    const record = (await rp.checkpoints(head.timeline)).find((each) => each.id === id)
    if (!record) continue
    const { value, stream } = await readValue(kernel, record)
    const files: Buffer[] = []
    for (const [path, file] of await wantedFiles(kernel, value as CapturedTree, stream)) {
      if (file.kind !== 'large' || path === 'DONE') continue
      const pieces: Uint8Array[] = []
      for await (const piece of file.pieces()) pieces.push(piece)
      files.push(Buffer.concat(pieces))
    }
    return files
  }
  return []
}

describe.runIf(isLinux)('C12: whatever is captured beside a writer is whole', () => {
  const cases = (['rename', 'quiet', 'marker'] as const).flatMap((how) =>
    Array.from({ length: writers }, (_, i) => [how, seed * 1000 + i] as const),
  )
  it.each(cases)('%s, seed %i', async (how, number) => {
    const chance = seeded(number)
    const where = join(folder, `${how}-${number}`)
    mkdirSync(where)
    const { kernel } = hostOf(rp)
    const timeline = await StateTimeline.take(kernel, timelineId(`exec/${how}-${number}`))
    const captures = new Captures(kernel, () => timeline, where, [], 100)
    const rule = { when: how, quietMs: 60, everyMs: chance() < 0.5 && how !== 'marker' ? 200 : null, marker: 'DONE' }
    const writing = writeSets(where, how, 6, chance)
    const taken = await captureBeside(captures, how === 'marker' ? rule : { ...rule, marker: null }, where, writing)
    await writing
    const steps = taken.map((files) => files.map(stepOf))
    for (const set of steps)
      expect([...new Set(set)], `${how} ${number}: ${JSON.stringify(steps)}`).toEqual([set[0] ?? set])
    expect(steps.flat()).not.toContain(null)
    // The last set is captured in the end: the rule does not wait forever.
    expect(steps.at(-1)?.[0]).toBe(6)
  })
})

it('C12: what changed since it was found to be complete is not taken, nor what changes while it is read', async () => {
  const { kernel } = hostOf(rp)
  const where = join(folder, 'changing')
  mkdirSync(where)
  const timeline = await StateTimeline.take(kernel, timelineId('exec/changing'))
  const captures = new Captures(kernel, () => timeline, where, [], 3)
  await writeFile(join(where, 'a'), Buffer.alloc(4_000_000, 1))
  await pause(50)
  const seen = (await captures.survey())!
  await writeFile(join(where, 'a'), 'half')
  await pause(50)
  expect(await captures.take({ run: 1, trigger: 'quiet', expected: seen })).toBeNull()
  await writeFile(join(where, 'a'), Buffer.alloc(4_000_000, 1))
  await pause(50)
  const expected = (await captures.survey())!
  // Directly after the last check before it is read.
  const look = captures.survey.bind(captures)
  captures.survey = async () => {
    captures.survey = look
    const last = await look()
    await appendFile(join(where, 'a'), 'more')
    return last
  }
  expect(await captures.take({ run: 1, trigger: 'quiet', expected })).toBeNull()
  expect(await rp.checkpoints('exec/changing')).toEqual([])
  expect(await captures.take({ run: 1, trigger: 'asked' })).not.toBeNull()
})

const stamp = (bytes: number, changedNs: bigint, inode = 1n): Stamp => ({
  ...{ device: 1n, inode, bornNs: inode, bytes, mode: 0o644, modifiedNs: changedNs, changedNs, target: null },
})
const survey = (files: Record<string, Stamp>): Survey => ({ files: new Map(Object.entries(files)), special: [] })
const rule = (when: CaptureWhen, more: Partial<CompleteRule> = {}): CompleteRule => ({
  ...{ when, quietMs: 1000, everyMs: null, marker: when === 'marker' ? 'DONE' : null },
  ...more,
})

describe('the rule itself', () => {
  it('waits until a write would show, longer where the file system keeps whole seconds', () => {
    for (const [changedNs, settled] of [
      [1n, 40],
      [2_000_000_000n, 2_100],
    ] as const) {
      const completion = new Completion(rule('rename'), 0)
      completion.see(0, survey({ a: stamp(1, changedNs) }))
      expect(completion.decide(settled - 1).take).toBe(false)
      expect(completion.decide(settled).take).toBe(true)
      expect(completion.lookWithin(10, 5_000)).toBe(settled - 10)
    }
  })

  it('a marker counts when it is new and nothing is newer than it', () => {
    const completion = new Completion(rule('marker'), 0)
    const whole = survey({ DONE: stamp(1, 51n), a: stamp(1, 50n) })
    completion.see(0, survey({ DONE: stamp(1, 51n), a: stamp(1, 52n) }))
    expect(completion.decide(10_000)).toMatchObject({ take: false, why: 'a is newer than DONE' })
    completion.see(20_000, whole)
    expect(completion.decide(30_000)).toMatchObject({ take: true, trigger: 'marker' })
    completion.captured(30_000, whole)
    completion.see(40_000, survey({ DONE: stamp(1, 51n), a: stamp(2, 40n) }))
    expect(completion.decide(50_000)).toMatchObject({ take: false, why: 'DONE has not changed since the last capture' })
  })

  it('at the end only what cannot be cut off is taken', () => {
    const half = survey({ a: stamp(1, 51n) })
    const atEnd = (when: CaptureWhen, isClean: boolean, endedAt: number) => {
      const completion = new Completion(rule(when), 0)
      completion.see(100, half)
      return completion.decideAtEnd(10_000, { isClean, at: endedAt }).take
    }
    expect(atEnd('quiet', false, 200)).toBe(false)
    expect(atEnd('quiet', true, 200)).toBe(true)
    expect(atEnd('quiet', false, 1_100)).toBe(true)
    expect(atEnd('rename', false, 200)).toBe(true)
    expect(atEnd('word', true, 200)).toBe(false)
    expect(atEnd('marker', true, 200)).toBe(false)
  })

  it('a name whose file has the number of one that is gone is another file all the same', () => {
    const completion = new Completion(rule('rename'), 0)
    const before = survey({ a: stamp(1, 51n) })
    completion.see(0, before)
    completion.captured(0, before)
    completion.see(0, survey({ a: stamp(2, 61n) }))
    expect(completion.decide(10_000).take).toBe(false)
    completion.see(0, survey({ a: { ...stamp(2, 61n), bornNs: 60n } }))
    expect(completion.decide(20_000)).toMatchObject({ take: true, trigger: 'rename' })
  })
})
