// A whole store whose chunks lie in an object store: checkpoints, recovery, collection, erasure and damage, and real
// processes that are killed at their requests.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { entriesAfter } from '../../src/operations/history.ts'
import { S3Client } from '../../src/stores/s3/client.ts'
import { joinUrl, locate } from '../../src/stores/s3/location.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { type FaultyProxy, newBucket, startProxy, startS3 } from './support.ts'

const server = await startS3()
let bucket: string
let proxy: FaultyProxy
let folder: string
let place: string
let places = 0

beforeAll(async () => {
  if (!server) return
  proxy = await startProxy(server.endpoint)
  bucket = (await newBucket(server.endpoint)).replace(server.endpoint, proxy.endpoint)
})
afterAll(async () => {
  await proxy?.close()
  await server?.close()
})
beforeEach(() => {
  folder = temporaryFolder('s3')
  if (server) place = joinUrl(bucket, `store-${++places}`)
  if (server) proxy.fault = () => 'pass'
})

const start = (options = {}) =>
  open(`sqlite:${join(folder, 'app.db')}`, { blobs: place, housekeeping: false, ...options })
const states = save<{ readonly n: number; readonly text: string }>('state', { keep: 3 })
const notes = timeline('notes', {
  initial: () => ({ sum: 0 }),
  apply: ({ sum }, { n }: { readonly type: 'noted'; readonly n: number }) => ({ sum: sum + n }),
  retain: { checkpoints: 2, history: 'tiered' },
})
const textOf = (n: number, size = 4000) =>
  Array.from({ length: size }, (_, i) => `${n}:${(i * 7919 * n) % 99991}`).join(' ')

