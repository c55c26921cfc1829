// Timelines as files, exported and imported, and the progress of jobs as JSON Lines: `reprise export` and `reprise import`
// over HTTP.

import { createReadStream } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { hostOf } from '../../engine/host/host.ts'
import { exportProgress, importProgress } from '../../layers/job/index.ts'
import { plain } from '../../operations/json.ts'
import { familyOf } from '../../operations/letters.ts'
import { mayReach } from '../access.ts'
import { Reply, sourceOf } from '../reply.ts'
import type { Call, QuerySchema, Route } from '../route.ts'
import { missing, reachedId } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'

const flag = (description: string): QuerySchema => ({ type: 'boolean', description })

export const transferRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/export',
    id: 'exportTimeline',
    tag: 'transfer',
    summary: 'One self-contained file: history, checkpoints and chunks',
    role: 'read',
    isLong: true,
    query: { seq: shapes.seq, stateOnly: flag('the newest checkpoint alone') },
    answer: { type: 'string' },
    answerType: 'application/octet-stream',
    call: exportFile,
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/progress',
    id: 'exportProgress',
    tag: 'transfer',
    summary: 'The finished keys of a job, as JSON Lines',
    role: 'read',
    isLong: true,
    answer: { type: 'string' },
    answerType: 'application/x-ndjson',
    call: progress,
  },
  {
    method: 'POST',
    path: '/v1/import',
    id: 'importTimeline',
    tag: 'transfer',
    summary: 'Import an exported file; an existing timeline with the same history counts as imported',
    role: 'write',
    isLong: true,
    status: 201,
    takesBytes: 'importBytes',
    query: { as: { ...shapes.text, description: 'an id other than the one in the file' } },
    answer: shapes.answer({ timeline: shapes.text, seq: shapes.count }),
    once: 'engine',
    call: importFile,
  },
  {
    method: 'POST',
    path: '/v1/jobs/{job}/progress',
    id: 'importProgress',
    tag: 'transfer',
    summary: 'Count keys as finished in a job: JSON Lines, as recorded by a hand-written script',
    role: 'write',
    isLong: true,
    takesBytes: 'importBytes',
    query: {
      key: { ...shapes.text, description: 'the field that contains the key (default: `key`)' },
      shards: { type: 'integer', minimum: 1, maximum: 256, default: 1, description: 'as many as the job has' },
    },
    answer: shapes.answer({ lines: shapes.count, added: shapes.count, ignored: shapes.count }),
    once: 'engine',
    async call({ engine, principal, params, query, bytes }) {
      const job = params.job!
      reachedId(principal, `job/${job}`)
      const key = query.text('key')
      const lines = new TextDecoder('utf-8').decode(bytes!).split(/\r?\n/)
      return await importProgress(engine, job, lines, {
        shards: query.number('shards') ?? 1,
        from: 'http',
        ...(key !== undefined && { key }),
      })
    },
  },
]

async function exportFile(call: Call): Promise<Reply> {
  const { timeline, seq } = await call.head()
  const folder = await mkdtemp(join(tmpdir(), 'reprise-export-'))
  const drop = () => void rm(folder, { recursive: true, force: true }).catch(() => undefined)
  try {
    const file = join(folder, 'export')
    const where = { timeline, seq: call.query.number('seq') ?? seq }
    const { coordinate, bytes } = await call.engine.export(where, file, { stateOnly: call.query.flag('stateOnly') })
    const stream = createReadStream(file)
    stream.once('close', drop)
    return new Reply(sourceOf(stream), {
      'content-type': 'application/octet-stream',
      'content-disposition': 'attachment',
      'content-length': String(bytes),
      'reprise-seq': String(coordinate.seq),
      'reprise-digest': coordinate.digest,
    })
  } catch (error) {
    drop()
    throw error
  }
}

/** A defective file is the client's error, not a fault of the store. */
const faultsOfFile = [
  ...([
    'NOT_A_SAVEPOINT',
    'MALFORMED',
    'INCOMPATIBLE_VERSION',
    'HISTORY_DAMAGED',
    'CHECKPOINT_DAMAGED',
    'CHUNK_DAMAGED',
  ] as const),
  ...(['CHUNK_MISSING', 'UNKNOWN_CODEC', 'UNRECOVERABLE', 'DECRYPT_FAILED', 'KEY_MISSING', 'STORE_DAMAGED'] as const),
]

function refused(error: RepriseError): RepriseError {
  const what = `the file cannot be imported: ${error.message.replace(/ \[[A-Z_]+\]$/, '')}`
  return new RepriseError('INVALID_ARGUMENT', what, { code: error.code }, error)
}

async function importFile({ engine, principal, query, bytes }: Call) {
  const as = query.text('as')
  if (as === undefined && principal.scopes !== null) {
    throw new RepriseError('INVALID_ARGUMENT', 'this token is for part of the store: name the id with `as`', {})
  }
  if (as !== undefined) reachedId(principal, as)
  const folder = await mkdtemp(join(tmpdir(), 'reprise-import-'))
  try {
    const file = join(folder, 'import')
    await writeFile(file, bytes!, { mode: 0o600 })
    const made = await engine.import(file, { orSame: true, ...(as !== undefined && { as }) }).catch((error) => {
      throw isReprise(error, ...faultsOfFile) ? refused(error) : error
    })
    return { ...made, isDuplicate: made.isSame === true }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function progress(call: Call): Promise<Reply> {
  const head = await call.head()
  if (hostOf(call.engine).models.find(head.timeline)?.kind !== 'job') {
    throw new RepriseError('INVALID_ARGUMENT', `${head.timeline} is not a job`, { timeline: head.timeline })
  }
  const family = await familyOf(call.engine, head)
  if (family.some(({ timeline }) => !mayReach(call.principal, timeline))) throw missing(head.timeline)
  async function* lines() {
    for (const { timeline } of family) {
      for await (const line of exportProgress(call.engine, timeline))
        yield Buffer.from(`${JSON.stringify(line, plain)}\n`)
    }
  }
  return new Reply(sourceOf(Readable.from(lines())), { 'content-type': 'application/x-ndjson' })
}
