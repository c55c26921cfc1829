// The file of an export: new, whole, and at the requested path, whatever is beside it.

import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { writeTransfer } from '../../src/engine/tools/transfer/export-file.ts'
import { added, counter } from '../support/definitions.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
let folder: string
beforeEach(() => {
  folder = temporaryFolder('export')
})

onEveryStore(
  'G15 an export',
  (world) => {
    async function written() {
      const engine = await (await world()).engine()
      const open = await engine.open(counter, 'exported')
      await open.append(added(5))
      await open.close()
      return { engine, from: { timeline: 'counter/exported', seq: 1 } }
    }

    it('is not written through a link that lies in wait, nor mixed with another export to the same path', async () => {
      const canary = join(folder, 'canary')
      writeFileSync(canary, 'untouched')
      const path = join(folder, 'out.reprise')
      symlinkSync(canary, `${path}.partial`)
      symlinkSync(canary, path)
      const { engine, from } = await written()
      await Promise.all([engine.export(from, path), engine.export(from, path)])
      expect(readFileSync(canary, 'utf8')).toBe('untouched')
      await engine.import(path, { as: 'counter/imported' })
      expect(readdirSync(folder).sort()).toEqual(['canary', 'out.reprise', 'out.reprise.partial'])
    })

    it('with onlyNew keeps an existing file, and of two at once one is written', async () => {
      const { engine, from } = await written()
      const path = join(folder, 'out.reprise')
      const two = await Promise.allSettled([1, 2].map(() => engine.export(from, path, { onlyNew: true })))
      expect(two.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
      const whole = readFileSync(path)
      await expect(engine.export(from, path, { onlyNew: true })).rejects.toEqual(code('EXISTS'))
      expect(readFileSync(path)).toEqual(whole)
      expect(readdirSync(folder)).toEqual(['out.reprise'])
      await engine.export(from, path)
      await engine.import(path, { as: 'counter/imported' })
    })

    it('into a directory that is not there, or over one that is, is an error with a code and leaves nothing', async () => {
      const { engine, from } = await written()
      await expect(engine.export(from, join(folder, 'none/out.reprise'))).rejects.toEqual(code('NOT_FOUND'))
      await expect(engine.export(from, folder)).rejects.toEqual(code('INVALID_ARGUMENT'))
      expect(readdirSync(folder)).toEqual([])
    })
  },
  ['memory'],
)

it('G15 an export that fails half-way leaves nothing', async () => {
  const frames = async function* () {
    yield { kind: 'header' as const, bytes: new Uint8Array(10) }
    throw new Error('the store went away')
  }
  await expect(writeTransfer(join(folder, 'out.reprise'), frames())).rejects.toThrow('the store went away')
  expect(readdirSync(folder)).toEqual([])
})
