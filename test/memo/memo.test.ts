// Cached results on every store: the parts of the key, the computing process, and the results that are never returned.

import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Codec } from '../../src/core/codec/codec.ts'
import { sha256, systemClock } from '../../src/engine/base/platform.ts'
import { forgetUnused } from '../../src/engine/tools/cache/retention.ts'
import { RetryLater } from '../../src/index.ts'
import { entryId, memoCache } from '../../src/layers/memo/entry.ts'
import { folderDigest, treeDigest } from '../../src/layers/memo/file-list.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { keyOf } from '../../src/layers/memo/key.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const folder = temporaryFolder('memo')

/** Counts how often it ran. */
function counting<Result>(result: (n: number) => Result) {
  const calls: number[] = []
  const run = (n: number): Result => {
    calls.push(n)
    return result(n)
  }
  return { calls, run }
}

onEveryStore('memo', (world) => {
  it('B9: computes once for equal keys, in this process and in others, and names the process', async () => {
    const w = await world()
    const { calls, run } = counting((n) => ({ square: n * n }))
    const square = memo('square', { version: 1, run })
    const [one, other] = [await w.engine(), await w.engine({ worker: 'other' })]
    const here = await one.open(square)
    expect(await Promise.all([here.call(3), here.call(3), here.call(3)])).toEqual(Array(3).fill({ square: 9 }))
    const there = await (await other.open(memo('square', { version: 1, run }))).recall([3])
    expect(there).toMatchObject({ result: { square: 9 }, from: 'store', provenance: { for: null } })
    expect(there.provenance.by).toMatch(/^test/)
    expect(await here.call(4)).toEqual({ square: 16 })
    expect(calls).toEqual([3, 4])
  })

  it('keeps no error that was only put off, and a pause ends when it is closed', async () => {
    const engine = await (await world()).engine()
    const thrown: unknown[] = [new RetryLater(1), new Error('no'), new RetryLater('1h')]
    const run = () => {
      if (thrown.length > 0) throw thrown.shift()
      return 'done'
    }
    const here = await engine.open(memo('later', { version: 1, errors: '1h', run }))
    await expect(here.call()).rejects.toThrow('no')
    await expect(here.call()).rejects.toThrow('no')
    expect(await here.forget()).toBe(true)
    const waiting = here.call()
    waiting.catch(() => undefined)
    await until(() => thrown.length <= 0)
    await here.close()
    await expect(waiting).rejects.toMatchObject({ code: 'CLOSED' })
    const again = await engine.open(memo('later', { version: 1, errors: '1h', run }))
    expect(await again.call()).toBe('done')
  })

  it('returns a separate copy to each caller, from memory too', async () => {
    const here = await (await (await world()).engine()).open(memo('list', { version: 1, run: () => [1] }))
    const first = await here.call()
    first.push(2)
    expect([await here.call(), (await here.recall([])).from]).toEqual([[1], 'memory'])
  })

  it('B9: another version, argument, variable or file is a miss that names what changed', async () => {
    const w = await world()
    const engine = await w.engine()
    const file = join(folder, `${w.kind}.txt`)
    writeFileSync(file, 'a')
    const make = (version: number) =>
      memo('render', {
        version,
        inputs: [`${w.kind}.txt`, `${w.kind}-late.txt`],
        directory: folder,
        env: ['REPRISE_MEMO_TEST'],
        run: (name: string) => name.toUpperCase(),
      })
    const first = await engine.open(make(1))
    expect(await first.explain('x')).toMatchObject({ isHit: false, why: 'no result is stored yet' })
    await first.call('x')
    expect(await first.explain('x')).toMatchObject({ isHit: true, why: 'remembered' })
    expect(await first.explain('y')).toMatchObject({ isHit: false, why: 'other arguments' })
    process.env.REPRISE_MEMO_TEST = 'secret'
    const changed = await first.explain('x')
    delete process.env.REPRISE_MEMO_TEST
    expect(changed).toMatchObject({ isHit: false, why: 'variable REPRISE_MEMO_TEST was added' })
    writeFileSync(file, 'b')
    expect(await first.explain('x')).toMatchObject({ why: `file ${w.kind}.txt changed` })
    const late = join(folder, `${w.kind}-late.txt`)
    writeFileSync(late, '')
    expect((await first.explain('x')).why).toBe(`file ${w.kind}-late.txt was added, file ${w.kind}.txt changed`)
    rmSync(late)
    writeFileSync(file, 'a')
    expect(await (await engine.open(make(2))).explain('x')).toMatchObject({ isHit: false, why: 'another version' })
    expect((await first.recall(['x'])).from).not.toBe('computed')
  })

  it('explains a miss against the very last use, also by another process and within one moment', async () => {
    const w = await world()
    const file = join(folder, `${w.kind}-turns.txt`)
    const turning = () =>
      memo('turning', { version: 1, directory: folder, inputs: [`${w.kind}-turns.txt`], run: (_: string) => 1 })
    const one = await (await w.engine()).open(turning())
    const called = async (here: typeof one, text: string) => {
      writeFileSync(file, text)
      await here.call('x')
      return (await here.explain('x')).comparedWith!.timeline
    }
    const [first, second] = [await called(one, 'first'), await called(one, 'second')]
    const missed = async (here: typeof one) => {
      writeFileSync(file, 'another')
      const { isHit, comparedWith, changes } = await here.explain('x')
      expect([isHit, changes]).toEqual([false, [{ part: 'file', name: `${w.kind}-turns.txt`, how: 'changed' }]])
      return comparedWith!.timeline
    }
    expect(await missed(one)).toBe(second)
    // A hit in memory, and one in the store, are uses as well.
    await called(one, 'first')
    expect(await missed(one)).toBe(first)
    const other = await (await w.engine({ worker: 'other' })).open(turning())
    await called(other, 'second')
    await called(other, 'first')
    await called(other, 'second')
    await other.close()
    expect(await missed(one)).toBe(second)
    // Other arguments are compared with the last use of all.
    expect((await one.explain('y')).comparedWith!.timeline).toBe(second)
  })

  it('B9: an input that changes while it is computed leaves no entry', async () => {
    const w = await world()
    const file = join(folder, `${w.kind}-moving.txt`)
    writeFileSync(file, '1')
    const engine = await w.engine()
    const problems: unknown[] = []
    engine.events.on('problem', ({ error }) => problems.push(error))
    let writes = 1
    const moving = await engine.open(
      memo('moving', {
        version: 1,
        directory: folder,
        inputs: [`${w.kind}-moving.txt`],
        run: () => {
          if (writes < 3) writeFileSync(file, String(++writes))
          return writes
        },
      }),
    )
    expect(await moving.call()).toBe(2)
    expect(await moving.peek()).toBeNull()
    expect(problems).toMatchObject([{ code: 'CONFLICT' }])
    expect([await moving.call(), await moving.call(), (await moving.recall([])).from]).toEqual([3, 3, 'memory'])
  })

  it('B9: counts for its time, also when the clock is set back; an old result is given while a new one is computed', async () => {
    let offsetMs = 7_200_000
    const clock = { ...systemClock, now: () => systemClock.now() + offsetMs }
    const engine = await (await world()).engine({ ports: { clock } })
    const { calls, run } = counting((n) => n)
    const definition = memo('aging', { version: 1, ttl: '1h', stale: '1h', cacheBytes: 0, run })
    const same = async () => (await (await engine.open(definition)).recall([0])).from
    expect([await same(), await same()]).toEqual(['computed', 'store'])
    // It was computed two hours in the future: its age is unknown.
    offsetMs = 0
    expect([await same(), await same()]).toEqual(['computed', 'store'])
    offsetMs = 5_400_000
    expect(await same()).toBe('stale')
    // close() waits for running computations; a reopened memo is a new handle.
    await (await engine.open(definition)).close()
    expect([await same(), calls.length]).toEqual(['store', 3])
    offsetMs += 10 * 3_600_000
    expect([await same(), calls.length]).toEqual(['computed', 4])
  })

  it('stores no errors, unless requested', async () => {
    const engine = await (await world()).engine()
    let fails = 0
    const run = () => {
      fails += 1
      throw new TypeError(`failed ${fails}`)
    }
    const plain = await engine.open(memo('plain', { version: 1, run }))
    await expect(plain.call()).rejects.toThrow('failed 1')
    await expect(plain.call()).rejects.toThrow('failed 2')
    const keeping = await engine.open(memo('keeping', { version: 1, run, errors: '1h' }))
    await expect(keeping.call()).rejects.toThrow('failed 3')
    await expect(keeping.call()).rejects.toMatchObject({ name: 'TypeError', message: 'failed 3' })
  })

  it('keeps streams in chunks, and gives them whole', async () => {
    const w = await world()
    const piece = new Uint8Array(300_000).map((_, i) => (i * 2654435761) >>> 24)
    const bytes = memo('bytes', {
      version: 1,
      async *run(pieces: number): AsyncGenerator<Uint8Array> {
        for (let i = 0; i < pieces; i++) yield piece
      },
    })
    const here = await (await w.engine()).open(bytes)
    for (const from of ['computed', 'store']) {
      const recalled = await here.recall([5])
      let size = 0
      for await (const each of recalled.result) size += each.length
      expect([recalled.from, size]).toEqual([from, 1_500_000])
    }
  })

  it('B9: damaged data is a miss, never a wrong answer', async () => {
    const w = await world()
    const engine = await w.engine({ redundancy: false })
    const { calls, run } = counting((n) => 'x'.repeat(50_000 + n))
    const large = await engine.open(memo('large', { version: 1, cacheBytes: 0, run }))
    await large.call(1)
    const { kernel } = hostOf(engine)
    for (const { digest } of await kernel.store.blobs.list(null, 100)) {
      await kernel.store.blobs.delete([digest], Number.MAX_SAFE_INTEGER)
    }
    expect(await large.peek(1)).toBeNull()
    expect((await large.call(1)).length).toBe(50_001)
    expect((await large.recall([1])).from).toBe('store')
    expect(calls).toEqual([1, 1])
  })

  it('main never reads results of another scope; all scopes read those of main', async () => {
    const w = await world()
    const engine = await w.engine()
    const scoped = (scope?: string) =>
      memo('built', { version: 1, ...(scope !== undefined && { scope }), run: (_n: number) => scope ?? 'main' })
    const [main, pull] = [await engine.open(scoped()), await engine.open(scoped('pull-7'))]
    expect(await pull.call(1)).toBe('pull-7')
    expect(await main.call(1)).toBe('main')
    expect(await main.call(2)).toBe('main')
    expect(await pull.call(2)).toBe('main')
  })

  it('forgets the least recently used results, and requested ones; keeps pinned ones', async () => {
    const engine = await (await world()).engine()
    const host = hostOf(engine)
    const noise = await engine.open(memo('noise', { version: 1, cacheBytes: 0, run: (n: number) => noiseOf(n) }))
    for (const n of [1, 2, 3, 4]) {
      await noise.call(n)
      const [head] = await host.list({ prefix: 'memo/noise/', attributes: {}, limit: 10 }).then((all) => all.slice(-1))
      expect(head).toBeDefined()
    }
    const heads = await host.list({ prefix: 'memo/noise/' })
    for (const [i, head] of heads.entries())
      await host.change(head, { attributes: { used: i + 1, ...(i === 0 && { pinned: true }) } })
    const dry = await forgetUnused(host, [memoCache], 'noise', { bytes: 25_000 }, true)
    expect(await forgetUnused(host, [memoCache], 'noise', { bytes: 25_000 })).toEqual(dry)
    expect((await host.list({ prefix: 'memo/noise/' })).map(({ timeline }) => timeline)).toEqual([
      heads[0]!.timeline,
      ...heads.slice(2).map(({ timeline }) => timeline),
    ])
    expect([await noise.forget(99), await forgetUnused(host, [memoCache], undefined, { unused: '1d' })]).toMatchObject([
      false,
      { entries: 2, kept: 1 },
    ])
  })

  it('drills, verifies and lists like everything else', async () => {
    const engine = await (await world()).engine()
    await (await engine.open(memo('known', { version: 1, run: () => 1 }))).call()
    expect((await engine.drill()).ok).toBe(true)
    expect((await engine.verify()).ok).toBe(true)
  })
})

