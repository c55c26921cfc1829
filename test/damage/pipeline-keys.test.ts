// A checkpoint of a pipeline whose chunks are whole, but whose table has fewer keys than its header promises, does not restore.
// verify and drill read the same data as a restore, so they report it, and a drill marks it.

import { expect, it } from 'vitest'
import { decodeManifest, encodeManifest } from '../../src/core/checkpoint/manifest.ts'
import { type ManifestId, timelineId } from '../../src/core/coordinate.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { newOperation } from '../../src/engine/storage/kernel.ts'
import { open } from '../../src/index.ts'
import { collectSink, pipeline, reducingState, valueSource } from '../../src/layers/pipeline/index.ts'

const counts = pipeline('counts', (p) => {
  p.from('numbers', valueSource([1, 2, 3, 4, 5, 6]))
    .keyBy((n) => n % 3)
    .process('sum', {
      state: { total: reducingState<number>((a, b) => a + b) },
      onRecord: (n: number, { state, emit }) => {
        state.total.add(n)
        emit(state.total.get())
      },
    })
    .to('out', collectSink())
})

it('verify and drill find a checkpoint with fewer keys than were promised', async () => {
  const rp = await open('memory:', { housekeeping: false })
  await rp.run(counts).result()
  expect((await rp.verify()).ok).toBe(true)
  const { kernel } = hostOf(rp)
  const timeline = timelineId('pipeline/counts')
  const [record] = await kernel.store.checkpoints(timeline)
  const manifest = decodeManifest(record!.body)
  const parts = manifest.parts.filter(({ name }) => name === null || !name.startsWith('sum/'))
  expect(parts.length).toBeLessThan(manifest.parts.length)
  const body = encodeManifest({ ...manifest, parts })
  const [head] = await kernel.store.head([timeline])
  const outcome = await kernel.committer.submit({
    operation: newOperation(kernel.random),
    guard: { timeline, epoch: head!.epoch },
    publish: [{ ...record!, id: `${record!.id}-less` as ManifestId, body, bodyDigest: kernel.hash(body) }],
  })
  expect(outcome).toMatchObject({ ok: true })

  const { ok, faults } = await rp.verify()
  expect({ ok, faults }).toMatchObject({ ok: false, faults: [{ code: 'CHECKPOINT_DAMAGED', timeline }] })
  expect((await rp.drill()).results.filter((result) => !result.ok)).toMatchObject([
    { checkpoint: `${record!.id}-less` },
  ])
  expect((await rp.checkpoints(timeline)).find(({ id }) => id === `${record!.id}-less`)?.invalid).toMatch(/promised/)
  await rp.close()
})
