// Uploads under random schedules: two replicas, clients that are cut off, hang and return, wrong offsets, wrong checksums, dead
// processes. Each byte identifies its request, so the final bytes show which request wrote them.

import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { isReprise, RepriseError } from '../../src/core/errors.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { fileOf } from '../../src/layers/upload/file.ts'
import { uploadKind } from '../../src/layers/upload/model.ts'
import { type Incoming, Uploads } from '../../src/layers/upload/uploads.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { newGate } from '../support/fixture.ts'
import { seeded } from '../support/seeded.ts'

const { REPRISE_UPLOAD_SEEDS = '12', REPRISE_SEED = '1' } = process.env
const stepBytes = 3000

/** The promises of a request and to it. */
interface Sent {
  readonly from: number
  /** The acknowledged number of durable bytes. */
  acknowledged: number
  /** Its bytes are not those of its checksum: none may stay. */
  readonly isWrong: boolean
  readonly result: Promise<'done' | 'refused'>
  /** Resumes a hanging body. */
  release(): void
}

function world(planted?: string) {
  const shared = createWorld()
  const engines: Awaited<ReturnType<typeof createEngine>>[] = []
  const open = () => {
    const store = openMemory({ namespace: 'default', hash: sha256, world: shared })
    const ports = { store, ...(planted !== undefined && { planted: new Set([planted]) }) }
    const engine = createEngine(ports, { worker: `w${engines.length}` })
    engines.push(engine)
    hostOf(engine).declare(uploadKind)
    const settings = { name: 'x', bytesMax: 1_000_000, expiresMs: null, hasHandler: false, stepBytes }
    return new Uploads(hostOf(engine), settings)
  }
  return { open, close: () => Promise.all(engines.map((engine) => engine.close())) }
}

async function play(seed: number, planted?: string): Promise<void> {
  const chance = seeded(seed)
  const pick = (count: number) => Math.floor(chance() * count)
  const { open, close } = world(planted)
  const replicas = [open(), open()]
  const sent: Sent[] = []
  const nothing = { metadata: {}, metadataHeader: null, by: null, isPart: false }
  const { id } = await replicas[0]!.create({ ...nothing, length: null }, null)
  /** Bytes that were ever acknowledged as durable: they must stay. */
  let promised = Buffer.alloc(0)

  const durable = async () => {
    const stored = await replicas[pick(2)]!.find(id)
    const pieces: Uint8Array[] = []
    for await (const piece of fileOf(replicas[0]!.kernel, stored).read()) pieces.push(piece)
    return Buffer.concat(pieces)
  }
  const look = async () => {
    const { offset } = await replicas[pick(2)]!.rest(id)
    const bytes = await durable()
    expect(bytes.length, 'the offset that is told is durable').toBeGreaterThanOrEqual(offset)
    expect(offset, 'what was told to be durable stays so').toBeGreaterThanOrEqual(promised.length)
    expect(bytes.subarray(0, promised.length).equals(promised), 'what was told to be durable never changes').toBe(true)
    promised = bytes.subarray(0, offset)
    return offset
  }
  const send = async (from: number, ending: 'whole' | 'cut' | 'hang' | 'wrong sum', length: number | null = null) => {
    const number = sent.length + 1
    const count = 1 + pick(9000)
    const cutAt = ending === 'whole' || ending === 'wrong sum' ? count : pick(count)
    const { opened: released, open: release } = newGate()
    async function* pieces() {
      for (let at = 0; at < count; ) {
        const size = Math.min(count - at, 1 + pick(2500))
        if (at + size > cutAt && ending === 'cut') throw new RepriseError('ABORTED', 'cut')
        if (at + size > cutAt && ending === 'hang') await released
        yield new Uint8Array(size).fill(number)
        at += size
      }
    }
    const right = createHash('sha1').update(new Uint8Array(count).fill(number)).digest()
    const digest = ending === 'wrong sum' ? right.map((byte) => byte ^ 1) : right
    const checksum = ending === 'wrong sum' || pick(6) === 0 ? { algorithm: 'sha1' as const, digest } : null
    const incoming: Incoming = {
      pieces: pieces(),
      bytes: null,
      length: length === null ? null : from + count,
      checksum,
    }
    const one: Sent = {
      from,
      acknowledged: 0,
      isWrong: ending === 'wrong sum',
      release,
      result: replicas[pick(2)]!.append(id, from, incoming).then(
        ({ offset }) => {
          one.acknowledged = offset - from
          return 'done'
        },
        (error) => {
          const isExpected = isReprise(
            error,
            'ABORTED',
            'FENCED',
            'CONFLICT',
            'NOT_FOUND',
            'CHECKSUM_MISMATCH',
            'INVALID_ARGUMENT',
          )
          if (!isExpected) throw error
          return 'refused'
        },
      ),
    }
    one.result.catch(() => undefined)
    sent.push(one)
    if (ending === 'hang') await new Promise((resolve) => setTimeout(resolve, pick(3)))
    else if (pick(4) > 0) await one.result
    if (ending === 'wrong sum') expect(await one.result).toBe('refused')
  }

  try {
    for (let step = 0; step < 14; step++) {
      const kind = pick(12)
      const offset = kind < 9 ? await look() : 0
      if (kind < 3) await send(offset, 'whole')
      else if (kind < 5) await send(offset, 'cut')
      else if (kind < 7) await send(offset, 'hang')
      else if (kind < 8) await send(offset, 'wrong sum')
      else if (kind < 9) await send(Math.max(0, offset - 1 - pick(500)) + (pick(2) ? 0 : 700), 'whole')
      // A process is gone: its requests hang, and another takes its place.
      else if (kind < 10) replicas[pick(2)] = open()
      else if (kind < 11) await look()
      else sent[pick(Math.max(1, sent.length))]?.release()
    }
    for (const one of sent) one.release()
    await Promise.all(sent.map(({ result }) => result))
    const offset = await look()
    checkRuns(promised.subarray(0, offset), sent)
    // The end is finally sent: then the upload is complete, and accepts no more bytes.
    await send(await look(), 'whole', 1)
    await sent.at(-1)!.result
    await look()
    checkRuns(promised, sent)
  } finally {
    for (const one of sent) one.release()
    await Promise.allSettled(sent.map(({ result }) => result))
    await close()
  }
}

