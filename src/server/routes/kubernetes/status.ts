// Refusals in the form of Kubernetes: an object of kind Status, whose reason clients evaluate.

import { RepriseError } from '../../../core/errors.ts'
import { type ApiNames, qualifiedName } from '../../../layers/resource/rules/api-names.ts'
import type { Problem } from '../../problem.ts'
import { Reply } from '../../reply.ts'
import type { Refusal } from '../../route.ts'
import * as shapes from '../../shapes.ts'

export interface Status {
  readonly kind: 'Status'
  readonly apiVersion: 'v1'
  readonly metadata: Readonly<Record<string, unknown>>
  readonly status: 'Failure' | 'Success'
  readonly message?: string
  readonly reason?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly code?: number
}

/** A refusal in Kubernetes format without a Reprise code. */
export class Refused extends Error {
  override readonly name: string = 'Refused'
  readonly status: Status

  constructor(
    code: number,
    reason: string,
    message: string,
    more: Pick<Status, 'details'> & { metadata?: object } = {},
  ) {
    super(message)
    this.status = failure(code, reason, message, more)
  }
}

const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  409: 'Conflict',
  410: 'Expired',
  413: 'RequestEntityTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
}

export function failure(
  code: number,
  reason: string,
  message: string,
  { details, metadata = {} }: Pick<Status, 'details'> & { metadata?: object } = {},
): Status {
  const head = { kind: 'Status', apiVersion: 'v1', metadata: metadata as Status['metadata'] } as const
  return { ...head, status: 'Failure', message, reason, ...(details && { details }), code }
}

export const schemaOfStatus = shapes.named(
  'KubernetesStatus',
  shapes.answer({
    kind: { type: 'string', enum: ['Status'] },
    apiVersion: shapes.text,
    metadata: { type: 'object' },
    status: { type: 'string', enum: ['Failure', 'Success'] },
  }),
)

/** For refusals made before the object is known. */
export const asStatus: Refusal = {
  type: 'application/json',
  schema: schemaOfStatus,
  format({ status, detail, code }: Problem): string {
    const wait = status === 503 ? { details: { retryAfterSeconds: 1 } } : {}
    return JSON.stringify(failure(status, reasonOf(status, code), detail, wait))
  },
}

/** The subject of the error: the kind, and the object if known. */
export interface About {
  readonly api: ApiNames
  readonly name?: string | undefined
  /** The value itself is refused, not the form of the request. */
  readonly isValue?: boolean
}

/**
 * The Status of an error, with the messages of an API server where clients show or parse them. Undefined: not such an error.
 */
export function statusOf(error: unknown, { api, name = '', isValue = false }: About): Status | undefined {
  if (error instanceof Refused) return error.status
  if (!(error instanceof RepriseError)) return undefined
  const what = qualifiedName(api)
  const details = { ...(name !== '' && { name }), group: api.group, kind: api.plural }
  const plainly = error.message.replace(/ \[[A-Z_]+\]$/, '')
  switch (error.code) {
    case 'NOT_FOUND':
      return failure(404, 'NotFound', `${what} "${name}" not found`, { details })
    case 'EXISTS':
      return failure(409, 'AlreadyExists', `${what} "${name}" already exists`, { details })
    case 'CONFLICT': {
      const why =
        'uid' in error.data
          ? `Precondition failed: UID in precondition is not ${String(error.data.uid)}`
          : 'revision' in error.data
            ? 'the object has been modified; please apply your changes to the latest version and try again'
            : plainly
      return failure(409, 'Conflict', `Operation cannot be fulfilled on ${what} "${name}": ${why}`, { details })
    }
    case 'REVISION_GONE':
      return failure(410, 'Expired', `too old resource version: ${plainly}`)
    case 'INVALID_ARGUMENT':
    case 'UNSERIALIZABLE': {
      if (!isValue) return failure(400, 'BadRequest', plainly)
      const causes = [{ reason: 'FieldValueInvalid', message: plainly }]
      return failure(422, 'Invalid', `${api.kind}.${api.group} "${name}" is invalid: ${plainly}`, {
        details: { ...details, kind: api.kind, causes },
      })
    }
    default:
      return undefined
  }
}

export function statusReply(status: Status): Reply {
  return jsonReply(JSON.stringify(status), status.code ?? 200)
}

export function jsonReply(json: string, status = 200): Reply {
  return new Reply(json, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' }, status)
}

function reasonOf(status: number, code: string): string {
  return code === 'EXISTS' ? 'AlreadyExists' : (reasons[status] ?? 'InternalError')
}
