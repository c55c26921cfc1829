// The catalog of checkpoints, and trimming: nothing is removed that may still be needed (G10).

import assert from 'node:assert/strict'
import type { ManifestRecord } from '../../core/store/ports.ts'
import { asManifest, assertSame, asTimeline, expectOk, expectRefused, type Kit, type Test, type Writer } from './kit.ts'
import { everything } from './operations.ts'

export function catalogTests(test: Test): void {
  publishing(test)
  dropping(test)
  trimming(test)
}

function publishing(test: Test): void {
  test('A8.5: checkpoints are returned as published, newest sequence first; at equal sequences, the last published first', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    const c1 = writer.manifest('c1', { label: 'first', createdAt: 500 })
    const c2 = writer.manifest('c2', { createdAt: 400, baseId: c1.id, foldVersion: '2', totalBytes: 2 ** 40 })
    expectOk(await writer.commit({ publish: [c1, c2] }))
    await writer.append('two')
    const c3 = writer.manifest('c3', {
      isPinned: true,
      verifiedAt: 9,
      drilledAt: 10,
      drill: 'ok',
      trigger: 'milestone',
    })
    expectOk(await writer.commit({ publish: [c3] }))
    const c4 = writer.manifest('c4', { seq: 1, invalid: 'damaged' })
    expectOk(await writer.commit({ publish: [c4] }))
    assertSame(await kit.store.checkpoints(writer.id), [c3, c4, c2, c1], 'the catalog')
  })

  test('G2: a checkpoint beyond the head is OUT_OF_RANGE; one at the run of the same commit is not', async (kit) => {
    const writer = await kit.create('a')
    expectRefused(await writer.commit({ publish: [writer.manifest('c1', { seq: 1 })] }), 'OUT_OF_RANGE')
    const run = writer.run('one')
    expectOk(await writer.commit({ run, publish: [writer.manifest('c1', { seq: 1, digest: run.digest })] }))
    assert.deepEqual(await kit.checkpointIds('a'), ['c1'])
  })

  test('a store may report whether it has any checkpoint, without a query per timeline', async (kit) => {
    const writer = await kit.create('t')
    assert.equal(await kit.store.upkeep.hasCheckpoints(), false)
    expectOk(await writer.commit({ publish: [writer.manifest('c1')] }))
    assert.equal(await kit.store.upkeep.hasCheckpoints(), true)
    assert.equal(await (await kit.open('elsewhere')).upkeep.hasCheckpoints(), false)
    expectOk(await writer.commit({ drop: [asManifest('c1')] }))
    assert.equal(await kit.store.upkeep.hasCheckpoints(), false)
  })

  test('A4.5: the sweep mark only rises, and a checkpoint with chunks from before it is refused: SWEPT', async (kit) => {
    const { store } = kit
    const writer = await kit.create('t')
    assert.equal(await store.sweepMark(), 0)
    await writer.commit({ publish: [{ ...writer.manifest('c0'), chunksSince: 0 }] })
    assert.equal(await store.sweepMark(1000), 1000)
    assert.equal(await store.sweepMark(500), 1000)
    const other = await kit.open()
    assert.equal(await other.sweepMark(), 1000)
    expectRefused(await writer.commit({ publish: [{ ...writer.manifest('c1'), chunksSince: 999 }] }), 'SWEPT')
    await writer.commit({ publish: [{ ...writer.manifest('c1'), chunksSince: 1000 }] })
    await writer.commit({ publish: [writer.manifest('c2')] })
    const listed = await store.checkpoints(asTimeline('t'))
    assert.deepEqual(listed.map(({ id }) => id).sort(), ['c0', 'c1', 'c2'])
    for (const record of listed) assert.ok(!('chunksSince' in record), 'it is not part of the record')
    assert.equal(await (await kit.open('elsewhere')).sweepMark(), 0)
  })

  test('a base that is not in the catalog is BASE_GONE; a base of another timeline, or of the same commit, is accepted', async (kit) => {
    const writer = await kit.create('a')
    const other = await kit.create(sibling(kit, 'b'))
    const building = (id: string, baseId: string) => writer.manifest(id, { baseId: asManifest(baseId) })
    expectRefused(await writer.commit({ publish: [building('c1', 'nothing')] }), 'BASE_GONE')
    expectRefused(await writer.commit({ publish: [building('c2', 'c1'), writer.manifest('c1')] }), 'BASE_GONE')
    await other.publish('b1')
    expectOk(await writer.commit({ publish: [building('c1', 'b1'), building('c2', 'c1')] }))
    expectOk(await other.commit({ drop: [asManifest('b1')] }))
    expectRefused(await writer.commit({ publish: [building('c3', 'b1')] }), 'BASE_GONE')
    assert.deepEqual(await kit.checkpointIds('a'), ['c2', 'c1'])
  })

  test('an id that is in the catalog already EXISTS, also in another timeline', async (kit) => {
    const writer = await kit.create('a')
    const other = await kit.create(sibling(kit, 'b'))
    await writer.publish('c1')
    expectRefused(await writer.commit({ publish: [writer.manifest('c1')] }), 'EXISTS')
    expectRefused(await other.commit({ publish: [other.manifest('c1')] }), 'EXISTS')
  })

  test('marks change only the notes they name, and are ignored for a checkpoint that is gone', async (kit) => {
    const writer = await kit.create('a')
    const other = await kit.create('b')
    const c1 = writer.manifest('c1')
    const c2 = writer.manifest('c2', { label: 'kept', isPinned: true })
    expectOk(await writer.commit({ publish: [c1, c2] }))
    await other.publish('b1')
    const marks = [
      { id: c1.id, verifiedAt: 11, drilledAt: 12, drill: 'restored in 3 ms' },
      { id: c1.id, label: 'before upgrade', isPinned: true },
      { id: c2.id, isPinned: false, invalid: 'chunk 3 is missing' },
      { id: asManifest('nothing'), label: 'x' },
      { id: asManifest('b1'), label: 'not this timeline’s' },
    ]
    expectOk(await writer.commit({ marks }))
    const marked: ManifestRecord[] = [
      { ...c2, isPinned: false, invalid: 'chunk 3 is missing' },
      { ...c1, verifiedAt: 11, drilledAt: 12, drill: 'restored in 3 ms', label: 'before upgrade', isPinned: true },
    ]
    assertSame(await kit.store.checkpoints(writer.id), marked, 'the catalog')
    assert.equal((await kit.store.checkpoints(other.id))[0]?.label, null)
    expectOk(
      await writer.commit({
        marks: [
          { id: c2.id, invalid: null },
          { id: c1.id, drill: 'again' },
        ],
      }),
    )
    const [second, first] = await kit.store.checkpoints(writer.id)
    assert.deepEqual([second?.invalid, first?.drill, first?.verifiedAt], [null, 'again', 11], 'taken back')
  })

  test('a checkpoint can be published and marked in one commit', async (kit) => {
    const writer = await kit.create('a')
    expectOk(
      await writer.commit({ publish: [writer.manifest('c1')], marks: [{ id: asManifest('c1'), verifiedAt: 3 }] }),
    )
    assert.equal((await kit.store.checkpoints(writer.id))[0]?.verifiedAt, 3)
  })
}

