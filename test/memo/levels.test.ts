// The levels behind the local store: what one machine computed, another does not compute again; what comes from elsewhere is
// used only if all of it is as it was sent; and a level that is down, slow or closed to us costs little and breaks nothing.

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { Codec } from '../../src/core/codec/codec.ts'
import { defaultLimits } from '../../src/core/limits.ts'
import { GuardedLevel } from '../../src/engine/cache/guarded-level.ts'
import { sha256 } from '../../src/engine/platform.ts'
import { open, type Reprise } from '../../src/index.ts'
import type { Envelope } from '../../src/layers/memo/entry.ts'
import { readFrame, writeFrame } from '../../src/layers/memo/frame.ts'
import { type CacheLevel, command, LevelError, memo, type Remote } from '../../src/layers/memo/index.ts'
import { keyOf } from '../../src/layers/memo/key.ts'
import { isOutput } from '../../src/layers/memo/output-rules.ts'
import { type AccessToken, serve } from '../../src/server/index.ts'
import { handClock } from '../support/hand-clock.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** A machine of its own: a store that nobody else has. */
async function machine(url = 'memory:'): Promise<Reprise & { readonly problems: string[] }> {
  const rp = await open(url, { housekeeping: false })
  cleanups.push(() => rp.close())
  const problems: string[] = []
  rp.events.on('problem', ({ error }) => problems.push((error as Error).message))
  return Object.assign(rp, { problems })
}

const secret = (name: string) => name.padEnd(40, '-')
const tokens: readonly AccessToken[] = [
  { name: 'owner', token: secret('owner'), role: 'write' },
  { name: 'looks', token: secret('looks'), role: 'read', cache: { scope: 'main' } },
  { name: 'pull', token: secret('pull'), role: 'write', cache: { scope: 'pull-7' } },
]

/** A real server at a real port, with what it was asked. */
async function served(): Promise<{ at(name: string): Remote; readonly asked: string[]; stop(): Promise<void> }> {
  const rp = await machine()
  const server = serve(rp, { tokens })
  cleanups.push(() => server.close())
  const asked: string[] = []
  const node = createServer(async (incoming, outgoing) => {
    const { method = '', url = '', headers } = incoming
    asked.push(`${method} ${url.split('/').at(-1)}`)
    const body = method === 'PUT' ? { body: Readable.toWeb(incoming) as ReadableStream, duplex: 'half' as const } : {}
    const request = new Request(`http://127.0.0.1${url}`, {
      method,
      headers: headers as Record<string, string>,
      ...body,
    })
    const answer = await server(request)
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers))
    outgoing.end(Buffer.from(await answer.arrayBuffer()))
  })
  await new Promise<void>((resolve) => node.listen(0, '127.0.0.1', resolve))
  const { port } = node.address() as AddressInfo
  let stopped: Promise<void> | null = null
  const stop = () => {
    stopped ??= new Promise((resolve) => {
      node.close(() => resolve())
      node.closeAllConnections()
    })
    return stopped
  }
  cleanups.push(stop)
  return { at: (name) => ({ url: `http://127.0.0.1:${port}`, token: secret(name), timeout: '1h' }), asked, stop }
}

const squaring = (remote: Remote | readonly Remote[] | undefined, calls: number[] = [], more: object = {}) =>
  memo('square', {
    version: 1,
    cacheBytes: 0,
    ...(remote && { remote }),
    ...more,
    run: (n: number) => {
      calls.push(n)
      return { square: n * n }
    },
  })

