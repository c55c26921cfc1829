// The store as the engine sees it: records wrapped under a newer key (wrap.ts) are unwrapped to the form that their digests
// cover, and records from elsewhere under an older key are wrapped. Everything else is forwarded.

import { isReprise } from '../../../core/errors.ts'
import { isWrapped } from '../../../core/history/wrapped-record.ts'
import type { Blobs, Commit, EntryRun, LegibleRun, ManifestRecord, Store } from '../../../core/store/ports.ts'
import { forwardBlobs, forwardSalvage, forwardStore, forwardUpkeep } from '../../../core/store/store-wrapper.ts'
import type { Sealer } from './seal.ts'

export function sealedStore(store: Store, sealer: Sealer): Store {
  const { hasher } = sealer
  const { salvage } = store.upkeep
  return forwardStore(store, {
    blobs: sealedBlobs(store.blobs, sealer),
    commit: (commits) => store.commit(sealer.keyId === null ? commits : wrapCarried(commits, sealer)),
    read: async (timeline, after, bytesMax) => openRuns(await store.read(timeline, after, bytesMax), sealer),
    async feed(after, filter, limit) {
      const page = await store.feed(after, filter, limit)
      if (!page.items.some(({ run }) => isWrapped(run.bytes))) return page
      return { ...page, items: page.items.map((item) => ({ ...item, run: openRun(item.run, sealer) })) }
    },
    checkpoints: async (timeline) => (await store.checkpoints(timeline)).map((record) => openRecord(record, sealer)),
    timelines: (query) =>
      store.timelines(
        hasher && query.attributes ? { ...query, attributes: hasher.attributes(query.attributes) } : query,
      ),
    upkeep: forwardUpkeep(store.upkeep, {
      salvage:
        salvage &&
        forwardSalvage(salvage, {
          legible: async (timeline, after) =>
            (await salvage.legible(timeline, after)).map((run) => openRun(run, sealer)),
        }),
      mendCatalog: (timeline, lines) =>
        store.upkeep.mendCatalog(
          timeline,
          lines.map((record) => ({ ...record, body: sealer.wrap('checkpoints', record.body) })),
        ),
      replace: (timeline, runs) =>
        store.upkeep.replace(
          timeline,
          runs.map((run) => ({ ...run, bytes: sealer.wrap('runs', run.bytes) })),
        ),
    }),
  })
}

export function sealedBlobs(blobs: Blobs, sealer: Sealer): Blobs {
  return forwardBlobs(blobs, {
    put: (chunks, at) =>
      blobs.put(
        chunks.map((chunk) => ({ ...chunk, bytes: sealer.wrap('chunks', chunk.bytes) })),
        at,
      ),
    get: async (digests) => (await blobs.get(digests)).map((bytes) => bytes && sealer.unwrap(bytes)),
    ...(blobs.of && { of: (timeline) => sealedBlobs(blobs.of!(timeline), sealer) }),
  })
}

function openRuns(runs: EntryRun[], sealer: Sealer): EntryRun[] {
  return runs.some(({ bytes }) => isWrapped(bytes)) ? runs.map((run) => openRun(run, sealer)) : runs
}

function openRun<Stored extends EntryRun | LegibleRun>(run: Stored, sealer: Sealer): Stored {
  return isWrapped(run.bytes) ? { ...run, bytes: sealer.unwrap(run.bytes) } : run
}

/** A process without the key can still list the catalog; reading the manifest then reports the missing key (recover.ts). */
function openRecord(record: ManifestRecord, sealer: Sealer): ManifestRecord {
  if (!isWrapped(record.body)) return record
  try {
    return { ...record, body: sealer.unwrap(record.body) }
  } catch (error) {
    if (isReprise(error, 'KEY_MISSING')) return record
    throw error
  }
}

/** A branch contains manifests, an import manifests and mail: sealed with the key that was current at their origin. */
function wrapCarried(commits: readonly Commit[], sealer: Sealer): readonly Commit[] {
  const { hasher } = sealer
  const isTouched = ({ publish, send, attributes }: Commit) => publish || send || (hasher && attributes)
  if (!commits.some(isTouched)) return commits
  return commits.map((commit) => ({
    ...commit,
    ...(hasher && commit.attributes && { attributes: hasher.attributes(commit.attributes) }),
    ...(commit.publish && {
      publish: commit.publish.map((record) => ({ ...record, body: sealer.wrap('checkpoints', record.body) })),
    }),
    ...(commit.send && {
      send: commit.send.map((message) => ({ ...message, data: sealer.wrap('messages', message.data) })),
    }),
  }))
}
