// Nx's self-hosted remote cache: two verbs, refusals as plain text, and existing records are never overwritten.

import { RepriseError } from '../../../core/errors.ts'
import type { Refusal, Route } from '../../route.ts'
import { discardBody, foundAbout, receiveArtifact, sendArtifact } from './artifact-requests.ts'

const space = '.nx'
const words: Partial<Record<number, string>> = {
  401: 'Missing or invalid authentication token.',
  403: 'Access forbidden. (e.g. read-only token used to write)',
  404: 'The record was not found',
  409: 'Cannot override an existing record',
}
const refusal: Refusal = {
  type: 'text/plain',
  schema: { type: 'string' },
  format: ({ status, detail }) => words[status] ?? detail,
}
const common = { path: '/v1/cache/{hash}', tag: 'caches', isLong: true, answer: { type: 'string' }, refusal } as const

export const nxRoutes: readonly Route[] = [
  {
    ...common,
    method: 'GET',
    id: 'nxGet',
    summary: 'Nx: the outputs of a task',
    role: 'read',
    answerType: 'application/octet-stream',
    call: async (call) => await sendArtifact(call, { space, key: call.params.hash! }),
  },
  {
    ...common,
    method: 'PUT',
    id: 'nxPut',
    summary: 'Nx: put the outputs of a task; 409 if it already has outputs',
    role: 'write',
    takesStream: 'artifactBytes',
    answerType: 'text/plain',
    async call(call) {
      const spot = { space, key: call.params.hash! }
      // Also checks `main`: an artifact that every token reads is not stored again in another scope.
      const there = await foundAbout(call, spot)
      if (there) {
        await discardBody(call)
        throw new RepriseError('EXISTS', 'Cannot override an existing record', {})
      }
      await receiveArtifact(call, spot, { isNew: true })
      return 'Successfully uploaded the output'
    },
  },
]
