// Results that are computed once: a slow function over files, called twice, then with one changed file. Run: npx tsx
// examples/thumbnails.ts, or reprise's own loader; it creates its files in a folder of its own.

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'reprise'
import { memo } from 'reprise/memo'

const directory = await mkdtemp(join(tmpdir(), 'thumbnails-'))
for (const name of ['cat', 'dog']) await writeFile(join(directory, `${name}.txt`), name.repeat(1000))

let computed = 0
const thumbnail = memo('thumbnail', {
  version: 1,
  directory,
  inputs: (name: string) => [name],
  run: async (name: string) => {
    computed += 1
    return (await readFile(join(directory, name), 'utf8')).slice(0, 9)
  },
})

const rp = await open(`sqlite:${join(directory, 'cache.db')}`)
const thumbnails = await rp.open(thumbnail)
for (const name of ['cat.txt', 'dog.txt', 'cat.txt']) console.log(name, await thumbnails.call(name))
console.log(`computed ${computed} of 3`)
await writeFile(join(directory, 'cat.txt'), 'tiger'.repeat(1000))
const { isHit, why } = await thumbnails.explain('cat.txt')
console.log(isHit ? 'hit' : 'miss', why)
console.log('cat.txt', await thumbnails.call('cat.txt'))
await rp.close()
await rm(directory, { recursive: true })
