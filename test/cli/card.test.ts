// The recovery card as people read it: each of its figures is on it, so that a figure that changes changes the text.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { cardFacts, isLossy } from '../../src/cli/card-facts.ts'
import type { Reprise } from '../../src/index.ts'
import { open, timeline } from '../../src/index.ts'
import { collectSink, lineSource, pipeline } from '../../src/layers/pipeline/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import type { RecoveryCard } from '../../src/tools.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { cli, workFolder } from './support.ts'

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function opened(url = 'memory:'): Promise<Reprise> {
  const rp = await open(url, { housekeeping: false })
  cleanups.push(() => rp.close())
  return rp
}

const now = 1_800_000_000_000
const textOf = (card: RecoveryCard) =>
  cardFacts(card, now)
    .map(({ name, text }) => `${name}: ${text}`)
    .join('\n')

/** Every figure is other than 0, and none is equal to another. */
const full: RecoveryCard = {
  axes: {
    authority: { is: 'history', because: 'entries decide' },
    captured: { is: 'state and history', because: 'checkpoint at 871' },
    scope: { is: 'lineage', because: 'it reads b' },
    economics: { is: 'within budget', because: 'it takes 7 ms' },
    replay: { is: 'repeats', because: 'input is read' },
  },
  coordinate: { timeline: 'a', seq: 901, epoch: 17, digest: 'abc' } as unknown as RecoveryCard['coordinate'],
  owner: { worker: 'w', isAlive: true, msSinceProgress: 4321 },
  status: 'running',
  captured: {
    ...{ id: 'c1', seq: 870, at: now - 60_000, trigger: 'interval', label: 'night', bytes: 2048 },
    ...{ consistency: 'application', isVerified: true, drilledAt: now - 120_000, drill: 'ok' },
  },
  checkpoints: 5,
  history: { floor: 12, head: 902, entriesAfterCheckpoint: 31, again: { what: 'input is read again', ms: 9000 } },
  loss: { loseAtMostMs: 300_000, unsavedMs: 12_345, isKept: true, because: 'work is stored nowhere' },
  floor: { seq: 44, because: 'policy', heldBy: [] },
  checkpointing: {
    from: 'kept',
    because: ['every 100 entries'],
    interval: { entries: 100, ms: null },
    costs: { stallMs: 75 } as RecoveryCard['checkpointing']['costs'],
    failureEveryMs: null,
  } as RecoveryCard['checkpointing'],
  settings: [],
  effects: { safe: 21, compensatable: 8, irreversible: 6, byDefinition: 7, inDoubt: 3 },
  recovery: {
    ...{ timeline: 'a', seq: 901, epoch: 17, checkpoint: { id: 'c1', seq: 870 } },
    ...{ skipped: [{ id: 'c2', seq: 880, why: 'a chunk is missing' }], healed: 2, entriesReplayed: 33 },
    ...{ bytesRead: 5000, entriesLost: 9, planMs: 1, restoreMs: 2, replayMs: 3, totalMs: 6 },
  },
  invalid: 'the total is -4',
  missing: null,
  lineage: [],
  recent: [],
}

/** Facts that only `--json` prints: the origin of displayed figures, and lists with commands of their own. */
const notShown = [
  ...['status', 'captured.label', 'coordinate.timeline', 'checkpointing.from', 'checkpointing.interval.entries'],
  ...['recovery.timeline', 'recovery.seq', 'recovery.epoch', 'recovery.checkpoint.id', 'recovery.checkpoint.seq'],
  ...['recovery.skipped.0.seq', 'recovery.planMs', 'recovery.restoreMs', 'recovery.replayMs'],
]

it('changes with each figure: no text is printed regardless of the card', () => {
  const paths: string[] = []
  const walk = (value: unknown, path: string): void => {
    if (value === null || value === undefined) return
    if (typeof value === 'object')
      for (const [name, part] of Object.entries(value)) walk(part, path ? `${path}.${name}` : name)
    else paths.push(path)
  }
  walk(full, '')
  const silent = paths.filter((path) => textOf(changed(full, path)) === textOf(full))
  expect(silent.sort()).toEqual([...notShown].sort())
  expect(isLossy(full)).toBe(true)
  expect(isLossy(changed(full, 'recovery.entriesLost', 0))).toBe(false)
  expect(textOf(changed(full, 'recovery.entriesLost', 0))).toContain('nothing lost')
  expect(textOf(changed(full, 'effects', null))).toContain('effects: not known')
})

