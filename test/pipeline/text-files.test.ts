// The same text file as a source of a job and as a source of a pipeline: both read the same rows, whatever wrote the file, plain
// and gzipped, from its start and from any position.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { beforeEach, describe, expect, it } from 'vitest'
import * as jobs from '../../src/layers/job/index.ts'
import * as pipelines from '../../src/layers/pipeline/index.ts'
import { temporaryFolder } from '../support/fixture.ts'

let folder = ''
beforeEach(() => {
  folder = temporaryFolder('text')
})

function write(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, name.endsWith('.gz') ? gzipSync(text) : text)
  return path
}

async function ofJob<T>(source: jobs.JobSource<T>): Promise<T[]> {
  const reader = await source.open(undefined, {} as never)
  const items: T[] = []
  for (let chunk = await reader.next(); chunk; chunk = await reader.next()) items.push(...chunk.items)
  await reader.close?.()
  return items
}

/** Opened anew after every batch, at the position behind it. */
async function ofPipeline<T>(source: pipelines.Source<T>, max: number): Promise<T[]> {
  const values: T[] = []
  const context = { signal: new AbortController().signal } as never
  for (let position: unknown; ; ) {
    const reader = await source.open(position === undefined ? null : new Map([['', position]]), context)
    const batch = await reader.read(max)
    await reader.close()
    if (!batch) return values
    values.push(...batch.values.map((value) => source.decode?.(value as never) ?? value))
    position = batch.position
  }
}

const mark = '\uFEFF'
const rows = [
  { id: '1', size: '5" pipe' },
  { id: '2', size: 'a "quoted", one' },
]
const files: Record<string, readonly [text: string, separator?: string]> = {
  plain: ['id,size\n1,5" pipe\n2,"a ""quoted"", one"\n'],
  'written by Excel': [`${mark}id;size\r\n1;5" pipe\r\n2;"a ""quoted"", one"\r\n`, ';'],
  'with quoted names behind a mark': [`${mark}"id","size"\n1,5" pipe\n2,"a ""quoted"", one"\n`],
  'with empty lines first': ['\n\nid,size\n1,5" pipe\n2,"a ""quoted"", one"\n'],
  'without a last line end': ['id,size\n1,5" pipe\n2,"a ""quoted"", one"'],
  'with a long separator': ['id||size\n1||5" pipe\n2||"a ""quoted"", one"\n', '||'],
}

describe.each(['a.csv', 'a.csv.gz'])('CSV in %s', (name) => {
  it.each(Object.keys(files))('%s is read alike by jobs and pipelines', async (kind) => {
    const [text, separator] = files[kind]!
    const path = write(name, text)
    const options = separator === undefined ? {} : { separator }
    expect(await ofJob(jobs.csv(path, options))).toEqual(rows)
    for (const max of [1, 2, 1000]) expect(await ofPipeline(pipelines.csvSource(path, options), max)).toEqual(rows)
  })
})

it.each(['a.jsonl', 'a.jsonl.gz'])('JSON Lines in %s are read alike, with a mark and without', async (name) => {
  for (const start of ['', mark]) {
    const path = write(name, `${start}{"n":1}\r\n\r\n{"n":2}\n`)
    expect(await ofJob(jobs.jsonLines(path))).toEqual([{ n: 1 }, { n: 2 }])
    expect(await ofPipeline(pipelines.jsonLineSource(path), 1)).toEqual([{ n: 1 }, { n: 2 }])
  }
})

it.each(['a.txt', 'a.txt.gz'])('lines in %s are read alike, with a mark and without', async (name) => {
  for (const start of ['', mark]) {
    const path = write(name, `${start}one\r\n${mark}two\nthree`)
    expect(await ofJob(jobs.lines(path))).toEqual(['one', `${mark}two`, 'three'])
    expect(await ofPipeline(pipelines.lineSource(path), 1)).toEqual(['one', `${mark}two`, 'three'])
  }
})

it('separators that cannot work are refused by both, and following a gzipped file too', () => {
  for (const separator of ['', '"', '\n', 'a\r']) {
    for (const csv of [jobs.csv, pipelines.csvSource]) {
      expect(() => csv('a.csv', { separator })).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    }
  }
  expect(() => pipelines.lineSource('a.gz', { follow: true })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  )
})