function dropping(test: Test): void {
  test('a checkpoint can be dropped; unknown ids are ignored', async (kit) => {
    const writer = await kit.create('a')
    const other = await kit.create('b')
    await writer.publish('c1')
    await writer.publish('c2')
    await other.publish('b1')
    expectOk(await writer.commit({ drop: ['c1', 'nothing', 'b1'].map(asManifest) }))
    assert.deepEqual(await kit.checkpointIds('a'), ['c2'])
    assert.deepEqual(await kit.checkpointIds('b'), ['b1'], 'another timeline’s is not touched')
    await writer.publish('c1')
  })

  test('a pinned checkpoint is not dropped until it is released, also in the same commit', async (kit) => {
    const writer = await kit.create('a')
    await writer.publish('c1', { isPinned: true })
    expectRefused(await writer.commit({ drop: [asManifest('c1')] }), 'PINNED')
    expectOk(await writer.commit({ marks: [{ id: asManifest('c1'), isPinned: false }], drop: [asManifest('c1')] }))
    assert.deepEqual(await kit.checkpointIds('a'), [])
  })

  test('the last checkpoint may be dropped while history is whole', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    await writer.publish('c1', { verifiedAt: 1 })
    expectOk(await writer.commit({ drop: [asManifest('c1')] }))
  })

  test('G10: once history is trimmed the last verified, valid checkpoint at or above the floor stays', async (kit) => {
    const { writer } = await threeRuns(kit, 'a')
    await writer.publish('c1', { verifiedAt: 1 })
    const low = writer.manifest('low', { seq: 1, verifiedAt: 1 })
    const unverified = writer.manifest('unverified')
    const invalid = writer.manifest('invalid', { verifiedAt: 1, invalid: 'damaged' })
    expectOk(await writer.commit({ publish: [low, unverified, invalid] }))
    expectOk(await writer.commit({ trim: { seq: 2, digest: writer.digest, restsOn: [asManifest('c1')] } }))
    expectRefused(await writer.commit({ drop: [asManifest('c1')] }), 'PINNED')
    expectOk(await writer.commit({ drop: ['low', 'invalid'].map(asManifest) }))
    expectRefused(await writer.commit({ drop: ['c1', 'unverified'].map(asManifest) }), 'PINNED')
    expectOk(await writer.commit({ publish: [writer.manifest('c2', { verifiedAt: 1 })], drop: [asManifest('c1')] }))
    assert.deepEqual(await kit.checkpointIds('a'), ['c2', 'unverified'])
  })
}

