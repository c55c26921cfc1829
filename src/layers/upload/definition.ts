// The definition of uploads: a name, limits, and the handling of complete files. A plain value; its handler answers requests
// in any server with Request and Response, and any process that works for it completes received uploads.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkCount, checkOptions, namesOf } from '../../core/options.ts'
import { type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { checkName, type Engine, runs, type Workable, works } from '../../engine/model/definition.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import { Completion, type OnComplete, type Startable } from './completion.ts'
import { fileOf, type UploadedFile } from './file.ts'
import { type HandlerOptions, handlerOf, type UploadHandler } from './handler.ts'
import { uploadKind, uploadModel } from './model.ts'
import { type Accept, answerTus, type TusAnswer, type TusRequest } from './protocol.ts'
import { Uploads } from './uploads.ts'

export interface UploadOptions {
  /** Called once for each complete upload; again only if it threw, or its process died before its end was recorded. */
  readonly onComplete?: OnComplete
  /** The workflows that onComplete may start. */
  readonly starts?: readonly Startable[]
  /** Retries of failed calls of onComplete. */
  readonly retry?: RetryPolicy
  /** The largest upload, in bytes. Default: 5 GiB. */
  readonly maxBytes?: number
  /** An incomplete upload is deleted after this long without a byte; null: never. Default: 7 days. */
  readonly expires?: Duration | null
  /** Called before an upload is created: true, or the reason for a refusal. */
  readonly accept?: Accept
}

export interface UploadDefinition extends Workable, Described {
  readonly kind: 'upload'
  readonly name: string
  readonly prefix: string
  /** A handler from Request to Response, for a server of your own. This process then also completes received uploads. */
  handler(rp: Engine, options: HandlerOptions): UploadHandler
  /** A complete upload by its id. NOT_FOUND if there is none, CONFLICT if it is incomplete. */
  file(rp: Engine, id: string): Promise<UploadedFile>
  /** @internal For our own servers, which identify the caller. */
  readonly [answersTus]: (host: Host, request: TusRequest) => Promise<TusAnswer>
}

export const answersTus: unique symbol = Symbol.for('reprise.answersTus')

const known = namesOf<UploadOptions>()('onComplete starts retry maxBytes expires accept')
const defaultMaxBytes = 5 * 1024 ** 3

/** @example const videos = upload('videos', { maxBytes: 5e9, onComplete: async (file) => { … } }) */
export function upload(name: string, options: UploadOptions = {}): UploadDefinition {
  checkName('upload', name)
  checkOptions(`upload ${name}`, options, known)
  checkFunctions(`upload ${name}`, options, [], ['onComplete', 'accept'])
  const { onComplete = null, starts = [], maxBytes = defaultMaxBytes, expires = '7d', accept = null } = options
  checkCount(`upload ${name}: maxBytes`, maxBytes)
  for (const each of starts) {
    if (typeof each?.[runs] === 'function') continue
    throw new RepriseError('INVALID_ARGUMENT', `upload ${name}: starts must be definitions that can be run`, {})
  }
  const retry = resolveRetry(options.retry)
  const expiresMs = expires === null ? null : toMs(expires, 'expires')
  const model = uploadModel(name)
  const settings = { name, bytesMax: maxBytes, expiresMs, hasHandler: onComplete !== null }
  const working = { onComplete, starts, retry }
  const made = new WeakMap<Host, { readonly uploads: Uploads; completion: Completion | null }>()
  const of = (host: Host) => {
    const held = made.get(host)
    if (held) return held
    host.declare(uploadKind)
    host.declare(model)
    const bytesMax = Math.min(settings.bytesMax, host.limits.streamBytes)
    const fresh = { uploads: new Uploads(host, { ...settings, bytesMax }), completion: null }
    made.set(host, fresh)
    return fresh
  }
  const work = (host: Host) => {
    const parts = of(host)
    parts.completion ??= new Completion(host, parts.uploads, working)
    return parts.uploads
  }
  const answer = (host: Host, request: TusRequest) => answerTus(work(host), accept, request)
  return {
    [describes]: model,
    kind: 'upload',
    name,
    prefix: `upload/${name}/`,
    [works]: (host: Host) => void work(host),
    [answersTus]: answer,
    handler(rp, given) {
      const host = hostOf(rp)
      work(host)
      return handlerOf(
        name,
        given,
        (request) => answer(host, request),
        async (id) => {
          try {
            return (await of(host).uploads.find(id)).state.by
          } catch {
            return null
          }
        },
      )
    },
    async file(rp, id) {
      const { uploads } = of(hostOf(rp))
      const stored = await uploads.find(id)
      if (stored.state.etag !== null && stored.state.status !== 'removed') return fileOf(uploads.kernel, stored)
      throw new RepriseError('CONFLICT', `upload ${name}/${id} is ${stored.state.status}`, {
        status: stored.state.status,
      })
    },
  }
}
