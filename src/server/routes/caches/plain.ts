// The plain HTTP cache protocol of Bazel, moon, ccache, Gradle and sccache: GET, HEAD, PUT and DELETE below /cache/<space>/.
// A path that ends in cas/<sha256> declares that digest: a body with another digest is refused.

import { mayDo } from '../../access.ts'
import { Reply } from '../../reply.ts'
import { refuse } from '../../request.ts'
import type { Call, Route } from '../../route.ts'
import * as shapes from '../../shapes.ts'
import { drop, receiveArtifact, type Spot, scopesOf, sendArtifact } from './artifact-requests.ts'

const common = { path: '/cache/{space}/{key}', isDeep: true, tag: 'caches' } as const
const promised = /(?:^|\/)cas\/([^/]+)$/
const sha256Form = /^[0-9a-f]{64}$/

export const plainRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/cache/status',
    id: 'cacheStatus',
    tag: 'caches',
    summary: 'Build caches: which scopes this token writes to and reads',
    role: 'read',
    answer: shapes.answer({
      scope: shapes.text,
      reads: { type: 'array', items: shapes.text },
      mayWrite: { type: 'boolean' },
    }),
    call(call) {
      const { own, all } = scopesOf(call)
      return { scope: own, reads: all, mayWrite: mayDo(call.principal, 'write') }
    },
  },
  {
    ...common,
    method: 'GET',
    id: 'cacheGet',
    summary: 'Build caches: the bytes of a key; HEAD checks whether it exists',
    role: 'read',
    isLong: true,
    answer: { type: 'string' },
    answerType: 'application/octet-stream',
    call: async (call) => await sendArtifact(call, spotOf(call)),
  },
  {
    ...common,
    method: 'PUT',
    id: 'cachePut',
    summary: 'Build caches: put bytes under a key; below cas/ only if the key is their sha256',
    role: 'write',
    isLong: true,
    takesStream: 'artifactBytes',
    answer: { type: 'string' },
    answerType: 'text/plain',
    async call(call) {
      const spot = spotOf(call)
      const sha256 = promised.exec(spot.key)?.[1]
      if (sha256 !== undefined && !sha256Form.test(sha256)) {
        throw refuse('a key below cas/ must be the sha256 of the body, in 64 lower-case hexadecimal digits')
      }
      await receiveArtifact(call, spot, sha256 === undefined ? {} : { sha256 })
      return ''
    },
  },
  {
    ...common,
    method: 'DELETE',
    id: 'cacheDelete',
    summary: "Build caches: remove a key, in the token's own scope",
    role: 'write',
    status: 204,
    answer: { type: 'string' },
    async call(call) {
      await drop(call, spotOf(call))
      return new Reply(null, {}, 204)
    },
  },
]

export function spotOf({ params }: Call): Spot {
  const { space = '', key = '' } = params
  // A leading dot is reserved for protocols with a path of their own.
  if (space.startsWith('.')) throw refuse('a space must begin with a letter or a digit')
  return { space, key }
}