function trimming(test: Test): void {
  test('a trim removes whole runs, and moves the floor and its digest to the end of the last one removed', async (kit) => {
    const { writer, digests, runs } = await threeRuns(kit, 'a')
    await writer.publish('c1', { verifiedAt: 1 })
    expectOk(await writer.commit({ trim: { seq: 2, digest: digests[2]!, restsOn: [asManifest('c1')] } }))
    const head = await kit.head('a')
    assert.deepEqual([head.floor, head.seq], [2, 3])
    assertSame(head.floorDigest, digests[2], 'the floor’s digest')
    assertSame(await kit.store.read(writer.id, 0, 10_000), runs.slice(2), 'the remaining checkpoints')
    assert.deepEqual(
      (await kit.readFeed()).map((item) => item.run.first),
      [3],
    )
    await writer.append('four')
    assert.equal((await kit.store.read(writer.id, 2, 10_000)).length, 2)
  })

  test('all history may be trimmed, and appends continue', async (kit) => {
    const { writer, digests } = await threeRuns(kit, 'a')
    await writer.publish('c1', { verifiedAt: 1 })
    expectOk(await writer.commit({ trim: { seq: 3, digest: digests[3]!, restsOn: [asManifest('c1')] } }))
    assert.deepEqual(await kit.store.read(writer.id, 0, 10_000), [])
    assert.equal((await writer.append('four')).first, 4)
  })

  test('the checkpoint that a trim depends on may be published and verified in the commit of the trim', async (kit) => {
    const { writer, digests } = await threeRuns(kit, 'a')
    const outcome = await writer.commit({
      publish: [writer.manifest('c1')],
      marks: [{ id: asManifest('c1'), verifiedAt: 4 }],
      trim: { seq: 1, digest: digests[1]!, restsOn: [asManifest('c1')] },
    })
    expectOk(outcome)
    assert.equal((await kit.head('a')).floor, 1)
  })

  test('a trim inside a run or beyond the head is OUT_OF_RANGE; one at or below the floor changes nothing', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one', 'two')
    const { digest } = writer
    await writer.append('three')
    for (const seq of [1, 4]) expectRefused(await writer.commit({ trim: { seq, digest, restsOn: [] } }), 'OUT_OF_RANGE')
    expectOk(await writer.commit({ trim: { seq: 2, digest, restsOn: [] } }))
    const before = await kit.head('a')
    expectOk(await writer.commit({ trim: { seq: 2, digest: writer.digest, restsOn: [] } }))
    expectOk(await writer.commit({ trim: { seq: 1, digest: writer.digest, restsOn: [] } }))
    const after = await kit.head('a')
    assert.equal(after.floor, 2)
    assertSame(after.floorDigest, before.floorDigest, 'the floor’s digest')
  })

  test('G10: a trim is PINNED unless every checkpoint it depends on exists, at or above it, verified and valid', async (kit) => {
    const { writer, digests } = await threeRuns(kit, 'a')
    const other = await kit.create('b')
    await other.publish('other', { verifiedAt: 1 })
    const good = writer.manifest('good', { verifiedAt: 1 })
    const unverified = writer.manifest('unverified')
    const invalid = writer.manifest('invalid', { verifiedAt: 1, invalid: 'damaged' })
    const low = writer.manifest('low', { seq: 1, verifiedAt: 1 })
    expectOk(await writer.commit({ publish: [good, unverified, invalid, low] }))
    const before = await everything(kit, 'a')
    for (const bad of ['unverified', 'invalid', 'low', 'nothing', 'other']) {
      const restsOn = ['good', bad].map(asManifest)
      expectRefused(await writer.commit({ trim: { seq: 2, digest: digests[2]!, restsOn } }), 'PINNED')
    }
    const restsOn = [asManifest('good')]
    expectRefused(await writer.commit({ drop: restsOn, trim: { seq: 2, digest: digests[2]!, restsOn } }), 'PINNED')
    assertSame(await everything(kit, 'a'), before, 'nothing changed')
    expectOk(await writer.commit({ trim: { seq: 2, digest: digests[2]!, restsOn } }))
  })

  test('G10: a trim is PINNED while a fork needs the runs that it would remove', async (kit) => {
    const { writer, digests } = await threeRuns(kit, 'a')
    await writer.publish('c1', { verifiedAt: 1 })
    const restsOn = [asManifest('c1')]
    const trim = (seq: number) => writer.commit({ trim: { seq, digest: digests[seq]!, restsOn } })
    const base = { timeline: writer.id, seq: 2, digest: digests[2]! }
    const floor = { seq: 1, digest: digests[1]! }
    const fork = await kit.create('fork', { create: { digest: digests[2]!, base, floor } })
    expectRefused(await trim(2), 'PINNED')
    expectRefused(await trim(3), 'PINNED')
    expectOk(await trim(1))
    await fork.publish('f1', { verifiedAt: 1 })
    expectOk(await fork.commit({ trim: { seq: 2, digest: digests[2]!, restsOn: [asManifest('f1')] } }))
    assert.equal((await kit.head('fork')).floor, 2)
    expectOk(await trim(3))
  })

  test('a fork trims the inherited part at its base, and then its own runs', async (kit) => {
    const { writer, digests } = await threeRuns(kit, 'a')
    const base = { timeline: writer.id, seq: 2, digest: digests[2]! }
    const fork = await kit.create('fork', { create: { digest: digests[2]!, base } })
    const own = await fork.append('own')
    await fork.append('own too')
    await fork.publish('f1', { verifiedAt: 1 })
    const restsOn = [asManifest('f1')]
    expectRefused(await fork.commit({ trim: { seq: 1, digest: digests[1]!, restsOn } }), 'OUT_OF_RANGE')
    expectOk(await fork.commit({ trim: { seq: 2, digest: digests[2]!, restsOn } }))
    assert.equal((await kit.store.read(fork.id, 0, 10_000)).length, 2)
    expectOk(await fork.commit({ trim: { seq: 3, digest: own.digest, restsOn } }))
    assert.equal((await kit.store.read(fork.id, 0, 10_000)).length, 1)
    assert.equal((await kit.store.read(writer.id, 0, 10_000)).length, 3, 'the parent keeps its own')
  })

  test('A6.4: a trim is PINNED while a cursor has not passed a run that it would remove', async (kit) => {
    const { writer, digests } = await threeRuns(kit, 'a')
    await writer.publish('c1', { verifiedAt: 1 })
    const reader = await kit.create('reader')
    const positions = (await kit.readFeed(['a'])).map((item) => item.position)
    const trim = (seq: number) => writer.commit({ trim: { seq, digest: digests[seq]!, restsOn: [asManifest('c1')] } })
    expectOk(await reader.commit({ cursors: { slow: '' } }))
    expectRefused(await trim(1), 'PINNED')
    expectOk(await reader.commit({ cursors: { slow: positions[1]!, fast: positions[2]! } }))
    expectRefused(await trim(3), 'PINNED')
    expectOk(await trim(2))
    expectOk(await reader.commit({ cursors: { slow: null } }))
    expectOk(await trim(3))
  })

  test('checkpoints stay in the catalog of a trimmed timeline, below the floor too', async (kit) => {
    const { writer, digests } = await threeRuns(kit, 'a')
    const low = writer.manifest('low', { seq: 1, isPinned: true })
    expectOk(await writer.commit({ publish: [low, writer.manifest('c1', { verifiedAt: 1 })] }))
    expectOk(await writer.commit({ trim: { seq: 3, digest: digests[3]!, restsOn: [asManifest('c1')] } }))
    assert.deepEqual(await kit.checkpointIds('a'), ['c1', 'low'])
    assert.deepEqual(await kit.store.read(asTimeline('a'), 0, 1000), [])
  })
}

/** Sequences 1, 2 and 3, each in its own run; digests by sequence. */
async function threeRuns(kit: Kit, id: string) {
  const writer: Writer = await kit.create(id)
  const digests = [writer.digest]
  const runs = []
  for (const text of ['one', 'two', 'three']) {
    const run = await writer.append(text)
    runs.push(run)
    digests.push(run.digest)
  }
  return { writer, digests, runs }
}

/** Another timeline in the same catalog: a family is on one shard, and so are the ids of its checkpoints. */
function sibling(kit: Kit, id: string): string {
  return kit.capabilities.isSharded ? 'a~1' : id
}