/** Requests never interleave: the bytes of one lie in one piece, from the offset that it named. */
function checkRuns(bytes: Buffer, sent: readonly Sent[]): void {
  const found = new Map<number, number>()
  for (let at = 0; at < bytes.length; ) {
    const number = bytes[at]!
    let end = at
    while (end < bytes.length && bytes[end] === number) end++
    expect(found.has(number), `request ${number} wrote in one place`).toBe(false)
    expect(at, `request ${number} wrote where it said`).toBe(sent[number - 1]!.from)
    found.set(number, end - at)
    at = end
  }
  sent.forEach(({ acknowledged, isWrong }, i) => {
    if (isWrong) expect(found.has(i + 1), `bytes of request ${i + 1}, whose checksum is wrong`).toBe(false)
    expect(found.get(i + 1) ?? 0, `bytes of request ${i + 1}`).toBeGreaterThanOrEqual(Math.max(0, acknowledged))
  })
}

describe('an upload with several clients, replicas and crashes', () => {
  test('keeps every acknowledged byte, each at the offset of its request, and no two requests interleave', async () => {
    const first = REPRISE_SEED === 'random' ? Math.floor(Math.random() * 1e9) : Number(REPRISE_SEED)
    for (let seed = first; seed < first + Number(REPRISE_UPLOAD_SEEDS); seed++) {
      await play(seed).catch((error: Error) => {
        error.message += ` (REPRISE_SEED=${seed} REPRISE_UPLOAD_SEEDS=1)`
        throw error
      })
    }
  }, 60_000)

  test.each(['upload-any-offset', 'upload-lazy-step', 'upload-unchecked'])(
    'finds the planted bug %s',
    async (planted) => {
      let found = 0
      for (let seed = 1; seed <= 20 && found === 0; seed++) await play(seed, planted).catch(() => (found += 1))
      expect(found).toBe(1)
    },
    60_000,
  )
})
