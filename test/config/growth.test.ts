// Thousands of clients that answer repeatedly: the stored answers and the written bytes are bounded.

import { expect, it } from 'vitest'
import { config } from '../../src/layers/config/index.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const flags = config<number>('flags')
const fleet = 500
const versions = 12

onEveryStore(
  'a large fleet',
  (world) => {
    it('the history of answers is trimmed, that of versions is not, and offers share commits', async () => {
      const w = await world()
      const rp = await w.engine()
      const { kernel } = hostOf(rp)
      const push = await rp.open(flags)
      const streams = await Promise.all(Array.from({ length: fleet }, (_, i) => push.client(`edge-${i}`)))
      const serving = streams.map(async (stream) => {
        for await (const { nonce } of stream) await stream.ack(nonce)
      })
      let commits = 0
      const { submit } = kernel.committer
      kernel.committer.submit = (commit) => {
        commits += 1
        return submit.call(kernel.committer, commit)
      }
      for (let version = 1; version <= versions; version++) {
        await push.set(version)
        await push.reached(version)
      }
      const head = async (id: string) => (await hostOf(rp).head(id))!
      const answers = await head('config/flags/clients')
      // Each client was offered each version and answered it; that is more than one checkpoint covers.
      expect(answers.seq).toBeGreaterThanOrEqual(fleet * (1 + 2 * versions))
      expect(commits).toBeLessThan(answers.seq / 10)
      await until(async () => (await head('config/flags/clients')).floor > 0)
      expect(await head('config/flags')).toMatchObject({ seq: versions, floor: 0 })
      for (const stream of streams) stream.detach()
      await Promise.all(serving)
      await rp.close()
      const later = await w.engine()
      const again = await later.open(flags)
      expect((await again.status()).inForce).toEqual([{ version: versions, clients: fleet }])
    })
  },
  ['sqlite'],
)