describe('a server as the second level', () => {
  it('what one machine computed, another fetches once; the entry says from where', async () => {
    const { at, asked } = await served()
    const calls: number[] = []
    const one = await machine()
    const here = await one.open(squaring(at('owner'), calls))
    expect(await here.recall([3])).toMatchObject({ from: 'computed', result: { square: 9 } })
    await here.close()
    const other = await machine()
    const there = await other.open(squaring(at('owner'), calls))
    expect(await there.explain(3)).toMatchObject({ isHit: true, why: expect.stringContaining('not here, but in http') })
    const first = await there.recall([3])
    expect(first).toMatchObject({
      from: 'remote',
      result: { square: 9 },
      provenance: { origin: { cache: expect.stringMatching(/^http:\/\/127/), scope: 'main' } },
    })
    const second = await there.recall([3])
    expect(second).toMatchObject({ from: 'store', provenance: { by: first.provenance.by, origin: { scope: 'main' } } })
    expect(calls).toEqual([3])
    expect(asked.filter((each) => each.startsWith('PUT'))).toHaveLength(1)
    expect([one.problems, other.problems]).toEqual([[], []])
    expect((await other.verify()).ok).toBe(true)
  })

  it('a token that may only read asks, and never tries to write', async () => {
    const { at, asked } = await served()
    const rp = await machine()
    const here = await rp.open(squaring(at('looks')))
    await here.call(2)
    await here.close()
    expect(asked).toEqual(['GET status', 'GET square'])
    expect(rp.problems).toEqual([])
  })

  it('a wrong token is told once, and the work goes on without it', async () => {
    const { at, asked } = await served()
    const rp = await machine()
    const here = await rp.open(squaring(at('nobody')))
    for (const n of [1, 2, 3]) expect(await here.recall([n])).toMatchObject({ from: 'computed' })
    await here.close()
    expect(rp.problems).toMatchObject([expect.stringContaining('the token is not known there')])
    expect(asked).toEqual(['GET status'])
  })

  it('B9: what a pull request sends, main does not read; nor is it sent with a token of main', async () => {
    const { at } = await served()
    const make = async (token: string, scope: string | undefined, result: string) => {
      const rp = await machine()
      const run = () => result
      const definition = memo('built', { version: 1, remote: at(token), ...(scope && { scope }), run })
      const here = await rp.open(definition)
      const { from, result: got } = await here.recall([])
      await here.close()
      return { got, from, problems: rp.problems }
    }
    expect(await make('pull', 'pull-7', 'evil')).toMatchObject({ from: 'computed', problems: [] })
    // With the token of the pull request the server would give it; main's own store does not take it.
    expect(await make('pull', undefined, 'good')).toMatchObject({
      got: 'good',
      problems: [expect.stringContaining("say scope: 'pull-7'"), expect.stringContaining('writes to pull-7')],
    })
    // A scope's result with main's token goes nowhere, so main does not find it.
    expect(await make('owner', 'pull-8', 'evil')).toMatchObject({ from: 'computed' })
    expect(await make('owner', undefined, 'good')).toMatchObject({ got: 'good', from: 'computed' })
    expect(await make('pull', 'pull-7', 'other')).toMatchObject({ got: 'evil', from: 'remote' })
    expect(await make('pull', 'pull-9', 'other')).toMatchObject({ from: 'remote' })
  })

  it('a server that is gone costs the result nothing', async () => {
    const { at, stop } = await served()
    const remote = at('owner')
    await stop()
    const rp = await machine()
    const here = await rp.open(squaring(remote))
    for (const n of [1, 2, 3, 4]) expect(await here.recall([n])).toMatchObject({ from: 'computed' })
    await here.close()
    expect(rp.problems).toHaveLength(1)
    expect(rp.problems[0]).toContain('ECONNREFUSED')
  })
})

/** A level in memory, with hooks for what goes wrong. */
class Shelf implements CacheLevel {
  readonly name: string
  readonly timeout = '1h'
  readonly kept = new Map<string, Buffer>()
  readonly asked: string[] = []
  scope = 'main'
  onGet: (bytes: Buffer) => AsyncIterable<Uint8Array> | Promise<never> = (bytes) => pieces(bytes)
  onPut: () => Promise<void> = async () => undefined

  constructor(name = 'shelf') {
    this.name = name
  }

  async access() {
    return { scope: this.scope, mayWrite: true }
  }

  async get(key: string) {
    this.asked.push('get')
    const bytes = this.kept.get(key)
    return bytes ? { scope: this.scope, body: await this.onGet(bytes) } : null
  }

  async put(key: string, body: AsyncIterable<Uint8Array>) {
    this.asked.push('put')
    await this.onPut()
    const parts: Uint8Array[] = []
    for await (const part of body) parts.push(part)
    this.kept.set(key, Buffer.concat(parts))
  }
}

