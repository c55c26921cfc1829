// Uploads and downloads of files: the tus protocol for the server's definitions, with the same tokens, roles and scopes as
// every other route.

import { RepriseError } from '../../core/errors.ts'
import { piecesOf } from '../../engine/base/http-body.ts'
import { hostOf } from '../../engine/host/host.ts'
import { answersTus, type UploadDefinition } from '../../layers/upload/definition.ts'
import type { TusAnswer } from '../../layers/upload/protocol.ts'
import { mayDo } from '../access.ts'
import { Reply } from '../reply.ts'
import type { Call, Route } from '../route.ts'
import { reachedId } from '../scope-filter.ts'
import { bodyOf } from './caches/artifact-requests.ts'

const made = {
  path: '/v1/uploads/{name}',
  tag: 'uploads',
  answer: { type: 'string' },
  answerType: 'text/plain',
} as const
const one = { ...made, path: '/v1/uploads/{name}/{upload}' } as const
const octets = { answer: { type: 'string' }, answerType: 'application/octet-stream' } as const

export const uploadRoutes: readonly Route[] = [
  {
    ...made,
    method: 'OPTIONS',
    id: 'aboutUploads',
    summary: 'Uploads: the supported version and extensions of tus, and the maximum size of an upload',
    role: null,
    status: 204,
    call: answer,
  },
  {
    ...made,
    method: 'POST',
    id: 'createUpload',
    summary: 'Uploads: create one, optionally with its first bytes (tus 1.0.0)',
    role: 'write',
    isLong: true,
    takesStream: 'tus',
    status: 201,
    call: answer,
  },
  {
    ...one,
    ...octets,
    method: 'GET',
    id: 'readUpload',
    summary: 'Uploads: the bytes of a complete one, or a range of them; HEAD with Tus-Resumable returns its offset',
    role: 'read',
    isLong: true,
    call: answer,
  },
  {
    ...one,
    method: 'PATCH',
    id: 'appendUpload',
    summary: 'Uploads: append bytes at Upload-Offset. They are durable when the request is answered',
    role: 'write',
    isLong: true,
    takesStream: 'tus',
    status: 204,
    call: answer,
  },
  {
    ...one,
    method: 'DELETE',
    id: 'deleteUpload',
    summary: 'Uploads: delete one, complete or not',
    role: 'write',
    status: 204,
    call: answer,
  },
]

async function answer({ engine, server, principal, request, params }: Call): Promise<Reply> {
  const { name = '', upload = null } = params
  const definition = server.definitions.filter(isUploadDefinition).find((each) => each.name === name)
  if (!definition) throw new RepriseError('NOT_FOUND', 'there is no such upload', {})
  // A token that reaches one upload may not create another.
  if (request.method !== 'OPTIONS') reachedId(principal, `upload/${name}/${upload ?? 'new'}`)
  const uploadReply = await definition[answersTus](hostOf(engine), {
    method: request.method,
    id: upload,
    header: (each) => request.header(each),
    body: () => piecesOf(request.request, server.limits.requestMs),
    base: `${server.basePath}/v1/uploads/${name}/`,
    by: principal.name,
    isReader: !mayDo(principal, 'write'),
  })
  return replyOf(uploadReply)
}

export function isUploadDefinition(value: unknown): value is UploadDefinition {
  return typeof value === 'object' && value !== null && answersTus in value
}

function replyOf({ status, headers, body }: TusAnswer): Reply {
  return new Reply(typeof body === 'string' || body === null ? body : bodyOf(body), headers, status)
}