function changed(card: RecoveryCard, path: string, to?: unknown): RecoveryCard {
  const copy = structuredClone(card)
  const names = path.split('.')
  const last = names.pop()!
  const parent = names.reduce<unknown>((value, name) => (value as Record<string, unknown>)[name], copy) as Record<
    string,
    unknown
  >
  const was = parent[last]
  const other = typeof was === 'number' ? was + 100_000 : typeof was === 'boolean' ? !was : `${was} changed`
  parent[last] = to === undefined ? other : to
  return copy
}

it('counts the saves that a recovery would lose', async () => {
  const folder = workFolder()
  cleanups.push(() => folder.remove())
  const url = `sqlite:${join(folder.path, 'store.db')}`
  const rp = await open(url, { housekeeping: false, redundancy: false })
  const line = await rp.open(save<Uint8Array>('rotten'))
  await line.put(noise(1))
  const { store } = hostOf(rp).kernel
  const names = async () => (await store.blobs.list(null, 10_000)).map(({ digest }) => digest)
  const before = new Set((await names()).map((digest) => Buffer.from(digest).toString('hex')))
  await line.put(noise(2))
  const fresh = (await names()).filter((digest) => !before.has(Buffer.from(digest).toString('hex')))
  await store.blobs.delete([fresh[0]!], Number.MAX_SAFE_INTEGER)
  const card = await rp.card('save/rotten')
  expect([card.recovery?.entriesLost, isLossy(card)]).toEqual([1, true])
  expect(textOf(card)).toContain('1 entry lost')
  expect(textOf(card)).not.toContain('nothing lost')
  await rp.close()
  writeFileSync(
    join(folder.path, 'saves.mjs'),
    "import { save } from 'reprise/save'\nexport const rotten = save('rotten')\n",
  )
  const { code, stdout } = await cli(['card', 'save/rotten', '--url', url, '--module', 'saves.mjs'], {
    cwd: folder.path,
  })
  expect([code, stdout]).toEqual([8, expect.stringContaining('1 entry lost')])
})

function noise(seed: number): Uint8Array {
  let x = seed
  return Uint8Array.from({ length: 300_000 }, () => {
    x = (Math.imul(x, 1_103_515_245) + 12_345) >>> 0
    return x >>> 24
  })
}

it('counts the steps of a workflow and the effects of a timeline, also without the definition', async () => {
  const folder = temporaryFolder('card')
  const url = `sqlite:${join(folder, 'store.db')}`
  const rp = await open(url, { housekeeping: false })
  const order = workflow('order', async (ctx) => {
    await ctx.step('charge', () => 'paid')
    await ctx.signal('never')
  })
  const line = timeline<{ n: number }, { type: 'a' }>('line', { initial: () => ({ n: 0 }), apply: (state) => state })
  await rp.run(order, { id: 'one' })
  const steps = async () => (await rp.card('workflow/order/one')).effects
  await until(async () => (await steps())?.safe === 1)
  expect(await steps()).toEqual({ safe: 1, compensatable: 0, irreversible: 0, byDefinition: 1, inDoubt: 0 })
  expect(textOf(await rp.card('workflow/order/one'))).toContain('1 recorded, 0 can be compensated, 1 only by')
  const opening = await rp.open(line, 'x')
  await opening.effects.run('mail', () => 'sent')
  await rp.close()
  const stranger = await opened(url)
  expect((await stranger.card('line/x')).effects).toMatchObject({ safe: 1, irreversible: 1 })
})

it('shows how much input a pipeline would read again, which grows while there is no checkpoint', async () => {
  const folder = temporaryFolder('card')
  const path = join(folder, 'input.txt')
  writeFileSync(path, 'one\ntwo\n')
  const rp = await opened()
  const checkpoint = { each: '1h' } as const
  const shop = pipeline('shop', (p) => p.from('n', lineSource(path, { follow: 5 })).to('out', collectSink()), {
    checkpoint,
  })
  const run = rp.run(shop)
  const again = async () => (await rp.card('pipeline/shop').catch(() => null))?.history.again?.ms ?? 0
  await until(async () => (await again()) !== 0)
  const first = await again()
  await until(async () => (await again()) > first)
  expect(textOf(await rp.card('pipeline/shop'))).toMatch(/to replay: 0 entries; input is read again, up to \d/)
  await run.stop()
  await run.result()
  writeFileSync(path, 'one\ntwo\n')
  const done = pipeline('done', (p) => p.from('n', lineSource(path)).to('out', collectSink()), { checkpoint })
  await rp.run(done).result()
  expect((await rp.card('pipeline/done')).history.again).toEqual({ what: 'input is read again', ms: 0 })
})
