// An S3-compatible store over HTTP. A request is signed (aws4fetch), with the digest of its body in the signature and
// in a header, so that the server refuses a body changed on the way. A failed request is retried after a random,
// growing pause; a slow read is hedged by a second one. The error after the last attempt has the details for people.

import { createHash, randomUUID } from 'node:crypto'
import { driverMissing } from '../../core/driver-missing.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { realTime, Slots, sleep, within } from '../../lib/waiting.ts'
import { Credentials } from './credentials.ts'
import { HttpFailure, isTransient, toStoreError } from './failure.ts'
import type { S3Location } from './location.ts'
import { type Meter, newMeter, type ObjectRow, type Objects, type Range } from './objects.ts'

export interface S3ClientOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Concurrent requests. Default: 12. */
  readonly concurrency?: number
  /** How long a request is retried. Default: 60 seconds. */
  readonly patienceMs?: number
  /** How long one attempt may take until its answer begins. Default: 15 seconds. */
  readonly timeoutMs?: number
}

export interface Request {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE' | 'HEAD'
  /** Below the prefix of the address. */
  readonly key: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  /** Statuses that are results, not failures. */
  readonly accepts?: readonly number[]
  /** Aborts the request and its retries; its reason is thrown. */
  readonly signal?: AbortSignal | undefined
  /** For people. */
  readonly what: string
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Uint8Array
}

export interface Streamed {
  readonly status: number
  readonly headers: Headers
  /** Empty if the status is not a success. */
  readonly body: AsyncIterable<Uint8Array>
}

const firstPauseMs = 50
const pauseMsMax = 5000
/** The slowest transfer that is accepted: a body gets this much time in addition to the timeout. */
const slowestBytesPerMs = 50
/** A second read is sent when the first has taken this many times the usual time. */
const hedgeFactor = 4
const hedgeMsMin = 100
const hedgeShare = 0.1
const listPage = 1000

export class S3Client implements Objects {
  readonly name: string
  readonly meter: Meter = newMeter()
  readonly #location: S3Location
  readonly #driver: SigningDriver
  readonly #credentials: Credentials
  readonly #slots: Slots
  readonly #patienceMs: number
  readonly #timeoutMs: number
  readonly #signing = new Map<string, ArrayBuffer>()
  /** How far the server's clock is ahead of ours. */
  #aheadMs = 0
  #typicalMs = hedgeMsMin

  private constructor(location: S3Location, driver: SigningDriver, options: S3ClientOptions) {
    this.name = location.name
    this.#location = location
    this.#driver = driver
    this.#credentials = new Credentials(options.env)
    this.#slots = new Slots(options.concurrency ?? 12)
    this.#patienceMs = options.patienceMs ?? 60_000
    this.#timeoutMs = options.timeoutMs ?? 15_000
  }

  /** @example const client = await S3Client.open(await locate('s3://backups/app')) */
  static async open(location: S3Location, options: S3ClientOptions = {}): Promise<S3Client> {
    return new S3Client(location, await loadSigner(), options)
  }

  now(): number {
    return Date.now() + this.#aheadMs
  }

  async put(key: string, bytes: Uint8Array, onlyNew = false): Promise<boolean> {
    return await this.write({ method: 'PUT', key, body: bytes, what: `write ${key}` }, onlyNew)
  }

  /**
   * A write that creates an object. With `onlyNew` it is marked: if its answer was lost, the retry is refused because of
   * the first write, and the mark proves that it was ours.
   */
  async write(request: Request, onlyNew: boolean, mark: string = randomUUID()): Promise<boolean> {
    if (!onlyNew) {
      await this.send(request)
      return true
    }
    const own = request.method === 'PUT' ? { 'x-amz-meta-reprise-write': mark } : {}
    const headers = { ...request.headers, ...own, 'if-none-match': '*' }
    const { status } = await this.send({ ...request, headers, accepts: [412] })
    if (status !== 412) return true
    const there = await this.send({ method: 'HEAD', key: request.key, accepts: [404], what: `inspect ${request.key}` })
    return there.headers.get('x-amz-meta-reprise-write') === mark
  }

  async get(key: string, range?: Range): Promise<Uint8Array | null> {
    const answer = await this.send({
      ...{ method: 'GET', key, what: `read ${key}` },
      // 416: a range of an empty object.
      accepts: [404, 416],
      ...(range && { headers: { range: rangeText(range) } }),
    })
    if (answer.status === 404) return null
    if (answer.status === 416) return new Uint8Array(0)
    // A server without range support returns the whole object.
    return range && answer.status === 200 ? partOf(answer.bytes, range) : answer.bytes
  }

