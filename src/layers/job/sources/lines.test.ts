import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { beforeEach, expect, it } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import type { JobSource, ReadContext } from '../source.ts'
import { csv, jsonLines, lines } from './lines.ts'

let folder = ''
beforeEach(() => {
  folder = temporaryFolder('lines')
})

interface Read<T> {
  items: T[]
  keys: string[]
  position: unknown
}

async function readAll<T>(source: JobSource<T>, position?: unknown): Promise<Read<T>> {
  const reader = await source.open(position, {} as ReadContext)
  const read: Read<T> = { items: [], keys: [], position }
  for (let chunk = await reader.next(); chunk; chunk = await reader.next()) {
    read.items.push(...chunk.items)
    read.keys.push(...(chunk.keys ?? []))
    read.position = chunk.after?.position
  }
  await reader.close?.()
  return read
}

it('reads every line, of any length and with any text, and resumes at any position, plain and gzipped', async () => {
  const line = fc.string({ unit: 'grapheme', maxLength: 30 }).map((text) => text.replace(/[\r\n]/g, ' '))
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 600 }), fc.boolean(), fc.boolean(), async (texts, isGzip, isDos) => {
      const path = join(folder, isGzip ? 'a.gz' : 'a.txt')
      const bytes = Buffer.from(texts.map((text) => `${text}${isDos ? '\r\n' : '\n'}`).join(''))
      writeFileSync(path, isGzip ? gzipSync(bytes) : bytes)
      const reader = await lines(path).open(undefined, {} as ReadContext)
      const first = await reader.next()
      await reader.close?.()
      const rest = first ? await readAll(lines(path), first.after!.position) : { items: [] }
      expect([...(first?.items ?? []), ...rest.items]).toEqual(texts)
    }),
    { numRuns: 40 },
  )
})

it('reads on where a file that grew had ended, and a last line without its end again once it has one', async () => {
  const path = join(folder, 'grow.txt')
  writeFileSync(path, 'one\ntw')
  const first = await readAll(lines(path))
  expect(first.items).toEqual(['one', 'tw'])
  appendFileSync(path, 'o\nthree\n')
  const second = await readAll(lines(path), first.position)
  expect(second.items).toEqual(['two', 'three'])
  expect(second.keys.some((key) => first.keys.includes(key))).toBe(false)
  expect((await readAll(lines(path), second.position)).items).toEqual([])
})

it('reads a file that was replaced by another from its start', async () => {
  const path = join(folder, 'replaced.txt')
  writeFileSync(path, 'old one\nold two\n')
  const { position } = await readAll(lines(path))
  writeFileSync(path, 'new\n')
  expect((await readAll(lines(path), position)).items).toEqual(['new'])
})

it('reads JSON lines, skips empty ones, and locates a broken one', async () => {
  const path = join(folder, 'a.jsonl')
  writeFileSync(path, '{"a":1}\n\n{"a":2}\n{"a":\n')
  await expect(readAll(jsonLines(path))).rejects.toMatchObject({ code: 'MALFORMED', data: { offset: 17 } })
  expect((await readAll(jsonLines(path, { malformed: 'skip' }))).items).toEqual([{ a: 1 }, { a: 2 }])
})

it('reads CSV with quotes and line breaks in cells, with the header also when it resumes in the middle', async () => {
  const path = join(folder, 'a.csv')
  writeFileSync(path, 'id,text\n1,"a ""quoted"", cell"\n2,"two\nlines"\n3,plain\n')
  const all = await readAll(csv(path))
  expect(all.items).toEqual([
    { id: '1', text: 'a "quoted", cell' },
    { id: '2', text: 'two\nlines' },
    { id: '3', text: 'plain' },
  ])
  appendFileSync(path, '4,more\n')
  expect((await readAll(csv(path), all.position)).items).toEqual([{ id: '4', text: 'more' }])
  appendFileSync(path, '5\n')
  await expect(readAll(csv(path), all.position)).rejects.toMatchObject({ code: 'MALFORMED' })
})

it('reports a missing file', async () => {
  await expect(readAll(lines(join(folder, 'none')))).rejects.toMatchObject({ code: 'NOT_FOUND' })
})
