// A7.3: a backup of a store in use shows one moment. Money is taken from one account and then put on another, again and again,
// while the backup is written: at any moment the accounts hold the whole sum, less at most the transfers that are half done. A
// backup that reads each account at another moment holds more, or much less.

import { existsSync, mkdirSync, readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { open, timeline } from '../../src/index.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'

const folder = temporaryFolder('backup-moment')
const schema = newSchemaName()
afterAll(() => dropSchema(inject('postgresUrl'), schema))

type Engine = Awaited<ReturnType<typeof open>>
type Moved = { type: 'moved'; by: number }
const account = timeline('account', {
  initial: () => 0,
  apply: (sum: number, { by }: Moved) => sum + by,
})
const accounts = Array.from({ length: 24 }, (_, n) => `n${String(n).padStart(2, '0')}`)
const each = 100
const transfersAtOnce = 4

const urls: Record<string, () => string> = {
  SQLite: () => `sqlite:${join(folder, 'bank.db')}`,
  PostgreSQL: () => {
    const url = new URL(inject('postgresUrl'))
    url.searchParams.set('schema', schema)
    return url.href
  },
}

/** Moves money until it is stopped, from accounts that are exported late to early ones and back. */
async function bank(rp: Engine) {
  const handles = await Promise.all(accounts.map((id) => rp.open(account, id)))
  await Promise.all(handles.map((handle) => handle.append({ type: 'moved', by: each })))
  let isStopped = false
  let transfers = 0
  const clerk = async (number: number) => {
    for (let turn = number; !isStopped; turn += 7) {
      const [from, to] = [handles[turn % handles.length]!, handles[(turn * 5 + 11) % handles.length]!]
      await from.append({ type: 'moved', by: -1 })
      await to.append({ type: 'moved', by: 1 })
      transfers += 1
      // Short histories: each backup and restore reads them all.
      await pause(2)
    }
  }
  const clerks = Array.from({ length: transfersAtOnce }, (_, number) => clerk(number))
  return {
    transfers: () => transfers,
    async stop() {
      isStopped = true
      await Promise.all(clerks)
      await Promise.all(handles.map((handle) => handle.close()))
    },
  }
}

/** The sum of all accounts in a backup. */
async function sumIn(file: string): Promise<number> {
  const rp = await open('memory:')
  try {
    await rp.restore(file, { copy: true })
    const sums = await Promise.all(accounts.map(async (id) => (await rp.open(account, id)).state))
    return sums.reduce((sum, one) => sum + one, 0)
  } finally {
    await rp.close()
  }
}

function expectOneMoment(sum: number): void {
  const all = accounts.length * each
  expect(sum).toBeLessThanOrEqual(all)
  expect(sum).toBeGreaterThanOrEqual(all - transfersAtOnce)
}

/** A file of its own for each store. */
const fileOf = (store: string, name: string) => join(folder, `${store}-${name}.rpb`)

describe.each(Object.keys(urls))('A7.3: a backup of %s in use', (store) => {
  it('shows one moment, also when an interrupted one is resumed', async () => {
    const rp = await open(urls[store]!())
    const work = await bank(rp)
    // Idle timelines, which a resumed backup need not read again.
    for (const id of ['x1', 'x2', 'x3']) await (await rp.open(account, `idle-${id}`)).append({ type: 'moved', by: 5 })
    for (const name of ['one', 'two']) {
      const before = work.transfers()
      const report = await rp.backup(fileOf(store, name))
      expect(report.moment).not.toBeNull()
      expect(report.timelines).toBe(accounts.length + 3)
      expect(work.transfers()).toBeGreaterThan(before)
      expectOneMoment(await sumIn(fileOf(store, name)))
    }
    const file = fileOf(store, 'resumed')
    const interrupt = new AbortController()
    const half = accounts.length / 2
    const interrupted = rp.backup(file, {
      signal: interrupt.signal,
      onProgress: ({ timelines }) => void (timelines === half && interrupt.abort()),
    })
    await expect(interrupted).rejects.toThrow()
    expect(existsSync(`${file}.part`)).toBe(true)
    const before = work.transfers()
    await expect.poll(() => work.transfers() - before, { timeout: 60_000 }).toBeGreaterThan(accounts.length * 3)
    const report = await rp.backup(file)
    expect(report.timelines).toBe(accounts.length + 3)
    expect(report.before).toBeLessThan(half)
    expectOneMoment(await sumIn(file))
    await work.stop()
    await rp.close()
  })

  it('A7.3: holds 1000 of 1000 while money travels as mail: each commit takes it and sends it, or receives it and puts it', async () => {
    const rp = await open(urls[store]!())
    const purses = await Promise.all(
      ['a', 'm', 'z'].map((id) => hostOf(rp).openTimeline(timelineId(`account/purse-${id}`), account.fold)),
    )
    await purses[0]!.write([{ type: 'moved', data: { by: 1000 } }])
    let isOver = false
    let sent = 0
    const move = async (from: number, step: number) => {
      const purse = purses[from]!
      const to = purses[(from + step) % purses.length]!
      const message = hostOf(rp).message(to.id, 'money', { by: 7 }, `${from}-${step}-${sent++}`)
      await purse.write([{ type: 'moved', data: { by: -7 } }], { send: [message] })
      await to.write([{ type: 'moved', data: { by: 7 } }], { consume: [message.id] })
    }
    const clerks = [1, 2].map(async (step) => {
      for (let turn = 0; !isOver; turn++) {
        await move(turn % purses.length, step)
        await pause(2)
      }
    })
    const sums: number[] = []
    for (const name of ['mail-1', 'mail-2']) {
      const before = sent
      await rp.backup(fileOf(store, name))
      expect(sent).toBeGreaterThan(before)
      const copy = await open('memory:')
      await copy.restore(fileOf(store, name), { copy: true })
      let sum = 0
      for (const { id } of purses) {
        const purse = await hostOf(copy).openTimeline(id, account.fold)
        sum += (purse.state as number) + (await purse.inbox()).length * 7
      }
      sums.push(sum)
      await copy.close()
    }
    isOver = true
    await Promise.all(clerks)
    for (const purse of purses) await purse.close()
    await rp.close()
    expect(sums).toEqual([1000, 1000])
  })

  it('resumes with the records that still apply, and refuses the part of another store', async () => {
    const rp = await open(urls[store]!())
    for (const id of ['r1', 'r2', 'r3', 'r4']) {
      const handle = await rp.open(account, `rest-${id}`)
      await handle.append({ type: 'moved', by: 1 })
      await handle.close()
    }
    const file = fileOf(store, 'rest')
    const { timelines: all } = await rp.backup(fileOf(store, 'all'))
    const interrupt = new AbortController()
    const begun = rp.backup(file, {
      signal: interrupt.signal,
      onProgress: ({ timelines }) => void (timelines === all - 1 && interrupt.abort()),
    })
    await expect(begun).rejects.toThrow()
    const changed = await rp.open(account, 'rest-r1')
    await changed.append({ type: 'moved', by: 41 })
    await changed.close()
    const other = await open('memory:')
    await expect(other.backup(file)).rejects.toMatchObject({ code: 'CONFLICT' })
    await other.close()
    const report = await rp.backup(file)
    expect(report).toMatchObject({ timelines: all, before: all - 2 })
    const restored = await open('memory:')
    await restored.restore(file, { copy: true })
    expect((await restored.open(account, 'rest-r1')).state).toBe(42)
    await restored.close()
    await rp.close()
  })

  it('refuses the first of two that are written to one file, and restores twice at once, writing nothing beside the file', async () => {
    const rp = await open(urls[store]!())
    const file = fileOf(store, 'both')
    let second: Promise<unknown> | null = null
    const first = rp.backup(file, {
      onProgress: ({ timelines }) => {
        if (timelines === 2) second = rp.backup(file)
      },
    })
    const outcomes = await Promise.allSettled([first, first.catch(() => undefined).then(() => second)])
    const reports = outcomes.filter(({ status }) => status === 'fulfilled')
    expect(reports).toHaveLength(1)
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'CONFLICT' } })
    const still = join(folder, `${store}-still`)
    mkdirSync(still)
    renameSync(file, join(still, 'a.rpb'))
    const [one, two] = [await open('memory:'), await open('memory:')]
    const restored = await Promise.all([one, two].map((each) => each.restore(join(still, 'a.rpb'), { copy: true })))
    expect(restored[0]!.timelines).toBe(restored[1]!.timelines)
    expect(readdirSync(still)).toEqual(['a.rpb'])
    for (const each of [rp, one, two]) await each.close()
  })

  it('is opened by a reader that may not write', async () => {
    const rp = await open(urls[store]!(), { readOnly: true })
    const { moment, timelines } = await rp.backup(fileOf(store, 'reader'))
    expect(moment).not.toBeNull()
    expect(timelines).toBeGreaterThan(accounts.length)
    await rp.close()
  })
})