function noiseOf(seed: number): Uint8Array {
  let x = seed * 2654435761 + 1
  return new Uint8Array(10_000).map(() => {
    x = Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9
    return x >>> 16
  })
}

describe('keys', () => {
  const coding = { codec: new Codec(), hash: sha256 }
  /** No name of a file holds a NUL. */
  const nameOfFile = fc.string({ minLength: 1 }).filter((text) => !text.includes('\0'))
  /** Files by folder; a folder without any is one that is not there. */
  const keyWith = ({ files, ...rest }: typeof part extends fc.Arbitrary<infer Part> ? Part : never) => {
    const folders = Object.entries(files).map(([folder, of]): [string, string] => {
      const names = Object.keys(of).sort()
      return [
        folder,
        names.length === 0
          ? ''
          : folderDigest(
              names,
              names.map((name) => of[name]!),
            ),
      ]
    })
    const look = { digest: treeDigest(new Map(folders)), files: async () => ({}) }
    return keyOf(coding, { ...rest, files: look }).hex
  }
  const part = fc.record({
    name: fc.string(),
    version: fc.string(),
    args: fc.jsonValue(),
    files: fc.dictionary(nameOfFile, fc.dictionary(nameOfFile, nameOfFile, { noNullPrototype: true }), {
      noNullPrototype: true,
    }),
    env: fc.dictionary(fc.string(), fc.option(fc.string(), { nil: undefined }), { noNullPrototype: true }),
  })

  it('B9: two sets of parts have one key only if they are equal: no delimiter is a trick', () => {
    fc.assert(
      fc.property(part, part, (a, b) => {
        const isSame = JSON.stringify(sorted(a)) === JSON.stringify(sorted(b))
        expect(keyWith(a) === keyWith(b)).toBe(isSame)
        expect(keyWith(a)).toBe(keyWith(structuredClone(a)))
      }),
    )
  })

  it("B9: the hashed bytes of one key are never a prefix of another's: there is no length extension", () => {
    const { codec } = coding
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        const [one, other] = [Buffer.from(codec.encode([a])), Buffer.from(codec.encode([b]))]
        if (one.length < other.length) expect(other.subarray(0, one.length).equals(one)).toBe(false)
        // Neither can be read with something behind it.
        expect(() => codec.decode(Buffer.concat([one, other]))).toThrow()
      }),
    )
  })

  it('moves a name into the value before it, and gets another key', () => {
    const base = { name: 'a', version: '1', args: [], files: null, env: { A: 'b', C: 'd' } }
    const keys = [base, { ...base, env: { A: 'bC', d: '' } }, { ...base, env: { AbC: 'd' } }, { ...base, env: {} }].map(
      (each) => keyOf(coding, each).hex,
    )
    expect(new Set(keys).size).toBe(4)
  })

  it('ids of entries hold no text of the user', () => {
    const { hex } = keyOf(coding, { name: 'x', version: '../..', args: ['/etc'], files: null, env: {} })
    expect(entryId('x', 'main', hex)).toMatch(/^memo\/x\/main\/[0-9a-f]{64}$/)
  })
})

const sorted = (value: unknown): unknown =>
  typeof value !== 'object' || value === null
    ? Object.is(value, -0)
      ? '-0'
      : value === undefined
        ? '∅'
        : value
    : Array.isArray(value)
      ? value.map(sorted)
      : Object.entries(value)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([k, v]) => [k, sorted(v)])
