// Shared by the protocols of the build caches: the scopes a caller reads and writes, an artifact as a response, and a body as
// an artifact. Each protocol only defines where its artifacts are stored and how it responds.

import { isReprise, RepriseError } from '../../../core/errors.ts'
import { piecesOf } from '../../../engine/base/http-body.ts'
import type { Artifact, ArtifactMeta, Upload } from '../../../layers/artifact/index.ts'
import { cacheScopes } from '../../access.ts'
import { type ByteSource, Reply } from '../../reply.ts'
import type { Call } from '../../route.ts'

/** The location of an artifact without its scope, which the token determines. */
export interface Spot {
  readonly space: string
  readonly key: string
}

/**
 * Reads the caller's own scope first. NOT_FOUND: it is in none of the caller's scopes; artifacts of other scopes do not
 * exist for the caller.
 */
export async function found(call: Call, spot: Spot): Promise<Artifact & { readonly scope: string }> {
  for (const scope of scopesOf(call).all) {
    const artifact = await call.server.artifacts.get({ ...spot, scope })
    if (artifact) return { ...artifact, scope }
  }
  throw nothing()
}

/** The same, without reading the bytes. */
export async function foundAbout(call: Call, spot: Spot): Promise<ArtifactMeta | null> {
  for (const scope of scopesOf(call).all) {
    const meta = await call.server.artifacts.about({ ...spot, scope })
    if (meta) return meta
  }
  return null
}

export function nothing(): RepriseError {
  return new RepriseError('NOT_FOUND', 'there is no such artifact', {})
}

/** Answers GET with the bytes, and HEAD with the metadata. */
export async function sendArtifact(
  call: Call,
  spot: Spot,
  more: (meta: ArtifactMeta) => Readonly<Record<string, string>> = () => ({}),
): Promise<Reply> {
  if (call.request.method === 'HEAD') {
    const meta = await foundAbout(call, spot)
    if (!meta) throw nothing()
    return new Reply(null, { ...headersOf(meta), ...more(meta) })
  }
  const { meta, read, scope } = await looked(call, spot)
  return new Reply(bodyOf(read()), { ...headersOf(meta), 'reprise-scope': scope, ...more(meta) })
}

/** The same as `found`, and counts the lookup. */
async function looked(call: Call, spot: Spot): ReturnType<typeof found> {
  const door = spot.space.startsWith('.turbo') ? 'turbo' : spot.space === '.nx' ? 'nx' : 'plain'
  try {
    const artifact = await found(call, spot)
    call.server.lookups.note(door, true)
    return artifact
  } catch (error) {
    if (isReprise(error, 'NOT_FOUND')) call.server.lookups.note(door, false)
    throw error
  }
}

/** Stores the body in the caller's own scope. */
export async function receiveArtifact(
  call: Call,
  spot: Spot,
  {
    about,
    ...upload
  }: Omit<Upload, 'bytesMax' | 'signal' | 'about'> & {
    readonly about?: Omit<Upload['about'], 'by' | 'type'>
  } = {},
): Promise<ArtifactMeta> {
  const { request, server, principal, signal } = call
  const scope = scopesOf(call).own
  const bytesMax = server.limits.artifactBytes
  if (Number(request.header('content-length') ?? 0) > bytesMax) {
    const what = `an artifact must have at most ${bytesMax} bytes`
    throw new RepriseError('LIMIT_EXCEEDED', what, { limit: 'artifactBytes', max: bytesMax })
  }
  const type = (request.header('content-type') ?? 'application/octet-stream').slice(0, 200)
  const whole = { ...upload, about: { ...about, type, by: principal.name }, bytesMax, signal }
  return await server.artifacts.put({ ...spot, scope }, piecesOf(request.request, server.limits.requestMs), whole)
}

/** Removes the artifact from the caller's own scope. */
export async function drop(call: Call, spot: Spot): Promise<void> {
  if (!(await call.server.artifacts.remove({ ...spot, scope: scopesOf(call).own }))) throw nothing()
}

export function scopesOf({ principal }: Call): { readonly own: string; readonly all: readonly string[] } {
  const scopes = cacheScopes(principal)
  if (scopes) return scopes
  throw new RepriseError(
    'FORBIDDEN',
    `${principal.name} has access to part of the store, but to no cache: add a cache to the token`,
    {},
  )
}

function headersOf(meta: ArtifactMeta): Record<string, string> {
  return {
    // A browser never displays it, whatever type it was stored with.
    'content-type': 'application/octet-stream',
    'content-disposition': 'attachment',
    'content-length': String(meta.size),
    'reprise-type': meta.type,
    'reprise-sha256': meta.sha256,
    'reprise-by': meta.by,
  }
}

/** Reads an unwanted body to its end, so that its client reads the response. */
export async function discardBody({ request, server }: Call): Promise<void> {
  for await (const piece of piecesOf(request.request, server.limits.requestMs)) void piece
}

export function bodyOf(pieces: AsyncGenerator<Uint8Array>): ByteSource {
  return {
    async next() {
      const { done, value } = await pieces.next()
      return done ? null : value
    },
    close: () => void pieces.return(undefined).catch(() => undefined),
  }
}
