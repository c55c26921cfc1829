import { createHash } from 'node:crypto'
import {
  lstatSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../test/support/fixture.ts'
import { toHex } from '../core/coordinate.ts'
import { openDirectoryBlobs } from './directory-blobs.ts'
import { readMark, writeMark } from './directory-marks.ts'

const chunk = (bytes: Uint8Array) => ({ digest: new Uint8Array(createHash('sha256').update(bytes).digest()), bytes })
const text = (value: string) => chunk(new TextEncoder().encode(value))

describe('chunks in a directory', () => {
  let directory: string
  let now: number
  const open = () => openDirectoryBlobs(directory, { clock: () => now })

  beforeEach(() => {
    directory = temporaryFolder('chunks')
    now = 1_700_000_000_000
  })

  it('the mark exists with its content or not at all, whichever process is first', async () => {
    for (let n = 0; n < 20; n++) {
      const fresh = mkdtempSync(join(directory, 'fresh-'))
      const seen = new Set<string>()
      let isOver = false
      // A concurrent reader never takes an empty file for a mark.
      const looking = (async () => {
        while (!isOver) {
          const mark = await readMark(fresh)
          if (mark !== null) seen.add(mark)
        }
      })()
      const marks = await Promise.all(['a', 'b', 'c'].map((each) => writeMark(fresh, each)))
      isOver = true
      await looking
      expect(new Set(marks).size).toBe(1)
      expect([...seen, marks[0]].every((mark) => mark === marks[0])).toBe(true)
      expect(readdirSync(fresh)).toEqual(['reprise-chunks'])
    }
    // The leftovers of a killed process are taken over.
    const left = mkdtempSync(join(directory, 'left-'))
    writeFileSync(join(left, 'reprise-chunks'), '')
    expect(await readMark(left)).toBeNull()
    expect(await writeMark(left, 'mine')).toBe('mine')
    expect(await readMark(left)).toBe('mine')
  })

  it('A8.3: are returned as put, in the requested order, and null where missing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 8 }), async (contents) => {
        const blobs = await open()
        const chunks = contents.map(chunk)
        await blobs.put(chunks)
        const missing = text('never put')
        const found = await (await open()).get([...chunks.map(({ digest }) => digest), missing.digest])
        expect(found).toEqual([...chunks.map(({ bytes }) => bytes), null])
      }),
      { numRuns: 20 },
    )
  })

  it('are listed in digest order, page by page, without temporary files', async () => {
    const blobs = await open()
    const chunks = Array.from({ length: 40 }, (_, i) => text(`chunk ${i}`))
    await blobs.put(chunks)
    writeFileSync(join(directory, 'aside', 'half'), 'half written')
    const listed: string[] = []
    let after: Uint8Array | null = null
    for (;;) {
      const page = await blobs.list(after, 7)
      if (page.length === 0) break
      listed.push(...page.map((row) => toHex(row.digest)))
      after = page.at(-1)!.digest
    }
    expect(listed).toEqual(chunks.map(({ digest }) => toHex(digest)).sort())
  })

  it('A4.5: a chunk that is put again starts its age anew, and only older ones are deleted', async () => {
    const blobs = await open()
    const [old, kept] = [text('old'), text('kept')]
    await blobs.put([old, kept])
    now += 10_000
    await blobs.put([kept])
    expect((await blobs.list(null, 10)).map((row) => row.touchedAt).sort()).toEqual([now - 10_000, now])
    expect(await blobs.delete([old.digest, kept.digest, text('none').digest], now)).toBe(1)
    expect(await blobs.get([old.digest, kept.digest])).toEqual([null, kept.bytes])
  })

  it('G7: a chunk that was cut short is replaced when it is put again', async () => {
    const blobs = await open()
    const whole = text('whole')
    await blobs.put([whole])
    const hex = toHex(whole.digest)
    truncateSync(join(directory, hex.slice(0, 2), hex.slice(2, 4), hex), 2)
    await blobs.put([whole])
    expect(await blobs.get([whole.digest])).toEqual([whole.bytes])
  })

  it('a link under its name is replaced, and its target is neither changed nor deleted', async () => {
    const blobs = await open()
    const [put, deleted] = [text('put again'), text('deleted')]
    await blobs.put([put, deleted])
    const outside = join(directory, 'outside')
    writeFileSync(outside, put.bytes)
    utimesSync(outside, 1, 1)
    const pathOf = (hex: string) => join(directory, hex.slice(0, 2), hex.slice(2, 4), hex)
    for (const { digest } of [put, deleted]) {
      rmSync(pathOf(toHex(digest)))
      symlinkSync(outside, pathOf(toHex(digest)))
    }
    await blobs.put([put])
    await blobs.delete([deleted.digest], Number.MAX_SAFE_INTEGER)
    expect(lstatSync(pathOf(toHex(put.digest))).isFile()).toBe(true)
    expect(lstatSync(outside).mtimeMs).toBe(1000)
  })

  it('temporary files of a crash are removed at the next open, but not those still being written', async () => {
    await open()
    const [old, young] = ['old', 'young'].map((name) => join(directory, 'aside', name)) as [string, string]
    writeFileSync(old, '')
    writeFileSync(young, '')
    utimesSync(old, now / 1000 - 7200, now / 1000 - 7200)
    utimesSync(young, now / 1000, now / 1000)
    await open()
    expect(readdirSync(join(directory, 'aside'))).toEqual(['young'])
  })

  it('a directory that cannot be made is a typed error', async () => {
    writeFileSync(join(directory, 'file'), '')
    await expect(openDirectoryBlobs(join(directory, 'file', 'inside'))).rejects.toMatchObject({ code: 'STORE_IO' })
  })
})
