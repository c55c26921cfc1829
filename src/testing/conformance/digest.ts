// The digest in the guard: a commit for another history than the stored one is refused, whatever its parts. A store that was
// restored from an older copy can be at the same epoch and sequence; only the digest differs.

import assert from 'node:assert/strict'
import { packEntries } from '../../core/history/entry-run.ts'
import {
  asManifest,
  asMessage,
  assertSame,
  asTimeline,
  asWorker,
  expectOk,
  expectRefused,
  hash,
  message,
  type Test,
  utf8,
  Writer,
} from './kit.ts'
import { everything } from './operations.ts'

export function digestTests(test: Test): void {
  test('G3: another digest in the guard is a CONFLICT for every change, and the sequence is checked first', async (kit) => {
    const writer = await kit.create('a', { worker: 'worker-1' })
    await writer.append('one')
    await writer.publish('c1', { verifiedAt: 1 })
    await kit.send('a', 'm1')
    const lost = writer.twin()
    await writer.append('two')
    // Like the owner of an abandoned copy: the same epoch and sequence, another history.
    lost.accept(lost.plan({ run: lost.run('other two') }))
    const before = await everything(kit, 'a', 'b', 'x')
    const attempts: Parameters<typeof lost.plan>[0][] = [
      { run: lost.run('three') },
      { run: lost.run('three'), status: 'never' },
      { run: lost.run('three'), send: [message('b', 'never')] },
      { publish: [lost.manifest('c2')] },
      { marks: [{ id: asManifest('c1'), invalid: 'never' }] },
      { drop: [asManifest('c1')] },
      { trim: { seq: 1, digest: lost.digest, restsOn: [asManifest('c1')] } },
      { consume: [asMessage('m1')] },
      { send: [message('b', 'never')] },
      { wakeup: 5 },
      { cursors: { c: '' } },
      { release: true },
      { take: { worker: asWorker('worker-1'), from: 'anyone' } },
      { branch: { archive: asTimeline('x'), seq: 1, digest: lost.digest, floor: { seq: 0, digest: lost.digest } } },
      { forget: true },
      { userSql: () => assert.fail('the SQL of a refused commit is not called') },
    ]
    for (const attempt of attempts) {
      const refused = expectRefused((await kit.store.commit([lost.plan(attempt)]))[0], 'CONFLICT')
      assert.equal(refused.head?.seq, 2)
    }
    assertSame(await everything(kit, 'a', 'b', 'x'), before, 'nothing changed')
    const other = await kit.create('other')
    for (const attempt of attempts) {
      const sound = other.plan({ run: other.run('beside') })
      const outcomes = await kit.store.commit([sound, lost.plan(attempt)])
      expectOk(outcomes[0])
      other.accept(sound)
      expectRefused(outcomes[1], 'CONFLICT')
    }
    lost.epoch = 9
    expectRefused(await lost.commit({ status: 'never' }), 'FENCED')
  })

  test('G3: a new timeline has the digest that its creation names', async (kit) => {
    const maker = new Writer(kit, kit.store, 'made', 'worker-1')
    const create = { digest: maker.digest }
    const take = { worker: maker.worker, from: 'free' as const, create }
    const wrong = { ...maker.guard, digest: hash(utf8('other')) }
    const run = packEntries(hash, { before: maker.digest, first: 1, epoch: 1 }, [
      { type: 'noted', version: 1, time: 1, data: utf8('first') },
    ])
    const made = { operation: kit.operation(), guard: wrong, take, run }
    expectRefused((await kit.store.commit([made]))[0], 'CONFLICT')
    assert.equal((await kit.store.head([maker.id]))[0], null)
    expectOk((await kit.store.commit([{ ...made, guard: maker.guard }]))[0])
  })
}
