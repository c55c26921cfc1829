// Savepoints and backups as objects: out, in parts, through lost answers, back in, and as copies to repair from.

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { downloadFile, objectExists, uploadFile } from '../../src/stores/s3/files.ts'
import { joinUrl } from '../../src/stores/s3/location.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { type FaultyProxy, newBucket, startProxy, startS3 } from './support.ts'

const server = await startS3()
let bucket: string
let proxy: FaultyProxy
let folder: string

beforeAll(async () => {
  if (!server) return
  proxy = await startProxy(server.endpoint)
  bucket = (await newBucket(server.endpoint)).replace(server.endpoint, proxy.endpoint)
})
afterAll(async () => {
  await proxy?.close()
  await server?.close()
})
beforeEach(() => {
  folder = temporaryFolder('s3')
  if (server) proxy.fault = () => 'pass'
})

const bin = fileURLToPath(new URL('../../dist/cli/bin.cjs', import.meta.url))
const states = save<{ readonly n: number; readonly text: string }>('state')
const textOf = (n: number) => Array.from({ length: 4000 }, (_, i) => `${n}:${(i * 7919 * n) % 99991}`).join(' ')
const urlOf = (name: string) => `sqlite:${join(folder, `${name}.db`)}`

async function filled(name: string) {
  const rp = await open(urlOf(name), { housekeeping: false })
  const saved = await rp.open(states)
  for (const n of [1, 2]) await saved.put({ n, text: textOf(n) })
  await saved.close()
  return rp
}

describe.skipIf(server === null)(`objects as files (${server?.kind})`, () => {
  it('A9.3: a savepoint goes to an object and comes back into another store', async () => {
    const rp = await filled('a')
    const object = joinUrl(bucket, 'savepoints/state')
    const { coordinate } = await rp.export({ timeline: 'save/state', seq: 2 }, object)
    await rp.close()
    const other = await open(urlOf('b'), { housekeeping: false })
    expect(await other.import(object)).toMatchObject({ timeline: 'save/state', digest: coordinate.digest })
    expect((await (await other.open(states)).latest()).value.text).toBe(textOf(2))
    await other.close()
    await expect(open(urlOf('c')).then((none) => none.import(joinUrl(bucket, 'nothing')))).rejects.toMatchObject({
      code: 'NOT_FOUND',
    })
  })

  it('A7.3: the command line backs a store up to an object and restores it on an empty machine', async () => {
    await (await filled('a')).close()
    const object = joinUrl(bucket, 'backups/app.rpb')
    // Not spawnSync: the proxy is in this process.
    const run = async (...args: string[]) => {
      const child = spawn(process.execPath, [bin, ...args], { stdio: 'ignore' })
      return await new Promise<number | null>((resolve) => void child.once('exit', resolve))
    }
    expect(await run('backup', object, '--url', urlOf('a'))).toBe(0)
    expect(await run('backup', object, '--url', urlOf('a'))).not.toBe(0)
    expect(await run('restore', object, '--url', urlOf('b'))).toBe(0)
    const rp = await open(urlOf('b'), { housekeeping: false })
    expect((await (await rp.open(states)).latest()).value.text).toBe(textOf(2))
    await rp.close()
  })

  it('of two concurrent backups to one name, one is refused, and the other is whole', async () => {
    const [first, second] = [await filled('a'), await filled('c')]
    const object = joinUrl(bucket, 'backups/race.rpb')
    const both = [first, second].map((rp) => rp.backup(object, { onlyNew: true }))
    const outcomes = await Promise.allSettled(both)
    const refused = outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    expect(refused).toMatchObject([{ code: 'EXISTS' }])
    await first.close()
    await second.close()
    const rp = await open(urlOf('b'), { housekeeping: false })
    expect((await rp.restore(object)).timelines).toBeGreaterThan(0)
    expect((await rp.verify()).ok).toBe(true)
    await rp.close()
  })

  it('A1.6: verify heals chunks from a backup in an object store, and from a place of chunks there', async () => {
    const blobs = join(folder, 'chunks')
    const rp = await open(urlOf('a'), { housekeeping: false, blobs, redundancy: false })
    const saved = await rp.open(states)
    for (const n of [1, 2]) await saved.put({ n, text: textOf(n) })
    const object = joinUrl(bucket, 'backups/healing.rpb')
    await rp.backup(object)
    const damage = () => {
      const chunks = readdirSync(blobs, { recursive: true, encoding: 'utf8' }).filter((each) =>
        /[0-9a-f]{64}$/.test(each),
      )
      for (const each of chunks) writeFileSync(join(blobs, each), 'damaged')
      return chunks.length
    }
    expect(damage()).toBeGreaterThan(0)
    expect((await rp.verify()).ok).toBe(false)
    const healed = await rp.verify({ repair: true, from: object })
    expect(healed.faults).toEqual([])
    expect(healed.healed.some(({ from }) => /^s3:\/\/[^?]*healing\.rpb$/.test(from))).toBe(true)
    expect((await rp.verify()).ok).toBe(true)
    await rp.close()
    // The same chunks, as another store keeps them there.
    const place = joinUrl(bucket, 'healing-chunks')
    const copy = await open(urlOf('copy'), { housekeeping: false, blobs: place })
    await copy.restore(object)
    await copy.close()
    damage()
    const again = await open(urlOf('a'), { housekeeping: false, blobs })
    expect((await again.verify({ repair: true, from: place })).faults).toEqual([])
    expect((await again.verify()).ok).toBe(true)
    await again.close()
  })

  it('a large file goes in parts, also where every answer is lost once, and is refused where it must be new', async () => {
    const path = join(folder, 'large')
    writeFileSync(path, randomBytes(18 * 1024 * 1024))
    const object = joinUrl(bucket, 'large/file')
    const failed = new Set<string>()
    proxy.fault = ({ method, path: asked }) => {
      // A second list of parts is another upload; everything else is requested again.
      const name = `${method} ${asked}`
      if (failed.has(name) || asked.endsWith('?uploads=')) return 'pass'
      failed.add(name)
      return method === 'GET' ? 'torn' : 'lost'
    }
    await uploadFile(path, object, { onlyNew: true })
    await downloadFile(object, join(folder, 'back'))
    expect(readFileSync(join(folder, 'back')).equals(readFileSync(path))).toBe(true)
    proxy.fault = () => 'pass'
    await expect(uploadFile(path, object, { onlyNew: true })).rejects.toMatchObject({ code: 'EXISTS' })
    expect(await objectExists(object)).toBe(true)
    expect(await objectExists(joinUrl(bucket, 'large'))).toBe(false)
  })
})
