// A source is known by its name and kind: the position of one kind means nothing to another, so a source of another kind under
// the same name is refused with the way to begin anew.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { collectSink, generatedSource, lineSource, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const folder = newFolder()
afterAll(() => removeFolder(folder))

onEveryStore(
  'a source of another kind under the same name',
  (world) => {
    it('is refused, and starts over on request', async () => {
      const rp = await (await world()).engine()
      const path = join(folder, 'read.txt')
      writeFileSync(path, 'one\ntwo\nthree\n')
      const out = collectSink<string>()
      const reading = (source: Source<string>) => pipeline('read', (p) => void p.from('in', source).to('out', out))
      const first = await rp.run(reading(generatedSource((n) => `g${n}`)), { checkpoint: { every: 10 } }).started()
      await until(() => first.status().records > 20)
      await first.stop()
      const before = out.values.length
      await expect(rp.run(reading(lineSource(path))).result()).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(/the checkpoint has generated under that name, not file.*add: \['in'\]/),
      })
      expect(out.values).toHaveLength(before)
      const changes = { drop: ['in'], add: ['in'] }
      await rp.run(reading(lineSource(path)), { changes }).result()
      expect(out.values.slice(before)).toEqual(['one', 'two', 'three'])
    })
  },
  ['memory', 'sqlite'],
)