async function* pieces(bytes: Buffer, size = 1000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

/** A shelf on which some machine left the square of 3. */
async function filled(name?: string): Promise<Shelf> {
  const shelf = new Shelf(name)
  const here = await (await machine()).open(squaring(shelf))
  await here.call(3)
  await here.close()
  expect(shelf.kept.size).toBe(1)
  return shelf
}

describe('what comes from a level', () => {
  it('B9: changed, cut off or prolonged, it is a miss, never a wrong answer', async () => {
    const shelf = await filled()
    const [[at, sound]] = [...shelf.kept] as [[string, Buffer]]
    const bent: Buffer[] = [
      sound.subarray(0, sound.length - 1),
      sound.subarray(0, 20),
      Buffer.alloc(0),
      Buffer.concat([sound, Buffer.from('x')]),
      Buffer.from(sound).fill(sound[sound.length - 40]! ^ 1, sound.length - 40, sound.length - 39),
      randomBytes(500),
    ]
    for (const bytes of bent) {
      shelf.kept.set(at, bytes)
      const calls: number[] = []
      const rp = await machine()
      const here = await rp.open(squaring(shelf, calls))
      expect(await here.recall([3])).toMatchObject({ from: 'computed', result: { square: 9 } })
      expect(calls).toEqual([3])
      await here.close()
      expect(rp.problems).toHaveLength(1)
      // The good one went over the damaged one.
      expect(shelf.kept.get(at)!.length).toBeGreaterThan(40)
    }
  })

  it('B9: an entry under the key of another is a miss', async () => {
    const shelf = await filled()
    const [bytes] = [...shelf.kept.values()]
    const rp = await machine()
    const here = await rp.open(squaring(shelf))
    await here.call(4)
    await here.close()
    for (const key of shelf.kept.keys()) shelf.kept.set(key, bytes!)
    const other = await (await machine()).open(squaring(shelf))
    expect(await other.recall([4])).toMatchObject({ from: 'computed', result: { square: 16 } })
    await other.close()
  })

  it('B9: a frame whose head names another definition or key is refused, though its parts are the same', async () => {
    const coding = { codec: new Codec(), limits: defaultLimits }
    const key = keyOf(
      { codec: coding.codec, hash: sha256 },
      { name: 'a', version: '1', args: [3], files: null, env: {} },
    )
    const other = keyOf(
      { codec: coding.codec, hash: sha256 },
      { name: 'b', version: '1', args: [3], files: null, env: {} },
    )
    // Parts say nothing of the name: two definitions with equal arguments have the same.
    expect([await other.parts(), other.hex === key.hex]).toEqual([await key.parts(), false])
    const outcome = { kind: 'value' as const, value: 9 }
    const envelope: Envelope = { parts: await key.parts(), computedAt: 1, tookMs: 1, by: 'w', for: null, outcome }
    const read = (about: { readonly name: string; readonly key: string }) =>
      readFrame(coding, writeFrame(coding, { ...about, envelope, streamBytes: null }, null), 'a', key)
    expect(await read({ name: 'a', key: key.hex })).toMatchObject({ envelope: { outcome } })
    const another = { code: 'MALFORMED', message: expect.stringContaining('another entry') }
    await expect(read({ name: 'b', key: key.hex })).rejects.toMatchObject(another)
    await expect(read({ name: 'a', key: other.hex })).rejects.toMatchObject(another)
    await expect(read({ name: 'b', key: other.hex })).rejects.toMatchObject(another)
  })

  it('fills the levels on the way', async () => {
    const [near, far] = [new Shelf('near'), await filled('far')]
    const rp = await machine()
    const here = await rp.open(squaring([near, far]))
    expect(await here.recall([3])).toMatchObject({ from: 'remote', provenance: { origin: { cache: 'far' } } })
    await here.close()
    expect([near.kept, near.asked, far.asked]).toEqual([far.kept, ['get', 'put'], ['get', 'put', 'get']])
    far.kept.clear()
    const there = await (await machine()).open(squaring([near, far]))
    expect(await there.recall([3])).toMatchObject({ from: 'remote', provenance: { origin: { cache: 'near' } } })
    await there.close()
    expect(far.kept.size).toBe(0)
  })

  it('is as old as when it was computed: beyond its time it is no hit', async () => {
    const shelf = await filled()
    const young = await (await machine()).open(squaring(shelf, [], { ttl: '2h' }))
    expect((await young.recall([3])).from).toBe('remote')
    await new Promise((resolve) => setTimeout(resolve, 5))
    const old = await (await machine()).open(squaring(shelf, [], { ttl: 1 }))
    expect((await old.recall([3])).from).toBe('computed')
    await old.close()
  })

  it('failures stay where they happened', async () => {
    const shelf = new Shelf()
    const run = (): never => {
      throw new Error('no')
    }
    const here = await (await machine()).open(memo('fails', { version: 1, errors: '1h', remote: shelf, run }))
    await expect(here.call()).rejects.toThrow('no')
    await here.close()
    expect(shelf.asked).toEqual(['get'])
  })

  it('every bent frame is refused, wherever it is bent', async () => {
    const coding = { codec: new Codec(), limits: defaultLimits }
    const key = keyOf(
      { codec: coding.codec, hash: sha256 },
      { name: 'a', version: '1', args: [], files: null, env: {} },
    )
    const base = { parts: await key.parts(), computedAt: 1, tookMs: 1, by: 'w', for: null }
    const frameOf = async (envelope: Envelope, stream: Buffer | null) => {
      const about = { name: 'a', key: key.hex, envelope, streamBytes: stream?.length ?? null }
      const parts: Uint8Array[] = []
      for await (const part of writeFrame(coding, about, stream && pieces(stream, 7))) parts.push(part)
      return Buffer.concat(parts)
    }
    const read = async (bytes: Buffer) => {
      const { envelope, stream } = await readFrame(coding, pieces(bytes, 11), 'a', key)
      const parts: Uint8Array[] = []
      for await (const part of stream ?? []) parts.push(part)
      return [envelope.outcome, stream && Buffer.concat(parts)]
    }
    const bytes = Buffer.from('some bytes of a stream')
    const sound = [
      [await frameOf({ ...base, outcome: { kind: 'value', value: 1 } }, null), [{ kind: 'value', value: 1 }, null]],
      [await frameOf({ ...base, outcome: { kind: 'bytes' } }, bytes), [{ kind: 'bytes' }, bytes]],
    ] as const
    for (const [frame, content] of sound) expect(await read(frame)).toEqual(content)
    const bend = fc.oneof(
      fc.record({ kind: fc.constant('flip' as const), at: fc.nat(), bit: fc.nat(7) }),
      fc.record({ kind: fc.constant('cut' as const), at: fc.nat(), bit: fc.constant(0) }),
      fc.record({ kind: fc.constant('more' as const), at: fc.nat(40), bit: fc.nat(255) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.nat(1), bend, async (which, { kind, at, bit }) => {
        const frame = Buffer.from(sound[which]![0])
        const place = at % frame.length
        if (kind === 'flip') frame[place] = frame[place]! ^ (1 << bit)
        const bent =
          kind === 'cut'
            ? frame.subarray(0, place)
            : kind === 'more'
              ? Buffer.concat([frame, Buffer.alloc(at + 1, bit)])
              : frame
        await expect(read(bent)).rejects.toMatchObject({ code: 'MALFORMED' })
      }),
      { numRuns: 300 },
    )
  })

  it('an entry that would write beside the declared outputs is no result of the command', async () => {
    expect(['dist/a', 'dist/x/b', 'one.txt'].map((path) => isOutput(['dist/**', 'one.txt'], path))).toEqual([
      true,
      true,
      true,
    ])
    const wrong = ['src/a', '.git/hooks/x', 'dist/.git/x', 'dist', '../dist/a', 'two.txt', 'dist/no.log']
    for (const path of wrong)
      expect([path, isOutput(['dist/**', 'one.txt', '!dist/*.log'], path)]).toEqual([path, false])
    const shelf = new Shelf()
    const folder = mkdtempSync(join(tmpdir(), 'reprise-levels-'))
    cleanups.push(() => rmSync(folder, { recursive: true }))
    const make = (outputs: readonly string[]) =>
      command('write', {
        cmd: 'mkdir -p dist; echo x > dist/a; echo y > b',
        directory: folder,
        inputs: [],
        outputs,
        clean: true,
        remote: shelf,
      })
    const here = await (await machine()).open(make(['dist/**']))
    expect((await here.run()).from).toBe('computed')
    await here.close()
    // The same key, but the frame names a file that was never declared.
    const [[at, bytes]] = [...shelf.kept] as [[string, Buffer]]
    shelf.kept.set(at, bytes)
    const again = await (await machine()).open(make(['dist/**']))
    expect((await again.run()).from).toBe('remote')
    await again.close()
    const { codec } = { codec: new Codec() }
    const length = bytes.readUInt32BE(7)
    const head = codec.decode(bytes.subarray(11, 11 + length)) as {
      envelope: { outcome: { value: { files: { path: string }[] } } }
    }
    const forged = structuredClone(head)
    forged.envelope.outcome.value.files[0]!.path = 'b'
    const parts: Uint8Array[] = []
    const stream = pieces(bytes.subarray(11 + length, bytes.length - 32))
    for await (const part of writeFrame({ codec, limits: defaultLimits }, forged as never, stream)) parts.push(part)
    shelf.kept.set(at, Buffer.concat(parts))
    const third = await (await machine()).open(make(['dist/**']))
    expect((await third.run()).from).toBe('computed')
    await third.close()
  })
})

describe('a level that fails', () => {
  const build = (level: CacheLevel, timeoutMs = 3_600_000) => {
    const { clock, pass } = handClock(1000)
    const problems: string[] = []
    const guarded = new GuardedLevel(level, timeoutMs, { clock, problem: (error) => problems.push(error.message) })
    return { guarded, problems, pass }
  }

  it('is asked twice, then left alone for a while, and told of once', async () => {
    const shelf = new Shelf()
    shelf.kept.set('k', Buffer.from('x'))
    shelf.onGet = () => Promise.reject(new LevelError('fault', 'broken'))
    const { guarded, problems, pass } = build(shelf)
    for (let i = 0; i < 5; i++) expect(await guarded.fetch('k')).toBeNull()
    expect([shelf.asked.length, problems.length]).toEqual([2, 1])
    pass(31_000)
    // One probe, and it fails: the pause doubles.
    for (let i = 0; i < 3; i++) expect(await guarded.fetch('k')).toBeNull()
    pass(31_000)
    expect(await guarded.fetch('k')).toBeNull()
    expect(shelf.asked.length).toBe(3)
    pass(30_000)
    shelf.onGet = (bytes) => pieces(bytes)
    const found = await guarded.fetch('k')
    found!.settle(null)
    expect(await guarded.fetch('none')).toBeNull()
    expect([shelf.asked.length, problems.length]).toEqual([5, 1])
  })

  it('one that never answers, or stands still half-way, is given up when its time is over', async () => {
    const shelf = new Shelf()
    shelf.kept.set('k', Buffer.alloc(5000))
    const { guarded, problems, pass } = build(shelf, 5000)
    shelf.onGet = () => new Promise<never>(() => undefined)
    const silent = guarded.fetch('k')
    await expect.poll(() => shelf.asked.length).toBe(1)
    pass(5001)
    expect(await silent).toBeNull()
    shelf.onGet = async function* () {
      yield Buffer.alloc(10)
      await new Promise(() => undefined)
    }
    const halting = (await guarded.fetch('k'))!
    const reading = (async () => {
      for await (const _ of halting.body);
    })()
    reading.catch(() => undefined)
    await new Promise((resolve) => setTimeout(resolve, 20))
    pass(5001)
    await expect(reading).rejects.toThrow('did not answer in time')
    halting.settle(await reading.catch((error) => error))
    expect(await guarded.fetch('k')).toBeNull()
    expect([shelf.asked.length, problems.length]).toEqual([2, 1])
  })

  it('takes uploads a few at a time, and no more than so many wait', async () => {
    const shelf = new Shelf()
    let most = 0
    let now = 0
    let release: () => void = () => undefined
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    shelf.onPut = async () => {
      now += 1
      most = Math.max(most, now)
      await gate
      now -= 1
    }
    const { guarded, problems } = build(shelf)
    for (let i = 0; i < 1010; i++) {
      guarded.upload({ key: String(i), body: async () => pieces(Buffer.from(String(i))), mayPut: () => true })
    }
    release()
    await guarded.settled()
    expect([most, shelf.kept.size]).toEqual([4, 1004])
    expect(problems).toEqual([expect.stringContaining('wait to be sent')])
  })

  it('an upload that fails is told once and hurts nobody; one that cannot be read here is not its fault', async () => {
    const shelf = new Shelf()
    shelf.onPut = () => Promise.reject(new Error('full'))
    const rp = await machine()
    const here = await rp.open(squaring(shelf))
    for (const n of [1, 2, 3]) await here.call(n)
    await here.close()
    expect(rp.problems).toEqual([expect.stringContaining('full')])
    const { guarded, problems } = build(new Shelf())
    const bad = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x')
      throw new Error('unreadable')
    }
    for (let i = 0; i < 5; i++) guarded.upload({ key: String(i), body: async () => bad(), mayPut: () => true })
    await guarded.settled()
    expect(problems).toEqual([])
  })
})

onEveryStore('levels', (world) => {
  it('two processes that want the same ask the level once', async () => {
    const w = await world()
    const shelf = await filled()
    const calls: number[] = []
    const engines = [await w.engine(), await w.engine({ worker: 'other' })]
    const handles = await Promise.all(engines.map((engine) => engine.open(squaring(shelf, calls))))
    const before = shelf.asked.length
    const all = await Promise.all(handles.flatMap((handle) => [handle.call(3), handle.call(3)]))
    expect(all).toEqual(Array(4).fill({ square: 9 }))
    expect([calls, shelf.asked.length - before]).toEqual([[], 1])
  })
})

describe('streams', () => {
  const piece = randomBytes(256 * 1024)
  const bytes = (remote: Remote) =>
    memo('bytes', {
      version: 1,
      remote,
      async *run(): AsyncGenerator<Uint8Array> {
        for (let i = 0; i < 40; i++) yield Buffer.concat([Buffer.from(String(i)), piece])
      },
    })
  const lengthOf = async (stream: AsyncIterable<Uint8Array>) => {
    let length = 0
    for await (const part of stream) length += part.length
    return length
  }
  /** It does not grow any more: whatever is pulled is pulled by somebody who has room for it. */
  const standing = async (count: () => number) => {
    for (let last = -1; last !== count(); ) {
      last = count()
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    return count()
  }

  it('are sent as the other side takes them, and taken as this store takes them', async () => {
    const shelf = new Shelf()
    const { put } = shelf
    let go: () => void = () => undefined
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    let taken = 0
    shelf.put = async (key, body) => {
      const slow = async function* () {
        for await (const part of body) {
          taken += 1
          if (taken === 2) await gate
          yield part
        }
      }
      await put.call(shelf, key, slow())
    }
    const one = await machine()
    const here = await one.open(bytes(shelf))
    const { blobs } = hostOf(one).kernel.store
    const length = await lengthOf(await here.call())
    let read = 0
    const { get } = blobs
    blobs.get = async (digests) => {
      read += digests.length
      return await get.call(blobs, digests)
    }
    await expect.poll(() => taken).toBe(2)
    expect(await standing(() => read)).toBeLessThan(20)
    go()
    await here.close()

    // One that goes on and on, until it is cut off.
    const [frame] = [...shelf.kept.values()]
    const { codec } = hostOf(one).kernel
    const head = codec.decode(frame!.subarray(11, 11 + frame!.readUInt32BE(7))) as Parameters<typeof writeFrame>[1]
    let pulled = 0
    let isCut = false
    shelf.onGet = () =>
      writeFrame(
        { codec, limits: defaultLimits },
        { ...head, streamBytes: 1e12 },
        (async function* () {
          while (!isCut) {
            pulled += piece.length
            yield Buffer.concat([Buffer.from(String(pulled)), piece])
          }
          throw new LevelError('fault', 'cut off')
        })(),
      )
    const other = await machine()
    const store = hostOf(other).kernel.store.blobs
    const before = { put: store.put }
    let admit: () => void = () => undefined
    const door = new Promise<void>((resolve) => {
      admit = resolve
    })
    store.put = async (...given) => {
      await door
      return await before.put.apply(store, given)
    }
    const there = await other.open(bytes(shelf))
    const asked = there.recall([])
    try {
      await expect.poll(() => pulled).toBeGreaterThan(0)
      expect(await standing(() => pulled)).toBeLessThan(64 * 1024 * 1024)
    } finally {
      isCut = true
      admit()
    }
    const recalled = await asked
    expect([recalled.from, await lengthOf(recalled.result)]).toEqual(['computed', length])
  })
})