  async list(prefix: string): Promise<ObjectRow[]> {
    const rows: ObjectRow[] = []
    const own = this.#keyOf(prefix)
    const skipped = own.length - prefix.length
    for (let token: string | undefined; ; ) {
      const page: Record<string, string> = { 'list-type': '2', prefix: own, 'max-keys': String(listPage) }
      if (token !== undefined) page['continuation-token'] = token
      const { bytes } = await this.send({ method: 'GET', key: '', query: page, what: `list ${prefix}` })
      const text = new TextDecoder().decode(bytes)
      for (const [, content = ''] of text.matchAll(/<Contents>([\s\S]*?)<\/Contents>/g)) {
        const modifiedAt = Date.parse(field(content, 'LastModified') ?? '')
        const key = plain(field(content, 'Key') ?? '').slice(skipped)
        rows.push({ key, bytes: Number(field(content, 'Size')), modifiedAt })
      }
      token = plain(field(text, 'NextContinuationToken') ?? '')
      if (field(text, 'IsTruncated') !== 'true' || token === '') return rows
    }
  }

  async delete(keys: readonly string[]): Promise<void> {
    await Promise.all(keys.map((key) => this.send({ method: 'DELETE', key, accepts: [404], what: `delete ${key}` })))
  }

  /** Retried until it is answered, or `patienceMs` is over. */
  async send(request: Request): Promise<Answer> {
    return await this.#retried(request, () => this.#attempt(request))
  }

  /** A read with a streamed body: the reader bounds its time, and the body is not retried. */
  async stream(request: Request): Promise<Streamed> {
    return await this.#retried(request, async () => {
      const { response, stop } = await this.#opened(request)
      if (!response.ok) {
        const { status, headers, bytes } = await this.#read(request, response, stop)
        // A missing bucket is not a missing object.
        const text = new TextDecoder().decode(bytes.subarray(0, 4096))
        if (/<Code>NoSuchBucket</.test(text)) throw new HttpFailure(status, text, headers.get('date'))
        return { status, headers, body: nothing() }
      }
      this.meter.bytesIn += Number(response.headers.get('content-length') ?? 0)
      return { status: response.status, headers: response.headers, body: response.body ?? nothing() }
    })
  }

  async #retried<T>(request: Request, attemptOnce: () => Promise<T>): Promise<T> {
    const startedAt = performance.now()
    for (let attempt = 1; ; attempt++) {
      request.signal?.throwIfAborted()
      try {
        return await this.#slots.use(attemptOnce)
      } catch (error) {
        request.signal?.throwIfAborted()
        if (!isTransient(error)) throw toStoreError(error, request.what, this.name)
        if (error instanceof HttpFailure) this.#learn(error)
        const pauseMs = Math.random() * growingPause(attempt, firstPauseMs, pauseMsMax)
        const isOver = performance.now() - startedAt + pauseMs > this.#patienceMs
        if (isOver) throw toStoreError(error, request.what, this.name)
        this.meter.retries += 1
        await sleep(realTime, pauseMs, { signal: request.signal })
      }
    }
  }

  /** Expired keys are requested again; a wrong clock is corrected by the server's. */
  #learn(failure: HttpFailure): void {
    if (/^Expired/.test(failure.code)) this.#credentials.forget()
    if (failure.code === 'RequestTimeTooSkewed' && !Number.isNaN(failure.date)) {
      this.#aheadMs = failure.date - Date.now()
    }
  }

  async #attempt(request: Request): Promise<Answer> {
    const { response, stop } = await this.#opened(request)
    return await this.#read(request, response, stop)
  }

  /** Resolves when the answer begins. */
  async #opened(request: Request): Promise<Opened> {
    const url = this.#urlOf(request)
    const size = request.body?.length ?? 0
    const timeoutMs = this.#timeoutMs + size / slowestBytesPerMs
    const startedAt = performance.now()
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    const open = (signal: AbortSignal) => this.#open(request, url, eitherOf(signal, request.signal))
    const opened = await (isRead ? this.#hedged(open, timeoutMs) : this.#timed(open, timeoutMs))
    if (isRead) this.#typicalMs = this.#typicalMs * 0.9 + (performance.now() - startedAt) * 0.1
    return opened
  }

  async #read(request: Request, response: Response, stop: Opened['stop']): Promise<Answer> {
    const expected = Number(response.headers.get('content-length') ?? 0)
    const timer = setTimeout(() => stop('the body took too long'), this.#timeoutMs + expected / slowestBytesPerMs)
    try {
      const bytes = new Uint8Array(await response.arrayBuffer())
      this.meter.bytesIn += bytes.length
      const date = response.headers.get('date')
      const isCut = request.method !== 'HEAD' && expected > bytes.length
      if (isCut) throw new Error(`the answer ended after ${bytes.length} of ${expected} bytes`)
      const text = () => new TextDecoder().decode(bytes.subarray(0, 4096))
      if (!response.ok && !request.accepts?.includes(response.status)) {
        throw new HttpFailure(response.status, text(), date)
      }
      // Joining parts may fail after the answer has begun.
      if (response.ok && request.method === 'POST' && /<Error>/.test(text())) throw new HttpFailure(500, text(), date)
      return { status: response.status, headers: response.headers, bytes }
    } finally {
      clearTimeout(timer)
    }
  }

  async #open(request: Request, url: string, signal: AbortSignal): Promise<Response> {
    const { method, body } = request
    this.#count(request)
    const digest = createHash('sha256').update(body ?? '')
    const hex = digest.copy().digest('hex')
    const headers: Record<string, string> = { ...request.headers, 'x-amz-content-sha256': hex }
    if (method === 'PUT' && body) headers['x-amz-checksum-sha256'] = digest.digest('base64')
    const keys = await this.#credentials.keys()
    const { accessKeyId, secretAccessKey, sessionToken } = keys
    const signer = new this.#driver.AwsV4Signer({
      ...{ method, url, headers, accessKeyId, secretAccessKey, service: 's3', region: this.#location.region },
      cache: this.#signing,
      datetime: new Date(this.now()).toISOString().replace(/[:-]|\.\d{3}/g, ''),
      ...(sessionToken !== undefined && { sessionToken }),
    })
    const signed = await signer.sign()
    // `fetch` accepts no shared buffer, and this one never is.
    return await fetch(url, {
      method,
      headers: signed.headers,
      signal,
      ...(body && { body: body as Uint8Array<ArrayBuffer> }),
    })
  }

  async #timed(open: (signal: AbortSignal) => Promise<Response>, timeoutMs: number): Promise<Opened> {
    const control = new AbortController()
    const timer = setTimeout(() => control.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
    try {
      const response = await open(control.signal)
      return { response, stop: (why) => control.abort(new Error(why)) }
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * The first to begin its answer is read, the other is aborted. Hedges are limited: a slow store must not get twice
   * the load.
   */
  async #hedged(open: (signal: AbortSignal) => Promise<Response>, timeoutMs: number): Promise<Opened> {
    const first = this.#timed(open, timeoutMs)
    if (this.meter.hedges >= 4 + this.meter.gets * hedgeShare) return await first
    const early = await within(realTime, Math.max(hedgeMsMin, this.#typicalMs * hedgeFactor), first)
    if (early !== 'late') return early
    this.meter.hedges += 1
    const second = this.#timed(open, timeoutMs)
    const winner = await Promise.any([first, second]).catch(() => first)
    for (const each of [first, second]) {
      each.then(
        (opened) => opened !== winner && opened.stop('another request was faster'),
        () => undefined,
      )
    }
    return winner
  }

  #count({ method, query, body }: Request): void {
    const { meter } = this
    if (method === 'DELETE') meter.deletes += 1
    else if (method === 'PUT' || method === 'POST') meter.puts += 1
    else if (query?.['list-type']) meter.lists += 1
    else meter.gets += 1
    meter.bytesOut += body?.length ?? 0
  }

  #keyOf(key: string): string {
    return this.#location.prefix === '' ? key : `${this.#location.prefix}/${key}`
  }

  #urlOf({ key, query }: Request): string {
    // A list is a request to the bucket.
    const path = key === '' ? '' : this.#keyOf(key).split('/').map(encodeURIComponent).join('/')
    const search = query ? `?${new URLSearchParams(query).toString().replaceAll('+', '%20')}` : ''
    return `${this.#location.base}/${path}${search}`
  }
}

