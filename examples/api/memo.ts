// Examples of `reprise/memo`.

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type CacheLevel, command, LevelError, memo } from 'reprise/memo'
import { example } from './example.ts'

export default [
  example(['memo', 'MemoHandle.call', 'MemoHandle.recall', 'MemoHandle.close'], async (rp) => {
    const square = await rp.open(memo('square', { version: 1, run: (n: number) => n * n }))
    assert.equal(await square.call(3), 9)
    assert.notEqual((await square.recall([3])).from, 'computed')
    await square.close()
  }),
  example(['MemoHandle.explain', 'MemoHandle.peek', 'MemoHandle.forget'], async (rp) => {
    const square = await rp.open(memo('square', { version: 1, run: (n: number) => n * n }))
    await square.call(3)
    assert.equal((await square.explain(4)).why, 'other arguments')
    assert.equal((await square.peek(3))?.result, 9)
    assert.equal(await square.forget(3), true)
  }),
  example(
    [
      'command',
      'CommandHandle.run',
      'CommandHandle.explain',
      'CommandHandle.check',
      'CommandHandle.forget',
      'CommandHandle.close',
    ],
    async (rp, folder) => {
      await writeFile(join(folder, 'in.txt'), 'hello')
      const cmd = [process.execPath, '-e', "fs.copyFileSync('in.txt', 'out.txt')"]
      const copy = await rp.open(command('copy', { cmd, directory: folder, inputs: ['in.txt'], outputs: ['out.txt'] }))
      assert.equal((await copy.run()).from, 'computed')
      assert.equal((await copy.explain()).isHit, true)
      assert.equal((await copy.run()).isInPlace, true)
      assert.deepEqual((await copy.check()).unstableOutputs, [])
      await copy.forget()
      await copy.close()
    },
  ),
  example(['LevelError'], async (rp) => {
    const kept = new Map<string, Uint8Array>()
    const shelf: CacheLevel = {
      name: 'a shelf',
      access: async () => ({ scope: 'main', mayWrite: true }),
      async get(key) {
        const bytes = kept.get(key)
        return bytes ? { scope: 'main', body: new Blob([bytes.slice()]).stream() } : null
      },
      async put(key, body) {
        const pieces: Uint8Array[] = []
        for await (const piece of body) pieces.push(piece)
        if (pieces.length > 100) throw new LevelError('unfit', 'the shelf takes small results only')
        kept.set(key, Buffer.concat(pieces))
      },
    }
    const square = await rp.open(memo('square', { version: 1, remote: shelf, run: (n: number) => n * n }))
    await square.call(3)
    await square.close()
    assert.equal(kept.size, 1)
  }),
]
