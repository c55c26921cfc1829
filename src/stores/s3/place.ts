// A place for chunks in an object store, with small objects beside them: the mark by which a store recognises its
// chunks, their owner, and whether several stores share them. Each is written once and is permanent, which needs a
// store that honours If-None-Match. A store that does not is treated as a place that others may share: it is swept only
// on request.

import { RepriseError } from '../../core/errors.ts'
import type { Blobs, Hash } from '../../core/store/ports.ts'
import { S3Blobs } from './blobs.ts'
import { S3Client, type S3ClientOptions } from './client.ts'
import { locate } from './location.ts'
import { type Meter, type Objects, probeConditions } from './objects.ts'

export interface S3Place {
  readonly blobs: Blobs
  readonly meter: Meter
  exists(): Promise<boolean>
  /** Fails if nothing can be written. */
  make(): Promise<void>
  mark(): Promise<string | null>
  setMark(mark: string): Promise<string>
  owner(): Promise<string | null>
  setOwner(owner: string): Promise<void>
  setShared(): Promise<void>
}

export interface S3PlaceOptions extends S3ClientOptions {
  readonly hash: Hash
  readonly graceMs?: number
}

/** @example const place = await openS3Place('s3://bucket/prefix', { hash: sha256 }) */
export async function openS3Place(url: string, options: S3PlaceOptions): Promise<S3Place> {
  return placeIn(await S3Client.open(await locate(url), options), options)
}

export function placeIn(objects: Objects, options: Pick<S3PlaceOptions, 'hash' | 'graceMs'>): S3Place {
  const read = async (name: string) => {
    const bytes = await objects.get(name)
    return bytes && new TextDecoder().decode(bytes).trim()
  }
  const writeOnce = (name: string, text: string) => objects.put(name, new TextEncoder().encode(`${text}\n`), true)
  return {
    blobs: new S3Blobs(objects, options),
    meter: objects.meter,
    exists: async () => (await objects.list('reprise-')).length > 0,
    async make() {
      if (await probeConditions(objects)) return
      await writeOnce(
        sharedName,
        'this store ignores If-None-Match, so concurrent users of this place cannot be detected',
      )
    },
    mark: () => read(markName),
    async setMark(mark) {
      await writeOnce(markName, mark)
      const there = await read(markName)
      if (there) return there
      throw new RepriseError('STORE_IO', `${objects.name} lost an object that was just written`, {
        where: objects.name,
      })
    },
    owner: async () => ((await read(sharedName)) === null ? await read(ownerName) : null),
    setOwner: async (owner) => void (await writeOnce(ownerName, owner)),
    setShared: async () => void (await writeOnce(sharedName, 'chunks of several stores')),
  }
}

const markName = 'reprise-chunks'
const ownerName = 'reprise-owner'
const sharedName = 'reprise-shared'