interface Opened {
  readonly response: Response
  readonly stop: (why: string) => void
}

function eitherOf(own: AbortSignal, given: AbortSignal | undefined): AbortSignal {
  return given ? AbortSignal.any([own, given]) : own
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

function rangeText(range: Range): string {
  return 'last' in range ? `bytes=-${range.last}` : `bytes=${range.from}-${range.from + range.bytes - 1}`
}

function partOf(bytes: Uint8Array, range: Range): Uint8Array {
  if ('last' in range) return bytes.subarray(Math.max(0, bytes.length - range.last))
  return bytes.subarray(range.from, range.from + range.bytes)
}

/** For the server's answers only: field names are known, and values contain no tags. */
function field(xml: string, name: string): string | undefined {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1]
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

function plain(text: string): string {
  return text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|([a-z]+));/gi, (whole, decimal, hex, name) => {
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal))
    if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16))
    return entities[name] ?? whole
  })
}

/**
 * The part of the package `aws4fetch` that this store uses: it signs requests. It is optional, and imported when an s3
 * address is opened.
 */
interface Signer {
  sign(): Promise<{ readonly headers: Headers }>
}

interface SigningDriver {
  readonly AwsV4Signer: new (request: {
    readonly method: string
    readonly url: string
    readonly headers: Readonly<Record<string, string>>
    readonly accessKeyId: string
    readonly secretAccessKey: string
    readonly sessionToken?: string
    readonly service: string
    readonly region: string
    readonly datetime?: string
    readonly cache?: Map<string, ArrayBuffer>
  }) => Signer
}

async function loadSigner(): Promise<SigningDriver> {
  try {
    return (await import('aws4fetch')) as unknown as SigningDriver
  } catch (cause) {
    throw driverMissing('an s3 address', ['aws4fetch'], cause)
  }
}