describe.skipIf(server === null)(`a store with its chunks in an object store (${server?.kind})`, () => {
  it('A8.3: a save is a handful of requests, and comes back in another process', async () => {
    const rp = await start()
    const saved = await rp.open(states)
    await saved.put({ n: 1, text: textOf(1) })
    const before = proxy.requests.length
    await saved.put({ n: 2, text: textOf(2) })
    // The pack, and reading it back.
    expect(proxy.requests.length - before).toBeLessThanOrEqual(3)
    await rp.close()
    const again = await start()
    expect((await (await again.open(states)).latest()).value).toEqual({ n: 2, text: textOf(2) })
    expect((await again.verify()).ok).toBe(true)
    await again.close()
  })

  it('a process that opens the store without naming the place gets the place of the chunks', async () => {
    const rp = await start()
    await (await rp.open(states)).put({ n: 1, text: textOf(1) })
    await rp.close()
    const blind = await open(`sqlite:${join(folder, 'app.db')}`, { housekeeping: false })
    const latest = blind.open(states).then((handle) => handle.latest())
    await expect(latest).rejects.toMatchObject({
      code: 'CHUNKS_ELSEWHERE',
      data: { expected: expect.stringMatching(/^s3:/) },
    })
    await blind.close()
    await expect(start({ blobs: joinUrl(bucket, 'another') })).rejects.toMatchObject({ code: 'CHUNKS_ELSEWHERE' })
  })

  it('A1.3: a lost pack is found by verify, and the save before it is used', async () => {
    const rp = await start()
    const saved = await rp.open(states)
    await saved.put({ n: 1, text: textOf(1) })
    const objects = await S3Client.open(await locate(joinUrl(place, 'default')))
    const before = new Set((await objects.list('packs/')).map(({ key }) => key))
    await saved.put({ n: 2, text: textOf(2) })
    await rp.close()
    await objects.delete((await objects.list('packs/')).map(({ key }) => key).filter((key) => !before.has(key)))
    const again = await start()
    const { faults } = await again.verify()
    expect(faults.map(({ code }) => code)).toContain('CHUNK_MISSING')
    const latest = await (await again.open(states)).latest()
    expect([latest.value.n, latest.skipped.length]).toEqual([1, 1])
    await again.close()
  })

  it('A8.6: erased data has left the object store', async () => {
    const rp = await start()
    const saved = await rp.open(save<string>('secret'))
    const other = await rp.open(states)
    await other.put({ n: 1, text: textOf(1) })
    await saved.put(`SECRET ${Array.from({ length: 3000 }, (_, i) => i * 31).join('SECRET')}`)
    await saved.close()
    const objects = await S3Client.open(await locate(joinUrl(place, 'default')))
    const bytes = async () => (await objects.list('packs/')).reduce((sum, row) => sum + row.bytes, 0)
    const full = await bytes()
    await rp.erase('save/secret')
    // Chunks are compressed: the remaining bytes are those that the other one needs.
    expect(await bytes()).toBeLessThan(full)
    await rp.close()
    const again = await start()
    expect((await again.verify()).faults).toEqual([])
    expect((await (await again.open(states)).latest()).value.n).toBe(1)
    await again.close()
  })

  it('A8.3: older saves move from the database to the object store in few requests, and are read from there', async () => {
    const rp = await start({ blobs: undefined, tiers: { cold: { at: place, keep: 1 } } })
    const saved = await rp.open(states)
    for (const n of [1, 2, 3]) await saved.put({ n, text: textOf(n) })
    const before = proxy.requests.length
    const { tiers } = await rp.tiers({ restMs: -60_000 })
    expect(tiers[1]).toMatchObject({ name: 'cold', failed: 0, isOwn: true })
    expect(tiers[1]!.moved).toBeGreaterThan(1)
    // The owner of the place, two lists, one pack, and reading it back.
    expect(proxy.requests.length - before).toBeLessThanOrEqual(9)
    for (const { id } of await saved.list()) {
      const { value } = await saved.load(id)
      expect(value.text).toBe(textOf(value.n))
    }
    await rp.close()
    // The server is away: the newest is in the database, and nothing is taken for lost.
    proxy.fault = () => 503
    const patient = await start({ blobs: undefined })
    expect((await (await patient.open(states)).latest()).value.n).toBe(3)
    await patient.close()
  })

  it('A8.3: history moves to the object store in few requests, and is replayed and forked from there', async () => {
    const rp = await start({ blobs: undefined, tiers: { cold: { at: place, history: true } } })
    const written = await rp.open(notes, 'a')
    for (let n = 1; n <= 30; n++) {
      await written.append({ type: 'noted', n })
      if (n % 10 === 0) await written.checkpoint()
    }
    await written.close()
    const before = proxy.requests.length
    const { tiers, history } = await rp.tiers()
    expect(history).toMatchObject({ tier: 'cold', segments: 1, moved: 20, refused: [] })
    // The owner of the place, one list, one pack, and reading it back.
    expect(proxy.requests.length - before).toBeLessThanOrEqual(9)
    const asked = tiers[1]!.requests!
    expect(asked.puts + asked.gets + asked.lists + asked.deletes).toBeGreaterThanOrEqual(proxy.requests.length - before)
    await rp.fork({ timeline: 'notes/a', seq: 7 }, 'b')
    expect((await rp.open(notes, 'b')).state).toEqual({ sum: 28 })
    expect(await rp.verify()).toMatchObject({ ok: true })
    await rp.close()
    // The server is away: data in the database works, and data in the bucket is neither read nor reported as lost.
    const patient = await start({ blobs: undefined })
    proxy.fault = () => 403
    expect((await patient.open(notes, 'a')).state).toEqual({ sum: 465 })
    await expect(patient.fork({ timeline: 'notes/a', seq: 8 }, 'c')).rejects.toMatchObject({ name: 'RepriseError' })
    proxy.fault = () => 'pass'
    await patient.close()
  })

  /** Kills a program at one of its requests. @returns its last acknowledgement. */
  async function killedAt(request: number, program: string, argument: string): Promise<number> {
    const child = spawn(process.execPath, [program, argument], { stdio: ['ignore', 'pipe', 'inherit'] })
    const from = proxy.requests.length
    proxy.fault = ({ number }) => {
      if (number - from === request) child.kill('SIGKILL')
      return number - from >= request ? 'lost' : 'pass'
    }
    let output = ''
    child.stdout.on('data', (piece) => {
      output += piece
    })
    await new Promise((resolve) => void child.once('exit', resolve))
    proxy.fault = () => 'pass'
    return Number(output.trim().split('\n').at(-1)?.split(' ')[1] ?? 0)
  }

  it('G1: killed at its requests, a process that moves history has lost none of it', async () => {
    const program = fileURLToPath(new URL('../programs/s3-history.mjs', import.meta.url))
    const kills = process.env.S3_KILLS === 'all' ? Array.from({ length: 40 }, (_, i) => i + 3) : [9, 12, 15, 19]
    for (const k of kills) {
      const file = join(folder, `history-${k}.db`)
      const at = joinUrl(place, `history-${k}`)
      const argument = JSON.stringify({ file, at, count: 25 })
      const acknowledged = await killedAt(k, program, argument)
      const rp = await open(`sqlite:${file}`, { housekeeping: false, lease: '1s' })
      expect((await rp.verify()).faults, `killed at request ${k}`).toEqual([])
      const seqs: number[] = []
      const head = await rp.head('notes/a')
      if (head) for await (const { seq } of entriesAfter(rp, head, 0)) seqs.push(seq)
      expect(seqs, `killed at request ${k}`).toEqual(Array.from({ length: seqs.length }, (_, i) => i + 1))
      expect(seqs.length, `killed at request ${k}`).toBeGreaterThanOrEqual(acknowledged)
      await rp.close()
    }
  })

  it('G1: killed at its requests, a process has lost nothing that it acknowledged', async () => {
    const program = fileURLToPath(new URL('../programs/s3-saver.mjs', import.meta.url))
    const kills = process.env.S3_KILLS === 'all' ? Array.from({ length: 40 }, (_, i) => i + 3) : [6, 13, 20]
    for (const k of kills) {
      const file = join(folder, `killed-${k}.db`)
      const blobs = joinUrl(place, `killed-${k}`)
      const argument = JSON.stringify({ file, blobs, count: 4 })
      const acknowledged = await killedAt(k, program, argument)
      const rp = await open(`sqlite:${file}`, { blobs, housekeeping: false, lease: '1s' })
      const report = await rp.verify()
      expect(report.faults, `killed at request ${k}`).toEqual([])
      if (acknowledged > 0) {
        const latest = await (await rp.open(states)).latest()
        expect(latest.value.n, `killed at request ${k}`).toBeGreaterThanOrEqual(acknowledged)
      }
      await rp.close()
    }
  })
})
