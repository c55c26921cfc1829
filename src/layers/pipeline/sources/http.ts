// HTTP posts as a source. A post is durable before it is answered: it is an entry of its own timeline, which the pipeline reads
// like any other. A repeated post with the same Idempotency-Key gets the same answer and is not stored twice.

import type { RetentionPolicy } from '../../../core/checkpoint/retention.ts'
import { type Duration, toMs } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'
import { type TimelineHandle, timeline } from '../../../engine/api/timeline-definition.ts'
import { readBody } from '../../../engine/base/http-body.ts'
import type { Entry } from '../../../engine/history/history.ts'
import { hostOf } from '../../../engine/host/host.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import { realTime, withinOrFail } from '../../../lib/waiting.ts'
import type { Source, SourceReader } from '../source.ts'
import { entrySource } from './entries.ts'

export interface HttpSourceOptions {
  /** The maximum size of a body, in bytes. Default: 1 MB. */
  readonly bytesMax?: number
  /** How many Idempotency-Keys are remembered. Default: the newest 100,000. */
  readonly keys?: NonNullable<RetentionPolicy['keys']>
  /** How long a post waits for an unavailable store before it is answered with 503. Default: 10s. */
  readonly wait?: Duration
}

export interface HttpSource<T> extends Source<T> {
  /** Accepts posts. Mount it anywhere, in any number of processes. @example app.post('/orders', (c) => take(c.req.raw)) */
  handler(engine: Engine): (request: Request) => Promise<Response>
}

interface Posted {
  readonly type: 'posted'
  readonly body: unknown
}

/**
 * A post has one JSON value, or with `content-type: application/x-ndjson` one per line, which are stored all or none. `name`
 * names the timeline that stores them: `posts/NAME`. @example const orders = httpSource<Order>('orders')
 */
export function httpSource<T>(name: string, options: HttpSourceOptions = {}): HttpSource<T> {
  checkOptions(`httpSource ${name}`, options, namesOf<HttpSourceOptions>()('bytesMax keys wait'))
  const { bytesMax = 1_000_000, keys = { last: 100_000 } } = options
  const waitMs = toMs(options.wait ?? '10s', 'wait')
  if (typeof name !== 'string' || name === '' || name.includes('/')) {
    throw new RepriseError('INVALID_ARGUMENT', 'httpSource needs a name without a slash, such as orders')
  }
  const posts = timeline<number, Posted>('posts', {
    initial: () => 0,
    apply: (count) => count + 1,
    // History is trimmed once all pipelines that read it have passed it.
    checkpoint: { every: 1000 },
    retain: { checkpoints: 2, history: 'needed', keys },
  })
  const source = entrySource<Entry>([{ prefix: `posts/${name}` }])
  return {
    kind: 'http',
    open: (from, context) => source.open(from, context) as unknown as Promise<SourceReader<T>>,
    decode: ({ data }: Entry) => (data as { readonly body: T }).body,
    handler(engine) {
      let opening: Promise<TimelineHandle<number, Posted>> | null = null
      const open = () => {
        opening ??= hostOf(engine).open(posts, name, { shared: true })
        opening.catch(() => {
          opening = null
        })
        return opening
      }
      return (request) => take(request, { bytesMax, waitMs }, open)
    },
  }
}

async function take(
  request: Request,
  { bytesMax, waitMs }: { readonly bytesMax: number; readonly waitMs: number },
  open: () => Promise<TimelineHandle<number, Posted>>,
): Promise<Response> {
  if (request.method !== 'POST') return answer(405, { error: 'only POST is accepted' }, { allow: 'POST' })
  const key = request.headers.get('idempotency-key')
  if (key !== null && (key === '' || key.length > 512)) {
    return answer(400, { error: 'the Idempotency-Key must have 1 to 512 characters' })
  }
  const body = await readBody(request, bytesMax)
  if (body === null) return answer(413, { error: `the body has more than ${bytesMax} bytes` })
  const text = body.toString('utf8')
  const isLines = request.headers.get('content-type')?.split(';')[0]?.trim() === 'application/x-ndjson'
  let bodies: unknown[]
  try {
    bodies = isLines
      ? text
          .split('\n')
          .filter((line) => line.trim() !== '')
          .map((line) => JSON.parse(line))
      : [JSON.parse(text)]
  } catch (error) {
    return answer(400, { error: `the body is not JSON: ${(error as Error).message}` })
  }
  if (bodies.length === 0) return answer(400, { error: 'the body has no record' })
  try {
    const posts = bodies.map((body): Posted => ({ type: 'posted', body }))
    const { seq, isDuplicate } = await within(waitMs, async (signal) => {
      return await (await open()).append(posts, { signal, ...(key !== null && { key }) })
    })
    return answer(isDuplicate ? 200 : 202, isDuplicate ? { isDuplicate } : { isDuplicate, seq })
  } catch (error) {
    if (isReprise(error, 'LIMIT_EXCEEDED')) return answer(413, { error: error.message })
    const isPassing = isReprise(error) && (['retry', 'reload'].includes(error.remedy) || error.code === 'ABORTED')
    const headers: Record<string, string> = isPassing ? { 'retry-after': '1' } : {}
    // The outcome of the write may be unknown: a sender with a key can retry.
    return answer(
      isPassing ? 503 : 500,
      { error: isReprise(error) ? error.code : 'the record was not accepted' },
      headers,
    )
  }
}

/** Rejects with ABORTED if `work` takes longer. Its effect may still happen then. */
async function within<R>(ms: number, work: (signal: AbortSignal) => Promise<R>): Promise<R> {
  const stop = new AbortController()
  const late = () => {
    stop.abort()
    return new RepriseError('ABORTED', `the pipeline did not accept the records within ${ms} ms`)
  }
  return await withinOrFail(realTime, ms, work(stop.signal), late)
}

function answer(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Response {
  return Response.json(body, { status, headers })
}
